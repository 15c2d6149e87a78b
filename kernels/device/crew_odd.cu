// Interpreters over protocol Simple whose thread blocks work as crews, and whose operands lie anywhere.
#include "interpreter.cuh"

MSCCL_INTERPRETER(msccl_crew_odd_i8, CrewOdd, I8)
MSCCL_INTERPRETER(msccl_crew_odd_u8, CrewOdd, U8)
MSCCL_INTERPRETER(msccl_crew_odd_i32, CrewOdd, I32)
MSCCL_INTERPRETER(msccl_crew_odd_u32, CrewOdd, U32)
MSCCL_INTERPRETER(msccl_crew_odd_i64, CrewOdd, I64)
MSCCL_INTERPRETER(msccl_crew_odd_u64, CrewOdd, U64)
MSCCL_INTERPRETER(msccl_crew_odd_f16, CrewOdd, F16)
MSCCL_INTERPRETER(msccl_crew_odd_bf16, CrewOdd, Bf16)
MSCCL_INTERPRETER(msccl_crew_odd_f32, CrewOdd, F32)
MSCCL_INTERPRETER(msccl_crew_odd_f64, CrewOdd, F64)
MSCCL_INTERPRETER(msccl_crew_odd_f8e4m3, CrewOdd, F8E4M3)
MSCCL_INTERPRETER(msccl_crew_odd_f8e5m2, CrewOdd, F8E5M2)

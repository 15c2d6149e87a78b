// Interpreters over protocol Simple whose thread blocks work as crews.
#include "interpreter.cuh"

MSCCL_INTERPRETER(msccl_crew_i8, Crew, I8)
MSCCL_INTERPRETER(msccl_crew_u8, Crew, U8)
MSCCL_INTERPRETER(msccl_crew_i32, Crew, I32)
MSCCL_INTERPRETER(msccl_crew_u32, Crew, U32)
MSCCL_INTERPRETER(msccl_crew_i64, Crew, I64)
MSCCL_INTERPRETER(msccl_crew_u64, Crew, U64)
MSCCL_INTERPRETER(msccl_crew_f16, Crew, F16)
MSCCL_INTERPRETER(msccl_crew_bf16, Crew, Bf16)
MSCCL_INTERPRETER(msccl_crew_f32, Crew, F32)
MSCCL_INTERPRETER(msccl_crew_f64, Crew, F64)
MSCCL_INTERPRETER(msccl_crew_f8e4m3, Crew, F8E4M3)
MSCCL_INTERPRETER(msccl_crew_f8e5m2, Crew, F8E5M2)

// Interpreters over protocol Simple whose operands lie anywhere.
#include "interpreter.cuh"

MSCCL_INTERPRETER(msccl_simple_odd_i8, SimpleOdd, I8)
MSCCL_INTERPRETER(msccl_simple_odd_u8, SimpleOdd, U8)
MSCCL_INTERPRETER(msccl_simple_odd_i32, SimpleOdd, I32)
MSCCL_INTERPRETER(msccl_simple_odd_u32, SimpleOdd, U32)
MSCCL_INTERPRETER(msccl_simple_odd_i64, SimpleOdd, I64)
MSCCL_INTERPRETER(msccl_simple_odd_u64, SimpleOdd, U64)
MSCCL_INTERPRETER(msccl_simple_odd_f16, SimpleOdd, F16)
MSCCL_INTERPRETER(msccl_simple_odd_bf16, SimpleOdd, Bf16)
MSCCL_INTERPRETER(msccl_simple_odd_f32, SimpleOdd, F32)
MSCCL_INTERPRETER(msccl_simple_odd_f64, SimpleOdd, F64)
MSCCL_INTERPRETER(msccl_simple_odd_f8e4m3, SimpleOdd, F8E4M3)
MSCCL_INTERPRETER(msccl_simple_odd_f8e5m2, SimpleOdd, F8E5M2)

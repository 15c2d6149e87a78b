// Interpreters over protocol Simple.
#include "interpreter.cuh"

MSCCL_INTERPRETER(msccl_simple_i8, Simple, I8)
MSCCL_INTERPRETER(msccl_simple_u8, Simple, U8)
MSCCL_INTERPRETER(msccl_simple_i32, Simple, I32)
MSCCL_INTERPRETER(msccl_simple_u32, Simple, U32)
MSCCL_INTERPRETER(msccl_simple_i64, Simple, I64)
MSCCL_INTERPRETER(msccl_simple_u64, Simple, U64)
MSCCL_INTERPRETER(msccl_simple_f16, Simple, F16)
MSCCL_INTERPRETER(msccl_simple_bf16, Simple, Bf16)
MSCCL_INTERPRETER(msccl_simple_f32, Simple, F32)
MSCCL_INTERPRETER(msccl_simple_f64, Simple, F64)
MSCCL_INTERPRETER(msccl_simple_f8e4m3, Simple, F8E4M3)
MSCCL_INTERPRETER(msccl_simple_f8e5m2, Simple, F8E5M2)

// Interpreters over protocol Simple with links that may deliver directly.
#include "interpreter.cuh"

MSCCL_INTERPRETER(msccl_direct_i8, Direct, I8)
MSCCL_INTERPRETER(msccl_direct_u8, Direct, U8)
MSCCL_INTERPRETER(msccl_direct_i32, Direct, I32)
MSCCL_INTERPRETER(msccl_direct_u32, Direct, U32)
MSCCL_INTERPRETER(msccl_direct_i64, Direct, I64)
MSCCL_INTERPRETER(msccl_direct_u64, Direct, U64)
MSCCL_INTERPRETER(msccl_direct_f16, Direct, F16)
MSCCL_INTERPRETER(msccl_direct_bf16, Direct, Bf16)
MSCCL_INTERPRETER(msccl_direct_f32, Direct, F32)
MSCCL_INTERPRETER(msccl_direct_f64, Direct, F64)
MSCCL_INTERPRETER(msccl_direct_f8e4m3, Direct, F8E4M3)
MSCCL_INTERPRETER(msccl_direct_f8e5m2, Direct, F8E5M2)

// Interpreters over protocol Simple with links that may deliver directly, whose operands lie anywhere.
#include "interpreter.cuh"

MSCCL_INTERPRETER(msccl_direct_odd_i8, DirectOdd, I8)
MSCCL_INTERPRETER(msccl_direct_odd_u8, DirectOdd, U8)
MSCCL_INTERPRETER(msccl_direct_odd_i32, DirectOdd, I32)
MSCCL_INTERPRETER(msccl_direct_odd_u32, DirectOdd, U32)
MSCCL_INTERPRETER(msccl_direct_odd_i64, DirectOdd, I64)
MSCCL_INTERPRETER(msccl_direct_odd_u64, DirectOdd, U64)
MSCCL_INTERPRETER(msccl_direct_odd_f16, DirectOdd, F16)
MSCCL_INTERPRETER(msccl_direct_odd_bf16, DirectOdd, Bf16)
MSCCL_INTERPRETER(msccl_direct_odd_f32, DirectOdd, F32)
MSCCL_INTERPRETER(msccl_direct_odd_f64, DirectOdd, F64)
MSCCL_INTERPRETER(msccl_direct_odd_f8e4m3, DirectOdd, F8E4M3)
MSCCL_INTERPRETER(msccl_direct_odd_f8e5m2, DirectOdd, F8E5M2)

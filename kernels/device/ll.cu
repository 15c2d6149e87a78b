// Interpreters over protocol LL.
#include "interpreter.cuh"
#include "ll.cuh"

MSCCL_INTERPRETER(msccl_ll_i8, Ll, I8)
MSCCL_INTERPRETER(msccl_ll_u8, Ll, U8)
MSCCL_INTERPRETER(msccl_ll_i32, Ll, I32)
MSCCL_INTERPRETER(msccl_ll_u32, Ll, U32)
MSCCL_INTERPRETER(msccl_ll_i64, Ll, I64)
MSCCL_INTERPRETER(msccl_ll_u64, Ll, U64)
MSCCL_INTERPRETER(msccl_ll_f16, Ll, F16)
MSCCL_INTERPRETER(msccl_ll_bf16, Ll, Bf16)
MSCCL_INTERPRETER(msccl_ll_f32, Ll, F32)
MSCCL_INTERPRETER(msccl_ll_f64, Ll, F64)
MSCCL_INTERPRETER(msccl_ll_f8e4m3, Ll, F8E4M3)
MSCCL_INTERPRETER(msccl_ll_f8e5m2, Ll, F8E5M2)

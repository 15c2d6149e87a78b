// Kernels for small calls over protocol LL, whose operands lie anywhere.
#include "small.cuh"
#include "ll.cuh"

MSCCL_SMALL(msccl_ll_odd_i8, Ll, I8, true)
MSCCL_SMALL(msccl_ll_odd_u8, Ll, U8, true)
MSCCL_SMALL(msccl_ll_odd_i32, Ll, I32, true)
MSCCL_SMALL(msccl_ll_odd_u32, Ll, U32, true)
MSCCL_SMALL(msccl_ll_odd_i64, Ll, I64, true)
MSCCL_SMALL(msccl_ll_odd_u64, Ll, U64, true)
MSCCL_SMALL(msccl_ll_odd_f16, Ll, F16, true)
MSCCL_SMALL(msccl_ll_odd_bf16, Ll, Bf16, true)
MSCCL_SMALL(msccl_ll_odd_f32, Ll, F32, true)
MSCCL_SMALL(msccl_ll_odd_f64, Ll, F64, true)
MSCCL_SMALL(msccl_ll_odd_f8e4m3, Ll, F8E4M3, true)
MSCCL_SMALL(msccl_ll_odd_f8e5m2, Ll, F8E5M2, true)

// Kernels for small calls over protocol LL.
#include "small.cuh"
#include "ll.cuh"

MSCCL_SMALL(msccl_ll_small_i8, Ll, I8, false)
MSCCL_SMALL(msccl_ll_small_u8, Ll, U8, false)
MSCCL_SMALL(msccl_ll_small_i32, Ll, I32, false)
MSCCL_SMALL(msccl_ll_small_u32, Ll, U32, false)
MSCCL_SMALL(msccl_ll_small_i64, Ll, I64, false)
MSCCL_SMALL(msccl_ll_small_u64, Ll, U64, false)
MSCCL_SMALL(msccl_ll_small_f16, Ll, F16, false)
MSCCL_SMALL(msccl_ll_small_bf16, Ll, Bf16, false)
MSCCL_SMALL(msccl_ll_small_f32, Ll, F32, false)
MSCCL_SMALL(msccl_ll_small_f64, Ll, F64, false)
MSCCL_SMALL(msccl_ll_small_f8e4m3, Ll, F8E4M3, false)
MSCCL_SMALL(msccl_ll_small_f8e5m2, Ll, F8E5M2, false)

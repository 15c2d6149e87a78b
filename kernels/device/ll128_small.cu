// Kernels for small calls over protocol LL128.
#include "small.cuh"
#include "ll128.cuh"

MSCCL_SMALL(msccl_ll128_small_i8, Ll128, I8, false)
MSCCL_SMALL(msccl_ll128_small_u8, Ll128, U8, false)
MSCCL_SMALL(msccl_ll128_small_i32, Ll128, I32, false)
MSCCL_SMALL(msccl_ll128_small_u32, Ll128, U32, false)
MSCCL_SMALL(msccl_ll128_small_i64, Ll128, I64, false)
MSCCL_SMALL(msccl_ll128_small_u64, Ll128, U64, false)
MSCCL_SMALL(msccl_ll128_small_f16, Ll128, F16, false)
MSCCL_SMALL(msccl_ll128_small_bf16, Ll128, Bf16, false)
MSCCL_SMALL(msccl_ll128_small_f32, Ll128, F32, false)
MSCCL_SMALL(msccl_ll128_small_f64, Ll128, F64, false)
MSCCL_SMALL(msccl_ll128_small_f8e4m3, Ll128, F8E4M3, false)
MSCCL_SMALL(msccl_ll128_small_f8e5m2, Ll128, F8E5M2, false)

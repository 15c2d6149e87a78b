// Kernels for small calls over protocol LL128, whose operands lie anywhere.
#include "small.cuh"
#include "ll128.cuh"

MSCCL_SMALL(msccl_ll128_odd_i8, Ll128, I8, true)
MSCCL_SMALL(msccl_ll128_odd_u8, Ll128, U8, true)
MSCCL_SMALL(msccl_ll128_odd_i32, Ll128, I32, true)
MSCCL_SMALL(msccl_ll128_odd_u32, Ll128, U32, true)
MSCCL_SMALL(msccl_ll128_odd_i64, Ll128, I64, true)
MSCCL_SMALL(msccl_ll128_odd_u64, Ll128, U64, true)
MSCCL_SMALL(msccl_ll128_odd_f16, Ll128, F16, true)
MSCCL_SMALL(msccl_ll128_odd_bf16, Ll128, Bf16, true)
MSCCL_SMALL(msccl_ll128_odd_f32, Ll128, F32, true)
MSCCL_SMALL(msccl_ll128_odd_f64, Ll128, F64, true)
MSCCL_SMALL(msccl_ll128_odd_f8e4m3, Ll128, F8E4M3, true)
MSCCL_SMALL(msccl_ll128_odd_f8e5m2, Ll128, F8E5M2, true)

// Interpreters over protocol Simple, several thread blocks on one of the grid; links may deliver directly.
#define MSCCL_PACKED
#include "interpreter.cuh"

MSCCL_INTERPRETER(msccl_packed_i8, Direct, I8)
MSCCL_INTERPRETER(msccl_packed_u8, Direct, U8)
MSCCL_INTERPRETER(msccl_packed_i32, Direct, I32)
MSCCL_INTERPRETER(msccl_packed_u32, Direct, U32)
MSCCL_INTERPRETER(msccl_packed_i64, Direct, I64)
MSCCL_INTERPRETER(msccl_packed_u64, Direct, U64)
MSCCL_INTERPRETER(msccl_packed_f16, Direct, F16)
MSCCL_INTERPRETER(msccl_packed_bf16, Direct, Bf16)
MSCCL_INTERPRETER(msccl_packed_f32, Direct, F32)
MSCCL_INTERPRETER(msccl_packed_f64, Direct, F64)
MSCCL_INTERPRETER(msccl_packed_f8e4m3, Direct, F8E4M3)
MSCCL_INTERPRETER(msccl_packed_f8e5m2, Direct, F8E5M2)

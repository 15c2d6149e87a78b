// Scaling an input before its collective, what NCCL calls a pre-multiplied sum; or dividing an
// output after it.
#pragma once

#include "reduce.cuh"

namespace msccl {

// `to[i] = from[i] * scalar`, rounded once, or `from[i] / divisor`. Any grid and block will do.
template <class Number>
__device__ inline void scale(const msccl_scale& launch) {
    constexpr int BYTES = Number::BYTES;
    u64 bits = launch.scalar_address ? load_element<BYTES>(launch.scalar_address) : launch.scalar;
    auto scalar = Number::widen(bits);
    u64 stride = u64(gridDim.x) * blockDim.x;
    for (u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x; at < launch.elements; at += stride) {
        auto value = Number::widen(load_element<BYTES>(launch.from + at * BYTES));
        auto result =
            launch.divisor ? Number::divide(value, u32(launch.divisor)) : product(value, scalar);
        store_element<BYTES>(launch.to + at * BYTES, Number::narrow(result));
    }
}

}  // namespace msccl

// A scaling kernel for one element type.
#define MSCCL_SCALE(name, Number)                                                   \
    extern "C" __global__ void name(const __grid_constant__ msccl_scale launch) {   \
        msccl::scale<msccl::Number>(launch);                                        \
    }

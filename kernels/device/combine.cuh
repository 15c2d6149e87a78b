// Combining blocks that lie in memory of this GPU: what is left of a reduction whose exchange was
// made by copies.
#pragma once

#include "../include/msccl_combine.h"
#include "reduce.cuh"

namespace msccl {

// Packs of each contribution that a thread has under way, and contributions at a time: a few thread
// blocks are to keep memory busy.
constexpr int COMBINE_PACKS = 4, COMBINE_GROUP = 2;

// Where the contribution of `rank` begins.
__device__ inline u64 contribution_at(const msccl_combine& launch, u32 rank) {
    if (rank == launch.rank) return launch.own;
    return launch.others + (rank - (rank > launch.rank)) * launch.stride_bytes;
}

// Bytes of whole packs: none, if some contribution or the result does not begin with one.
__device__ inline u64 whole_packs(const msccl_combine& launch, u64 bytes) {
    u64 all = launch.to | launch.own | launch.others | launch.stride_bytes;
    return all % sizeof(Pack<4>) == 0 ? bytes / sizeof(Pack<4>) : 0;
}

// Results at `first` and at every `step`th pack from there, as far as there are.
template <class Number>
__device__ inline void combine_packs(const msccl_combine& launch, const Arithmetic& arithmetic,
                                     u64 first, u64 step, u64 packs) {
    Factor<Number, Number::SCALES> factor(arithmetic);
    Sum<Number, 4> sums[COMBINE_PACKS] = {};
    for (u32 rank = 0; rank < launch.ranks; rank += COMBINE_GROUP) {
        Pack<4> loaded[COMBINE_PACKS][COMBINE_GROUP] = {};
        int count = launch.ranks - rank < COMBINE_GROUP ? int(launch.ranks - rank) : COMBINE_GROUP;
#pragma unroll
        for (int of = 0; of < COMBINE_GROUP; ++of) {
            u64 from = of < count ? contribution_at(launch, rank + of) : 0;
#pragma unroll
            for (int pack = 0; pack < COMBINE_PACKS; ++pack) {
                u64 at = first + pack * step;
                if (of < count && at < packs) {
                    loaded[pack][of] = load_whole(from + at * sizeof(Pack<4>));
                }
            }
        }
#pragma unroll
        for (int pack = 0; pack < COMBINE_PACKS; ++pack) {
            if constexpr (Number::SCALES) {
#pragma unroll
                for (int of = 0; of < COMBINE_GROUP; ++of) {
                    if (arithmetic.scales()) loaded[pack][of] = factor.of(loaded[pack][of]);
                }
            }
            if (rank == 0) sums[pack].start(loaded[pack][0]);
            sums[pack].add(arithmetic.combination(), loaded[pack], rank == 0, count);
        }
    }
#pragma unroll
    for (int pack = 0; pack < COMBINE_PACKS; ++pack) {
        u64 at = first + pack * step;
        if (at >= packs) break;
        store_whole(launch.to + at * sizeof(Pack<4>), sums[pack].finish(arithmetic.divisor));
    }
}

// One result.
template <class Number>
__device__ inline void combine_element(const msccl_combine& launch, const Arithmetic& arithmetic,
                                       u64 at) {
    Factor<Number, Number::SCALES> factor(arithmetic);
    Sum<Number, 2> sum = {};
    for (u32 rank = 0; rank < launch.ranks; ++rank) {
        u64 from = contribution_at(launch, rank) + at * Number::BYTES;
        Pack<2> loaded[1] = {};
        put_element<Number::BYTES>(loaded[0], 0, load_element<Number::BYTES>(from));
        if constexpr (Number::SCALES) {
            if (arithmetic.scales()) loaded[0] = factor.of(loaded[0]);
        }
        if (rank == 0) sum.start(loaded[0]);
        else sum.add(arithmetic.combination(), loaded, 0, 1);
    }
    auto result = sum.finish(arithmetic.divisor);
    store_element<Number::BYTES>(launch.to + at * Number::BYTES,
                                 element<Number::BYTES>(result, 0));
}

// Combines contributions in the order of ranks. Any grid and block will do.
template <class Number>
__device__ inline void combine(const msccl_combine& launch) {
    Arithmetic arithmetic = {launch.reduction, launch.divisor, launch.ranks};
    u64 packs = whole_packs(launch, launch.elements * Number::BYTES);
    u64 step = u64(gridDim.x) * blockDim.x;
    u64 first = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    for (u64 at = first; at < packs; at += step * COMBINE_PACKS) {
        combine_packs<Number>(launch, arithmetic, at, step, packs);
    }
    u64 rest = packs * (sizeof(Pack<4>) / Number::BYTES);
    for (u64 at = rest + first; at < launch.elements; at += step) {
        combine_element<Number>(launch, arithmetic, at);
    }
}

}  // namespace msccl

// A combining kernel for one element type.
#define MSCCL_COMBINE(name, Number)                                                   \
    extern "C" __global__ void __launch_bounds__(512)                                 \
        name(const __grid_constant__ msccl_combine launch) {                          \
        msccl::combine<msccl::Number>(launch);                                        \
    }

// Combining blocks that lie in memory of this GPU: what is left of a reduction whose exchange was
// made by copies.
#pragma once

#include "../include/msccl_combine.h"
#include "ptx_copies.cuh"
#include "reduce.cuh"

namespace msccl {

// Contributions that are combined at a time.
constexpr int COMBINE_GROUP = 2;

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

// Results of `PACKS` packs, while contributions are added to them in the order of ranks.
template <class Number, int PACKS>
struct CombinedPacks {
    Sum<Number, 4> sums[PACKS] = {};

    // Adds the contributions of `rank` and of as many behind it as there are.
    __device__ void add(const msccl_combine& launch, const Arithmetic& arithmetic,
                        const Factor<Number, Number::SCALES>& factor,
                        Pack<4> (&loaded)[PACKS][COMBINE_GROUP], u32 rank) {
        int count = launch.ranks - rank < COMBINE_GROUP ? int(launch.ranks - rank) : COMBINE_GROUP;
#pragma unroll
        for (int pack = 0; pack < PACKS; ++pack) {
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

    // Stores them at `first` and at every `step`th pack from there, as far as there are.
    __device__ void store(const msccl_combine& launch, const Arithmetic& arithmetic, u64 first,
                          u64 step, u64 packs) {
#pragma unroll
        for (int pack = 0; pack < PACKS; ++pack) {
            u64 at = first + pack * step;
            if (at >= packs) break;
            store_whole(launch.to + at * sizeof(Pack<4>), sums[pack].finish(arithmetic.divisor));
        }
    }
};

// ---- Through registers --------------------------------------------------------------------------

// Packs of each contribution that a thread has under way.
constexpr int REGISTER_PACKS = 4;

// Results at `first` and at every `step`th pack from there, as far as there are.
template <class Number>
__device__ inline void combine_packs(const msccl_combine& launch, const Arithmetic& arithmetic,
                                     u64 first, u64 step, u64 packs) {
    Factor<Number, Number::SCALES> factor(arithmetic);
    CombinedPacks<Number, REGISTER_PACKS> combined;
    for (u32 rank = 0; rank < launch.ranks; rank += COMBINE_GROUP) {
        Pack<4> loaded[REGISTER_PACKS][COMBINE_GROUP] = {};
#pragma unroll
        for (int of = 0; of < COMBINE_GROUP; ++of) {
            if (rank + of >= launch.ranks) break;
            u64 from = contribution_at(launch, rank + of);
#pragma unroll
            for (int pack = 0; pack < REGISTER_PACKS; ++pack) {
                u64 at = first + pack * step;
                if (at < packs) loaded[pack][of] = load_whole(from + at * sizeof(Pack<4>));
            }
        }
        combined.add(launch, arithmetic, factor, loaded, rank);
    }
    combined.store(launch, arithmetic, first, step, packs);
}

// ---- Through shared memory ----------------------------------------------------------------------

// A few thread blocks keep memory busy only with more bytes under way than registers hold. So each
// thread has a ring of its own in shared memory: stages of packs that asynchronous copies bring,
// of as many contributions as are combined at a time. No thread waits for another.
constexpr int RING_STAGES = 4, RING_PACKS = 2;
constexpr int STAGE_SLOTS = RING_PACKS * COMBINE_GROUP;
static_assert(RING_STAGES * STAGE_SLOTS * sizeof(Pack<4>) == MSCCL_COMBINE_RING_BYTES,
              "the host gives another size");

// Whether the launch has given its threads rings, as it does only on devices with such copies.
__device__ inline bool has_rings() {
    return ptx::dynamic_smem_size() >= u64(blockDim.x) * MSCCL_COMBINE_RING_BYTES;
}

// The ring of a thread.
struct CombineRing {
    const msccl_combine& launch;
    u64 step, packs;
    // What is brought next: packs from `at` on, of ranks from `rank` on, into `stage`.
    u64 at;
    u32 rank = 0;
    int stage = 0;

    // Slots of all threads lie side by side, so that their accesses share no bank.
    __device__ static ptx::Words4* slot(int stage, int number) {
        auto* slots = reinterpret_cast<ptx::Words4*>(ptx::dynamic_shared());
        return slots + (stage * STAGE_SLOTS + number) * blockDim.x + threadIdx.x;
    }

    // Brings a stage more, or an empty one where there is nothing left.
    __device__ void bring() {
#pragma unroll
        for (int of = 0; of < COMBINE_GROUP; ++of) {
            if (rank + of >= launch.ranks) break;
            u64 from = contribution_at(launch, rank + of);
#pragma unroll
            for (int pack = 0; pack < RING_PACKS; ++pack) {
                u64 place = at + pack * step;
                if (place >= packs) break;
                ptx::cp_async_16(slot(stage, pack * COMBINE_GROUP + of),
                                 from + place * sizeof(Pack<4>));
            }
        }
        ptx::cp_async_commit_group();
        stage = (stage + 1) % RING_STAGES;
        rank += COMBINE_GROUP;
        if (rank >= launch.ranks) {
            rank = 0;
            at += step * RING_PACKS;
        }
    }

    // What a stage has brought; packs beyond the end are of no interest.
    __device__ static void take(int stage, Pack<4> (&loaded)[RING_PACKS][COMBINE_GROUP]) {
#pragma unroll
        for (int pack = 0; pack < RING_PACKS; ++pack) {
#pragma unroll
            for (int of = 0; of < COMBINE_GROUP; ++of) {
                ptx::Words4 w = *slot(stage, pack * COMBINE_GROUP + of);
                loaded[pack][of] = {{w.x, w.y, w.z, w.w}};
            }
        }
    }
};

// Results at `first` and at every `step`th pack from there.
template <class Number>
__device__ inline void combine_through_rings(const msccl_combine& launch,
                                             const Arithmetic& arithmetic, u64 first, u64 step,
                                             u64 packs) {
    Factor<Number, Number::SCALES> factor(arithmetic);
    CombineRing ring = {launch, step, packs, first};
#pragma unroll
    for (int stage = 0; stage < RING_STAGES; ++stage) ring.bring();
    int stage = 0;
    for (u64 at = first; at < packs; at += step * RING_PACKS) {
        CombinedPacks<Number, RING_PACKS> combined;
        for (u32 rank = 0; rank < launch.ranks; rank += COMBINE_GROUP) {
            ptx::cp_async_wait_group<RING_STAGES - 1>();
            Pack<4> loaded[RING_PACKS][COMBINE_GROUP];
            CombineRing::take(stage, loaded);
            combined.add(launch, arithmetic, factor, loaded, rank);
            // Behind the last use of what the stage held.
            ring.bring();
            stage = (stage + 1) % RING_STAGES;
        }
        combined.store(launch, arithmetic, at, step, packs);
    }
    // Nothing is under way when the thread ends.
    ptx::cp_async_wait_all();
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
    if (has_rings()) {
        combine_through_rings<Number>(launch, arithmetic, first, step, packs);
    } else {
        for (u64 at = first; at < packs; at += step * REGISTER_PACKS) {
            combine_packs<Number>(launch, arithmetic, at, step, packs);
        }
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

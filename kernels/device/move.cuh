// What the kernels do all day: one chunk of one step, ready to be moved.
#pragma once

#include "reduce.cuh"

namespace msccl {

// One chunk of one step, ready to be moved: Σ sources → destinations.
struct Move {
    const Operand* sources;
    const Operand* destinations;
    u32 source_count;       // at least 1
    u32 destination_count;  // at least 1
    u32 length;             // bytes of the chunk
    u32 whole;              // those from the first on that every operand has
    u32 misfit;             // the low bits of all addresses together: 0 if every operand is aligned
    Arithmetic arithmetic;

    // `regular` if all operands are known to be aligned and to have the chunk, in multiples of 16. Otherwise every
    // thread looks for itself: at the few operands that a move has, in memory that it is about to read anyway.
    __device__ Move(const Operand* set, u32 sources, u32 stores, u32 length, bool regular,
                    const Arithmetic& arithmetic)
        : sources(set), destinations(set + sources), source_count(sources),
          destination_count(stores), length(length), whole(length), misfit(0),
          arithmetic(arithmetic) {
        if (!regular) look();
    }

    // Whether every operand has all of the chunk, in whole packs.
    __device__ bool is_whole() const { return whole == length && length % 16 == 0; }

    // Whether the result is the only source, bit for bit.
    __device__ bool is_copy() const { return source_count == 1 && arithmetic.divisor == 0; }
    // Whether it is the sum of two, and no more.
    __device__ bool is_sum_of_two() const {
        return source_count == 2 && arithmetic.reduction == MSCCL_REDUCTION_SUM &&
               arithmetic.divisor == 0;
    }

private:
    __device__ void look() {
#pragma unroll 1
        for (u32 at = 0; at < source_count + destination_count; ++at) {
            whole = min(whole, sources[at].limit);
            misfit |= u32(sources[at].address) % 16;
        }
    }
};

}  // namespace msccl

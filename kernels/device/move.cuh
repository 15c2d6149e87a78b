// What the kernels do all day: one chunk of one step, ready to be moved.
#pragma once

#include "reduce.cuh"

namespace msccl {

// One chunk of one step, ready to be moved: Σ sources → destinations; or of a bundle of steps, each
// source to the destination of its number.
struct Move {
    const Operand* sources;
    const Operand* destinations;
    u32 source_count;       // at least 1
    u32 destination_count;  // at least 1
    u32 length;             // bytes of the chunk
    u32 whole;              // those from the first on that every operand has
    u32 most;               // those that some source and some destination have
    u32 misalignment;       // the low bits of all addresses together: 0 if every operand is aligned
    Arithmetic arithmetic;
    bool bundle;            // each source goes to the destination of its number

    // `regular` if all operands are known to be aligned and to have the chunk, in multiples of 16.
    // Otherwise every thread looks for itself: at the few operands that a move has, in memory that
    // it is about to read anyway.
    __device__ Move(const Operand* set, u32 sources, u32 stores, u32 length, bool regular,
                    const Arithmetic& arithmetic, bool bundle = false)
        : sources(set), destinations(set + sources), source_count(sources),
          destination_count(stores), length(length), whole(length), most(length), misalignment(0),
          arithmetic(arithmetic), bundle(bundle) {
        if (!regular) look();
    }

    // Of a bundle: what is to be moved to destination `at`, as if that had no more than all have.
    __device__ Move pair(u32 at) const {
        Move one = *this;
        one.sources += at;
        one.destinations += at;
        one.source_count = one.destination_count = 1;
        one.bundle = false;
        return one;
    }

    // Whether every operand has all of the chunk, in whole packs.
    __device__ bool is_whole() const { return whole == length && length % 16 == 0; }

    // Whether the result is the only source, bit for bit.
    __device__ bool is_copy() const { return source_count == 1 && arithmetic.divisor == 0; }
    // Whether source `at` is to be scaled before it is added.
    __device__ bool scales(u32 at) const { return arithmetic.scales() && sources[at].is_raw(); }
    // Whether it is the sum of two, and no more.
    __device__ bool is_sum_of_two() const {
        return source_count == 2 && arithmetic.reduction == MSCCL_REDUCTION_SUM &&
               arithmetic.divisor == 0;
    }

private:
    __device__ void look() {
        u32 from = 0, to = 0;
#pragma unroll 1
        for (u32 at = 0; at < source_count + destination_count; ++at) {
            u32 limit = min(sources[at].limit, length);
            whole = min(whole, limit);
            misalignment |= u32(sources[at].address) % 16;
            // Not by a reference to either, which would put both into memory.
            if (at < source_count) {
                from = max(from, limit);
            } else {
                to = max(to, limit);
            }
        }
        most = min(from, to);
    }
};

}  // namespace msccl

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
    bool regular;           // every operand is aligned and has them all, in multiples of 16
    Arithmetic arithmetic;

    // Whether the result is the only source, bit for bit.
    __device__ bool is_copy() const { return source_count == 1 && arithmetic.divisor == 0; }
    // Whether it is the sum of two, and no more.
    __device__ bool is_sum_of_two() const {
        return source_count == 2 && arithmetic.reduction == MSCCL_REDUCTION_SUM &&
               arithmetic.divisor == 0;
    }
};

}  // namespace msccl

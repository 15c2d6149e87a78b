// Where a thread block stands in the grid, and the groups that its threads form.
#pragma once

#include "ptx.cuh"

namespace msccl {

using ptx::u32;

// The number of the thread block among all of the launch: the grid has a column for each thread
// block of the plan, and a row for each instance.
__device__ inline u32 block_number() { return blockIdx.y * gridDim.x + blockIdx.x; }

// ---- Groups -------------------------------------------------------------------------------------
//
// Threads that do something together, each of them its part: number `index` of `count`.

// All threads of the thread block.
struct Everyone {
    __device__ static u32 index() { return threadIdx.x; }
    __device__ static u32 count() { return blockDim.x; }
    // One after another, the second half of the work going to others than the first, as far as
    // there are.
    __device__ static u32 second() {
        return threadIdx.x < 32 ? threadIdx.x + blockDim.x - 32 : threadIdx.x - 32;
    }
    // A barrier: all of them come here.
    __device__ static void meet() { __syncthreads(); }
    // The same; whether all say so.
    __device__ static bool all(bool own) { return __syncthreads_and(own); }
};

// The threads of a warp.
struct Warp {
    __device__ static u32 index() { return threadIdx.x % 32; }
    __device__ static u32 count() { return 32; }
    __device__ static u32 second() { return index(); }
    __device__ static void meet() { __syncwarp(); }
    __device__ static bool all(bool own) { return __all_sync(~0u, own); }
};

}  // namespace msccl

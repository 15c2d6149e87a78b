// The thread blocks of a plan, on those of a grid: one on each; or, in a module that defines `MSCCL_PACKED`,
// several instances of one on each, side by side.
//
// A large call is slow in few thread blocks because each waits most of its time: for messages, for room, for
// its own stores. Packed, several wait on one multiprocessor at once, so that a call needs few of them and leaves the
// others to whatever computes beside it. Everything else speaks of *the thread block*, whose threads are `threadIdx.x`
// of `blockDim.x`, and never learns who its neighbours are.
#pragma once

#include "../include/msccl_plan.h"
#include "ptx.cuh"

namespace msccl {

using ptx::u32;

#ifdef MSCCL_PACKED
constexpr bool PACKED = true;
#else
constexpr bool PACKED = false;
#endif

// Most thread blocks of the plan on one of the grid.
constexpr u32 PACK_MAX = PACKED ? MSCCL_PACK_MAX : 1;

// What one of them may have: the host packs no others.
constexpr u32 LINKS_MAX = PACKED ? MSCCL_PACKED_LINKS_MAX : MSCCL_LINKS_MAX;
constexpr u32 WAITS_MAX = PACKED ? MSCCL_PACKED_WAITS_MAX : MSCCL_WAITS_MAX;
constexpr u32 OPERANDS_MAX =
    PACKED ? MSCCL_PACKED_OPERANDS_MAX : MSCCL_SOURCES_MAX + MSCCL_DESTINATIONS_MAX;

// Which of those on this block of the grid the thread belongs to.
__device__ inline u32 place_in_pack() { return PACKED ? threadIdx.y : 0; }

// The grid is as wide as the plan, so that nothing must be divided.
__device__ inline u32 tb_number() { return blockIdx.x; }

// There may be none of that number, if the pack is not full.
__device__ inline u32 instance_number() {
    return PACKED ? blockIdx.y * blockDim.y + threadIdx.y : blockIdx.y;
}

// The number of the thread block among all of the launch.
__device__ inline u32 block_number() { return instance_number() * gridDim.x + tb_number(); }

// All threads of the thread block come here.
__device__ inline void barrier() {
    if constexpr (PACKED) {
        ptx::barrier_sync(threadIdx.y, blockDim.x);
    } else {
        __syncthreads();
    }
}

// The same; whether all say so.
__device__ inline bool barrier_and(bool own) {
    if constexpr (PACKED) {
        return ptx::barrier_red_and(threadIdx.y, blockDim.x, own);
    } else {
        return __syncthreads_and(own);
    }
}

// ---- Teams ---------------------------------------------------------------------------------------
//
// Threads that do something together, each of them its part: number `index` of `count`.

// All threads of the thread block.
struct Everyone {
    __device__ static u32 index() { return threadIdx.x; }
    __device__ static u32 count() { return blockDim.x; }
    // One after another, the second half of the work going to others than the first, as far as there are.
    __device__ static u32 second() {
        return threadIdx.x < 32 ? threadIdx.x + blockDim.x - 32 : threadIdx.x - 32;
    }
    __device__ static void meet() { barrier(); }
    __device__ static bool all(bool own) { return barrier_and(own); }
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

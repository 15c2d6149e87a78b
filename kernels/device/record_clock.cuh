// The clock of records, for the host to compare with its own.
#pragma once

#include "ptx.cuh"

namespace msccl {

// What the kernel is given by value. `mailbox` are two words in host memory that both reach, zero
// at first: the host writes the number of a round into the first, and the kernel answers in the
// second with its clock.
struct ClockLaunch {
    ptx::u64 mailbox;
    ptx::u64 rounds;
};

// How long the kernel waits for a round before it ends.
constexpr ptx::u64 CLOCK_PATIENCE_NS = 100000000;

// Answers rounds 1 to `rounds`, in one thread.
//
// Contract: orders nothing. Both words are all that host and kernel exchange.
__device__ inline void answer_clock(const ClockLaunch& launch) {
    ptx::u64 began_ns = ptx::globaltimer_ns();
#pragma unroll 1
    for (ptx::u64 round = 1; round <= launch.rounds; ++round) {
        while (ptx::ld_relaxed_sys_u64(launch.mailbox) < round) {
            if (ptx::globaltimer_ns() - began_ns > CLOCK_PATIENCE_NS) return;
        }
        began_ns = ptx::globaltimer_ns();
        ptx::st_relaxed_sys_u64(launch.mailbox + 8, began_ns);
    }
}

}  // namespace msccl

#define MSCCL_RECORD_CLOCK(name)                                                                \
    extern "C" __global__ void name(const __grid_constant__ msccl::ClockLaunch launch) {        \
        msccl::answer_clock(launch);                                                            \
    }

// Waiting, without ever hanging: every wait gives up when the host says so, and shows itself when it
// lasts.
#pragma once

#include "../include/msccl_plan.h"
#include "memory.cuh"

namespace msccl {

// What a thread waits for, as `msccl_progress` shows it.
struct Reason {
    u32 kind;
    u32 subject;
    u64 number;
};

// The parts of a launch that waits need, and what they tell the thread block. In shared memory.
struct Watch {
    u64 control;          // the address of `msccl_control`
    u64 progress;         // the address of this thread block's `msccl_progress`
    u64 call;
    u32 report_after_us;
    u32 step;
    u32 round;
    u32 reporting;        // 1 while some thread's wait stands in `progress`
    u32 aborted;          // 1 once some thread gave up; never 0 again
};

// How often a wait looks before it reads the abort word, which lies across the bus.
constexpr u32 LOOKS = 1000;

// One wait of one thread:
//
//     Wait wait;
//     while (!ready() && wait.again(watch, reason)) {}
//     wait.over(watch);
//
// Contract: orders nothing. What it waits for must be loaded by `ready` with the order that the
// caller needs.
class Wait {
public:
    // Whether to look again; false when the kernel is to end.
    __device__ bool again(Watch& watch, const Reason& reason) {
        if (++looks_ < LOOKS) return true;
        looks_ = 0;
        return check(watch, reason);
    }

    // The wait is over: it no longer shows.
    __device__ void over(Watch& watch) {
        if (!reported_) return;
        ptx::st_relaxed_sys_u32(watch.progress + __builtin_offsetof(msccl_progress, kind),
                                MSCCL_WAITING_NOTHING);
        reported_ = false;
        atomicExch(&watch.reporting, 0);
    }

private:
    __device__ __noinline__ bool check(Watch& watch, const Reason& reason) {
        volatile u32& aborted = watch.aborted;
        if (ptx::ld_relaxed_sys_u32(watch.control + __builtin_offsetof(msccl_control, abort))) {
            ptx::st_relaxed_sys_u32(watch.control + __builtin_offsetof(msccl_control, aborted), 1);
            aborted = 1;
        }
        if (aborted) return false;
        u64 now_ns = ptx::globaltimer_ns();
        if (since_ns_ == 0) since_ns_ = now_ns;
        if (!reported_ && now_ns - since_ns_ > 1000ull * watch.report_after_us) report(watch, reason);
        return true;
    }

    // One wait at a time shows.
    __device__ void report(Watch& watch, const Reason& reason) {
        if (atomicCAS(&watch.reporting, 0, 1) != 0) return;
        reported_ = true;
        u64 entry = watch.progress;
        ptx::st_relaxed_sys_u32(entry + __builtin_offsetof(msccl_progress, step), watch.step);
        ptx::st_relaxed_sys_u32(entry + __builtin_offsetof(msccl_progress, round), watch.round);
        ptx::st_relaxed_sys_u32(entry + __builtin_offsetof(msccl_progress, subject), reason.subject);
        ptx::st_relaxed_sys_u64(entry + __builtin_offsetof(msccl_progress, number), reason.number);
        ptx::st_relaxed_sys_u64(entry + __builtin_offsetof(msccl_progress, call), watch.call);
        ptx::st_release_sys_u32(entry + __builtin_offsetof(msccl_progress, kind), reason.kind);
    }

    u32 looks_ = 0;
    bool reported_ = false;
    u64 since_ns_ = 0;
};

}  // namespace msccl

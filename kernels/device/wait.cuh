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
    msccl_control* control;
    msccl_progress* progress;  // this thread block's
    u64 call;
    u32 report_after_us;
    u32 step;
    u32 round;
    u32 reporting;        // 1 while some thread's wait stands in `progress`
    u32 aborted;          // 1 once some thread gave up; never 0 again
};

// How often a wait looks before it reads the abort word, which lies across the bus.
constexpr u32 LOOKS = 1000;

// What is rare in a wait, called.
__device__ __noinline__ u64 check_wait(Watch& watch, u32 kind, u32 subject, u64 number, u64 state);
__device__ __noinline__ void hide_wait(Watch& watch);

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
        if (__builtin_expect(++looks_ < LOOKS, 1)) return true;
        looks_ = 0;
        state_ = check(watch, reason, state_);
        return state_ != GIVEN_UP;
    }

    // The wait is over: it no longer shows.
    __device__ void over(Watch& watch) {
        if (state_ != GIVEN_UP && (state_ & SHOWN)) hide(watch);
    }

    // The same two where code should be short, and registers are not scarce: what is rare is called.
    __device__ __forceinline__ bool again_apart(Watch& watch, const Reason& reason) {
        if (__builtin_expect(++looks_ < LOOKS, 1)) return true;
        looks_ = 0;
        state_ = check_wait(watch, reason.kind, reason.subject, reason.number, state_);
        return state_ != GIVEN_UP;
    }
    __device__ __forceinline__ void over_apart(Watch& watch) {
        if (__builtin_expect(state_ != GIVEN_UP && (state_ & SHOWN), 0)) hide_wait(watch);
    }

private:
    // What a wait remembers: 0 at first, then since when it has lasted in ns, with a bit for whether it
    // shows. In one register, so that it never needs memory.
    using State = u64;
    static constexpr State SHOWN = 1;
    static constexpr State GIVEN_UP = ~0ull;

    // Rare, but mostly compiled in place, as is `hide`: for a call everything that waits would be spilled.
    __device__ static State check(Watch& watch, Reason reason, State state) {
        volatile u32& aborted = watch.aborted;
        if (ptx::ld_relaxed_sys_u32(address(&watch.control->abort))) {
            ptx::st_relaxed_sys_u32(address(&watch.control->aborted), 1);
            aborted = 1;
        }
        if (aborted) return GIVEN_UP;
        u64 now_ns = ptx::globaltimer_ns() & ~SHOWN;
        if (state == 0) return now_ns;
        bool late = now_ns - (state & ~SHOWN) > 1000ull * watch.report_after_us;
        return late && !(state & SHOWN) && show(watch, reason) ? state | SHOWN : state;
    }

    // Whether this wait now shows: one at a time does.
    __device__ static bool show(Watch& watch, const Reason& reason) {
        if (atomicCAS(&watch.reporting, 0, 1) != 0) return false;
        msccl_progress* entry = watch.progress;
        ptx::st_relaxed_sys_u32(address(&entry->step), watch.step);
        ptx::st_relaxed_sys_u32(address(&entry->round), watch.round);
        ptx::st_relaxed_sys_u32(address(&entry->subject), reason.subject);
        ptx::st_relaxed_sys_u64(address(&entry->number), reason.number);
        ptx::st_relaxed_sys_u64(address(&entry->call), watch.call);
        ptx::st_release_sys_u32(address(&entry->kind), reason.kind);
        return true;
    }

    __device__ static void hide(Watch& watch) {
        ptx::st_relaxed_sys_u32(address(&watch.progress->kind), MSCCL_WAITING_NOTHING);
        atomicExch(&watch.reporting, 0);
    }

    friend u64 check_wait(Watch& watch, u32 kind, u32 subject, u64 number, u64 state);
    friend void hide_wait(Watch& watch);

    u32 looks_ = 0;
    State state_ = 0;
};

__device__ __noinline__ u64 check_wait(Watch& watch, u32 kind, u32 subject, u64 number, u64 state) {
    return Wait::check(watch, {kind, subject, number}, state);
}

__device__ __noinline__ void hide_wait(Watch& watch) { Wait::hide(watch); }

}  // namespace msccl

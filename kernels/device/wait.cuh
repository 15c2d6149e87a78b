// Waiting, without ever hanging: every wait holds or ends when the host says so, and shows itself
// when it lasts.
//
// After a failure no kernel ends by itself, since whatever stands behind it in its stream would
// take what it left for a result. `msccl_control::state` says what is to be done:
//
//     RUN      the communicator is well
//     HOLD     it has failed: waits go on until the state changes, whatever comes in meanwhile
//     RELEASE  its owner has given it up: waits give up, and the kernel ends
//     TRAP     it has failed, and is to fault: the next call of the driver reports it
//
// Who looks at the state, and when:
//
// * every wait, each time it has looked in vain for a while (`Wait::check`);
// * one thread of a launch at its end, for what was there when it began (`Ending`): a launch that
//   never waits does not end either. The state lies across the bus, and a launch may be over sooner
//   than it comes. So a launch looks only if none before it has looked in the last
//   `MSCCL_LOOK_PERIOD_US`; and the host waits for longer than that, once it has set the state,
//   before anybody learns of the failure. What begins after that does not end.
//
// After a release a thread block may end with messages half sent. So the kernels behind it must
// send nothing: a receiver that holds would take it for the message that it waits for. Who gives up
// stores `msccl_notice::stopped` before it ends, and every kernel reads that before it begins
// (`must_stop`): after the kernel before it has ended, and before it stores anything that says that
// data are there.
//
// A thread that gives up goes on to the end of the kernel, past all that others wait for. In
// low-latency kernels it ends where it has waited for a message (`ptx::exit`): barriers do not wait
// for threads that have ended.
//
// Never written after giving up, therefore: counts of messages committed, packets, signals between
// thread blocks, offers and acknowledgements of direct links. Counts of messages released may be:
// they say that a slot is free, and never that data are there.
#pragma once

#include "../include/msccl_plan.h"
#include "block.cuh"
#include "memory.cuh"
#include "ptx_copies.cuh"
#ifdef MSCCL_RECORDS
#include "record.cuh"
#endif

namespace msccl {

// What a thread waits for, as `msccl_progress` shows it.
struct Reason {
    u32 kind;
    u32 subject;
    u64 number;
};

// The parts of a launch that waits need, and what they set for the thread block. In shared memory.
struct Watch {
    msccl_control* control;
    msccl_progress* progress;  // this thread block's
    msccl_notice* notice;
    u64 call;
    u32 step;
    u32 round;
    u32 reporting;        // 1 while some thread's wait stands in `progress`
    u32 aborted;          // 1 once some thread gave up; never 0 again
#ifdef MSCCL_RECORDS
    NotedWait noted;
#endif
};

// What thread block `block` of a launch needs: `msccl_launch` and `msccl_exchange_launch` have it
// alike.
template <class Launch>
__device__ inline Watch watch_of(const Launch& launch, u32 block) {
    auto control = reinterpret_cast<msccl_control*>(launch.control);
    auto progress = reinterpret_cast<msccl_progress*>(launch.progress);
    auto notice = reinterpret_cast<msccl_notice*>(launch.notice);
    return {control, progress + block, notice, launch.call, 0, 0, 0, 0};
}

// How often a wait looks before it reads the state, which lies across the bus.
constexpr u32 LOOKS = 1000;

// How long a thread that holds sleeps between two looks at the state: all of a launch may look.
constexpr u32 HOLD_POLL_NS = 200000;

// Keeps the thread here while the communicator holds. Returns when the kernel is to end: then
// `stopped` has been stored, and whatever is launched behind this kernel will see it.
//
// Contract: orders nothing. `stopped` is stored relaxed; the end of the kernel releases it.
__device__ __forceinline__ void hold(Watch& watch, u32 state) {
    ptx::st_relaxed_sys_u32(address(&watch.control->held), 1);
    ptx::st_relaxed_gpu_u64(address(&watch.notice->stopped), 1);
#pragma unroll 1
    while (state == MSCCL_CONTROL_HOLD) {
        ptx::nanosleep(HOLD_POLL_NS);
        state = ptx::ld_relaxed_sys_u32(address(&watch.control->state));
    }
    if (state == MSCCL_CONTROL_TRAP) ptx::trap();
    static_cast<volatile Watch&>(watch).aborted = 1;
}

// The same where it is rare and registers are not scarce: called.
__device__ __noinline__ void hold_apart(Watch& watch, u32 state) { hold(watch, state); }

// The thread that speaks for its thread block when the kernel begins and ends: the last, since the
// first ones have links to open.
__device__ inline bool is_speaker() { return threadIdx.x == blockDim.x - 1; }

// The notice, in the threads that have it read; zero in others. Without a branch.
//
// Contract: to be called after `griddepcontrol_wait`, so that it sees what the kernel before
// stored.
struct Notice {
    ptx::Doubles2 words{};

    __device__ Notice(u64 address, bool reads) {
        ptx::ld_relaxed_sys_2u64_if(words, address, reads);
    }

    __device__ bool stopped() const { return words.x != 0; }
    __device__ u64 looked_ns() const { return words.y; }
};

// One thread, at the beginning: whether a kernel before this one gave up, so that this one must do
// nothing. The thread then holds, and a barrier must follow.
__device__ inline bool must_stop(Watch& watch, const Notice& notice) {
    if (__builtin_expect(!notice.stopped(), 1)) return false;
    hold_apart(watch, ptx::ld_relaxed_sys_u32(address(&watch.control->state)));
    return true;
}

// The state as it was when a launch began, which one of its threads looks at before the launch
// ends, if it is time to. It comes to shared memory while the launch does its work.
//
// Contract: orders nothing. All threads call both functions; only the speaker of the first thread
// block does anything.
struct alignas(16) Ending {
    msccl_control control;
    u64 began_ns;  // if this launch looks, when it began; otherwise 0

    __device__ static bool is_mine() { return (blockIdx.x | blockIdx.y) == 0 && is_speaker(); }

    // Whoever calls this calls `end`, also when the kernel gives up; but for a thread that ends
    // where it has waited: the copy is there by then.
    __device__ void begin(u64 control_address, const Notice& notice) {
        if (!is_mine()) return;
        u64 now_ns = ptx::globaltimer_ns();
        bool looks = now_ns - notice.looked_ns() > 1000ull * MSCCL_LOOK_PERIOD_US;
        began_ns = looks ? now_ns : 0;
        if (ptx::HAS_CP_ASYNC && looks) ptx::cp_async_16(&control, control_address);
    }

    // Returns when the launch may end.
    __device__ void end(Watch& watch) {
        if (!is_mine() || static_cast<const volatile u64&>(began_ns) == 0) return;
        look(*this, watch);
    }

private:
    // Rare.
    __device__ __noinline__ static void look(Ending& ending, Watch& watch) {
        u32 state = ending.state_then(watch);
        if (state == MSCCL_CONTROL_RUN) {
            ptx::st_relaxed_gpu_u64(address(&watch.notice->looked_ns), ending.began_ns);
            return;
        }
        hold(watch, state);
    }

    __device__ u32 state_then(const Watch& watch) const {
        if (!ptx::HAS_CP_ASYNC) return ptx::ld_relaxed_sys_u32(address(&watch.control->state));
        ptx::cp_async_wait_all();
        return static_cast<const volatile msccl_control&>(control).state;
    }
};

static_assert(sizeof(msccl_control) == 16, "one asynchronous copy fetches it");

// A barrier of all threads, before the kernel sends anything: false when it must do nothing. The
// speaker has set up `watch`, and in the first thread block `ending` begins.
__device__ inline bool may_begin(Watch& watch, Ending& ending) {
    bool stops = false;
    if (is_speaker()) {
        Notice notice(address(watch.notice), true);
        ending.begin(address(watch.control), notice);
        stops = must_stop(watch, notice);
    }
    return Everyone::all(!stops);
}

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
    // Whether to look again; false when the kernel is to end. Does not return while the
    // communicator holds.
    __device__ bool again(Watch& watch, const Reason& reason) {
#ifdef MSCCL_RECORDS
        waited_for_ = reason.kind;
#endif
        if (__builtin_expect(++looks_ < LOOKS, 1)) return true;
        looks_ = 0;
        state_ = check(watch, reason, state_);
        return state_ != GIVEN_UP;
    }

    // The wait is over: it no longer shows.
    __device__ void over(Watch& watch) {
#ifdef MSCCL_RECORDS
        if (waited_for_ != MSCCL_WAITING_NOTHING) watch.noted.note(waited_for_);
#endif
        if (state_ != GIVEN_UP && (state_ & SHOWN)) hide(watch);
    }

    // The same two where code should be short, and registers are not scarce: what is rare is
    // called.
    __device__ __forceinline__ bool again_apart(Watch& watch, const Reason& reason) {
        if (__builtin_expect(++looks_ < LOOKS, 1)) return true;
        looks_ = 0;
        state_ = check_wait(watch, reason.kind, reason.subject, reason.number, state_);
        return state_ != GIVEN_UP;
    }
    __device__ __forceinline__ void over_apart(Watch& watch) {
        if (__builtin_expect(state_ != GIVEN_UP && (state_ & SHOWN), 0)) hide_wait(watch);
    }

#ifdef MSCCL_RECORDS
    // Packets, for which all threads wait: only the first wait of the first thread in a step is
    // noted.
    __device__ void note_first_only(const Watch& watch) {
        bool is_first = threadIdx.x == 0 && !watch.noted.is_for_data();
        if (!is_first) note_nothing();
    }

    // So far, it is no wait to be noted.
    __device__ void note_nothing() { waited_for_ = MSCCL_WAITING_NOTHING; }
#endif

private:
    // What a wait remembers: 0 at first, then since when it has lasted in ns, with a bit for
    // whether it shows. In one register, so that it never needs memory.
    using State = u64;
    static constexpr State SHOWN = 1;
    static constexpr State GIVEN_UP = ~0ull;

    // Rare, but mostly compiled in place, as is `hide`: for a call everything that waits would be
    // spilled.
    __device__ static State check(Watch& watch, Reason reason, State state) {
        u64 control = ptx::ld_relaxed_sys_u64(address(watch.control));
        if (u32(control) != MSCCL_CONTROL_RUN) hold(watch, u32(control));
        if (static_cast<const volatile Watch&>(watch).aborted) return GIVEN_UP;
        u64 now_ns = ptx::globaltimer_ns() & ~SHOWN;
        if (state == 0) return now_ns;
        u32 report_after_us = u32(control >> 32);
        bool late = now_ns - (state & ~SHOWN) > 1000ull * report_after_us;
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
#ifdef MSCCL_RECORDS
    u32 waited_for_ = MSCCL_WAITING_NOTHING;  // by a wait that has looked in vain
#endif
};

__device__ __noinline__ u64 check_wait(Watch& watch, u32 kind, u32 subject, u64 number, u64 state) {
    return Wait::check(watch, {kind, subject, number}, state);
}

__device__ __noinline__ void hide_wait(Watch& watch) { Wait::hide(watch); }

}  // namespace msccl

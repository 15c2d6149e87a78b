// One step: wait, find the operands, move chunk by chunk, commit and release.
#pragma once

#include "operands.cuh"

namespace msccl {

// Where links order memory that is not in their messages, packets must not overtake stores: after a
// barrier they do not. Whether there was something to order.
template <class Protocol>
__device__ inline bool order_stores(Context& context, const Step& step) {
    if constexpr (!Protocol::TAILS) {
        bool ordered = context.launch.flags & MSCCL_LAUNCH_LINKS_ORDER_MEMORY;
        if (ordered && context.is(Context::UNORDERED) && step.sends()) {
            ptx::fence_acq_rel_gpu();
            context.state &= ~Context::UNORDERED;
            return true;
        }
    }
    return false;
}

// Whether all operands have been prefetched. Then threads need not meet between one step and the
// next, but where one waits for all, or all for one.
template <class Protocol>
__device__ inline bool has_prefetched(const Context& context) {
    return Protocol::PREFETCHES && context.is(Context::PREFETCHED);
}

// Has the operands of chunk `chunk` of the step at hand, number `position` of its message. Whether
// they are regular.
template <class Protocol>
__device__ inline bool have(Context& context, const Slice& slice, const Step& step, u32 chunk,
                            u32 position) {
    u32 operands = step.sources() + step.destinations();
    if (has_prefetched<Protocol>(context)) {
        context.take(operands);
        if (order_stores<Protocol>(context, step)) Everyone::meet();
        return context.is(Context::REGULAR);
    }
    bool own = resolve<Protocol, Everyone>(context, slice, step, chunk, position);
    context.take(operands);
    order_stores<Protocol>(context, step);
    return Everyone::all(own);
}

// What a launch does with elements that are divided by `divisor`.
__device__ inline Arithmetic arithmetic_of(const msccl_launch& launch, u32 divisor) {
    return {launch.reduction, divisor, launch.divisor};
}

// What the set of operands at hand means.
__device__ inline Move move_of(const Context& context, const Slice& slice, const Step& step,
                               u32 stores, bool regular) {
    u32 divisor = step.completes() ? context.launch.divisor : 0;
    return {context.last_set(), step.sources(), stores,
            slice.length,       regular,        arithmetic_of(context.launch, divisor),
            step.bundle()};
}

// Whether nothing comes after the first `chunks` chunks of the step.
__device__ inline bool ends_launch(const Context& context, const Slice& slice, const Step& step,
                                   u32 chunks) {
    return chunks == step.count && step.index + 1 == context.shared.role.step_count &&
           slice.round + 1 == context.launch.rounds;
}

#ifdef MSCCL_RECORDS
// Before a barrier: the recording thread has the wait that was noted. In a register, and only until
// the message's record: data that are moved need them all.
template <class Protocol>
__device__ inline void take_wait(Context& context) {
    context.wait = is_recording<Protocol>() ? context.shared.watch.noted.take() : 0;
}

// How the end of a message is recorded, the last one of the launch if it is `last`. A launch whose
// links deliver directly does not end with a message: peers are waited for.
template <class Protocol>
__device__ inline u32 move_kind(bool last) {
    return !Protocol::LENDS && last ? RECORD_LAST_MOVE : RECORD_MOVE;
}
#endif

// One message of a step: the `chunks` chunks from `first` on. False when the kernel is to end.
//
// Between two barriers a thread is in one of two phases: it resolves operands and waits, or it
// moves. The barrier after the first makes what any thread acquired visible to all. What the second
// has done is committed and released after another barrier, if others wait for it; a step that only
// sends packets needs none, nor does one whose messages take care of themselves, nor the last one
// under a protocol of packets.
//
// Where all operands have been prefetched there is no first phase: a thread handles the same places
// of every chunk, step after step, so it meets in memory only what it stored itself; under LL128,
// where neighbours exchange words, what its warp stored before they came together. And no slot is
// released: none is used twice.
template <class Protocol, class Number>
__device__ inline bool run_message(Context& context, const Slice& slice, const Step& step,
                                   u32 first, u32 chunks) {
    const u32& aborted = context.shared.watch.aborted;
    u32 stores = stores_of<Protocol>(context, step, 0).count;
    release_sources(context);
#pragma unroll 1
    for (u32 position = 0; position < chunks; ++position) {
        bool regular = have<Protocol>(context, slice, step, first + position, position);
        if (aborted) return false;
        if (stores == 0) continue;
        Move move = move_of(context, slice, step, stores, regular);
        bool goes_on = Protocol::template move<Number>(move, context.shared.watch);
        if (has_prefetched<Protocol>(context) && !goes_on) return false;
    }
#ifdef MSCCL_RECORDS
    take_wait<Protocol>(context);
#endif
    if (!context.is(Context::PREFETCHED | Context::USUAL))
        refresh_slots<Protocol>(context, slice, step, chunks);
    if (step.stores()) context.state |= Context::UNORDERED | Context::OWES;
    bool last = ends_launch(context, slice, step, first + chunks);
    // The next kernel may start: this one waits for no thread block to begin. The first thread
    // says so: its call is the one that counts, and it has data if any thread has. What it has
    // received came in the same way as the rest of the message.
    if (!Protocol::LENDS && last && threadIdx.x == 0) ptx::griddepcontrol_launch_dependents();
    bool releases = step.receives() && !has_prefetched<Protocol>(context);
    if (!Protocol::TAILS && !step.signals() && (last || !releases)) return true;
    if (stores != 0) {
        Everyone::meet();
        if (aborted) return false;
    }
    if constexpr (Protocol::TAILS) {
        commit_destinations(context, step, u32(Protocol::wire_bytes(slice.length)));
    }
    context.taken_count = releases ? step.sources() : 0;
    return true;
}

// Executes a step on one slice. False when the kernel is to end.
template <class Protocol, class Number>
__device__ inline bool run_step(Context& context, const Slice& slice, const Step& step) {
    release_sources(context);
    wait_for_steps<Everyone>(context, slice, step);
    if (step.waits() > 0) context.state |= Context::OWES;
    if (step.count == 0 || (has_prefetched<Protocol>(context) && step.waits() > 0)) {
        Everyone::meet();
        if (context.shared.watch.aborted) return false;
    }
#ifdef MSCCL_RECORDS
    if (step.count == 0) {
        u32 kind = move_kind<Protocol>(ends_launch(context, slice, step, 0));
        take_wait<Protocol>(context);
        Everyone::meet();
        if (is_recording<Protocol>()) record(kind, step.first(), context.wait);
    }
#endif
    u32 most = context.launch.chunks_per_message;
#pragma unroll 1
    for (u32 first = 0; first < step.count; first += most) {
        u32 chunks = min(step.count - first, most);
        if (!run_message<Protocol, Number>(context, slice, step, first, chunks)) return false;
#ifdef MSCCL_RECORDS
        // Found anew, and compiled in place: to keep the former takes 2 % of calls of 2 MiB between
        // two ranks of one GPU, and to call the latter 1 % (`docs/results/2026-11-29.md`).
        bool last = ends_launch(context, slice, step, first + chunks);
        if (is_recording<Protocol>()) {
            ptx::in_register(recorder()).add(move_kind<Protocol>(last), step.first(), context.wait);
        }
#endif
    }
    signal<Protocol>(context, slice, step);
    return true;
}

}  // namespace msccl

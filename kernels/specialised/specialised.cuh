// A kernel for one rank's plan, which the compiler knows; perhaps it knows the shape of the call
// too.
//
// It does what the interpreter does, over the same wires, with the same arithmetic in the same
// order, and leaves the same behind: either may follow the other, and the two ends of a link need
// not run the same kind. What the interpreter shares between threads because it cannot know where
// it will be needed, every thread keeps in registers: the ends of links, and operands. So fewer
// barriers are left:
//
// * before data are moved, where one thread has waited for all: for a count of messages (protocol
//   Simple) or for steps of other thread blocks; and where packets must not overtake stores;
// * afterwards, where one thread commits or signals what all have done.
//
// Between two steps of a thread block none is needed: under every protocol a thread handles the
// same places of every chunk, step after step, so that it meets in memory and in slots only what it
// stored itself; under LL128, where neighbours exchange words, what its warp stored before they
// came together.
//
// Not for links that deliver directly.
#pragma once

#include "interpreter.cuh"

namespace msccl::specialised {

// ---- What is known ------------------------------------------------------------------------------

// A link's end: the rank at the other one, and the link's number among those of the two.
template <u32 PEER, u32 NUMBER>
struct End {};

// The link ends of a thread block, incoming ones first.
template <class... ENDS>
struct Ends {};

// Words of a plan: waits, or operands.
template <u32... WORDS>
struct Words {
    static constexpr u32 COUNT = sizeof...(WORDS);
};

// Entry number `AT` of the program of its thread block: step number `INDEX`, or steps that run as
// one, of which that is the last; with its words `HEAD` and `COUNT`; `LAST` if no later step of its
// thread block takes messages from one of its links.
template <u32 AT, u32 INDEX, bool LAST, u32 HEAD, u32 COUNT, class Waits, class Sources,
          class Destinations>
struct Step {};

template <class... STEPS>
struct Steps {};

// ---- A thread block -----------------------------------------------------------------------------

// What its threads share.
struct Shared {
    Watch watch;
    Ending ending;
};

// Thread block `TB` of one instance, in one of its threads.
template <class Protocol, class Number, u32 TB, u32 RECEIVES, u32 LINKS>
class Block {
public:
    __device__ __forceinline__ Block(const msccl_launch& call, Watch& watch)
        : call_(call), watch_(watch), instance_(blockIdx.y) {
        signals_ = call.signals + 8ull * instance_ * call.tb_count;
        if (call.flags & MSCCL_LAUNCH_SIGNALS) {
            signal_base_ = ptx::ld_relaxed_gpu_u64(call.signals + 8ull * block_number());
        }
    }

    // Takes up all links; their ends are on their way together.
    template <u32... PEERS, u32... NUMBERS>
    __device__ __forceinline__ void open(Ends<End<PEERS, NUMBERS>...>) {
        WireTable table{call_.links, call_.ranks, call_.wires};
        u32 at = 0;
        ((open_one(at, table.entry(at >= RECEIVES, PEERS, NUMBERS * call_.instances + instance_)),
          ++at),
         ...);
    }

    // Releases what was read in launches before. After `open`.
    __device__ __forceinline__ void greet() {
#pragma unroll
        for (u32 at = 0; at < RECEIVES; ++at) {
            if (threadIdx.x == at % blockDim.x) release(links_[at], links_[at].count);
        }
    }

    // Runs all rounds. False when the kernel is to end.
    template <class... STEPS>
    __device__ __forceinline__ bool run(Steps<STEPS...>) {
#pragma unroll 1
        for (u32 round = 0; round < call_.rounds; ++round) {
            Slice slice = slice_of(round);
            if (!(step<sizeof...(STEPS)>(slice, STEPS{}) && ...)) return false;
        }
        return true;
    }

    // Leaves links and signals as the next launch expects them.
    __device__ __forceinline__ void close() {
#pragma unroll
        for (u32 at = 0; at < LINKS; ++at) {
            if (threadIdx.x == at % blockDim.x) close_link(links_[at]);
        }
        end_signals(call_, signal_base_);
    }

private:
    __device__ LinkShape wires() const { return {call_.link_depth, call_.slot_bytes}; }

    // As a sender's, so that nothing is stored: every thread has the end, and `greet` speaks for
    // all.
    __device__ __forceinline__ void open_one(u32 at, u64 entry) {
        open_link(links_[at], entry, true);
        // A receiver has acquired no message yet.
        if (at < RECEIVES) links_[at].seen = 0;
    }

    // ---- Slices ---------------------------------------------------------------------------------

    // Whether all slices of all parts are equally long.
    __device__ bool is_even() const {
        return call_.instances * call_.part_bytes == call_.chunk_bytes &&
               call_.rounds * call_.slice_bytes == call_.part_bytes;
    }

    __device__ __forceinline__ Slice slice_of(u32 round) const {
        if (!is_even()) return msccl::slice_of(call_, instance_, round);
        u64 start = instance_ * call_.part_bytes + round * call_.slice_bytes;
        return {round, u32(call_.slice_bytes), start};
    }

    // ---- Operands -------------------------------------------------------------------------------

    template <u32 WORD>
    static constexpr bool IS_LINK = WORD >> MSCCL_PLAN_PLACE_SHIFT == MSCCL_PLAN_PLACE_LINK;
    template <u32 WORD>
    static constexpr u32 INDEX_OF = WORD & MSCCL_PLAN_INDEX_MASK;

    // Chunk `chunk` of the operand `WORD`, number `position` of its message.
    template <u32 WORD>
    __device__ __forceinline__ Operand operand(const Slice& slice, u32 chunk, u32 position) const {
        if constexpr (IS_LINK<WORD>) {
            const Link& link = links_[INDEX_OF<WORD>];
            Operand operand{};
            operand.address = link.address + position * Protocol::wire_bytes(slice.length);
            operand.message = link.count;
            operand.limit = (slice.length + 15) & ~15u;
            operand.traits = Span::LINK | Span::ALIGNED | raw_trait(WORD);
            operand.link = INDEX_OF<WORD>;
            return operand;
        } else {
            Operand operand =
                resolve_slot(call_, slice, Buffers{call_.input, call_.output}, WORD, chunk);
            bool whole = is_even() && call_.block_chunks * call_.chunk_bytes == call_.block_bytes;
            if (whole) operand.limit = slice.length;
            operand.traits |= raw_trait(WORD);
            return operand;
        }
    }

    // ---- Links ----------------------------------------------------------------------------------

    // Begins the next message of a source. One thread waits for a count, for all; every thread
    // takes up its own copy of the end.
    template <u32 WORD>
    __device__ __forceinline__ void wait_one() {
        if constexpr (IS_LINK<WORD>) {
            constexpr u32 AT = INDEX_OF<WORD>;
            if (Protocol::TAILS && threadIdx.x == AT % blockDim.x) {
                wait_message<Protocol::TAILS>(links_[AT], wires(), AT, watch_);
            } else {
                advance(links_[AT], wires());
            }
        }
    }

    // Reserves a slot of a destination. Every thread waits for it itself. False when the kernel
    // is to end.
    template <u32 WORD>
    __device__ __forceinline__ bool reserve_one() {
        if constexpr (IS_LINK<WORD>) {
            constexpr u32 AT = INDEX_OF<WORD>;
            u64 before = links_[AT].count;
            reserve(links_[AT], wires(), AT, watch_);
            return links_[AT].count != before;
        }
        return true;
    }

    // After a barrier: commits a message of `chunks` chunks.
    template <u32 WORD>
    __device__ __forceinline__ void commit_one(const Slice& slice, u32 chunks) {
        if constexpr (IS_LINK<WORD>) {
            constexpr u32 AT = INDEX_OF<WORD>;
            const Link& link = links_[AT];
            u64 end = link.address + chunks * Protocol::wire_bytes(slice.length);
            if (threadIdx.x == blockDim.x - 1 - AT % blockDim.x) {
                commit(link, wires(), link.count, end);
            }
        }
    }

    // Once in a while, where the protocol needs it: leaves no old flag in the slot.
    template <u32 WORD>
    __device__ __forceinline__ void refresh_one(const Slice& slice, u32 chunks) {
        if constexpr (IS_LINK<WORD> && Protocol::REFRESHES) {
            const Link& link = links_[INDEX_OF<WORD>];
            if (!Protocol::is_due(link.count, call_.link_depth)) return;
            u64 end = link.address + chunks * Protocol::wire_bytes(slice.length);
            Protocol::refresh(link.count, end, link.address + call_.slot_bytes);
        }
    }

    // After a barrier: releases a message.
    template <u32 WORD>
    __device__ __forceinline__ void release_one() {
        if constexpr (IS_LINK<WORD>) {
            constexpr u32 AT = INDEX_OF<WORD>;
            if (threadIdx.x == AT % blockDim.x) release(links_[AT], links_[AT].count);
        }
    }

    // ---- Steps ----------------------------------------------------------------------------------

    __device__ u64 signal_value(const Slice& slice, u32 step) const {
        return signal_base_ + u64(slice.round) * call_.signal_stride + step + 1;
    }

    // Waits for a step of another thread block, in thread number `at` from the last one on.
    template <u32 WORD>
    __device__ __forceinline__ void await(const Slice& slice, u32 at) {
        constexpr u32 AWAITED_TB = WORD >> MSCCL_PLAN_WAIT_TB_SHIFT;
        constexpr u32 AWAITED = WORD & MSCCL_PLAN_WAIT_STEP_MASK;
        if (threadIdx.x != blockDim.x - 1 - at % blockDim.x) return;
        u64 value = signal_value(slice, AWAITED);
        Wait wait;
        while (ptx::ld_acquire_gpu_u64(signals_ + 8ull * AWAITED_TB) < value) {
            if (!wait.again(watch_, {MSCCL_WAITING_SIGNAL, AWAITED_TB, AWAITED})) return;
        }
        wait.over(watch_);
    }

    // One step, of `STEPS` in all, on one slice. False when the kernel is to end.
    template <u32 STEPS, u32 AT, u32 INDEX, bool LAST, u32 HEAD, u32 COUNT, u32... WAITS,
              u32... SOURCES, u32... DESTINATIONS>
    __device__ __forceinline__ bool step(const Slice& slice,
                                         Step<AT, INDEX, LAST, HEAD, COUNT, Words<WAITS...>,
                                              Words<SOURCES...>, Words<DESTINATIONS...>>) {
        if (threadIdx.x == 0) {
            watch_.step = INDEX;
            watch_.round = slice.round;
        }
        u32 at = 0;
        (await<WAITS>(slice, at++), ...);
        bool acquired = sizeof...(WAITS) > 0;
        if (acquired) owes_ = true;
        if constexpr (COUNT == 0) {
            if (acquired && is_aborted_after_barrier()) return false;
            if ((HEAD & MSCCL_PLAN_STEP_SIGNALS) && !acquired) __syncthreads();
        }
        u32 most = call_.chunks_per_message;
#pragma unroll 1
        for (u32 first = 0; first < COUNT; first += most) {
            u32 chunks = min(COUNT - first, most);
            bool goes_on = first + most < COUNT || slice.round + 1 < call_.rounds;
            MessageRange range{first, chunks, acquired, !LAST || goes_on,
                               AT + 1 == STEPS && !goes_on};
            if (!message<HEAD>(slice, range, Words<SOURCES...>{}, Words<DESTINATIONS...>{})) {
                return false;
            }
            acquired = false;
        }
        if constexpr (HEAD & MSCCL_PLAN_STEP_SIGNALS) signal(signal_value(slice, INDEX));
        return true;
    }

    // After a barrier: see the interpreter's `signal`.
    __device__ __forceinline__ void signal(u64 value) {
        bool releases = Protocol::TAILS || owes_;
        owes_ = false;
        if (threadIdx.x != 0) return;
        if (releases) {
            ptx::st_release_gpu_u64(signals_ + 8ull * TB, value);
        } else {
            ptx::st_relaxed_gpu_u64(signals_ + 8ull * TB, value);
        }
    }

    __device__ bool is_aborted_after_barrier() {
        __syncthreads();
        return static_cast<const volatile Watch&>(watch_).aborted;
    }

    // Which message of a step, and what goes before and after it.
    struct MessageRange {
        u32 first;      // the first of its chunks
        u32 chunks;
        bool acquired;  // some thread has waited for another thread block since the last barrier
        bool more;      // its links have more messages in this launch
        bool ends;      // nothing comes after it in this launch
    };

    // One message of a step.
    template <u32 HEAD, u32... SOURCES, u32... DESTINATIONS>
    __device__ __forceinline__ bool message(const Slice& slice, const MessageRange& range,
                                            Words<SOURCES...>, Words<DESTINATIONS...>) {
        constexpr bool RECEIVES_SOME = HEAD & MSCCL_PLAN_STEP_RECEIVES;
        constexpr bool SENDS_SOME = HEAD & MSCCL_PLAN_STEP_SENDS;
        (wait_one<SOURCES>(), ...);
        if (!(reserve_one<DESTINATIONS>() && ...)) return false;
        bool waits = range.acquired || (Protocol::TAILS && RECEIVES_SOME);
        if constexpr (!Protocol::TAILS && SENDS_SOME) {
            if ((call_.flags & MSCCL_LAUNCH_LINKS_ORDER_MEMORY) && unordered_) {
                ptx::fence_acq_rel_gpu();
                unordered_ = false;
                waits = true;
            }
        }
        if (waits && is_aborted_after_barrier()) return false;
#pragma unroll 1
        for (u32 position = 0; position < range.chunks; ++position) {
            if (!chunk<HEAD>(slice, range.first + position, position, Words<SOURCES...>{},
                             Words<DESTINATIONS...>{})) {
                return false;
            }
        }
        (refresh_one<DESTINATIONS>(slice, range.chunks), ...);
        if constexpr (HEAD & MSCCL_PLAN_STEP_STORES) unordered_ = owes_ = true;
        // Its threads wait for nothing any more, so the next kernel may start beside it. One thread
        // says so, which has moved its part: others may have had none.
        if (range.ends && threadIdx.x == 0) ptx::griddepcontrol_launch_dependents();
        bool posts = Protocol::TAILS && SENDS_SOME;
        bool releases = RECEIVES_SOME && range.more;
        bool synchronises = posts || releases || (HEAD & MSCCL_PLAN_STEP_SIGNALS);
        if (synchronises && is_aborted_after_barrier()) return false;
        if (posts) (commit_one<DESTINATIONS>(slice, range.chunks), ...);
        if (releases) (release_one<SOURCES>(), ...);
        return true;
    }

    // Moves one chunk. False when the kernel is to end.
    template <u32 HEAD, u32... SOURCES, u32... DESTINATIONS>
    __device__ __forceinline__ bool chunk(const Slice& slice, u32 number, u32 position,
                                          Words<SOURCES...>, Words<DESTINATIONS...>) {
        constexpr u32 READ = sizeof...(SOURCES), WRITTEN = sizeof...(DESTINATIONS);
        Operand set[READ + WRITTEN] = {operand<SOURCES>(slice, number, position)...,
                                       operand<DESTINATIONS>(slice, number, position)...};
        bool regular = slice.length % 16 == 0;
#pragma unroll
        for (u32 at = 0; at < READ + WRITTEN; ++at) {
            regular = regular && set[at].whole(0, slice.length);
        }
        u32 divisor = HEAD & MSCCL_PLAN_STEP_COMPLETES ? call_.divisor : 0;
        Move move{set,     READ,
                  WRITTEN, slice.length,
                  regular, arithmetic_of(call_, divisor),
                  (HEAD & MSCCL_PLAN_STEP_BUNDLE) != 0};
        return Protocol::template move<Number>(move, watch_);
    }

    const msccl_launch& call_;
    Watch& watch_;
    u32 instance_;
    u64 signals_;
    u64 signal_base_ = 0;
    Link links_[LINKS > 0 ? LINKS : 1];
    bool unordered_ = false;
    bool owes_ = false;
};

// The body of a kernel: thread block `TB` of the plan.
template <class Protocol, class Number, u32 TB, u32 RECEIVES, class... ENDS, class... STEPS>
__device__ __forceinline__ void run(const msccl_launch& call, Shared& shared, Ends<ENDS...> ends,
                                    Steps<STEPS...> steps) {
    // Nothing is read before but the parameter: the kernel before this one may still run.
    ptx::griddepcontrol_wait();
    Block<Protocol, Number, TB, RECEIVES, sizeof...(ENDS)> block(call, shared.watch);
    block.open(ends);
    if (is_speaker()) shared.watch = watch_of(call, block_number());
    // Nobody closes an end that others have yet to read.
    if (may_begin(shared.watch, shared.ending)) {
        block.greet();
        if (block.run(steps)) block.close();
    }
    shared.ending.end(shared.watch);
}

}  // namespace msccl::specialised

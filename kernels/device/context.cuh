// What a thread block works with: its role in the plan, what its threads share, the words of a
// step, and signals between the thread blocks of a rank.
#pragma once

#include "block.cuh"
#include "direct.cuh"
#include "simple.cuh"

namespace msccl {

// Most operands of a step.
constexpr u32 OPERANDS_MAX = MSCCL_SOURCES_MAX + MSCCL_DESTINATIONS_MAX;

// Words of steps in shared memory: more than the largest step has.
constexpr u32 WINDOW = 2064;
constexpr u32 LARGEST_STEP = 4 + MSCCL_PLAN_STEP_LENGTH + MSCCL_WAITS_MAX + 2 * OPERANDS_MAX;
static_assert(WINDOW / 2 >= LARGEST_STEP, "a step may be longer than half the window");

// What a thread block is, throughout a launch.
struct Role {
    u64 signals;      // the first signal of its instance
    u64 signal_base;  // what this launch adds to signals
    u32 instance;
    u32 tb;
    u32 first_step;   // the word of the plan
    u32 step_words;
    u32 step_count;
    u32 first_link;   // the word of the plan
    u32 receives;
    u32 links;
    u32 first_operand;  // the word of the plan
    u32 operands;     // in its operand table
};

// The part of every chunk that is at hand.
struct Slice {
    u32 round;
    u32 length;
    u64 start;  // bytes from the start of the chunk
};

// A chunk that movers are to move, and what is signalled when they have (`warp_specialised.cuh`).
struct alignas(16) Task {
    u32 sources;
    u32 destinations;
    u32 stores;   // destinations that are stored to, which come first
    u32 length;   // bytes of the chunk
    u32 divisor;
    u32 traits;   // `Task::` bits
    u64 signal;   // what the thread block's signal becomes; 0 if nothing
#ifdef MSCCL_RECORDS
    u32 step;  // whose message it is
    u64 wait;  // before it, as `NotedWait` has it
#endif

    // All operands are aligned and have the chunk.
    static constexpr u32 REGULAR = 1;
    // A message ends with it.
    static constexpr u32 ENDS_MESSAGE = 2;
    // There are no more.
    static constexpr u32 NONE = 4;
    // It is of a bundle of steps.
    static constexpr u32 BUNDLE = 8;
#ifdef MSCCL_RECORDS
    // The launch ends with it, whose record is that of its end.
    static constexpr u32 ENDS_LAUNCH = 16;
#endif
};

// What the threads of a thread block share. Much of it could be in registers, which the loops that
// move data need more.
struct Shared {
    // Two sets, used in turn: one barrier a chunk is enough. Or those of all chunks, one set after
    // another.
    Operand operands[2 * OPERANDS_MAX];
    Task tasks[2];
    Link links[MSCCL_LINKS_MAX];
    // Of links whose peers let this rank access their buffers, by number.
    Buffers theirs[DIRECT_LINKS_MAX];
    alignas(16) u32 window[WINDOW];
    Role role;
    Slice slice;  // that of the first round
    // The last call of which some prefetched operand is not regular. It is never set back: what lay
    // here before the kernel began may mean any call, which costs time and nothing else.
    u32 irregular_call;
    // The last call of which some offer was unread when its link was taken up, likewise.
    u32 unread_call;
    Watch watch;
    Ending ending;

    // One of the two sets that are used in turn.
    __device__ const Operand* set(u32 turn) const { return operands + turn * OPERANDS_MAX; }
};

// A thread block at work, in every thread; all have the same.
struct Context {
    Shared& shared;
    const msccl_launch& launch;
    u32 next;         // the first operand of the set that comes next
    u32 last;         // that of the set at hand
    u32 taken_count;  // sources of the last message, which have not been released yet
    u32 state;        // `Context::` bits, in one register
#ifdef MSCCL_RECORDS
    u64 wait;  // before the message at hand, in the recording thread
#endif

    // The thread block stored to local memory since its last fence.
    static constexpr u32 UNORDERED = 1;
    // It stored to local memory, or waited for others, since it last released.
    static constexpr u32 OWES = 2;
    // All operands have been prefetched.
    static constexpr u32 PREFETCHED = 4;
    // And no slot is to be refreshed.
    static constexpr u32 USUAL = 8;
    // And all of them are aligned and have their chunks.
    static constexpr u32 REGULAR = 16;

    // No bits: the kernel is to end.
    static constexpr u32 GIVEN_UP = ~0u;

    __device__ bool is(u32 bits) const { return (state & bits) == bits; }

    // The set of operands that comes next, and the one at hand.
    __device__ Operand* next_set() const { return shared.operands + next; }
    __device__ const Operand* last_set() const { return shared.operands + last; }
    // Of two that are used in turn, which one comes next.
    __device__ u32 turn() const { return next / OPERANDS_MAX; }

    // The set that comes next, of `operands` operands, is at hand now.
    __device__ void take(u32 operands) {
        last = next;
        next = is(PREFETCHED) ? next + operands : next ^ OPERANDS_MAX;
    }

    __device__ LinkShape wires() const { return {launch.link_depth, launch.slot_bytes}; }
};

// A step, or a bundle of steps that run as one, by its words in the window, of which the fixed ones
// are at hand.
struct Step {
    const u32* words;
    u32 index;  // the last one's, of a bundle
    u32 head;
    u32 operand_counts;
    u32 count;  // chunks in every operand

    // One load fetches all that it needs.
    // `first` steps come before it.
    __device__ Step(const u32* words, u32 first) : words(words), index(first) {
        const ptx::Words4& fixed = *reinterpret_cast<const ptx::Words4*>(words);
        head = fixed.x;
        operand_counts = fixed.y;
        count = fixed.z;
        if (bundle()) index += sources() - 1;
    }

#ifdef MSCCL_RECORDS
    // The first one's index, of a bundle.
    __device__ u32 first() const { return bundle() ? index - (sources() - 1) : index; }
#endif

    __device__ bool completes() const { return head & MSCCL_PLAN_STEP_COMPLETES; }
    __device__ bool signals() const { return head & MSCCL_PLAN_STEP_SIGNALS; }
    __device__ bool receives() const { return head & MSCCL_PLAN_STEP_RECEIVES; }
    __device__ bool sends() const { return head & MSCCL_PLAN_STEP_SENDS; }
    __device__ bool stores() const { return head & MSCCL_PLAN_STEP_STORES; }
    // Whether each source goes to the destination of its number.
    __device__ bool bundle() const { return head & MSCCL_PLAN_STEP_BUNDLE; }
    // Whether peers may store or load in this rank's buffers.
    __device__ bool lends() const { return head & MSCCL_PLAN_STEP_LENDS; }
    __device__ u32 waits() const { return head >> MSCCL_PLAN_STEP_WAITS_SHIFT; }

    __device__ u32 sources() const { return operand_counts & 0xffff; }
    __device__ u32 destinations() const {
        return operand_counts >> MSCCL_PLAN_STEP_DESTINATIONS_SHIFT;
    }

    __device__ u32 wait(u32 at) const { return words[MSCCL_PLAN_STEP_LENGTH + at]; }
    // Sources first, then destinations.
    __device__ u32 operand(u32 at) const { return words[MSCCL_PLAN_STEP_LENGTH + waits() + at]; }
    // Of an operand that is borrowed: the peer's slot.
    __device__ u32 far(u32 at) const { return operand(sources() + destinations() + at); }

    // Words from its start to the start of the next step.
    __device__ u32 length() const {
        u32 operands = sources() + destinations();
        u32 far = head & MSCCL_PLAN_STEP_FAR ? operands : 0;
        u32 used = MSCCL_PLAN_STEP_LENGTH + waits() + operands + far;
        return (used + MSCCL_PLAN_STEP_ALIGNMENT - 1) & ~(MSCCL_PLAN_STEP_ALIGNMENT - 1);
    }
};

static_assert(MSCCL_PLAN_STEP_HEAD == 0 && MSCCL_PLAN_STEP_OPERANDS == 1 &&
                  MSCCL_PLAN_STEP_COUNT == 2,
              "a step's fixed words are taken apart as they are laid out");

// The signal of step `step`.
__device__ inline u64 signal_value(const Context& context, const Slice& slice, u32 step) {
    u64 base = context.shared.role.signal_base;
    return base + u64(slice.round) * context.launch.signal_stride + step + 1;
}

// Waits for the steps of other thread blocks, one in each thread, from the last thread on: the
// first ones have links to wait for. Acquires at GPU scope; a barrier must follow.
template <class Group>
__device__ inline void wait_for_steps(const Context& context, const Slice& slice,
                                      const Step& step) {
    Watch& watch = context.shared.watch;
#pragma unroll 1
    for (u32 at = Group::count() - 1 - Group::index(); at < step.waits(); at += Group::count()) {
        u32 tb = step.wait(at) >> MSCCL_PLAN_WAIT_TB_SHIFT;
        u32 awaited = step.wait(at) & MSCCL_PLAN_WAIT_STEP_MASK;
        u64 value = signal_value(context, slice, awaited);
        Wait wait;
        while (ptx::ld_acquire_gpu_u64(context.shared.role.signals + 8ull * tb) < value) {
            if (!wait.again(watch, {MSCCL_WAITING_SIGNAL, tb, awaited})) return;
        }
        wait.over(watch);
    }
}

// After a barrier: signals to other thread blocks that the step has ended. Releases at GPU scope
// what the thread block did, if it did something that they may read. If it has only read and sent
// packets, they can but overwrite what it read: that has arrived in registers, and has been used,
// before the barrier. A release would wait until all packets have arrived at the other ranks.
template <class Protocol>
__device__ inline void signal(Context& context, const Slice& slice, const Step& step) {
    if (!step.signals()) return;
    const Role& role = context.shared.role;
    bool releases = Protocol::TAILS || context.is(Context::OWES);
    context.state &= ~Context::OWES;
    if (threadIdx.x != 0) return;
    u64 address = role.signals + 8ull * role.tb, value = signal_value(context, slice, step.index);
    if (releases) {
        ptx::st_release_gpu_u64(address, value);
    } else {
        ptx::st_relaxed_gpu_u64(address, value);
    }
}

}  // namespace msccl

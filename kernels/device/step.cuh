// One step: wait, find the operands, move chunk by chunk, hand on.
#pragma once

#include "block.cuh"
#include "direct.cuh"
#include "simple.cuh"

namespace msccl {

// Most operands of a step.
constexpr u32 OPERANDS_MAX = MSCCL_SOURCES_MAX + MSCCL_DESTINATIONS_MAX;

// Words of steps that are at hand at once: more than the largest step has.
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

// A chunk that movers are to move, and what is to be told when they have (`crew.cuh`).
struct alignas(16) Task {
    u32 sources;
    u32 destinations;
    u32 stores;   // destinations that are stored to, which come first
    u32 length;   // bytes of the chunk
    u32 divisor;
    u32 traits;   // `Task::` bits
    u64 signal;   // what the thread block's signal becomes; 0 if nothing

    // All operands are aligned and have the chunk.
    static constexpr u32 REGULAR = 1;
    // A message ends with it.
    static constexpr u32 ENDS_MESSAGE = 2;
    // There are no more.
    static constexpr u32 NONE = 4;
    // It is of a bundle of steps.
    static constexpr u32 BUNDLE = 8;
};

// What the threads of a thread block share. Much of it could be in registers, which the loops that move
// data need more.
struct Shared {
    // Two sets, used in turn: one barrier a chunk is enough. Or those of all chunks, one set after another.
    Operand operands[2 * OPERANDS_MAX];
    Task tasks[2];
    Link links[MSCCL_LINKS_MAX];
    // Of links whose peers lend their buffers, by number.
    Buffers theirs[DIRECT_LINKS_MAX];
    alignas(16) u32 window[WINDOW];
    Role role;
    Slice slice;  // that of the first round
    // The last call of which some operand that was found at once is not regular. It is never set back: what lay here before
    // the kernel began may mean any call, which costs time and nothing else.
    u32 irregular_call;
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
    u32 taken_count;  // sources of the last message, of which no slot has been given back yet
    u32 state;        // `Context::` bits, in one register

    // The thread block stored to local memory since its last fence.
    static constexpr u32 UNORDERED = 1;
    // It stored to local memory, or waited for others, since it last released.
    static constexpr u32 OWES = 2;
    // All operands have been found at once.
    static constexpr u32 FOUND = 4;
    // And no slot is to be refreshed.
    static constexpr u32 USUAL = 8;
    // And all of them are aligned and have their chunks.
    static constexpr u32 REGULAR = 16;

    __device__ bool is(u32 bits) const { return (state & bits) == bits; }

    // The set of operands that comes next, and the one at hand.
    __device__ Operand* next_set() const { return shared.operands + next; }
    __device__ const Operand* last_set() const { return shared.operands + last; }
    // Of two that are used in turn, which one comes next.
    __device__ u32 turn() const { return next / OPERANDS_MAX; }

    // The set that comes next, of `operands` operands, is at hand now.
    __device__ void take(u32 operands) {
        last = next;
        next = is(FOUND) ? next + operands : next ^ OPERANDS_MAX;
    }

    __device__ LinkShape wires() const { return {launch.link_depth, launch.slot_bytes}; }
};

// A step, or a bundle of steps that run as one, by its words in the window, of which the fixed ones are at hand.
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

// Waits for the steps of other thread blocks, one in each thread, from the last thread on: the first
// ones have links to wait for. Acquires at GPU scope; a barrier must follow.
template <class Team>
__device__ inline void wait_for_steps(const Context& context, const Slice& slice, const Step& step) {
    Watch& watch = context.shared.watch;
#pragma unroll 1
    for (u32 at = Team::count() - 1 - Team::index(); at < step.waits(); at += Team::count()) {
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

// After a barrier: tells other thread blocks that the step has ended. Releases at GPU scope what the
// thread block did, if it did something that they may read. If it has only read and sent packets, they can
// but overwrite what it read: that has arrived in registers, and has been used, before the barrier. A
// release would wait until all packets have arrived at the other ranks.
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

// ---- Operands ------------------------------------------------------------------------------------

// The block that `chunk` lies in. A division takes long, and few plans need one.
__device__ inline u32 block_of(const msccl_launch& launch, u32 chunk) {
    if (chunk < launch.block_chunks) return 0;
    return launch.block_chunks == 1 ? chunk : chunk / launch.block_chunks;
}

// Chunk `offset` from the slot `word` on of a buffer. Scratch is always this rank's.
__device__ inline Operand resolve_slot(const msccl_launch& launch, const Slice& slice,
                                       const Buffers& buffers, u32 word, u32 offset) {
    u32 place = word >> MSCCL_PLAN_PLACE_SHIFT;
    u32 chunk = (word & MSCCL_PLAN_INDEX_MASK) + offset;
    u64 start, exists;
    u64 base = launch.scratch;
    if (place == MSCCL_PLAN_PLACE_SCRATCH) {
        start = chunk * ((launch.chunk_bytes + 15) & ~15ull) + slice.start;
        exists = slice.length;
    } else {
        base = place == MSCCL_PLAN_PLACE_INPUT ? buffers.input : buffers.output;
        u32 block = block_of(launch, chunk);
        u32 within = chunk - block * launch.block_chunks;
        u64 in_block = within * launch.chunk_bytes + slice.start;
        start = block * launch.block_bytes + in_block;
        exists = in_block < launch.block_bytes ? launch.block_bytes - in_block : 0;
    }
    Operand operand{};
    operand.address = base + start;
    operand.limit = u32(min(exists, u64(slice.length)));
    operand.traits = operand.address % 16 == 0 ? Span::ALIGNED : 0;
    return operand;
}

// The trait of a source that the word `word` of a step or of an operand table says to be raw.
__device__ inline u32 raw_trait(u32 word) { return word & MSCCL_PLAN_RAW ? Span::RAW : 0; }

// Begins the next message of link `number`.
template <class Protocol>
__device__ inline Message begin(const Context& context, u32 number, bool incoming) {
    Link& link = context.shared.links[number];
    Watch& watch = context.shared.watch;
    // All links together: what they wait for comes before any message.
    if (Protocol::DIRECT && (link.traits & Link::UNREAD)) {
        await_offer(link, context.shared.theirs, context.launch, number, watch);
    }
    if (incoming) return begin_receive<Protocol::TAILS>(link, context.wires(), number, watch);
    return begin_send(link, context.wires(), number, watch);
}

// Chunk number `position` of the message of link `number` in its slot.
template <class Protocol>
__device__ inline Operand resolve_link(const Slice& slice, u32 number, const Message& message,
                                       u32 position) {
    Operand operand{};
    operand.address = message.address + position * Protocol::wire_bytes(slice.length);
    operand.message = message.number;
    // Slots have whole packs.
    operand.limit = (slice.length + 15) & ~15u;
    operand.traits = Span::LINK | Span::ALIGNED;
    operand.link = number;
    return operand;
}

// Whether a peer serves itself by way of the operand `word`.
__device__ inline bool is_lent(const Context& context, u32 word) {
    return word >> MSCCL_PLAN_PLACE_SHIFT == MSCCL_PLAN_PLACE_LINK &&
           (context.shared.links[word & MSCCL_PLAN_INDEX_MASK].traits & Link::LENT);
}

// The destinations of a step that it stores to, in their order, come first in a set of operands. After
// them come those that take care of themselves: links whose receiver loads, and of a message that its
// sender has stored the place where it lies.
struct Stores {
    u32 count;
    u32 landing;  // the destination where the message lies, or some number beyond them all
    u32 place;    // where the destination that was asked about comes among those of a set
};

// Whether a peer serves itself by way of pair `at` of a bundle.
__device__ inline bool is_served(const Context& context, const Step& step, u32 at) {
    return is_lent(context, step.operand(at)) || is_lent(context, step.operand(step.sources() + at));
}

// Of a step that lends. Not inlined: it stands in many places and must not crowd those that do not.
__device__ __noinline__ Stores stores_of_lender(const Context& context, const Step& step, u32 at) {
    if (step.bundle()) {
        u32 served = 0, pairs = step.sources();
#pragma unroll 1
        for (u32 to = 0; to < pairs; ++to) served += is_served(context, step, to);
        return {served == pairs ? 0 : pairs, ~0u, at};
    }
    bool landed = step.sources() == 1 && is_lent(context, step.operand(0));
    Stores stores{0, ~0u, 0};
    u32 others = 0, other = ~0u;
#pragma unroll 1
    for (u32 to = 0; to < step.destinations(); ++to) {
        u32 word = step.operand(step.sources() + to);
        bool local = word >> MSCCL_PLAN_PLACE_SHIFT != MSCCL_PLAN_PLACE_LINK;
        bool lies_here = landed && local && stores.landing == ~0u;
        if (lies_here) stores.landing = to;
        if (lies_here || is_lent(context, word)) {
            if (to == at) other = others;
            ++others;
        } else {
            if (to == at) stores.place = stores.count;
            ++stores.count;
        }
    }
    if (other != ~0u) stores.place = stores.count + other;
    return stores;
}

// Of any step.
template <class Protocol>
__device__ inline Stores stores_of(const Context& context, const Step& step, u32 at) {
    if (Protocol::DIRECT && step.lends()) return stores_of_lender(context, step, at);
    return {step.destinations(), ~0u, at};
}

// Chunk `chunk` of operand `at` of the step, which is number `position` of its message, and a link. Begins the
// message. What takes care of itself has no meaning but its link's.
template <class Protocol>
__device__ inline Operand resolve_end(const Context& context, const Slice& slice, const Step& step,
                                      u32 at, u32 chunk, u32 position) {
    const msccl_launch& launch = context.launch;
    u32 word = step.operand(at), number = word & MSCCL_PLAN_INDEX_MASK;
    const Link& link = context.shared.links[number];
    Message message = position == 0 ? begin<Protocol>(context, number, at < step.sources())
                                    : Message{link.address, link.count};
    if (!Protocol::DIRECT || !link.is_direct()) {
        return resolve_link<Protocol>(slice, number, message, position);
    }
    Buffers buffers{launch.input, launch.output};
    bool incoming = at < step.sources();
    if (step.bundle() && (link.traits & Link::LENT)) {
        u32 traits = Span::SERVED | Span::ALIGNED | (incoming ? 0 : Span::LINK);
        return {{0, ~0u, traits}, message.number, number};
    }
    if (link.traits & Link::BORROWED) {
        buffers = context.shared.theirs[number];
        word = step.far(at);
    } else if (incoming) {
        word = step.operand(step.sources() + stores_of<Protocol>(context, step, 0).landing);
    }
    Operand operand = resolve_slot(launch, slice, buffers, word, chunk);
    if (!incoming) {
        operand.traits |= Span::LINK;
        operand.message = message.number;
        operand.link = number;
    }
    return operand;
}

// Puts operand `at` of the step where it belongs in the set that comes next. Whether it is regular.
template <class Protocol>
__device__ inline bool put(const Context& context, const Slice& slice, const Step& step, u32 at,
                           const Operand& operand) {
    Operand* set = context.next_set();
    u32 sources = step.sources();
    bool whole = operand.whole(0, slice.length);
    if (at < sources) {
        set[at] = operand;
        set[at].traits |= raw_trait(step.operand(at));
        return whole;
    }
    Stores stores = stores_of<Protocol>(context, step, at - sources);
    set[sources + stores.place] = operand;
    return whole || stores.place >= stores.count;
}

// Finds the operands of chunk `chunk` of the step, which is number `position` of its message, one in
// each thread. Waits for messages and room. Whether those of this thread are regular.
//
// Links are resolved by the first warp and those after it, slots by the second and those after it: what
// takes different ways goes on at the same time.
template <class Protocol, class Team>
__device__ inline bool resolve(const Context& context, const Slice& slice, const Step& step, u32 chunk,
                               u32 position) {
    bool regular = slice.length % 16 == 0;
    u32 operands = step.sources() + step.destinations();
#pragma unroll 1
    for (u32 at = Team::index(); at < operands; at += Team::count()) {
        u32 word = step.operand(at);
        if (word >> MSCCL_PLAN_PLACE_SHIFT != MSCCL_PLAN_PLACE_LINK) continue;
        Operand operand = resolve_end<Protocol>(context, slice, step, at, chunk, position);
        regular = put<Protocol>(context, slice, step, at, operand) && regular;
    }
    const msccl_launch& launch = context.launch;
#pragma unroll 1
    for (u32 at = Team::second(); at < operands; at += Team::count()) {
        u32 word = step.operand(at);
        if (word >> MSCCL_PLAN_PLACE_SHIFT == MSCCL_PLAN_PLACE_LINK) continue;
        Operand operand = resolve_slot(launch, slice, {launch.input, launch.output}, word, chunk);
        regular = put<Protocol>(context, slice, step, at, operand) && regular;
    }
    return regular;
}

// Gives back the slots of the last message. Before anything that may wait.
__device__ inline void give_back(Context& context) {
#pragma unroll 1
    for (u32 at = threadIdx.x; at < context.taken_count; at += blockDim.x) {
        const Operand& source = context.last_set()[at];
        if (source.is_link()) end_receive(context.shared.links[source.link], source.message);
    }
    context.taken_count = 0;
}

// After a barrier: the message at hand has been written, of which the last chunk takes `last` bytes. One
// link in each thread, from the last on: the first ones go on to the next message while these wait for
// their stores.
__device__ inline void publish(const Context& context, const Step& step, u32 last) {
#pragma unroll 1
    for (u32 at = blockDim.x - 1 - threadIdx.x; at < step.destinations(); at += blockDim.x) {
        const Operand& to = context.last_set()[step.sources() + at];
        if (!to.is_link()) continue;
        end_send(context.shared.links[to.link], context.wires(), to.message, to.address + last);
    }
}

// Once in a while, where the protocol needs it: leaves no old flag in the slots of the message at hand,
// of `chunks` chunks.
template <class Protocol>
__device__ inline void refresh_slots(const Context& context, const Slice& slice, const Step& step,
                                     u32 chunks) {
    if constexpr (Protocol::REFRESHES) {
        u64 chunk = Protocol::wire_bytes(slice.length);
#pragma unroll 1
        for (u32 at = 0; step.sends() && at < step.destinations(); ++at) {
            const Operand& to = context.last_set()[step.sources() + at];
            if (!to.is_link() || !Protocol::is_due(to.message, context.launch.link_depth)) continue;
            u64 slot = to.address - (chunks - 1) * chunk;
            Protocol::refresh(to.message, to.address + chunk, slot + context.launch.slot_bytes);
        }
    }
}

// ---- The step ------------------------------------------------------------------------------------

// Where links order memory that is not in their messages, packets must not overtake stores: after a barrier they do
// not. Whether there was something to order.
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

// Whether all operands have been found at once. Then threads need not meet between one step and the next, but where
// one waits for all, or all for one.
template <class Protocol>
__device__ inline bool has_found(const Context& context) {
    return Protocol::FINDS && context.is(Context::FOUND);
}

// Has the operands of chunk `chunk` of the step at hand, number `position` of its message. Whether they are regular.
template <class Protocol>
__device__ inline bool have(Context& context, const Slice& slice, const Step& step, u32 chunk,
                            u32 position) {
    u32 operands = step.sources() + step.destinations();
    if (has_found<Protocol>(context)) {
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
            slice.length,       regular,        arithmetic_of(context.launch, divisor), step.bundle()};
}

// Whether nothing comes after the step.
__device__ inline bool ends_launch(const Context& context, const Slice& slice, const Step& step) {
    return step.index + 1 == context.shared.role.step_count &&
           slice.round + 1 == context.launch.rounds;
}

// One message of a step: the `chunks` chunks from `first` on. False when the kernel is to end.
//
// Between two barriers a thread is in one of two phases: it resolves operands and waits, or it moves.
// The barrier after the first makes what any thread acquired visible to all. What the second has done
// is handed on after another barrier, if others wait for it; a step that only sends packets needs none,
// nor does one whose messages take care of themselves, nor the last one under a protocol of packets.
//
// Where all operands have been found at once there is no first phase: a thread handles the same places of every chunk,
// step after step, so it meets in memory only what it stored itself; under LL128, where neighbours lend each other
// words, what its warp stored before they came together. And no slot is given back: none is used twice.
template <class Protocol, class Number>
__device__ inline bool run_message(Context& context, const Slice& slice, const Step& step, u32 first,
                                   u32 chunks) {
    const u32& aborted = context.shared.watch.aborted;
    u32 stores = stores_of<Protocol>(context, step, 0).count;
    give_back(context);
#pragma unroll 1
    for (u32 position = 0; position < chunks; ++position) {
        bool regular = have<Protocol>(context, slice, step, first + position, position);
        if (aborted) return false;
        if (stores == 0) continue;
        Move move = move_of(context, slice, step, stores, regular);
        bool goes_on = Protocol::template move<Number>(move, context.shared.watch);
        if (has_found<Protocol>(context) && !goes_on) return false;
    }
    if (!context.is(Context::FOUND | Context::USUAL)) refresh_slots<Protocol>(context, slice, step, chunks);
    if (step.stores()) context.state |= Context::UNORDERED | Context::OWES;
    bool last = first + chunks == step.count && ends_launch(context, slice, step);
    // The next kernel may take up room: this one waits for none to begin. The first thread tells, as the first one
    // counts, and has data if any has. What it has got went the way that all of the message goes.
    if (!Protocol::DIRECT && last && threadIdx.x == 0) ptx::griddepcontrol_launch_dependents();
    bool gives_back = step.receives() && !has_found<Protocol>(context);
    if (!Protocol::TAILS && !step.signals() && (last || !gives_back)) return true;
    if (stores != 0) {
        Everyone::meet();
        if (aborted) return false;
    }
    if constexpr (Protocol::TAILS) {
        publish(context, step, u32(Protocol::wire_bytes(slice.length)));
    }
    context.taken_count = gives_back ? step.sources() : 0;
    return true;
}

// Executes a step on one slice. False when the kernel is to end.
template <class Protocol, class Number>
__device__ inline bool run_step(Context& context, const Slice& slice, const Step& step) {
    give_back(context);
    wait_for_steps<Everyone>(context, slice, step);
    if (step.waits() > 0) context.state |= Context::OWES;
    if (step.count == 0 || (has_found<Protocol>(context) && step.waits() > 0)) {
        Everyone::meet();
        if (context.shared.watch.aborted) return false;
    }
    u32 most = context.launch.chunks_per_message;
#pragma unroll 1
    for (u32 first = 0; first < step.count; first += most) {
        u32 chunks = min(step.count - first, most);
        if (!run_message<Protocol, Number>(context, slice, step, first, chunks)) return false;
    }
    signal<Protocol>(context, slice, step);
    return true;
}

}  // namespace msccl

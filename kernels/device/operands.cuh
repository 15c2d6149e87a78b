// The operands of a step: where each chunk lies, and messages of links, from their beginning until
// they are committed or released.
#pragma once

#include "context.cuh"

namespace msccl {

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
    if (incoming) return wait_message<Protocol::TAILS>(link, context.wires(), number, watch);
    return reserve(link, context.wires(), number, watch);
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

// The destinations of a step that it stores to, in their order, come first in a set of operands.
// After them come those that take care of themselves: links whose receiver loads, and of a message
// that its sender has stored the place where it lies.
struct Stores {
    u32 count;
    u32 landing;  // the destination where the message lies, or some number beyond them all
    u32 place;    // where destination `at` comes among those of a set
};

// Whether a peer serves itself by way of pair `at` of a bundle.
__device__ inline bool is_served(const Context& context, const Step& step, u32 at) {
    return is_lent(context, step.operand(at)) ||
           is_lent(context, step.operand(step.sources() + at));
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
    if (Protocol::LENDS && step.lends()) return stores_of_lender(context, step, at);
    return {step.destinations(), ~0u, at};
}

// Chunk `chunk` of operand `at` of the step, which is number `position` of its message, and a link.
// Begins the message. What takes care of itself has no meaning but its link's.
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

// Finds the operands of chunk `chunk` of the step, which is number `position` of its message, one
// in each thread. Waits for messages and room. Whether those of this thread are regular.
//
// Links are resolved by the first warp and those after it, slots by the second and those after it:
// what takes different ways goes on at the same time.
template <class Protocol, class Group>
__device__ inline bool resolve(const Context& context, const Slice& slice, const Step& step,
                               u32 chunk, u32 position) {
    bool regular = slice.length % 16 == 0;
    u32 operands = step.sources() + step.destinations();
#pragma unroll 1
    for (u32 at = Group::index(); at < operands; at += Group::count()) {
        u32 word = step.operand(at);
        if (word >> MSCCL_PLAN_PLACE_SHIFT != MSCCL_PLAN_PLACE_LINK) continue;
        Operand operand = resolve_end<Protocol>(context, slice, step, at, chunk, position);
        regular = put<Protocol>(context, slice, step, at, operand) && regular;
    }
    const msccl_launch& launch = context.launch;
#pragma unroll 1
    for (u32 at = Group::second(); at < operands; at += Group::count()) {
        u32 word = step.operand(at);
        if (word >> MSCCL_PLAN_PLACE_SHIFT == MSCCL_PLAN_PLACE_LINK) continue;
        Operand operand = resolve_slot(launch, slice, {launch.input, launch.output}, word, chunk);
        regular = put<Protocol>(context, slice, step, at, operand) && regular;
    }
    return regular;
}

// Releases the slots of the last message. Before anything that may wait.
__device__ inline void release_sources(Context& context) {
#pragma unroll 1
    for (u32 at = threadIdx.x; at < context.taken_count; at += blockDim.x) {
        const Operand& source = context.last_set()[at];
        if (source.is_link()) release(context.shared.links[source.link], source.message);
    }
    context.taken_count = 0;
}

// After a barrier: commits the message at hand, of which the last chunk takes `last` bytes. One
// link in each thread, from the last on: the first ones go on to the next message while these wait
// for their stores.
__device__ inline void commit_destinations(const Context& context, const Step& step, u32 last) {
#pragma unroll 1
    for (u32 at = blockDim.x - 1 - threadIdx.x; at < step.destinations(); at += blockDim.x) {
        const Operand& to = context.last_set()[step.sources() + at];
        if (!to.is_link()) continue;
        commit(context.shared.links[to.link], context.wires(), to.message, to.address + last);
    }
}

// Once in a while, where the protocol needs it: leaves no old flag in the slots of the message at
// hand, of `chunks` chunks.
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

}  // namespace msccl

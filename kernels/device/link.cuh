// The ends of links: who may write a slot, who may read it, and since when.
//
// A link is a wire: a FIFO of slots in the receiver's memory, or, if the other end is on another
// host, in memory of this host, from where a proxy carries messages on. Message `n`, counted from 1
// over the life of the wire, uses slot `(n - 1) % depth`. Four functions act on messages:
//
// * the sender *reserves* a slot: it waits until the receiver's count of messages released says
//   that the slot is free;
// * the sender *commits* the message, under protocol Simple: its count of messages committed covers
//   it;
// * the receiver *waits* for the message: under protocol Simple for that count, under LL and LL128
//   packet by packet, each of which carries the number of its message beside the data;
// * the receiver *releases* the slot.
//
// Each end writes its count where the other end sees it. The receiver does so at the start of
// whatever it does next: the next message of its thread block, before it waits for anything, or the
// next launch that opens the wire. A sender never needs the count of a launch's last message before
// that, and no kernel ends with a store that still has to cross the wire.
//
// Memory order. Simple: the sender releases its count at system scope after a barrier of its thread
// block, and one thread of the receiver acquires it before one, so all that the sender's block did
// before is seen by all that the receiver's block does after. Packets order the data they carry and
// nothing else. The receiver's count is relaxed under every protocol: what was read from the slot
// has arrived in registers, and has been used, before the barrier that precedes the store.
#pragma once

#include "wait.cuh"

namespace msccl {

// One end, in shared memory. A step's thread for the operand is the only one to touch it between
// two barriers.
struct Link {
    u64 slots;
    u64 far;  // where the other end sees this end's count; bit 0: and then the lengths of messages
    u64 entry;    // this end's `msccl_wire_end`
    u64 count;    // messages begun by this end
    u64 seen;     // the other end's count when last read: never more than it is
    u64 address;  // the slot of the message at hand
    // Of a link that may deliver directly (`direct.cuh`), otherwise 0.
    u32 launch;   // the number of this launch
    u32 traits;

    // The peer's offer has yet to be read.
    static constexpr u32 UNREAD = 1 << 8;
    // The peer stores or loads in buffers of this rank.
    static constexpr u32 LENT = 1 << 9;
    // This rank stores or loads in buffers of the peer.
    static constexpr u32 BORROWED = 1 << 10;
    // This rank offers nothing, in the next launch neither.
    static constexpr u32 DECLINES = 1 << 11;

    // Whether no slot is used.
    __device__ bool is_direct() const { return traits & (LENT | BORROWED); }
};

// A message of a link: where its slot lies, and its number.
struct Message {
    u64 address;
    u64 number;
};

// How the wires of a launch are shaped.
struct LinkShape {
    u32 depth;  // a power of two
    u32 slot_bytes;
};

// A table of wire ends.
struct WireTable {
    u64 entries;
    u32 ranks;
    u32 wires;

    // The end of wire `wire` from (`out`: to) `peer`.
    __device__ u64 entry(bool out, u32 peer, u32 wire) const {
        return entries + sizeof(msccl_wire_end) * ((u64(out) * ranks + peer) * wires + wire);
    }
};

// The address of a word of a wire's end.
__device__ inline u64 seen_at(u64 entry) {
    return address(&reinterpret_cast<msccl_wire_end*>(entry)->seen);
}
__device__ inline u64 count_at(u64 entry) {
    return address(&reinterpret_cast<msccl_wire_end*>(entry)->count);
}

// The end of a wire as the launch before left it. An entry without slots only says where this end
// lies: in host memory, where the proxy reaches it.
__device__ inline Link link_at(u64 entry) {
    // Both on their way before the first is looked at.
    ptx::Doubles2 places = ptx::ld_relaxed_sys_2u64(entry);
    ptx::Doubles2 counts = ptx::ld_relaxed_sys_2u64(seen_at(entry));
    if (places.x == 0) {
        entry = places.y;
        places = ptx::ld_relaxed_sys_2u64(entry);
        counts = ptx::ld_relaxed_sys_2u64(seen_at(entry));
    }
    return {places.x, places.y, entry, counts.y, counts.x, 0, 0, 0};
}

// Takes up a wire where the launch before left it.
__device__ inline void open_link(Link& link, u64 entry, bool out) {
    link = link_at(entry);
    if (out) return;
    // A receiver has acquired no message yet.
    link.seen = 0;
    ptx::st_relaxed_sys_u64(link.far, link.count);
}

// The next launch goes on where this one ends.
__device__ inline void close_link(const Link& link) {
    ptx::st_weak_u64(count_at(link.entry), link.count);
}

// The slot of message `number` of a link, counted from 1.
__device__ inline u64 slot_of(const Link& link, LinkShape shape, u64 number) {
    return link.slots + ((number - 1) & (shape.depth - 1)) * shape.slot_bytes;
}

// Takes up the next message: its slot is `link.address`, its number `link.count`.
__device__ inline Message advance(Link& link, LinkShape shape) {
    u64 number = link.count + 1;
    u64 address = slot_of(link, shape, number);
    link.address = address;
    link.count = number;
    return {address, number};
}

// Receiver: begins the next message. With `TAILS`, waits until it has been committed, and acquires
// it; otherwise its packets are waited for. `subject` names the link in `msccl_progress`. When the
// kernel is to end, some message that nobody may touch.
template <bool TAILS>
__device__ inline Message wait_message(Link& link, LinkShape shape, u32 subject, Watch& watch) {
    if constexpr (TAILS) {
        Wait wait;
        while (link.seen <= link.count) {
            link.seen = ptx::ld_acquire_sys_u64(seen_at(link.entry));
            if (link.seen > link.count) break;
            if (!wait.again(watch, {MSCCL_WAITING_MESSAGE, subject, link.count})) return {};
        }
        wait.over(watch);
    }
    return advance(link, shape);
}

// Sender: reserves a slot for the next message. When the kernel is to end, some message that
// nobody may touch.
__device__ inline Message reserve(Link& link, LinkShape shape, u32 subject, Watch& watch) {
    Wait wait;
    while (link.count >= link.seen + shape.depth && !link.is_direct()) {
        link.seen = ptx::ld_relaxed_sys_u64(seen_at(link.entry));
        if (link.count < link.seen + shape.depth) break;
        if (!wait.again(watch, {MSCCL_WAITING_ROOM, subject, link.count})) return {};
    }
    wait.over(watch);
    return advance(link, shape);
}

// Sender: waits until all messages up to the one that the link counts have slots. When the kernel
// is to end, returns.
__device__ inline void await_room(Link& link, LinkShape shape, u32 subject, Watch& watch) {
    Wait wait;
    while (link.count > link.seen + shape.depth) {
        link.seen = ptx::ld_relaxed_sys_u64(seen_at(link.entry));
        if (link.count <= link.seen + shape.depth) break;
        if (!wait.again(watch, {MSCCL_WAITING_ROOM, subject, link.count - 1})) return;
    }
    wait.over(watch);
}

// Receiver, after a barrier: releases `message`, which the whole thread block has read.
__device__ inline void release(const Link& link, u64 message) {
    ptx::st_relaxed_sys_u64(link.far, message);
}

// Sender under protocol Simple, after a barrier: commits `message`, which ends at address `end`;
// the whole thread block has written it. A proxy must know how long it is; other receivers do. The
// link may have taken up its next message already.
__device__ inline void commit(const Link& link, LinkShape shape, u64 message, u64 end) {
    u64 far = link.far & ~1ull;
    if (link.far & 1) {
        u64 place = (message - 1) & (shape.depth - 1);
        ptx::st_relaxed_sys_u64(far + 8 + 8 * place, end - (link.slots + place * shape.slot_bytes));
    }
    ptx::st_release_sys_u64(far, message);
}

}  // namespace msccl

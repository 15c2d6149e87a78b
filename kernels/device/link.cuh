// The ends of links: who may write a slot, who may read it, and since when.
//
// A link is a ring of slots in the receiver's memory. Message `n`, counted from 1 over the life of the
// link, uses slot `(n - 1) % depth`. The sender writes a slot when the receiver's count of messages
// taken (the head, which lies with the sender) says that it is free. The receiver reads it
//
// * under protocol Simple when the sender's count of messages posted (the tail, which lies with the
//   receiver) covers it;
// * under LL and LL128 packet by packet: each carries the number of its message beside the data.
//
// Memory order. Simple: the sender releases the tail at system scope after a barrier of its thread
// block, and one thread of the receiver acquires it before one, so all that the sender's block did
// before is seen by all that the receiver's block does after. Packets order the data they carry and
// nothing else. The head is relaxed under every protocol: what was read from the slot has arrived in
// registers, and has been used, before the barrier that precedes the store.
#pragma once

#include "wait.cuh"

namespace msccl {

// One end, in shared memory. A step's thread for the operand is the only one to touch it between two
// barriers.
struct Link {
    u64 slots;
    u64 tail;
    u64 head;
    u64 counter;
    u64 count;    // messages begun by this end
    u64 seen;     // the other end's count when last read: never more than it is
    u64 address;  // the slot of the message at hand
    u32 slot;     // the slot of the next message
};

// How the links of a launch are shaped.
struct LinkShape {
    u32 depth;
    u32 slot_bytes;
};

__device__ inline void open_link(Link& link, u64 entry, LinkShape shape) {
    ptx::Words4 first = ptx::ld_constant_4u32(entry);
    ptx::Words4 second = ptx::ld_constant_4u32(entry + 16);
    link.slots = u64(first.y) << 32 | first.x;
    link.tail = u64(first.w) << 32 | first.z;
    link.head = u64(second.y) << 32 | second.x;
    link.counter = u64(second.w) << 32 | second.z;
    link.count = ptx::ld_relaxed_gpu_u64(link.counter);
    link.seen = 0;
    link.slot = u32(link.count % shape.depth);
}

// The next launch goes on where this one ends.
__device__ inline void close_link(const Link& link) { ptx::st_weak_u64(link.counter, link.count); }

// Takes up the next message: its slot is `link.address`, its number `link.count`.
__device__ inline void advance(Link& link, LinkShape shape) {
    link.address = link.slots + u64(link.slot) * shape.slot_bytes;
    link.slot = link.slot + 1 == shape.depth ? 0 : link.slot + 1;
    link.count += 1;
}

// Receiver: begins the next message. With `TAILS`, waits until it has been posted, and acquires it;
// otherwise its packets tell. False when the kernel is to end.
template <bool TAILS>
__device__ inline bool begin_receive(Link& link, LinkShape shape, u32 number, Watch& watch) {
    if constexpr (TAILS) {
        Wait wait;
        while (link.seen <= link.count) {
            link.seen = ptx::ld_acquire_sys_u64(link.tail);
            if (link.seen > link.count) break;
            if (!wait.again(watch, {MSCCL_WAITING_MESSAGE, number, link.count})) return false;
        }
        wait.over(watch);
    }
    advance(link, shape);
    return true;
}

// Sender: begins the next message when there is a slot for it. False when the kernel is to end.
template <bool TAILS>
__device__ inline bool begin_send(Link& link, LinkShape shape, u32 number, Watch& watch) {
    Wait wait;
    while (link.count >= link.seen + shape.depth) {
        link.seen = TAILS ? ptx::ld_acquire_sys_u64(link.head) : ptx::ld_relaxed_sys_u64(link.head);
        if (link.count < link.seen + shape.depth) break;
        if (!wait.again(watch, {MSCCL_WAITING_ROOM, number, link.count})) return false;
    }
    wait.over(watch);
    advance(link, shape);
    return true;
}

// Receiver, after a barrier: `message` has been read by the whole thread block.
__device__ inline void end_receive(const Link& link, u64 message) {
    ptx::st_relaxed_sys_u64(link.head, message);
}

// Sender, after a barrier: `message` has been written by the whole thread block.
template <bool TAILS>
__device__ inline void end_send(const Link& link, u64 message) {
    if constexpr (TAILS) ptx::st_release_sys_u64(link.tail, message);
}

}  // namespace msccl

// Point-to-point exchanges. A thread block is a lane: one part of all transfers with one peer in
// one direction, in order, over one wire. `crates/plan/src/exchange.rs` says which thread block
// does what, and why it ends.
//
// A transfer's part is a sequence of messages that fill their slots, of which the last may be
// shorter. Both ends compute the same lengths. Each end decides for itself whether its threads move
// them, or bulk copies (`bulk.cuh`).
#pragma once

#include "bulk.cuh"
#include "ll.cuh"

namespace msccl {

// What the threads of a lane share.
struct LaneShared {
    // The source and the destination of a message; two sets, used in turn: one barrier is enough.
    Operand operands[2][2];
    Link simple;
    Link ll;
    Watch watch;
    BulkBuffer buffer;
    Ending ending;
};

static_assert(sizeof(LaneShared) + MSCCL_BULK_BUFFER_BYTES <= MSCCL_SHARE_BYTES_BULK,
              "a bulk buffer takes too much shared memory");

// A lane at work, in every thread.
struct Lane {
    LaneShared& shared;
    bool out;
    u32 peer;
    u32 turn;
    // The message last read, which has not been released yet.
    const Link* link;
    u64 taken;
    // Where the next piece of a bulk copy comes to.
    Place place;
#ifdef MSCCL_RECORDS
    LaneRecorder recorder;
#endif
};

// A wire of the lane.
struct Pipe {
    Link& link;
    LinkShape shape;
};

// Bytes of part `part` of `bytes` bytes in `parts` parts.
struct Part {
    u64 start;
    u64 end;

    __device__ Part(u64 bytes, u32 parts, u32 part) {
        u64 each = ((bytes + parts - 1) / parts + 15) / 16 * 16;
        start = min(each * part, bytes);
        end = min(start + each, bytes);
    }
};

__device__ inline Operand local_operand(u64 address, u32 length) {
    Operand operand{};
    operand.address = address;
    operand.limit = length;
    operand.traits = address % 16 == 0 ? Span::ALIGNED : 0;
    return operand;
}

// Copies the source of `set` to its destination. False when the kernel is to end.
template <class Protocol>
__device__ inline bool copy_operand(const Operand* set, u32 length, Watch& watch) {
    Move move{set, 1, 1, length, false, {}};
    return Protocol::copy(move, watch);
}

// One thread: releases the message last read.
__device__ inline void release_last(Lane& lane) {
    if (lane.link) release(*lane.link, lane.taken);
    lane.link = nullptr;
}

// One thread: releases the message last read and begins the next message, of `length` bytes.
template <class Protocol>
__device__ inline void begin_message(Lane& lane, const Pipe& pipe, Operand* set, u64 local,
                                     u32 length) {
    Watch& watch = lane.shared.watch;
    release_last(lane);
    if (lane.out) {
        reserve(pipe.link, pipe.shape, lane.peer, watch);
    } else {
        wait_message<Protocol::TAILS>(pipe.link, pipe.shape, lane.peer, watch);
    }
    Operand message = local_operand(pipe.link.address, (length + 15) & ~15u);
    message.traits |= Span::LINK;
    message.message = pipe.link.count;
    message.link = lane.peer;
    set[lane.out] = message;
    set[!lane.out] = local_operand(local, length);
}

// Once in a while, where the protocol needs it: leaves no old flag in the slot of `message`.
template <class Protocol>
__device__ inline void end_of_slot(const Operand& message, u32 length, LinkShape shape) {
    if constexpr (Protocol::REFRESHES) {
        if (!Protocol::is_due(message.message, shape.depth)) return;
        u64 begin = message.address + Protocol::wire_bytes(length);
        Protocol::refresh(message.message, begin, message.address + shape.slot_bytes);
    }
}

// The threads have copied a message: commits it, or has the next one release it. False when the
// kernel is to end.
template <class Protocol>
__device__ inline bool end_message(Lane& lane, const Pipe& pipe, const Operand* set, u32 length) {
    const Operand& message = set[lane.out];
    if (lane.out) {
        end_of_slot<Protocol>(message, length, pipe.shape);
        if (!Protocol::TAILS) return true;
    }
    __syncthreads();
    if (lane.shared.watch.aborted) return false;
    if (!lane.out) {
        lane.link = &pipe.link;
        lane.taken = message.message;
    } else if (threadIdx.x == blockDim.x - 1) {
        commit(pipe.link, pipe.shape, message.message, message.address + message.limit);
    }
    return true;
}

// Moves the bytes from `local` on, message by message. False when the kernel is to end.
template <class Protocol>
__device__ inline bool stream(Lane& lane, const Pipe& pipe, u64 local, u64 bytes) {
    LaneShared& shared = lane.shared;
    u32 most = Protocol::data_bytes(pipe.shape.slot_bytes);
#pragma unroll 1
    for (u64 at = 0; at < bytes; at += most) {
        u32 length = u32(min(bytes - at, u64(most)));
        Operand* set = shared.operands[lane.turn];
        lane.turn ^= 1;
        if (threadIdx.x == 0) begin_message<Protocol>(lane, pipe, set, local + at, length);
#ifdef MSCCL_RECORDS
        LaneRecorder::keep_wait(lane.turn, shared.watch);
#endif
        __syncthreads();
        if (shared.watch.aborted) return false;
        copy_operand<Protocol>(set, length, shared.watch);
#ifdef MSCCL_RECORDS
        // Packets that come in are waited for here. What goes out is not: others may be ahead.
        if (!lane.out) LaneRecorder::keep_wait(lane.turn, shared.watch);
#endif
        if (!end_message<Protocol>(lane, pipe, set, length)) return false;
#ifdef MSCCL_RECORDS
        lane.recorder.moved(lane.turn);
#endif
    }
    return true;
}

// How many of the first `bytes` bytes from `local` on bulk copies carry: those of whole messages,
// and all if they come out even. Never those to another host: a proxy must know their lengths.
__device__ inline u64 bytes_in_bulk(const Pipe& pipe, u64 local, u64 bytes) {
    u64 messages = bytes / pipe.shape.slot_bytes;
    bool is_long = messages >= MSCCL_BULK_MESSAGES_MIN;
    bool serves = BulkBuffer::exists() && is_long && local % 16 == 0 && !(pipe.link.far & 1);
    if (!serves) return 0;
    return bytes % 16 == 0 ? bytes : messages * pipe.shape.slot_bytes;
}

#ifdef MSCCL_RECORDS
// The recording thread, while messages `published + 1` to `last` are carried: records each.
__device__ inline void record_carried(Lane& lane, const BulkTransfer& transfer, u64 published,
                                      u64 last) {
#pragma unroll 1
    for (u64 number = published + 1; number <= last; ++number) {
        while (ptx::ld_acquire_cta_shared_u64(&transfer.moved) < number) {
            if (transfer.is_aborted()) return;
        }
        lane.recorder.carried(number);
    }
}
#endif

// Carries bytes in bulk, by the first threads of two warps; all threads come here.
template <bool OUT>
__device__ inline void carry(Lane& lane, const Pipe& pipe, u64 local, u64 bytes) {
    BulkBuffer& buffer = lane.shared.buffer;
    BulkTransfer transfer{pipe.link, pipe.shape, lane.peer, lane.shared.watch, buffer.moved};
    u64 published = pipe.link.count;
    u64 messages = (bytes + pipe.shape.slot_bytes - 1) / pipe.shape.slot_bytes;
    if (threadIdx.x == 0) {
        release_last(lane);
        buffer.moved = published;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        Copier<OUT> copier(transfer, buffer, lane.place);
        lane.place = copier.carry(local, bytes);
        if (!OUT) lane.link = &pipe.link;
        lane.taken = pipe.link.count;
    } else if (threadIdx.x == 32) {
        run_notifier<OUT>(transfer, published, published + messages);
#ifdef MSCCL_RECORDS
    } else if (LaneRecorder::is_recording()) {
        record_carried(lane, transfer, published, published + messages);
#endif
    }
    __syncthreads();
}

// The same as `stream` under Simple, as far as possible in bulk.
__device__ inline bool stream_in_bulk(Lane& lane, const Pipe& pipe, u64 local, u64 bytes) {
    u64 bulk = bytes_in_bulk(pipe, local, bytes);
    if (bulk != 0) {
        if (lane.out) {
            carry<true>(lane, pipe, local, bulk);
        } else {
            carry<false>(lane, pipe, local, bulk);
        }
        if (lane.shared.watch.aborted) return false;
    }
    return stream<SimpleUnaligned>(lane, pipe, local + bulk, bytes - bulk);
}

// Handles part `part` of the transfers of a lane; ends early when the kernel is to end.
__device__ inline void run_transfers(const msccl_exchange_launch& launch, LaneShared& shared,
                                     const msccl_lane& work) {
    const msccl_transfer& first = launch.transfers[work.first];
    Lane lane{shared, (first.traits & MSCCL_TRANSFER_OUT) != 0, first.peer, 0, nullptr, 0, {}};
    Pipe simple{shared.simple, {launch.simple_depth, launch.simple_slot_bytes}};
    Pipe ll{shared.ll, {launch.ll_depth, launch.ll_slot_bytes}};
    bool has_simple = work.part < launch.simple_wires;
    bool has_ll = work.part < launch.ll_wires;
    if (threadIdx.x == 0 && has_simple) {
        WireTable ends{launch.links_simple, launch.ranks, launch.simple_wires};
        open_link(simple.link, ends.entry(lane.out, lane.peer, work.part), lane.out);
    }
    if (threadIdx.x == 0 && has_ll) {
        WireTable ends{launch.links_ll, launch.ranks, launch.ll_wires};
        open_link(ll.link, ends.entry(lane.out, lane.peer, work.part), lane.out);
    }
    if (threadIdx.x == 0 && BulkBuffer::exists()) shared.buffer.prepare();
#ifdef MSCCL_RECORDS
    if (threadIdx.x == 0) {
        LaneRecorder::count(LINK_OF_SIMPLE, has_simple ? simple.link.count : 0);
        LaneRecorder::count(LINK_OF_LL, has_ll ? ll.link.count : 0);
    }
    LaneRecorder::begin(launch);
#endif
    if (!may_begin(shared.watch, shared.ending)) return;
#ifdef MSCCL_RECORDS
    lane.recorder.first_step = launch.first_transfer;
#endif
#pragma unroll 1
    for (u32 at = work.first; at < u32(work.first) + work.count; ++at) {
        const msccl_transfer& transfer = launch.transfers[at];
        u32 parts = transfer.traits & MSCCL_TRANSFER_PARTS_MASK;
        if (work.part >= parts) continue;
        Part part(transfer.bytes, parts, work.part);
        if (threadIdx.x == 0) shared.watch.step = at;
#ifdef MSCCL_RECORDS
        lane.recorder.step = launch.first_transfer + at;
#endif
        u64 local = transfer.address + part.start;
        u64 bytes = part.end - part.start;
        bool packets = transfer.traits & MSCCL_TRANSFER_LL;
        bool goes_on = packets ? stream<Ll>(lane, ll, local, bytes)
                               : stream_in_bulk(lane, simple, local, bytes);
        if (!goes_on) return;
    }
#ifdef MSCCL_RECORDS
    lane.recorder.end();
#endif
    if (threadIdx.x == 0) {
        if (has_simple) close_link(simple.link);
        if (has_ll) close_link(ll.link);
    }
}

// Handles part `part` of the copies of a lane; ends early when the kernel is to end.
__device__ inline void run_copies(const msccl_exchange_launch& launch, LaneShared& shared,
                                  const msccl_lane& work) {
    constexpr u64 MOST = 1 << 30;
    u32 turn = 0;
    if (!may_begin(shared.watch, shared.ending)) return;
#pragma unroll 1
    for (u32 at = work.first; at < u32(work.first) + work.count; ++at) {
        const msccl_local_copy& copy = launch.copies[at];
        Part part(copy.bytes, launch.copy_parts, work.part);
#pragma unroll 1
        for (u64 start = part.start; start < part.end; start += MOST) {
            u32 length = u32(min(part.end - start, MOST));
            Operand* set = shared.operands[turn];
            turn ^= 1;
            if (threadIdx.x == 0) {
                set[0] = local_operand(copy.from + start, length);
                set[1] = local_operand(copy.to + start, length);
            }
            __syncthreads();
            copy_operand<SimpleUnaligned>(set, length, shared.watch);
        }
    }
}

// The body of the kernel.
__device__ inline void exchange(const msccl_exchange_launch& launch) {
    __shared__ LaneShared shared;
    const msccl_lane& work = launch.lanes[blockIdx.x];
    if (is_speaker()) {
        shared.watch = watch_of(launch, blockIdx.x);
        shared.watch.round = work.part;
    }
    if (work.copies) {
        run_copies(launch, shared, work);
    } else {
        run_transfers(launch, shared, work);
    }
    shared.ending.end(shared.watch);
}

}  // namespace msccl

// The kernel of exchanges, for every element type.
#define MSCCL_EXCHANGE(name)                                                                  \
    extern "C" __global__ void __launch_bounds__(MSCCL_THREADS_MAX_EXCHANGE, MSCCL_BLOCKS_EACH) \
        name(const __grid_constant__ msccl_exchange_launch launch) {                          \
        msccl::exchange(launch);                                                              \
    }

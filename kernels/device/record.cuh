// Records of what a thread block does: one at the end of each wait and of each message of a step.
//
// Only kernels that are compiled with `MSCCL_RECORDS` have them. They are compiled where they run,
// since code for records takes time even where nobody reads them (`docs/TRACING.md`); the images
// that are built in have none of it.
//
// A record has 16 bytes, as `crates/trace/src/record.rs` says. Low-latency kernels save some: their
// `RECORD_MOVE` has, in the highest 16 bits of the time, how long before the thread block had the
// data that it waited for, in ns and at most 65535, or 0 if it did not wait; and with
// `RECORD_LAST_MOVE` the launch ends. The host makes the records of files from them
// (`crates/runtime/src/cuda/records/expand.rs`). Times have 48 bits here; the host knows the rest.
//
// The records of a thread block lie in a ring of `RING_RECORDS` of them; newer ones take the places
// of older ones. Behind the launch's `msccl_notice` comes a table with two words for each thread
// block of the grid:
//
//     u64 ring      the first record of its ring, or 0: nobody records
//     u64 written   records written so far, those that were overwritten included
//
// One thread writes all records of its thread block, and `written` when the launch ends. Launches
// of a communicator do not overlap, so nobody else writes there meanwhile.
//
// Every instruction counts: small calls take 2 µs. Nothing here waits for memory, and no more than
// a few instructions stand behind the last step.
//
// Contract: orders nothing. The host reads records only some time after `written` has shown them; a
// copy that finds an older record in a place finds a time that steps back.
#pragma once

#include "../include/msccl_plan.h"
#include "block.cuh"
#include "memory.cuh"

namespace msccl {

constexpr u32 RING_RECORDS = 8192;

// What has ended, in the highest bits of a record's step: `RecordKind` in `crates/trace`.
constexpr u32 RECORD_BEGIN = 1;
constexpr u32 RECORD_WAIT_ROOM = 2;
constexpr u32 RECORD_WAIT_DATA = 3;
constexpr u32 RECORD_WAIT_BLOCK = 4;
constexpr u32 RECORD_MOVE = 5;
constexpr u32 RECORD_END = 6;
constexpr u32 RECORD_LAST_MOVE = 7;
constexpr u32 RECORD_KIND_SHIFT = 28;

constexpr u32 RECORD_WAITED_SHIFT = 16;
constexpr u32 RECORD_WAITED_MAX = 0xffff;

static_assert((RING_RECORDS & (RING_RECORDS - 1)) == 0, "places in a ring follow from low bits");

// Writes the records of a thread block, in one thread; lies in its registers.
struct Recorder {
    u64 entry;  // of the thread block in the table
    u64 ring;
    u64 written;

    // Does not wait for the table: the first record does.
    __device__ __forceinline__ void open(u64 notice, u32 block) {
        entry = notice + sizeof(msccl_notice) + 16ull * block;
        ptx::Doubles2 words = ptx::ld_relaxed_sys_2u64(entry);
        ring = words.x;
        written = words.y;
    }

    // `high` holds the high bits of the time, and how long a wait is over.
    __device__ __forceinline__ void put(u32 low, u32 high, u32 kind, u32 step, u32 message) {
        if (ring == 0) return;
        u64 place = ring + 16 * (written & (RING_RECORDS - 1));
        ptx::st_weak_4u32(place, {low, high, kind << RECORD_KIND_SHIFT | step, message});
        written += 1;
    }

    __device__ __forceinline__ void put(u64 time_ns, u32 kind, u32 step, u32 message) {
        put(u32(time_ns), u32(time_ns >> 32) & 0xffff, kind, step, message);
    }

    // Shows what was written.
    __device__ __forceinline__ void close() const {
        if (ring != 0) ptx::st_weak_u64(entry + 8, written);
    }
};

// The last wait that has ended and has no record yet. One load or store moves it.
struct alignas(16) EndedWait {
    u32 low;  // of the time
    u32 high;
    u32 kind;  // `RECORD_WAIT_`, or 0: there is none
    u32 message;

    __device__ __forceinline__ static EndedWait load(const EndedWait& from) {
        auto [low, high, kind, message] = *reinterpret_cast<const ptx::Words4*>(&from);
        return {low, high, kind, message};
    }

    __device__ __forceinline__ void store(EndedWait& to) const {
        *reinterpret_cast<ptx::Words4*>(&to) = {low, high, kind, message};
    }
};

// The last wait of a thread block. Set to none by the recording thread before a barrier at the
// beginning; whoever has waited sets it before a barrier, and the recording thread takes it behind.
__device__ __forceinline__ EndedWait& ended_wait() {
    __shared__ EndedWait shared;
    return shared;
}

// A wait for what a `MSCCL_WAITING_` value says is over now. Messages count from 1 here, and from 0
// in what waits show.
__device__ __forceinline__ void note_wait(u32 waiting, u64 number) {
    u32 kind = waiting == MSCCL_WAITING_MESSAGE  ? RECORD_WAIT_DATA
               : waiting == MSCCL_WAITING_SIGNAL ? RECORD_WAIT_BLOCK
                                                 : RECORD_WAIT_ROOM;
    bool counts_from_0 = waiting != MSCCL_WAITING_SIGNAL && waiting != MSCCL_WAITING_ACK;
    u64 now_ns = ptx::globaltimer_ns();
    EndedWait wait{u32(now_ns), u32(now_ns >> 32) & 0xffff, kind, u32(number) + counts_from_0};
    wait.store(ended_wait());
}

// The recording thread of an interpreter or an exchange: the first, or if `speaks_last` the first of
// the last warp.
class BlockRecorder {
public:
    // At the beginning of a launch, before a barrier; all threads.
    __device__ __forceinline__ BlockRecorder(u64 notice, u64 call, u32 block, u32 thread)
        : records_(threadIdx.x == thread), call_(u32(call)) {
        if (!records_) return;
        EndedWait{}.store(ended_wait());
        recorder_.open(notice, block);
        began_ns_ = ptx::globaltimer_ns();
    }

    __device__ __forceinline__ bool records() const { return records_; }

    // Behind a barrier: the launch has begun, and the table has come from memory.
    __device__ __forceinline__ void begin() {
        if (records_) recorder_.put(began_ns_, RECORD_BEGIN, 0, call_);
    }

    // A message of `step` has been moved, after the wait that was noted.
    __device__ __forceinline__ void move(u32 step, u32 message) {
        if (!records_) return;
        EndedWait wait = EndedWait::load(ended_wait());
        ended_wait().kind = 0;
        move(step, message, wait);
    }

    // The same after `wait`.
    __device__ __forceinline__ void move(u32 step, u32 message, const EndedWait& wait) {
        u64 now_ns = ptx::globaltimer_ns();
        if (wait.kind != 0) recorder_.put(wait.low, wait.high, wait.kind, step, wait.message);
        recorder_.put(now_ns, RECORD_MOVE, step, message);
    }

    // The launch ends, perhaps after another wait.
    __device__ __forceinline__ void end() {
        if (!records_) return;
        EndedWait wait = EndedWait::load(ended_wait());
        if (wait.kind != 0) recorder_.put(wait.low, wait.high, wait.kind, 0, wait.message);
        recorder_.put(ptx::globaltimer_ns(), RECORD_END, 0, 0);
        recorder_.close();
    }

private:
    bool records_;
    u32 call_;
    Recorder recorder_;
    u64 began_ns_;
};

}  // namespace msccl

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
// Small calls take 2 µs, so every instruction counts, and every register: what is kept lies in
// shared memory. Nothing here waits for memory but the first record, which comes late enough.
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

// A wait that has ended. One load or store moves it.
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

// Writes records into a ring.
struct RingWriter {
    u64 ring;
    u64 written;

    // `high` has the high bits of the time, and in the bits above how long a wait is over.
    __device__ __forceinline__ void put(u32 low, u32 high, u32 kind, u32 step, u32 message) {
        if (ring == 0) return;
        u64 place = ring + 16 * (written & (RING_RECORDS - 1));
        ptx::st_weak_4u32(place, {low, high, kind << RECORD_KIND_SHIFT | step, message});
        written += 1;
    }

    __device__ __forceinline__ void put(u64 time_ns, u32 kind, u32 step, u32 message) {
        put(u32(time_ns), high_of(time_ns), kind, step, message);
    }

    // Shows, in the entry at `place` of the table, what was written.
    __device__ __forceinline__ void close(u64 place) const {
        if (ring != 0) ptx::st_weak_u64(place + 8, written);
    }

    __device__ __forceinline__ static u32 high_of(u64 time_ns) {
        return u32(time_ns >> 32) & 0xffff;
    }
};

__device__ __forceinline__ u64 entry_of_table(u64 notice, u32 block) {
    return notice + sizeof(msccl_notice) + 16ull * block;
}

// What a thread block of an interpreter or an exchange has of its records, in shared memory: where
// many threads move data, registers are scarce.
struct alignas(16) Recorder {
    ptx::Doubles2 entry;  // of the table: the ring, and the number of records written
    // The last wait that has no record yet. Whoever has waited sets it before a barrier, and the
    // recording thread takes it behind that.
    EndedWait wait;
    u64 place;     // of the entry
    u64 began_ns;  // 0 once it has been recorded
    u32 call;

    // ---- The recording thread ----

    // Before a barrier at the beginning: there is nothing yet.
    __device__ __forceinline__ void clear() {
        EndedWait{}.store(wait);
    }

    // The launch begins. The entry is on its way when this returns.
    __device__ __forceinline__ void begin(u64 notice, u64 of_call, u32 block) {
        place = entry_of_table(notice, block);
        if (ptx::HAS_CP_ASYNC) {
            ptx::cp_async_16(&entry, place);
        } else {
            entry = ptx::ld_relaxed_sys_2u64(place);
        }
        began_ns = ptx::globaltimer_ns();
        call = u32(of_call);
    }

    // A message of `step` has been moved, after the wait that was noted.
    __device__ __forceinline__ void move(u32 step, u32 message) {
        EndedWait last = EndedWait::load(wait);
        wait.kind = 0;
        move(step, message, last);
    }

    // The same after `last`.
    __device__ __forceinline__ void move(u32 step, u32 message, const EndedWait& last) {
        u64 now_ns = ptx::globaltimer_ns();
        Writer writer(*this);
        if (last.kind != 0) writer.put(last.low, last.high, last.kind, step, last.message);
        writer.put(now_ns, RECORD_MOVE, step, message);
        entry.y = writer.written;
    }

    // The launch ends, perhaps after another wait.
    __device__ __forceinline__ void end() {
        u64 now_ns = ptx::globaltimer_ns();
        Writer writer(*this);
        EndedWait last = EndedWait::load(wait);
        if (last.kind != 0) writer.put(last.low, last.high, last.kind, 0, last.message);
        writer.put(now_ns, RECORD_END, 0, 0);
        writer.close(place);
    }

    // ---- Any thread ----

    // A wait for what a `MSCCL_WAITING_` value says is over now. Messages count from 1 here, and
    // from 0 in what waits show.
    __device__ __forceinline__ void note_wait(u32 waiting, u64 number) {
        u32 kind = waiting == MSCCL_WAITING_MESSAGE  ? RECORD_WAIT_DATA
                   : waiting == MSCCL_WAITING_SIGNAL ? RECORD_WAIT_BLOCK
                                                     : RECORD_WAIT_ROOM;
        bool counts_from_0 = waiting != MSCCL_WAITING_SIGNAL && waiting != MSCCL_WAITING_ACK;
        u64 now_ns = ptx::globaltimer_ns();
        u32 high = RingWriter::high_of(now_ns);
        EndedWait{u32(now_ns), high, kind, u32(number) + counts_from_0}.store(wait);
    }

private:
    // Begins with the record of the begin, if there is none yet.
    struct Writer : RingWriter {
        __device__ __forceinline__ explicit Writer(Recorder& recorder) {
            if (ptx::HAS_CP_ASYNC) ptx::cp_async_wait_all();
            ring = recorder.entry.x;
            written = recorder.entry.y;
            u64 began_ns = recorder.began_ns;
            if (began_ns == 0) return;
            recorder.began_ns = 0;
            put(began_ns, RECORD_BEGIN, 0, recorder.call);
        }
    };
};

__device__ __forceinline__ Recorder& recorder() {
    __shared__ Recorder shared;
    return shared;
}

// The records of a thread block of a low-latency kernel, in the registers of its first thread:
// there are enough of them, and code is short without shared memory.
struct LowLatencyRecorder {
    RingWriter writer;
    u64 place;         // of the entry of the table
    u64 began_ns = 0;  // 0 once it has been recorded
    u32 step = 0;      // that comes next; of a bundle, the first
    u32 message = 0;   // that it moves

    // The launch begins. The entry is on its way when this returns.
    __device__ __forceinline__ void begin(u64 notice, u32 block) {
        place = entry_of_table(notice, block);
        ptx::Doubles2 entry = ptx::ld_relaxed_sys_2u64(place);
        writer = {entry.x, entry.y};
        began_ns = ptx::globaltimer_ns();
    }

    // That step has been moved, by `RECORD_LAST_MOVE` the last one of `call`. It had its data when
    // `had_data` says, by the low bits of the time, or at once if that is 0.
    __device__ __forceinline__ void move(u32 kind, u64 call, u32 had_data) {
        u64 now_ns = ptx::globaltimer_ns();
        if (began_ns != 0) writer.put(began_ns, RECORD_BEGIN, 0, u32(call));
        began_ns = 0;
        u32 ago = min(u32(now_ns) - had_data + 1, RECORD_WAITED_MAX);
        u32 waited = had_data == 0 ? 0 : ago;
        u32 high = RingWriter::high_of(now_ns) | waited << RECORD_WAITED_SHIFT;
        writer.put(u32(now_ns), high, kind, step, message);
        if (kind == RECORD_LAST_MOVE) writer.close(place);
    }
};

}  // namespace msccl

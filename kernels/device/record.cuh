// Records of what a thread block does: one at the end of each wait and of each message of a step.
//
// Only kernels that are compiled with `MSCCL_RECORDS` have them. They are compiled where they run,
// since code for records takes time even where nobody reads them (`docs/TRACING.md`); the images
// that are built in have none of it.
//
// Small calls take 2 µs, so every instruction counts, and every register. So a record is a word of
// eight bytes, which one store writes, and has what its thread knows without a search:
//
//     u32 value   low bits of the time
//     u32 what    kind (4 bits), turn (1 bit), step (27 bits); of a bundle, the first step
//
// The host finds the rest (`crates/trace/src/device.rs`). A launch begins with words that have what
// it needs for that:
//
//     BEGIN       has the next 27 bits of the time instead of a step
//     CALL        has the low bits of the number of the call as its value. Where a call takes
//                 several launches, it has the first step of this one; otherwise 0
//     COUNT       one for each link of the thread block, which stands in place of the step. Its
//                 value are the low bits of the number of messages that the link has had before
//
// So the host can count the messages of each link, whatever it has lost or was not recorded.
//
// The words of a thread block lie in a ring of `RING_WORDS` of them; newer ones take the places of
// older ones. `turn` is the parity of the rounds through the ring, so that a word that has not
// arrived yet is known from the one that it replaces. Behind the launch's `msccl_notice` comes a
// table with an entry for each thread block of the grid:
//
//     u64 ring      the first word of its ring
//     u32 written   low bits of the number of words so far, those that were overwritten included
//     u32 0
//
// One thread or one warp writes the records of its thread block; counts of links that its recorder
// has no room for come from who takes up the link. Launches of a communicator do not overlap, so
// nobody else writes there meanwhile. Recording kernels run only where there are rings.
//
// The host sees at least once a second which words have arrived, whatever is shown, so that it
// knows the high bits of their times.
//
// Contract: orders nothing. `written` may be seen before the words that it counts.
#pragma once

#include "../include/msccl_plan.h"
#include "block.cuh"
#include "memory.cuh"

namespace msccl {

constexpr u32 RING_WORDS = 16384;
constexpr u32 RING_WORDS_LOG2 = 14;

// How many words a thread block writes at most before it shows them, but for those of a begin.
constexpr u32 RING_UNSHOWN_WORDS = 1024;

// What has ended; those of files (`RecordKind` in `crates/trace`), and two more.
constexpr u32 RECORD_BEGIN = 1;
constexpr u32 RECORD_WAIT_ROOM = 2;
constexpr u32 RECORD_WAIT_DATA = 3;
constexpr u32 RECORD_WAIT_BLOCK = 4;
constexpr u32 RECORD_MOVE = 5;
constexpr u32 RECORD_END = 6;
constexpr u32 RECORD_COUNT = 7;
constexpr u32 RECORD_LAST_MOVE = 8;  // a move with which the launch ends
constexpr u32 RECORD_CALL = 9;

// How many words a launch begins with before those of its links.
constexpr u32 RING_BEGIN_WORDS = 2;

constexpr u32 RECORD_KIND_SHIFT = 28;
constexpr u32 RECORD_TURN_SHIFT = 27;

static_assert(1u << RING_WORDS_LOG2 == RING_WORDS, "places and turns follow from low bits");

__device__ __forceinline__ constexpr u32 what_of(u32 kind, u32 step) {
    return kind << RECORD_KIND_SHIFT | step;
}

// What the first word of a launch says that began at `began_ns`.
__device__ __forceinline__ u32 what_of_begin(u64 began_ns) {
    constexpr u32 HIGH = (1u << RECORD_TURN_SHIFT) - 1;
    return what_of(RECORD_BEGIN, u32(began_ns >> 32) & HIGH);
}

__device__ __forceinline__ u64 entry_of_table(u64 notice, u32 block) {
    return notice + sizeof(msccl_notice) + 16ull * block;
}

// A ring, and how many words it has had.
struct Ring {
    u64 first;
    u32 written;

    // From an entry of the table.
    __device__ __forceinline__ static Ring of(const ptx::Doubles2& entry) {
        return {entry.x, u32(entry.y)};
    }

    // The place of word number `number`, and its turn.
    __device__ __forceinline__ u64 place(u32 number) const {
        return first + 8 * (number & (RING_WORDS - 1));
    }

    __device__ __forceinline__ static u32 turn(u32 number) {
        return number << (RECORD_TURN_SHIFT - RING_WORDS_LOG2) & 1u << RECORD_TURN_SHIFT;
    }

    // Writes word number `number`.
    __device__ __forceinline__ void put(u32 number, u32 value, u32 what) const {
        ptx::st_weak_u64(place(number), u64(what | turn(number)) << 32 | value);
    }

    // Writes the next word.
    __device__ __forceinline__ void add(u32 value, u32 what) { put(written++, value, what); }

    // Shows in the table, whose entry is `entry`, what has been written.
    __device__ __forceinline__ void show(u64 entry) const { ptx::st_weak_u32(entry + 8, written); }

    // Whether it is time to show the words behind one of `kind`.
    __device__ __forceinline__ bool must_show(u32 kind) const {
        return written % RING_UNSHOWN_WORDS < 2 || kind != RECORD_MOVE;
    }

    // Writes a count: link number `link` had `count` messages before the launch that comes next.
    __device__ __forceinline__ void put_count(u32 link, u32 count) const {
        put(written + RING_BEGIN_WORDS + link, count, what_of(RECORD_COUNT, link));
    }

    // Goes on behind those of a launch with so many links.
    __device__ __forceinline__ void begun(u32 links) { written += RING_BEGIN_WORDS + links; }
};

// A launch that begins.
struct Begin {
    u64 began_ns;
    u64 call;
    u32 links;
    u32 first_step = 0;  // where a call takes several launches

    // Writes its words where the next ones of `ring` belong, with the `counts` of its links: those
    // from number `from` on, each `stride` behind the one before. So threads can share them, and
    // with one store for all words other warps have less code to jump over.
    __device__ __forceinline__ void put(const Ring& ring, u32 from, u32 stride,
                                        const u32* counts) const {
#pragma unroll 1
        for (u32 at = from; at < RING_BEGIN_WORDS + links; at += stride) {
            u32 value = u32(began_ns), what = what_of_begin(began_ns);
            if (at == 1) {
                value = u32(call);
                what = what_of(RECORD_CALL, first_step);
            } else if (at != 0) {
                u32 link = at - RING_BEGIN_WORDS;
                value = counts[link];
                what = what_of(RECORD_COUNT, link);
            }
            ring.put(ring.written + at, value, what);
        }
    }
};

// What a thread block of an interpreter has of its records, in shared memory: registers are scarce.
//
// The thread in the middle sees to the begin of a launch while others take up links, which takes as
// long: it reads the clock, and fetches the entry of the ring. Nothing is written then.
struct alignas(16) Recorder {
    u64 first;    // of the ring
    u32 written;  // of the ring
    u32 begun;    // not 0 once the words of a begin are written
    u64 entry;    // of the table
    u64 call;
    u64 began_ns;
    u32 links;
    // How many messages each of the first links had before the launch. Few thread blocks have more
    // links, and shared memory has no room.
    static constexpr u32 COUNTS = 28;
    u32 counts[COUNTS];

    // In the thread in the middle: the launch is about to begin; the one before may not have ended.
    __device__ __forceinline__ void await_begin(u64 notice, u64 of_call, u32 of_links) {
        entry = entry_of_table(notice, block_number());
        call = of_call;
        links = of_links;
    }

    // In the same thread: it begins. A barrier follows.
    __device__ __forceinline__ void begin() {
        began_ns = ptx::globaltimer_ns();
        // The entry ends with a 0, so nothing has begun.
        *reinterpret_cast<ptx::Doubles2*>(&first) = ptx::ld_relaxed_sys_2u64(entry);
    }

    // Where the next words belong.
    __device__ __forceinline__ Ring ring() const { return {first, written}; }

    // Writes the words of the begin, as `Begin::put`, but for the counts of further links.
    __device__ __forceinline__ void put_words(const Ring& to, u32 from, u32 stride,
                                              u32 first_step = 0) const {
        Begin{began_ns, call, min(links, COUNTS), first_step}.put(to, from, stride, counts);
    }

    // The same by one thread, with the first move, behind which a thread block mostly waits for its
    // peers.
    __device__ __forceinline__ void put_begin(u32 first_step = 0) {
        Ring to = ring();
        put_words(to, 0, 1, first_step);
        to.begun(links);
        written = to.written;
        begun = 1;
    }

    // Something of `step` has ended, after the wait `last` if that is not 0: a message's move
    // (`RECORD_MOVE`), or the launch: with a move (`RECORD_LAST_MOVE`), or without one
    // (`RECORD_END` of step 0).
    __device__ __forceinline__ void add(u32 kind, u32 step, u64 last);

    // The same; it has ended at `now_ns`.
    __device__ __forceinline__ void add_at(u32 now_ns, u32 kind, u32 step, u64 last);
};

// A wait that has no record yet: the word of its record without a step, or 0 for none. In shared
// memory: whoever has waited notes it before a barrier, and the recording thread takes it behind
// that.
struct NotedWait {
    u64 word;

    // A wait for what a `MSCCL_WAITING_` value says is over now. Peers wait for who does this.
    __device__ __forceinline__ void note(u32 waiting) {
        u32 kind = waiting == MSCCL_WAITING_MESSAGE  ? RECORD_WAIT_DATA
                   : waiting == MSCCL_WAITING_SIGNAL ? RECORD_WAIT_BLOCK
                                                     : RECORD_WAIT_ROOM;
        word = u64(what_of(kind, 0)) << 32 | u32(ptx::globaltimer_ns());
    }

    // Whether it is one for data.
    __device__ __forceinline__ bool is_for_data() const {
        return u32(word >> 32) == what_of(RECORD_WAIT_DATA, 0);
    }

    // Before a barrier behind which others note again.
    __device__ __forceinline__ u64 take() {
        u64 taken = word;
        word = 0;
        return taken;
    }
};

// The first thread of the warp in the middle.
__device__ __forceinline__ u32 middle_thread() { return blockDim.x / 64 * 32; }

// The thread that records in an interpreter. It is the first one where every thread waits for its
// own packets, since those waits are recorded, and where a launch ends with waits for peers.
// Otherwise nothing that peers wait for shall stand behind records: of warps that do the same, it
// is in one in the middle, since the first ones find operands and wait for messages and the last
// one commits what has been moved. Of warps with roles, the releaser records (`ReleaserRecorder`).
template <class Protocol>
__device__ __forceinline__ u32 recording_thread() {
    return !Protocol::TAILS || Protocol::LENDS ? 0 : middle_thread();
}

// Whether this thread is it.
template <class Protocol>
__device__ __forceinline__ bool is_recording() {
    return threadIdx.x == recording_thread<Protocol>();
}

__device__ __forceinline__ Recorder& recorder() {
    __shared__ Recorder shared;
    return shared;
}

// ---- Functions of the recorder ------------------------------------------------------------------
//
// They are called, with few arguments: code in the way of other warps takes their time even where
// they jump over it.

// In the thread in the middle.
__device__ __noinline__ void record_await_begin(u64 notice, u64 call, u32 links) {
    recorder().await_begin(notice, call, links);
}

// In the recording thread.
__device__ __noinline__ void record_begin() { ptx::in_register(recorder()).put_begin(); }

// In the recording thread.
__device__ __noinline__ void record(u32 kind, u32 step, u64 wait) {
    recorder().add(kind, step, wait);
}

// In any thread: link number `link`, of whose count the recorder keeps none, had `count` messages
// before the launch, behind whose `notice` the table lies. Before the barrier behind which others
// count on.
__device__ __noinline__ void record_further_count(u64 notice, u32 link, u32 count) {
    u64 entry = entry_of_table(notice, block_number());
    Ring::of(ptx::ld_relaxed_sys_2u64(entry)).put_count(link, count);
}

__device__ __forceinline__ void Recorder::add(u32 kind, u32 step, u64 last) {
    add_at(u32(ptx::globaltimer_ns()), kind, step, last);
}

__device__ __forceinline__ void Recorder::add_at(u32 now_ns, u32 kind, u32 step, u64 last) {
    if (begun == 0) record_begin();
    Ring to = ring();
    if (last != 0) to.add(u32(last), u32(last >> 32) | step);
    to.add(now_ns, what_of(kind, step));
    written = to.written;
    if (to.must_show(kind)) to.show(entry);
}

// ---- Low-latency kernels ------------------------------------------------------------------------

// The records of a thread block of a low-latency kernel, in registers: moves alone, no waits.
//
// Code takes time in such kernels even where a warp jumps over it, and a call of a function far
// more, since its code is not there yet (`docs/results/2026-11-28.md`). So one warp has all of it,
// and that behind a step, where a thread block mostly waits for its peers next.
struct LowLatencyRecorder {
    Ring ring;
    u64 began_ns;  // 0 once the begin is recorded
    u32 lane;      // where the thread stands behind the first one of the warp that records

    // For messages of `units`.
    __device__ __forceinline__ explicit LowLatencyRecorder(u32 units)
        : lane(threadIdx.x - warp(units)) {}

    // Whether the thread is in the warp that records.
    __device__ __forceinline__ bool in_warp() const { return lane < Warp::count(); }

    // The launch before may not have ended. `entry` is that of `await_begin`: so its address is
    // found here, and not behind the wait for that launch, where all warps would take longer.
    __device__ __forceinline__ void prefetch(u64 entry) const {
        ptx::prefetch_l2_if(entry, in_warp());
    }

    // The launch before has ended. The ring is on its way when this returns.
    __device__ __forceinline__ void await_begin(u64 entry) {
        ptx::Doubles2 found{};
        ptx::ld_relaxed_sys_2u64_if(found, entry, in_warp());
        ring = Ring::of(found);
    }

    // The launch begins. To read the clock sooner would take 1 % of calls of 16 KiB.
    __device__ __forceinline__ void begin() { began_ns = ptx::globaltimer_ns(); }

    __device__ __forceinline__ bool has_begun() const { return began_ns == 0; }

    // In the warp that records: the words of a begin, with the `counts` of `links`.
    __device__ __forceinline__ void put_begin(u64 call, const u32* counts, u32 links) {
        Begin{began_ns, call, links}.put(ring, lane, Warp::count(), counts);
        ring.begun(links);
        began_ns = 0;
    }

    // In the first thread of that warp: a move is over, or the launch. If nothing follows, it shows
    // in `entry` of the table.
    __device__ __forceinline__ void put_move(u32 now_ns, u32 what, u64 entry) {
        ring.add(now_ns, what);
        if (what >> RECORD_KIND_SHIFT != RECORD_MOVE) ring.show(entry);
    }

private:
    // The first thread of the warp that records: the last warp but one, if there is another one
    // before it and it has data. The first warps look after links and operands, and have one unit
    // more of a chunk than others may have; the last one speaks for the thread block.
    __device__ __forceinline__ static u32 warp(u32 units) {
        u32 last_but_one = blockDim.x - 2 * Warp::count();
        return blockDim.x > 2 * Warp::count() && units > last_but_one ? last_but_one : 0;
    }
};

// A launch has no step in this thread block. Called: it is rare.
__device__ __noinline__ void record_idle_launch(LowLatencyRecorder recorder, u64 call,
                                                const u32* counts, u32 links, u64 entry) {
    recorder.put_begin(call, counts, links);
    if (recorder.lane == 0) {
        recorder.put_move(u32(ptx::globaltimer_ns()), what_of(RECORD_END, 0), entry);
    }
}

}  // namespace msccl

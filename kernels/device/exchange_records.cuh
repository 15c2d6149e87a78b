// Records of exchanges: of each message of a lane, its move and the wait before it.
//
// The thread in the middle of a thread block records: while bulk copies carry messages, it has
// nothing else to do. Threads that wait for the peer note that, and it takes what they noted with
// the move of the message. A lane moves its parts over one wire of each protocol; a launch begins
// with the counts of both, in the order of `LINK_OF_`. What has no wire counts 0 messages.
#pragma once

#include "wait.cuh"

namespace msccl {

// The places of the links of a lane in records.
constexpr u32 LINK_OF_SIMPLE = 0;
constexpr u32 LINK_OF_LL = 1;
constexpr u32 LINKS_OF_LANE = 2;

// Waits that have no record yet, in words as `NotedWait` has them, or 0 for none. In shared memory.
struct LaneWaits {
    // Those before the messages that all threads move: of two, in turn.
    u64 of_turn[2];
    // Those before the messages that bulk copies carry, by number. A recording thread that is so
    // many messages behind loses one.
    u64 of_message[4];

    // One thread, before the thread block begins.
    __device__ void clear() {
        for (u64& wait : of_turn) wait = 0;
        for (u64& wait : of_message) wait = 0;
    }

    // The copier: has waited for room for message `number` if that goes `out`, otherwise for it.
    __device__ void note(u64 number, bool out) {
        u32 kind = out ? RECORD_WAIT_ROOM : RECORD_WAIT_DATA;
        volatile u64& wait = of_message[number % 4];
        wait = u64(what_of(kind, 0)) << 32 | u32(ptx::globaltimer_ns());
    }

    // The recording thread: what was noted of message `number`.
    __device__ u64 take(u64 number) {
        volatile u64& wait = of_message[number % 4];
        u64 taken = wait;
        wait = 0;
        return taken;
    }
};

__device__ __forceinline__ LaneWaits& lane_waits() {
    __shared__ LaneWaits shared;
    return shared;
}

// What a lane records, in every thread.
struct LaneRecorder {
    u32 first_step;  // of the launch
    u32 step;        // the number of the transfer at hand among those of its call
    u32 last_ns;     // in the recording thread: the time of its last record

    __device__ static bool is_recording() { return threadIdx.x == middle_thread(); }

    // Before the barrier behind which the launch begins. The one before has ended.
    __device__ static void begin(const msccl_exchange_launch& launch) {
        if (threadIdx.x == 0) lane_waits().clear();
        if (!is_recording()) return;
        Recorder& of_block = ptx::in_register(recorder());
        of_block.await_begin(launch.notice, launch.call, LINKS_OF_LANE);
        of_block.begin();
    }

    // The thread that takes up the links, before that barrier: `count` messages of one before.
    __device__ static void count(u32 link, u64 count) { recorder().counts[link] = u32(count); }

    // The first thread, which has noted its wait before the message of `turn`. A barrier follows
    // before the move is recorded, and before the next message but one begins.
    __device__ static void keep_wait(u32 turn, Watch& watch) {
        if (threadIdx.x != 0 || watch.noted.word == 0) return;
        lane_waits().of_turn[turn] = watch.noted.take();
    }

    // The message of `turn` has been moved.
    __device__ void moved(u32 turn) {
        if (!is_recording()) return;
        u64& wait = lane_waits().of_turn[turn];
        add_move(wait);
        wait = 0;
    }

    // The recording thread: message `number`, which bulk copies carry, has been moved.
    __device__ void carried(u64 number) { add_move(lane_waits().take(number)); }

    // The thread block has done its part, with its last message if it had one: to read the clock
    // once more takes as long as anything here.
    __device__ void end() {
        if (!is_recording()) return;
        const Recorder& of_block = ptx::in_register(recorder());
        if (of_block.begun == 0) last_ns = u32(of_block.began_ns);
        add(RECORD_END, 0, 0);
    }

private:
    __device__ void add_move(u64 wait) {
        last_ns = u32(ptx::globaltimer_ns());
        add(RECORD_MOVE, step, wait);
    }

    // Writes a record of `last_ns`, and before the first one what a launch begins with.
    __device__ void add(u32 kind, u32 of_step, u64 wait) const {
        Recorder& of_block = ptx::in_register(recorder());
        if (of_block.begun == 0) of_block.put_begin(first_step);
        of_block.add_at(last_ns, kind, of_step, wait);
    }
};

}  // namespace msccl

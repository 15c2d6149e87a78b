// Protocol LL: units of 16 bytes, of which 8 are data and 8 are flags.
//
// A unit is `data flag data flag`, four bytes each, written by one store. The hardware keeps eight
// aligned bytes together, so a flag vouches for the data beside it; it is the low half of the
// message's number. A reader needs no other word from the sender, and a writer no fence.
//
// A flag comes round again after 2^32 messages. A unit that no message of those overwrote would
// then pass for new, so once in 2^20 messages a sender fills the whole slot with its flag.
#pragma once

#include "packet.cuh"

namespace msccl {

struct LlLine {
    // Bytes of data in a unit.
    static constexpr u32 DATA = 8;
    static constexpr int WORDS = 2;
    static constexpr bool CONFIRMS = false;

    __device__ static u64 units(u64 data) { return (data + DATA - 1) / DATA; }

    __device__ static u64 whole_units(u64 data) { return data / DATA; }

    __device__ static u32 offset(u32 unit) { return unit * DATA; }
    // Flags stand beside all data.
    __device__ static bool has_flag() { return false; }

    __device__ static Pack<2> load(const Span& from, u32 unit, u32 units) {
        return halves(ptx::ld_relaxed_gpu_u64(from.address + min(unit, units - 1) * DATA));
    }
    __device__ static void store(const Span& to, u32 unit, const Pack<2>& data) {
        store_whole(to.address + unit * DATA, data);
    }

    __device__ static ptx::Words4 load_around(const Row& row, u32 unit) {
        u64 low = row.word(unit * DATA), high = row.next(unit * DATA);
        return {u32(low), u32(low >> 32), u32(high), u32(high >> 32)};
    }
    __device__ static Pack<2> pick(const Span& from, const ptx::Words4& around) {
        u64 low = u64(around.y) << 32 | around.x, high = u64(around.w) << 32 | around.z;
        return halves(Row(from).pick(low, high));
    }
    __device__ static void store_existing(const Span& to, u32 unit, const Pack<2>& data) {
        store_eight(to, unit * DATA, both(data));
    }

    __device__ static ptx::Words4 line(const Pack<2>& data, u64 message) {
        return {data.word[0], u32(message), data.word[1], u32(message)};
    }
    __device__ static Pack<2> data(const ptx::Words4& line) { return {{line.x, line.z}}; }

    __device__ static bool here(const ptx::Words4& line, u64 message) {
        return line.y == u32(message) && line.w == u32(message);
    }

    // Every thread has flags of its own.
    __device__ static bool all(bool here) { return here; }
    __device__ static void together() {}

private:
    __device__ static u64 both(const Pack<2>& data) {
        return u64(data.word[1]) << 32 | data.word[0];
    }
    __device__ static Pack<2> halves(u64 both) { return {{u32(both), u32(both >> 32)}}; }
};

struct Ll : Packets<LlLine> {
    static constexpr int THREADS = MSCCL_THREADS_MAX_LL;

    // Bytes of data, in multiples of 16, that a slot of `slot` bytes holds.
    __device__ static u32 data_bytes(u32 slot) { return slot / 32 * 16; }

    // Slots are filled with flags once in so many messages, by as many messages as there are slots.
    static constexpr bool REFRESHES = true;
    static constexpr u32 REFRESH = 1 << 20;

    __device__ static bool is_due(u64 message, u32 depth) {
        return (message - 1) % REFRESH < depth;
    }

    // Marks what a message does not fill of its slot, which lies from `begin` to `end`.
    __device__ static void refresh(u64 message, u64 begin, u64 end) {
        u64 flag = u64(u32(message)) << 32;
#pragma unroll 1
        for (u64 at = begin + 16 * threadIdx.x; at < end; at += 16 * blockDim.x) {
            ptx::st_relaxed_sys_2u64(at, {flag, flag});
        }
    }
};

}  // namespace msccl

// Protocol LL128: lines of 128 bytes, of which 120 are data and 8 are a flag.
//
// Eight neighbouring threads hold a line, a unit of sixteen bytes each; the second half of the last
// unit is the flag, the message's number. A line is written by one store of the warp, which NVLink,
// and the memory of one GPU, carry as a whole; over PCIe they need not, so a runtime must not
// choose this protocol there. A load of the warp has no such promise: it may see the flag of a
// line, and beside it what lay there before. So a line is read once more after its flag has been
// seen.
//
// Nothing comes round again here: the number has 64 bits.
#pragma once

#include "packet.cuh"

namespace msccl {

struct Ll128Line {
    // Bytes of data in a line, and units of one.
    static constexpr u32 DATA = 120;
    static constexpr u32 LANES = 8;
    static constexpr int WORDS = 4;
    static constexpr bool CONFIRMS = true;

    __device__ static u64 units(u64 data) { return (data + DATA - 1) / DATA * LANES; }

    __device__ static u64 whole_units(u64 data) { return data / DATA * LANES; }

    // Units are dealt to threads in turn, and a block has whole warps.
    __device__ static u32 offset(u32 unit) { return unit / LANES * DATA + lane() * 16; }
    __device__ static bool has_flag() { return lane() == LANES - 1; }

    // The last line of a chunk may have less than all.
    __device__ static Pack<4> load(const Span& from, u32 unit, u32) {
        // What the thread of the flag loads second belongs to the next line, and is not used.
        u64 first = from.aligned_word(offset(unit)), second = from.aligned_word(offset(unit) + 8);
        return {{u32(first), u32(first >> 32), u32(second), u32(second >> 32)}};
    }
    __device__ static void store(const Span& to, u32 unit, const Pack<4>& data) {
        u32 low = offset(unit), high = low + 8;
        if (low + 8 <= to.limit)
            store_whole(to.address + low, Pack<2>{{data.word[0], data.word[1]}});
        if (high + 8 <= to.limit && !has_flag()) {
            store_whole(to.address + high, Pack<2>{{data.word[2], data.word[3]}});
        }
    }

    __device__ static ptx::Words4 load_around(const Row& row, u32 unit) {
        u64 first = row.word(offset(unit)), second = row.word(offset(unit) + 8);
        return {u32(first), u32(first >> 32), u32(second), u32(second >> 32)};
    }
    // The last word around a unit is the first one of the next thread; that of the flag needs none.
    // Threads read `together`, so the next one has loaded what this one stored before.
    __device__ static Pack<4> pick(const Span& from, const ptx::Words4& around) {
        Row row(from);
        u64 words[3] = {u64(around.y) << 32 | around.x, u64(around.w) << 32 | around.z, 0};
        if (row.shift != 0) {
            u64 upper = __shfl_down_sync(~0u, around.y, 1);
            words[2] = upper << 32 | __shfl_down_sync(~0u, around.x, 1);
        }
        u64 first = row.pick(words[0], words[1]), second = row.pick(words[1], words[2]);
        return {{u32(first), u32(first >> 32), u32(second), u32(second >> 32)}};
    }
    __device__ static void store_existing(const Span& to, u32 unit, const Pack<4>& data) {
        u32 low = offset(unit), high = low + 8;
        store_eight(to, low, u64(data.word[1]) << 32 | data.word[0]);
        if (!has_flag()) store_eight(to, high, u64(data.word[3]) << 32 | data.word[2]);
    }

    __device__ static ptx::Words4 line(const Pack<4>& data, u64 message) {
        u32 third = has_flag() ? u32(message) : data.word[2];
        u32 fourth = has_flag() ? u32(message >> 32) : data.word[3];
        return {data.word[0], data.word[1], third, fourth};
    }
    __device__ static Pack<4> data(const ptx::Words4& line) {
        return {{line.x, line.y, line.z, line.w}};
    }

    __device__ static bool here(const ptx::Words4& line, u64 message) {
        return !has_flag() || (line.z == u32(message) && line.w == u32(message >> 32));
    }

    __device__ static bool all(bool here) { return __all_sync(~0u, here); }
    __device__ static void together() { __syncwarp(); }

private:
    __device__ static u32 lane() { return threadIdx.x % LANES; }
};

struct Ll128 : Packets<Ll128Line> {
    static constexpr int THREADS = MSCCL_THREADS_MAX_LL128;

    // A number never comes round again.
    static constexpr bool REFRESHES = false;
};

}  // namespace msccl

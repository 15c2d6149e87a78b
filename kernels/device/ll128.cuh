// Protocol LL128: lines of 128 bytes, of which 120 are data and 8 are a flag.
//
// Eight neighbouring threads hold a line, a unit of sixteen bytes each; the second half of the last
// unit is the flag, the message's number. A line is written by one store of the warp, which NVLink, and
// the memory of one GPU, carry as a whole; over PCIe they need not, so a runtime must not choose this
// protocol there. A load of the warp has no such promise: it may see the flag of a line, and beside it
// what lay there before. So a line is read once more after its flag has been seen.
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

    template <int BYTES, bool REGULAR>
    __device__ static Pack<4> load(const Span& from, u32 unit, u32 length) {
        u32 low = offset(unit), high = low + 8;
        Pack<2> halves[2];
        if constexpr (REGULAR) {
            // What the thread of the flag loads second belongs to the next line, and is not used.
            u64 first = ptx::ld_relaxed_gpu_u64(from.address + min(low, length - 8));
            u64 second = ptx::ld_relaxed_gpu_u64(from.address + min(high, length - 8));
            return {{u32(first), u32(first >> 32), u32(second), u32(second >> 32)}};
        } else {
            halves[0] = msccl::load<BYTES, 2, Coherence::GPU>(from, low);
            halves[1] = msccl::load<BYTES, 2, Coherence::GPU>(from, high);
            return {{halves[0].word[0], halves[0].word[1], halves[1].word[0], halves[1].word[1]}};
        }
    }

    template <int BYTES, bool REGULAR>
    __device__ static void store(const Span& to, u32 unit, u32 length, const Pack<4>& data) {
        u32 low = offset(unit), high = low + 8;
        Pack<2> first{{data.word[0], data.word[1]}};
        Pack<2> second{{data.word[2], data.word[3]}};
        if constexpr (REGULAR) {
            if (low < length) store_whole(to.address + low, first);
            if (high < length && !has_flag()) store_whole(to.address + high, second);
        } else {
            msccl::store<BYTES, 2>(to, low, first);
            if (!has_flag()) msccl::store<BYTES, 2>(to, high, second);
        }
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
    // Units are dealt to threads in turn, and a block has whole warps.
    __device__ static u32 lane() { return threadIdx.x % LANES; }
    __device__ static bool has_flag() { return lane() == LANES - 1; }

    // Where the data of a unit lies in the chunk.
    __device__ static u32 offset(u32 unit) { return unit / LANES * DATA + lane() * 16; }
};

struct Ll128 : Packets<Ll128Line> {
    static constexpr int THREADS = MSCCL_THREADS_MAX_LL128;

    // A number never comes round again.
    static constexpr bool REFRESHES = false;
};

}  // namespace msccl

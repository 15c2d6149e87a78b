// Memory as steps see it: sixteen or eight bytes at a time, from operands that may be misaligned, and
// may end early.
//
// Two ways to read a local buffer. Under protocol Simple, links and signals acquire before they let a
// step begin, so weak loads see all that they must. Packets acquire nothing: where they carry the
// order, a load must reach the memory that the GPU shares, past this processor's own cache; those are
// the coherent loads. Stores are weak in both; `link.cuh` says what orders them.
#pragma once

#include "ptx.cuh"

namespace msccl {

using ptx::u16;
using ptx::u32;
using ptx::u64;

// The address of something in global memory.
template <class Record>
__device__ inline u64 address(const Record* record) {
    return reinterpret_cast<u64>(record);
}

// Some bytes in registers, in memory order.
template <int WORDS>
struct Pack {
    u32 word[WORDS];
};

// Some bytes of memory. One load from shared memory fetches it.
struct alignas(16) Span {
    u64 address;  // the first byte
    u32 limit;    // bytes that exist; loads beyond give zero, stores beyond are dropped
    u32 traits;   // `Span::` bits

    // It is in a message of a link.
    static constexpr u32 LINK = 1;
    // Its address is a multiple of 16.
    static constexpr u32 ALIGNED = 2;

    __device__ bool is_link() const { return traits & LINK; }

    // Whether `bytes` bytes from `offset` on can be accessed at once.
    __device__ bool whole(u32 offset, u32 bytes) const {
        return (traits & ALIGNED) && offset + bytes <= limit;
    }

    // Whether they can be accessed word by word.
    __device__ bool has_words(u32 offset, u32 bytes) const {
        return address % 4 == 0 && offset + bytes <= limit;
    }
};

// An operand of a step at the chunk and round at hand.
struct Operand : Span {
    u64 message;  // of a link: the message's number, counted from 1
    u32 link;     // of a link: its number in the thread block
};

enum class Coherence { WEAK, GPU };

// ---- Whole packs ---------------------------------------------------------------------------------

template <Coherence COHERENCE>
__device__ inline Pack<4> load_whole(u64 address, Pack<4>*) {
    ptx::Words4 w = COHERENCE == Coherence::WEAK ? ptx::ld_weak_4u32(address)
                                                 : ptx::ld_relaxed_gpu_4u32(address);
    return {{w.x, w.y, w.z, w.w}};
}

template <Coherence COHERENCE>
__device__ inline Pack<2> load_whole(u64 address, Pack<2>*) {
    u64 both = ptx::ld_relaxed_gpu_u64(address);
    return {{u32(both), u32(both >> 32)}};
}

__device__ inline void store_whole(u64 address, const Pack<4>& pack) {
    ptx::st_weak_4u32(address, {pack.word[0], pack.word[1], pack.word[2], pack.word[3]});
}

__device__ inline void store_whole(u64 address, const Pack<2>& pack) {
    ptx::st_weak_u64(address, u64(pack.word[1]) << 32 | pack.word[0]);
}

// ---- Packs that lie across a boundary or an end --------------------------------------------------

// One element of `BYTES` bytes at an address that is a multiple of them.
template <int BYTES>
__device__ inline u64 load_element(u64 address) {
    if constexpr (BYTES == 1) return ptx::ld_relaxed_gpu_u8(address);
    if constexpr (BYTES == 2) return ptx::ld_relaxed_gpu_u16(address);
    if constexpr (BYTES == 4) return ptx::ld_relaxed_gpu_u32(address);
    if constexpr (BYTES == 8) return ptx::ld_relaxed_gpu_u64(address);
}

template <int BYTES>
__device__ inline void store_element(u64 address, u64 bits) {
    if constexpr (BYTES == 1) ptx::st_weak_u8(address, u32(bits));
    if constexpr (BYTES == 2) ptx::st_weak_u16(address, u16(bits));
    if constexpr (BYTES == 4) ptx::st_weak_u32(address, u32(bits));
    if constexpr (BYTES == 8) ptx::st_weak_u64(address, bits);
}

template <int BYTES, int WORDS>
__device__ inline u64 element(const Pack<WORDS>& pack, int at) {
    if constexpr (BYTES == 8) return u64(pack.word[2 * at + 1]) << 32 | pack.word[2 * at];
    constexpr u32 mask = BYTES >= 4 ? ~0u : (1u << 8 * (BYTES % 4)) - 1;
    return pack.word[at * BYTES / 4] >> (at * BYTES % 4 * 8) & mask;
}

template <int BYTES, int WORDS>
__device__ inline void put_element(Pack<WORDS>& pack, int at, u64 bits) {
    if constexpr (BYTES == 8) {
        pack.word[2 * at] = u32(bits);
        pack.word[2 * at + 1] = u32(bits >> 32);
    } else {
        pack.word[at * BYTES / 4] |= u32(bits) << (at * BYTES % 4 * 8);
    }
}

// Not inlined: this is the path of odd ends and odd addresses.
template <int BYTES, int WORDS>
__device__ __noinline__ Pack<WORDS> load_piecewise(u64 address, u32 offset, u32 limit) {
    Pack<WORDS> pack{};
#pragma unroll
    for (int at = 0; at < 4 * WORDS / BYTES; ++at) {
        u32 start = offset + at * BYTES;
        if (start + BYTES <= limit) put_element<BYTES>(pack, at, load_element<BYTES>(address + start));
    }
    return pack;
}

template <int BYTES, int WORDS>
__device__ __noinline__ void store_piecewise(u64 address, u32 offset, u32 limit, Pack<WORDS> pack) {
#pragma unroll
    for (int at = 0; at < 4 * WORDS / BYTES; ++at) {
        u32 start = offset + at * BYTES;
        if (start + BYTES <= limit) store_element<BYTES>(address + start, element<BYTES>(pack, at));
    }
}

// A pack whose address is a multiple of four and no more.
template <int WORDS>
__device__ inline Pack<WORDS> load_words(u64 address) {
    Pack<WORDS> pack;
#pragma unroll
    for (int at = 0; at < WORDS; ++at) pack.word[at] = ptx::ld_relaxed_gpu_u32(address + 4 * at);
    return pack;
}

template <int WORDS>
__device__ inline void store_words(u64 address, const Pack<WORDS>& pack) {
#pragma unroll
    for (int at = 0; at < WORDS; ++at) ptx::st_weak_u32(address + 4 * at, pack.word[at]);
}

// ---- Any pack ------------------------------------------------------------------------------------

// The bytes of `from` from `offset` on, whose elements have `BYTES` bytes.
template <int BYTES, int WORDS, Coherence COHERENCE>
__device__ inline Pack<WORDS> load(const Span& from, u32 offset) {
    if (from.whole(offset, 4 * WORDS)) {
        return load_whole<COHERENCE>(from.address + offset, static_cast<Pack<WORDS>*>(nullptr));
    }
    if (from.has_words(offset, 4 * WORDS)) return load_words<WORDS>(from.address + offset);
    return load_piecewise<BYTES, WORDS>(from.address, offset, from.limit);
}

template <int BYTES, int WORDS>
__device__ inline void store(const Span& to, u32 offset, const Pack<WORDS>& pack) {
    if (to.whole(offset, 4 * WORDS)) {
        store_whole(to.address + offset, pack);
    } else if (to.has_words(offset, 4 * WORDS)) {
        store_words(to.address + offset, pack);
    } else {
        store_piecewise<BYTES, WORDS>(to.address, offset, to.limit, pack);
    }
}

}  // namespace msccl

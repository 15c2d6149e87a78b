// Memory as steps see it: sixteen or eight bytes at a time, from operands that may be unaligned,
// and may end early.
//
// Two ways to read a local buffer. Under protocol Simple, links and signals acquire before they let
// a step begin, so weak loads of sixteen bytes see all that they must. Packets acquire nothing:
// where they carry the order, a load must reach the memory that the GPU shares, past this
// processor's own cache; those are relaxed loads, of eight bytes, or of sixteen in low-latency
// kernels. Stores are weak in both; `link.cuh` says what orders them.
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
    u32 limit;    // bytes that exist; loads beyond give something arbitrary, stores beyond are
                  // dropped
    u32 traits;   // `Span::` bits

    // It is in a message of a link.
    static constexpr u32 LINK = 1;
    // Its address is a multiple of 16.
    static constexpr u32 ALIGNED = 2;
    // Of a bundle: nothing is to be moved to or from it, a peer has done so or will.
    static constexpr u32 SERVED = 4;
    // It is a source that holds contributions as they were given: an average of floats scales them.
    static constexpr u32 RAW = 8;

    __device__ bool is_link() const { return traits & LINK; }
    __device__ bool is_raw() const { return traits & RAW; }

    // Where words of eight bytes are aligned: the one at `offset`, a multiple of eight, with what
    // lies behind the last byte, in the same eight and so in the same page; 0 if nothing of it
    // exists.
    __device__ u64 aligned_word(u32 offset) const {
        return ptx::ld_relaxed_gpu_u64_if(address + offset, offset < limit);
    }

    // Whether `bytes` bytes from `offset` on can be accessed at once.
    __device__ bool whole(u32 offset, u32 bytes) const {
        return (traits & ALIGNED) && offset + bytes <= limit;
    }
};

// An operand of a step at the chunk and round at hand.
struct Operand : Span {
    u64 message;  // of a link: the message's number, counted from 1
    u32 link;     // of a link: its number in the thread block
};

// ---- Whole packs --------------------------------------------------------------------------------

__device__ inline Pack<4> load_whole(u64 address) {
    ptx::Words4 w = ptx::ld_weak_4u32(address);
    return {{w.x, w.y, w.z, w.w}};
}

__device__ inline void store_whole(u64 address, const Pack<4>& pack) {
    ptx::st_weak_4u32(address, {pack.word[0], pack.word[1], pack.word[2], pack.word[3]});
}

__device__ inline void store_whole(u64 address, const Pack<2>& pack) {
    ptx::st_weak_u64(address, u64(pack.word[1]) << 32 | pack.word[0]);
}

// ---- Elements -----------------------------------------------------------------------------------

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

// ---- Eight bytes at any address, of which all, some or none exist -------------------------------

// The eight bytes that begin `shift` bits, a multiple of eight, into `low` and end in `high`.
__device__ __forceinline__ u64 pick(u64 low, u64 high, u32 shift) {
    bool far = shift >= 32;
    u32 first = far ? u32(low >> 32) : u32(low);
    u32 second = far ? u32(high) : u32(low >> 32);
    u32 third = far ? u32(high >> 32) : u32(high);
    u64 upper = __funnelshift_r(second, third, shift);
    return upper << 32 | __funnelshift_r(first, second, shift);
}

// A buffer as a row of aligned words of eight bytes. The first and the last may hold bytes that are
// not the buffer's, of the same eight and so of the same page: they are read, and not used.
struct Row {
    u64 base;   // the first word
    u32 end;    // bytes from there to the buffer's end; 0 if it is empty
    u32 shift;  // bits of the first word that come before the buffer

    __device__ explicit Row(const Span& of)
        : base(of.address & ~7ull),
          end(of.limit == 0 ? 0 : of.limit + (u32(of.address) & 7)),
          shift((u32(of.address) & 7) * 8) {}

    // The word `offset` bytes from the first one, a multiple of eight; 0 where nothing of the
    // buffer is.
    __device__ u64 word(u32 offset) const {
        return ptx::ld_relaxed_gpu_u64_if(base + offset, offset < end);
    }

    // The word after that one, if something of the eight bytes that begin there is in it.
    __device__ u64 next(u32 offset) const { return shift == 0 ? 0 : word(offset + 8); }

    // The eight bytes that begin in `low` and end in `high`, the word after it.
    __device__ u64 pick(u64 low, u64 high) const { return msccl::pick(low, high, shift); }
};

// Of the eight bytes at `offset`, which are `bytes`, those that exist; the others 0.
__device__ inline u64 existing(const Span& of, u32 offset, u64 bytes) {
    int missing = int(offset + 8 - of.limit);
    if (missing <= 0) return bytes;
    return missing < 8 ? bytes & (~0ull >> (8 * missing)) : 0;
}

// The first `count` of eight bytes, fewer than all, at an address that is a multiple of four.
__device__ __forceinline__ void store_few(u64 address, u64 bytes, u32 count) {
    u32 word = u32(count & 4 ? bytes >> 32 : bytes);
    if (count & 4) ptx::st_weak_u32(address, u32(bytes));
    address += count & 4;
    if (count & 2) ptx::st_weak_u16(address, u16(word));
    if (count & 1) ptx::st_weak_u8(address + (count & 2), count & 2 ? word >> 16 : word);
}

// The first `count` of eight bytes, fewer than all if their address is a multiple of four, by as
// few stores as it allows. Not inlined: this is the path of unaligned ends and addresses.
__device__ __noinline__ void store_first(u64 address, u64 bytes, u32 count) {
    if (address % 4 == 0) {
        store_few(address, bytes, count);
    } else if (address % 2 == 0) {
#pragma unroll
        for (u32 at = 0; at < 8; at += 2) {
            if (at + 2 <= count) ptx::st_weak_u16(address + at, u16(bytes >> (8 * at)));
        }
        u32 last = count - 1;
        if (count & 1) ptx::st_weak_u8(address + last, u32(bytes >> (8 * last)));
    } else {
#pragma unroll
        for (u32 at = 0; at < 8; ++at) {
            if (at < count) ptx::st_weak_u8(address + at, u32(bytes >> (8 * at)));
        }
    }
}

// The eight bytes at `offset`, as far as they exist.
__device__ __forceinline__ void store_eight(const Span& to, u32 offset, u64 bytes) {
    u64 address = to.address + offset;
    u32 count = offset < to.limit ? min(to.limit - offset, 8u) : 0;
    if (count == 8 && address % 8 == 0) return ptx::st_weak_u64(address, bytes);
    if (count == 8 && address % 4 == 0) {
        ptx::st_weak_u32(address, u32(bytes));
        return ptx::st_weak_u32(address + 4, u32(bytes >> 32));
    }
    if (count != 0) store_first(address, bytes, count);
}

// ---- Any pack -----------------------------------------------------------------------------------

// The sixteen bytes at `offset`, as far as they exist.
__device__ inline void store(const Span& to, u32 offset, const Pack<4>& pack) {
    if (to.whole(offset, 16)) return store_whole(to.address + offset, pack);
    store_eight(to, offset, u64(pack.word[1]) << 32 | pack.word[0]);
    store_eight(to, offset + 8, u64(pack.word[3]) << 32 | pack.word[2]);
}

}  // namespace msccl

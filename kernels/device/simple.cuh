// Protocol Simple: plain data in slots; a count says which messages are committed.
//
// Sources of a step are whole before it begins, so nothing here waits. Several loads are in flight
// in every thread, of sixteen bytes each, as far as all operands have them. What is left at the end
// is for `unaligned_tail.cuh`.
//
// Unaligned operands are for `unaligned.cuh`, in kernels of their own (`UNALIGNED`): without its
// code the other kernels are less than half as large. Those see unaligned operands only where a
// link delivers to or from the buffers of a peer, and these are unaligned where their own rank's
// are not. They move them sixteen bytes at a time.
//
// In kernels for aligned operands a thread handles the same places of every chunk, whatever the
// move; specialised kernels build on that. In those for unaligned operands the thread group meets
// between one move and the next.
//
// Arrays begin as zeros: a register that some path leaves as it was would be taken up to the end of
// the kernel.
#pragma once

#include "unaligned.cuh"

namespace msccl {

// Moves chunks, by the threads of `Group`; `UNALIGNED` in a kernel for operands that lie anywhere.
template <class Group, bool UNALIGNED>
struct Plain {
    template <class Number>
    __device__ static void move(const Move& move) {
        if (move.bundle) return move_bundle(move);
        if (UNALIGNED && move.misalignment != 0)
            return Unaligned<Group>::template move<Number>(move);
        if (move.misalignment == 0) move_packs<Number>(move);
        if (is_left(move)) UnalignedTail<Group>::template rest<Number>(move);
    }

    // Copies a chunk, whatever its elements are.
    __device__ static void copy(const Move& move) {
        if (UNALIGNED && move.misalignment != 0) return Unaligned<Group>::template move<Bits>(move);
        if (move.misalignment == 0) copy_packs<8>(move);
        if (is_left(move)) UnalignedTail<Group>::template rest<Bits>(move);
    }

private:
    // Whether loops over packs leave something.
    __device__ static bool is_left(const Move& move) {
        return move.misalignment != 0 || !move.is_whole();
    }

    __device__ static Pack<4> load_regular(u64 address, u32 pack) {
        return load_whole(address + u64(pack) * 16);
    }

    template <class Number>
    __device__ __forceinline__ static void move_packs(const Move& move) {
        if (move.is_copy()) {
            copy_packs<8>(move);
        } else if (!move.is_sum_of_two() || !add_words<Number, false>(move)) {
            reduce<Number>(move);
        }
    }

    // `UNROLL` loads in flight.
    template <int UNROLL>
    __device__ __forceinline__ static void copy_packs(const Move& move) {
        u32 packs = move.whole / 16;
        u64 from = move.sources[0].address;
#pragma unroll 1
        for (u32 first = Group::index(); first < packs; first += UNROLL * Group::count()) {
            Pack<4> values[UNROLL] = {};
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                u32 pack = first + at * Group::count();
                if (pack < packs) values[at] = load_regular(from, pack);
            }
            store_all(move, first, packs, values);
        }
    }

    // Each source to the destination of its number.
    __device__ __forceinline__ static void move_bundle(const Move& move) {
        if (move.misalignment == 0) copy_bundle(move);
        if (is_left(move)) move_pairs(move);
    }

    // What is left of it. Not inlined, so that it takes no registers from what is common.
    __device__ __noinline__ static void move_pairs(Move move) {
        typename Unaligned<Group>::TileCursor cursor;
#pragma unroll 1
        for (u32 from = 0; from < move.source_count; ++from) {
            if (is_served(move, from)) continue;
            Move one = move.pair(from);
            if (UNALIGNED && move.misalignment != 0) {
                Unaligned<Group>::template move<Bits>(one, cursor);
            } else {
                UnalignedTail<Group>::template rest<Bits>(one);
            }
        }
    }

    __device__ static bool is_served(const Move& move, u32 at) {
        return (move.sources[at].traits | move.destinations[at].traits) & Span::SERVED;
    }

    // A pack of several of them in flight.
    __device__ __forceinline__ static void copy_bundle(const Move& move) {
        constexpr int MOST = 4;
        u32 packs = move.whole / 16, count = move.source_count;
#pragma unroll 1
        for (u32 first = Group::index(); first < packs; first += Group::count()) {
#pragma unroll 1
            for (u32 from = 0; from < count; from += MOST) {
                Pack<4> values[MOST] = {};
#pragma unroll
                for (int next = 0; next < MOST; ++next) {
                    if (from + next >= count || is_served(move, from + next)) continue;
                    values[next] = load_regular(move.sources[from + next].address, first);
                }
#pragma unroll
                for (int next = 0; next < MOST; ++next) {
                    if (from + next >= count || is_served(move, from + next)) continue;
                    store_whole(move.destinations[from + next].address + u64(first) * 16,
                                values[next]);
                }
            }
        }
    }

    // Sums of two sources, several of whose elements can be added at a time. Whether this was one.
    // Elements of a word each are for `reduce`, which is as fast or faster.
    template <class Number, bool SCALES>
    __device__ __forceinline__ static bool add_words(const Move& move) {
        if constexpr (!Number::ADDS_WORDS || Number::BYTES == 4) {
            return false;
        } else {
            constexpr int UNROLL = 4;
            u32 packs = move.whole / 16;
            u64 one = move.sources[0].address, two = move.sources[1].address;
            Factor<Number, SCALES> factor(move.arithmetic);
#pragma unroll 1
            for (u32 first = Group::index(); first < packs; first += UNROLL * Group::count()) {
                Pack<4> values[UNROLL] = {}, others[UNROLL] = {};
#pragma unroll
                for (int at = 0; at < UNROLL; ++at) {
                    u32 pack = first + at * Group::count();
                    if (pack >= packs) continue;
                    values[at] = load_regular(one, pack);
                    others[at] = load_regular(two, pack);
                }
                if constexpr (SCALES) {
                    if (move.sources[0].is_raw()) scale(factor, values);
                    if (move.sources[1].is_raw()) scale(factor, others);
                }
#pragma unroll
                for (int at = 0; at < UNROLL; ++at) {
                    values[at] = msccl::add_words<Number>(values[at], others[at]);
                }
                store_all(move, first, packs, values);
            }
            return true;
        }
    }

    // Stores a pack of every `Group::count()`, from pack `first` on, to all destinations.
    template <int UNROLL>
    __device__ __forceinline__ static void store_all(const Move& move, u32 first, u32 packs,
                                                     const Pack<4> (&values)[UNROLL]) {
#pragma unroll 1
        for (u32 to = 0; to < move.destination_count; ++to) {
            u64 address = move.destinations[to].address;
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                u32 pack = first + at * Group::count();
                if (pack < packs) store_whole(address + u64(pack) * 16, values[at]);
            }
        }
    }

    template <class Number, int COUNT>
    __device__ __forceinline__ static void scale(const Factor<Number>& factor,
                                                 Pack<4> (&values)[COUNT]) {
#pragma unroll
        for (int at = 0; at < COUNT; ++at) values[at] = factor.of(values[at]);
    }

    // An average of floats. More packs at a time would cost sums registers.
    template <class Number>
    __device__ __forceinline__ static void average(const Move& move) {
        if (move.source_count == 2 && add_words<Number, true>(move)) return;
        reduce<Number, 2, Number::BYTES == 1 ? 1 : 2, true>(move);
    }

    // Any reduction. Two sources are common; more are rare enough that few packs at a time will do.
    template <class Number>
    __device__ __forceinline__ static void reduce(const Move& move) {
        if constexpr (Number::SCALES) {
            if (move.arithmetic.scales()) return average<Number>(move);
        }
        if (move.source_count == 2 && Number::BYTES > 1) {
            reduce<Number, 2, Number::BYTES == 2 ? 2 : 4>(move);
        } else {
            reduce<Number, group<Number>(), 1>(move);
        }
    }

    // `MOST` sources at a time, `UNROLL` packs of each: as many loads in flight as their product.
    template <class Number, int MOST, int UNROLL, bool SCALES = false>
    __device__ __forceinline__ static void reduce(const Move& move) {
        u32 packs = move.whole / 16;
        Factor<Number, SCALES> factor(move.arithmetic);
#pragma unroll 1
        for (u32 first = Group::index(); first < packs; first += UNROLL * Group::count()) {
            Sum<Number, 4> sums[UNROLL] = {};
#pragma unroll 1
            for (u32 from = 0; from < move.source_count; from += MOST) {
                int count = min(int(move.source_count - from), MOST);
                u64 addresses[MOST];
#pragma unroll
                for (int source = 0; source < MOST; ++source) {
                    addresses[source] = move.sources[from + min(source, count - 1)].address;
                }
                Pack<4> values[UNROLL][MOST] = {};
#pragma unroll
                for (int at = 0; at < UNROLL; ++at) {
                    u32 pack = first + at * Group::count();
#pragma unroll
                    for (int source = 0; source < MOST; ++source) {
                        if (pack < packs && source < count) {
                            values[at][source] = load_regular(addresses[source], pack);
                        }
                    }
                }
                if constexpr (SCALES) {
#pragma unroll
                    for (int source = 0; source < MOST; ++source) {
                        if (source >= count || !move.sources[from + source].is_raw()) continue;
#pragma unroll
                        for (int at = 0; at < UNROLL; ++at) {
                            values[at][source] = factor.of(values[at][source]);
                        }
                    }
                }
                u32 reduction = SCALES ? u32(MSCCL_REDUCTION_SUM) : move.arithmetic.reduction;
#pragma unroll
                for (int at = 0; at < UNROLL; ++at) {
                    if (from == 0) sums[at].start(values[at][0]);
                    sums[at].add(reduction, values[at], from == 0 ? 1 : 0, count);
                }
            }
            Pack<4> results[UNROLL];
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                results[at] = sums[at].finish(move.arithmetic.divisor);
            }
            store_all(move, first, packs, results);
        }
    }
};

// The protocol; in kernels for operands that lie anywhere if `ANYWHERE`.
template <bool ANYWHERE>
struct SimpleOf {
    // Counts say which messages are committed.
    static constexpr bool TAILS = true;
    // All messages lie in slots.
    static constexpr bool DIRECT = false;
    // Peers have been offered nothing.
    static constexpr bool LENDS = false;
    // All threads do everything.
    static constexpr bool WARP_SPECIALISED = false;
    // No slot must be filled with flags once in a while.
    static constexpr bool REFRESHES = false;
    // Operands are found step by step.
    static constexpr bool PREFETCHES = false;
    // Whether operands lie anywhere; otherwise they are aligned.
    static constexpr bool UNALIGNED = ANYWHERE;

    // Most threads in a block.
    static constexpr int THREADS = MSCCL_THREADS_MAX_SIMPLE;

    // Bytes that a chunk of `data` bytes takes in a slot.
    __device__ static u64 wire_bytes(u64 data) { return (data + 15) / 16 * 16; }
    // Bytes of data, in whole packs, that a slot of `slot` bytes holds.
    __device__ static u32 data_bytes(u32 slot) { return slot / 16 * 16; }

    // Moves a chunk. False when the kernel is to end, which is never.
    template <class Number>
    __device__ static bool move(const Move& move, Watch&) {
        Plain<Everyone, UNALIGNED>::template move<Number>(move);
        return true;
    }

    // Copies a chunk, whatever its elements are. False when the kernel is to end, which is never.
    __device__ static bool copy(const Move& move, Watch&) {
        Plain<Everyone, UNALIGNED>::copy(move);
        return true;
    }
};

// The same for launches whose links may deliver directly; looking out for that costs the others
// time.
template <bool ANYWHERE>
struct DirectOf : SimpleOf<ANYWHERE> {
    static constexpr bool DIRECT = true;
    static constexpr bool LENDS = true;
};

// The same for ranks that offer nothing, of whose links none pulls: they store to peers that offer,
// and receive through slots.
struct PushOnly : SimpleOf<false> {
    // What is as good where all peers have declined.
    using Staged = SimpleOf<false>;
    static constexpr bool DIRECT = true;
};

// The same for launches of many messages, in which some threads move data and others prepare that
// (`warp_specialised.cuh`).
template <bool ANYWHERE>
struct WarpSpecialisedOf : SimpleOf<ANYWHERE> {
    static constexpr bool WARP_SPECIALISED = true;
};

using Simple = SimpleOf<false>;
using Direct = DirectOf<false>;
using WarpSpecialised = WarpSpecialisedOf<false>;
using SimpleUnaligned = SimpleOf<true>;
using DirectUnaligned = DirectOf<true>;
using WarpSpecialisedUnaligned = WarpSpecialisedOf<true>;

}  // namespace msccl

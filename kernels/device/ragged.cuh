// Moves of protocol Simple whose operands are misaligned, and what is left at the end where some end early.
//
// Packs of sixteen bytes are moved one after another, several on their way in every thread, and memory sees aligned packs
// alone: a thread loads the pack in which its own begins, and gets from the next thread the one in which it ends; it stores
// the pack in which its own begins, of which the first bytes are from the thread before. Packs that are loaded may hold
// bytes that are not the operand's, of the same sixteen and so of the same page; they are not used.
//
// A warp has what it needs of its neighbours' packs by itself. Of sources its threads load one pack more. To
// destinations it stores parts of the two packs in which its own begin and end. On the way to another GPU parts take as
// long as packs; so where no destination is aligned or is a source, too, it moves one pack less, and its first thread only
// helps out the second: that repeats what another warp does, and must not load what that one stores.
//
// So threads of a warp load and store for one another, but never for those of another warp.
#pragma once

#include "block.cuh"
#include "move.cuh"

namespace msccl {

// Where an operand lies: in aligned packs from `base` on, `shift` bytes into the first.
struct Shifted {
    u64 base;
    u32 shift;

    __device__ explicit Shifted(const Span& of)
        : base(of.address & ~15ull), shift(u32(of.address) & 15) {}

    __device__ u64 pack(u32 at) const { return base + u64(at) * 16; }
};

template <int FIRST>
__device__ __forceinline__ Pack<4> pick_words(const Pack<4>& low, const Pack<4>& high, u32 bits) {
    u32 all[9] = {low.word[0],  low.word[1],  low.word[2],  low.word[3], high.word[0],
                  high.word[1], high.word[2], high.word[3], 0};
    Pack<4> picked;
#pragma unroll
    for (int at = 0; at < 4; ++at) {
        picked.word[at] = __funnelshift_r(all[FIRST + at], all[FIRST + at + 1], bits);
    }
    return picked;
}

// The sixteen bytes that begin `shift` bytes into `low` and end in `high`. All threads have the same shift.
__device__ __forceinline__ Pack<4> pick(const Pack<4>& low, const Pack<4>& high, u32 shift) {
    u32 bits = shift % 4 * 8;
    switch (shift / 4) {
        case 0: return pick_words<0>(low, high, bits);
        case 1: return pick_words<1>(low, high, bits);
        case 2: return pick_words<2>(low, high, bits);
        default: return pick_words<3>(low, high, bits);
    }
}

// Bytes `first` to `last` of a pack to their places in the one at `address`. Not inlined: few threads have to.
__device__ __noinline__ void store_part(u64 address, Pack<4> pack, u32 first, u32 last) {
    u32 grain = u32(address) | first | last;
    auto each = [&](auto bytes, auto store) {
#pragma unroll
        for (u32 at = 0; at < 16; at += sizeof bytes) {
            u32 bits = pack.word[at / 4] >> (at % 4 * 8);
            if (at >= first && at < last) store(address + at, bits);
        }
    };
    if (grain % 4 == 0) {
        each(u32(), [](u64 to, u32 bits) { ptx::st_weak_u32(to, bits); });
    } else if (grain % 2 == 0) {
        each(u16(), [](u64 to, u32 bits) { ptx::st_weak_u16(to, u16(bits)); });
    } else {
        each(char(), [](u64 to, u32 bits) { ptx::st_weak_u8(to, bits); });
    }
}

// By the threads of `Team`.
template <class Team>
struct Ragged {
    // The packs of which all operands have something.
    template <class Number>
    __device__ __forceinline__ static void packs(const Move& move) {
        if constexpr (Number::COMPUTES) {
            // Two are common. Bytes take many registers each.
            bool few = move.is_copy() || (move.source_count == 2 && Number::BYTES > 1);
            if (!few) return whole<Number, false>(move);
        }
        whole<Number, true>(move);
    }

    // What comes after them; or, if all are aligned, after those that every operand has whole. Pack by pack.
    template <class Number>
    __device__ __forceinline__ static void rest(const Move& move) {
        u32 stride = Team::count() * 16, first = move.misfit == 0 ? move.whole / 16 : begun(move);
#pragma unroll 1
        for (u32 offset = (first + Team::index()) * 16; offset < move.most; offset += stride) {
            Pack<4> result = result_at<Number>(move, offset);
#pragma unroll 1
            for (u32 to = 0; to < move.destination_count; ++to) {
                msccl::store(move.destinations[to], offset, result);
            }
        }
    }

private:
    __device__ static u32 lane() { return threadIdx.x % 32; }

    // Packs of which every operand has something.
    __device__ static u32 begun(const Move& move) { return (move.whole + 15) / 16; }

    // The packs in the hands of a warp: from `first` on, one in each thread, of every `stride`. The first thread has one that
    // is not the warp's own if it `helps`.
    struct Hand {
        u32 first;
        u32 stride;
        u32 packs;  // of all warps
        bool helps;

        __device__ u32 pack(int at) const { return first + lane() + at * stride; }
        // The one after the last.
        __device__ u32 next(u32 at) const { return first + 32 + at * stride; }
        // Whether the warp has any.
        __device__ bool any(int at) const { return next(at) - 32 + helps < packs; }
    };

    // Whether a warp must not do for itself what another one does, too: a destination is a source. Or has no need to, as one
    // is aligned.
    __device__ static bool keeps_apart(const Move& move) {
        bool apart = false;
#pragma unroll 1
        for (u32 to = 0; to < move.destination_count; ++to) {
            u64 address = move.destinations[to].address;
            apart |= address % 16 == 0;
#pragma unroll 1
            for (u32 from = 0; from < move.source_count; ++from) {
                apart |= address == move.sources[from].address;
            }
        }
        return apart;
    }

    // Several packs on their way in every thread, of one source after another. The threads of a warp go together. `FEW` if
    // there are at most two sources.
    template <class Number, bool FEW>
    __device__ __forceinline__ static void whole(const Move& move) {
        constexpr int UNROLL = FEW ? 3 : 2;
        bool helps = !keeps_apart(move);
        u32 each = helps ? 31 : 32, warp = Team::index() / 32, warps = Team::count() / 32;
        Hand hand{warp * each - helps, warps * each, begun(move), helps};
        // What they have stored before for one another.
        __syncwarp();
#pragma unroll 1
        for (; hand.any(0); hand.first += UNROLL * hand.stride) {
            Pack<4> results[UNROLL] = {};
            load(move.sources[0], hand, results);
            if constexpr (Number::COMPUTES && FEW) {
                if (!move.is_copy()) combine_two<Number>(move, hand, results);
            } else if constexpr (Number::COMPUTES) {
                combine<Number>(move, hand, results);
            }
#pragma unroll 1
            for (u32 to = 0; to < move.destination_count; ++to) {
                store(move.destinations[to], hand, results);
            }
        }
    }

    // The packs at hand. What the last thread of the warp lacks of them is loaded by the first ones, one pack each.
    template <int UNROLL>
    __device__ __forceinline__ static void load(const Span& from, const Hand& hand,
                                                Pack<4> (&values)[UNROLL]) {
        Shifted source(from);
        // Aligned packs in which they lie.
        u32 end = (source.shift + min(from.limit, hand.packs * 16) + 15) / 16;
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
            if (hand.pack(at) < end) values[at] = load_whole(source.pack(hand.pack(at)));
        }
        if (source.shift == 0) return;
        Pack<4> beyond{};
        u32 pack = hand.next(lane());
        if (lane() < UNROLL && pack < end) beyond = load_whole(source.pack(pack));
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
            // The same for all of the warp.
            if (!hand.any(at)) continue;
            Pack<4> next;
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                u32 follows = __shfl_down_sync(~0u, values[at].word[word], 1);
                u32 last = __shfl_sync(~0u, beyond.word[word], at);
                next.word[word] = lane() == 31 ? last : follows;
            }
            values[at] = pick(values[at], next, source.shift);
        }
    }

    // Combines `results` with the second source.
    template <class Number, int UNROLL>
    __device__ __forceinline__ static void combine_two(const Move& move, const Hand& hand,
                                                       Pack<4> (&results)[UNROLL]) {
        Pack<4> others[UNROLL] = {};
        load(move.sources[1], hand, others);
        if constexpr (Number::ADDS_WORDS) {
            if (move.is_sum_of_two()) {
#pragma unroll
                for (int at = 0; at < UNROLL; ++at) {
                    results[at] = add_words<Number>(results[at], others[at]);
                }
                return;
            }
        }
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
            Sum<Number, 4> sum;
            Pack<4> other[1] = {others[at]};
            sum.start(results[at]);
            sum.add(move.arithmetic.reduction, other, 0, 1);
            results[at] = sum.finish(move.arithmetic.divisor);
        }
    }

    // Combines `results` with all sources but the first.
    template <class Number, int UNROLL>
    __device__ __forceinline__ static void combine(const Move& move, const Hand& hand,
                                                   Pack<4> (&results)[UNROLL]) {
        Sum<Number, 4> sums[UNROLL] = {};
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) sums[at].start(results[at]);
#pragma unroll 1
        for (u32 from = 1; from < move.source_count; ++from) {
            Pack<4> others[UNROLL] = {};
            load(move.sources[from], hand, others);
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                Pack<4> other[1] = {others[at]};
                sums[at].add(move.arithmetic.reduction, other, 0, 1);
            }
        }
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) results[at] = sums[at].finish(move.arithmetic.divisor);
    }

    template <int UNROLL>
    __device__ __forceinline__ static void store(const Span& to, const Hand& hand,
                                                 const Pack<4> (&values)[UNROLL]) {
        Shifted target(to);
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
            // The same for all of the warp.
            if (!hand.any(at)) continue;
            if (target.shift != 0) {
                store_shifted(to, hand, hand.pack(at), values[at]);
                continue;
            }
            u32 pack = hand.pack(at), bytes = bytes_of(to, pack);
            if (pack >= hand.packs) continue;
            if (bytes == 16) {
                store_whole(target.pack(pack), values[at]);
            } else {
                store_part(target.pack(pack), values[at], 0, bytes);
            }
        }
    }

    // Bytes that `to` has of pack `pack`.
    __device__ static u32 bytes_of(const Span& to, u32 pack) {
        return min(16u, to.limit - min(to.limit, pack * 16));
    }

    // The pack in which pack `pack` begins: what is in it of the one before is of the thread before. The first thread that
    // does not help stores its part alone, and the last one also that of the pack in which its own ends.
    __device__ __forceinline__ static void store_shifted(const Span& to, const Hand& hand, u32 pack,
                                                         const Pack<4>& value) {
        Shifted target(to);
        Pack<4> before;
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            before.word[word] = __shfl_up_sync(~0u, value.word[word], 1);
        }
        if (pack >= hand.packs || (hand.helps && lane() == 0)) return;
        u32 head = 16 - target.shift, bytes = bytes_of(to, pack);
        bool begins = pack == 0 || lane() == 0;
        bool ends = pack + 1 == hand.packs || (!hand.helps && lane() == 31);
        if (!begins) {
            Pack<4> all = pick(before, value, head);
            if (bytes >= head) {
                store_whole(target.pack(pack), all);
            } else {
                store_part(target.pack(pack), all, 0, target.shift + bytes);
            }
        }
        if (begins || ends) {
            u64 address = target.pack(pack) + target.shift;
            store_part(address, value, begins ? 0 : head, ends ? bytes : min(head, bytes));
        }
    }

    // The aligned packs around the sixteen bytes at `offset`, as far as something of the source is in them.
    struct Around {
        Pack<4> low;
        Pack<4> high;

        __device__ __forceinline__ Around(const Span& from, u32 offset) : low{}, high{} {
            Shifted source(from);
            u32 end = from.limit == 0 ? 0 : from.limit + source.shift;
            u64 address = source.pack(offset / 16);
            if (offset < end) low = load_whole(address);
            if (source.shift != 0 && offset + 16 < end) high = load_whole(address + 16);
        }

        // What exists of the sixteen bytes; the others 0.
        __device__ __forceinline__ Pack<4> existing(const Span& from, u32 offset) const {
            Pack<4> all = pick(low, high, Shifted(from).shift);
            u64 first = msccl::existing(from, offset, u64(all.word[1]) << 32 | all.word[0]);
            u64 second = msccl::existing(from, offset + 8, u64(all.word[3]) << 32 | all.word[2]);
            return {{u32(first), u32(first >> 32), u32(second), u32(second >> 32)}};
        }
    };

    // What destinations are to hold from `offset` on, sources being 0 where they do not exist. The first two are on their
    // way together.
    template <class Number>
    __device__ __forceinline__ static Pack<4> result_at(const Move& move, u32 offset) {
        const Operand* sources = move.sources;
        Around one(sources[0], offset);
        if constexpr (Number::COMPUTES) {
            if (!move.is_copy()) {
                Around two(sources[min(1, int(move.source_count) - 1)], offset);
                Sum<Number, 4> sum;
                sum.start(one.existing(sources[0], offset));
#pragma unroll 1
                for (u32 from = 1; from < move.source_count; ++from) {
                    if (from > 1) two = Around(sources[from], offset);
                    Pack<4> other[1] = {two.existing(sources[from], offset)};
                    sum.add(move.arithmetic.reduction, other, 0, 1);
                }
                return sum.finish(move.arithmetic.divisor);
            }
        }
        return one.existing(sources[0], offset);
    }
};

}  // namespace msccl

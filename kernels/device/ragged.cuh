// Moves of protocol Simple whose operands are misaligned, and what is left at the end where some end early.
//
// As far as every operand has whole packs of sixteen bytes they are moved pack by pack, several on their way in every
// thread, and memory sees aligned packs alone, each of them once: a thread loads the pack in which its own begins, and gets
// from the next thread the one in which it ends; it stores the pack in which its own begins, of which the first bytes are
// from the thread before. Where a warp begins and ends its threads load one pack more, and store parts of packs. Packs
// that are loaded may hold bytes that are not the operand's, of the same sixteen and so of the same page; they are
// not used. What is left at the end is moved as far as it exists.
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

// Bytes `first` to `last` of a pack to their places in the one at `address`, of which both are multiples as far as the
// address is one of 16. Not inlined: few threads have to.
__device__ __noinline__ void store_part(u64 address, Pack<4> pack, u32 first, u32 last) {
    auto each = [&](auto bytes, auto store) {
#pragma unroll
        for (u32 at = 0; at < 16; at += sizeof bytes) {
            u32 bits = pack.word[at / 4] >> (at % 4 * 8);
            if (at >= first && at < last) store(address + at, bits);
        }
    };
    if (address % 4 == 0) {
        each(u32(), [](u64 to, u32 bits) { ptx::st_weak_u32(to, bits); });
    } else if (address % 2 == 0) {
        each(u16(), [](u64 to, u32 bits) { ptx::st_weak_u16(to, u16(bits)); });
    } else {
        each(char(), [](u64 to, u32 bits) { ptx::st_weak_u8(to, bits); });
    }
}

// By the threads of `Team`.
template <class Team>
struct Ragged {
    // The packs that all operands have.
    template <class Number>
    __device__ __forceinline__ static void packs(const Move& move) {
        u32 packs = move.whole / 16;
        if constexpr (Number::COMPUTES) {
            // Two are common. Bytes take many registers each.
            bool few = move.is_copy() || (move.source_count == 2 && Number::BYTES > 1);
            if (!few) return whole<Number, false>(move, packs);
        }
        whole<Number, true>(move, packs);
    }

    // What comes after them.
    template <class Number>
    __device__ __forceinline__ static void rest(const Move& move) {
        u32 packs = move.whole / 16;
        u32 pack = packs - packs % Team::count() + Team::index();
        if (pack < packs) pack += Team::count();
#pragma unroll 1
        for (u32 offset = pack * 16; offset < move.length; offset += Team::count() * 16) {
            Pack<4> result = result_at<Number>(move, offset);
#pragma unroll 1
            for (u32 to = 0; to < move.destination_count; ++to) {
                msccl::store(move.destinations[to], offset, result);
            }
        }
    }

private:
    __device__ static u32 lane() { return threadIdx.x % 32; }

    // Several packs on their way in every thread, of one source after another. The threads of a warp go together. `FEW` if
    // there are at most two sources.
    template <class Number, bool FEW>
    __device__ __forceinline__ static void whole(const Move& move, u32 packs) {
        constexpr int UNROLL = FEW ? 3 : 2;
        // What they have stored before for one another.
        __syncwarp();
#pragma unroll 1
        for (u32 first = Team::index() - lane(); first < packs; first += UNROLL * Team::count()) {
            Pack<4> results[UNROLL] = {};
            load(move.sources[0], first, packs, results);
            if constexpr (Number::COMPUTES && FEW) {
                if (!move.is_copy()) combine_two<Number>(move, first, packs, results);
            } else if constexpr (Number::COMPUTES) {
                combine<Number>(move, first, packs, results);
            }
#pragma unroll 1
            for (u32 to = 0; to < move.destination_count; ++to) {
                store(move.destinations[to], first, packs, results);
            }
        }
    }

    // A pack of every `Team::count()`, from the warp's pack `first` on. What the last thread of the warp lacks of them is
    // loaded by the first ones, one pack each.
    template <int UNROLL>
    __device__ __forceinline__ static void load(const Span& from, u32 first, u32 packs,
                                                Pack<4> (&values)[UNROLL]) {
        Shifted source(from);
        // Aligned packs in which they lie.
        u32 end = packs + (source.shift != 0);
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
            u32 pack = first + lane() + at * Team::count();
            if (pack < end) values[at] = load_whole(source.pack(pack));
        }
        if (source.shift == 0) return;
        Pack<4> beyond{};
        u32 pack = first + 32 + lane() * Team::count();
        if (lane() < UNROLL && pack < end) beyond = load_whole(source.pack(pack));
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
            // The same for all of the warp.
            if (first + at * Team::count() >= packs) continue;
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
    __device__ __forceinline__ static void combine_two(const Move& move, u32 first, u32 packs,
                                                       Pack<4> (&results)[UNROLL]) {
        Pack<4> others[UNROLL] = {};
        load(move.sources[1], first, packs, others);
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
    __device__ __forceinline__ static void combine(const Move& move, u32 first, u32 packs,
                                                   Pack<4> (&results)[UNROLL]) {
        Sum<Number, 4> sums[UNROLL] = {};
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) sums[at].start(results[at]);
#pragma unroll 1
        for (u32 from = 1; from < move.source_count; ++from) {
            Pack<4> others[UNROLL] = {};
            load(move.sources[from], first, packs, others);
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
    __device__ __forceinline__ static void store(const Span& to, u32 first, u32 packs,
                                                 const Pack<4> (&values)[UNROLL]) {
        Shifted target(to);
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
            // The same for all of the warp.
            if (first + at * Team::count() >= packs) continue;
            u32 pack = first + lane() + at * Team::count();
            if (target.shift != 0) {
                store_shifted(target, pack, packs, values[at]);
            } else if (pack < packs) {
                store_whole(target.pack(pack), values[at]);
            }
        }
    }

    // The pack in which pack `pack` begins: what is in it of the one before is of the thread before. The first thread of
    // the warp stores its part alone, and the last one also that of the pack in which its own ends.
    __device__ __forceinline__ static void store_shifted(const Shifted& target, u32 pack, u32 packs,
                                                         const Pack<4>& value) {
        u32 head = 16 - target.shift;
        Pack<4> before;
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            before.word[word] = __shfl_up_sync(~0u, value.word[word], 1);
        }
        if (pack >= packs) return;
        bool begins = lane() == 0, ends = lane() == 31 || pack + 1 == packs;
        if (!begins) store_whole(target.pack(pack), pick(before, value, head));
        if (begins || ends) {
            u64 address = target.pack(pack) + target.shift;
            store_part(address, value, begins ? 0 : head, ends ? 16 : head);
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

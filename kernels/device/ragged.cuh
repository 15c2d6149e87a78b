// Moves of protocol Simple whose operands are misaligned, and what is left at the end where some end early.
//
// As far as every operand has whole packs of sixteen bytes they are moved pack by pack, several on their way in
// every thread, whatever their addresses: a misaligned source is read as the aligned packs in which it lies. Those
// hold bytes that are not the operand's, of the same sixteen and so of the same page; they are not used. What is left
// at the end is moved as far as it exists.
#pragma once

#include "block.cuh"
#include "move.cuh"

namespace msccl {

// Where a source lies: in aligned packs from `base` on, `shift` bytes into the first.
struct Shifted {
    u64 base;
    u32 shift;

    __device__ explicit Shifted(const Span& from)
        : base(from.address & ~15ull), shift(u32(from.address) & 15) {}

    // The sixteen bytes that begin in `low` and end in `high`. All threads have the same shift.
    __device__ Pack<4> pick(const Pack<4>& low, const Pack<4>& high) const {
        switch (shift / 4) {
            case 0: return words<0>(low, high);
            case 1: return words<1>(low, high);
            case 2: return words<2>(low, high);
            default: return words<3>(low, high);
        }
    }

private:
    template <int FIRST>
    __device__ __forceinline__ Pack<4> words(const Pack<4>& low, const Pack<4>& high) const {
        u32 all[9] = {low.word[0],  low.word[1],  low.word[2],  low.word[3], high.word[0],
                      high.word[1], high.word[2], high.word[3], 0};
        Pack<4> picked;
#pragma unroll
        for (int at = 0; at < 4; ++at) {
            picked.word[at] = __funnelshift_r(all[FIRST + at], all[FIRST + at + 1], shift % 4 * 8);
        }
        return picked;
    }
};

// By the threads of `Team`.
template <class Team>
struct Ragged {
    // The packs that all operands have.
    template <class Number>
    __device__ __forceinline__ static void packs(const Move& move) {
        u32 packs = move.whole / 16;
        if constexpr (Number::COMPUTES) {
            if (move.is_copy()) {
                whole<Number, 4>(move, packs);
            } else {
                whole<Number, 2>(move, packs);
            }
        } else {
            whole<Number, 4>(move, packs);
        }
    }

    // What comes after them.
    template <class Number>
    __device__ __forceinline__ static void rest(const Move& move) {
        constexpr int BYTES = Number::BYTES;
        u32 packs = move.whole / 16;
        u32 pack = packs - packs % Team::count() + Team::index();
        if (pack < packs) pack += Team::count();
#pragma unroll 1
        for (u32 offset = pack * 16; offset < move.length; offset += Team::count() * 16) {
            Pack<4> result = msccl::load<4, Coherence::WEAK>(move.sources[0], offset);
            if constexpr (Number::COMPUTES) {
                if (!move.is_copy()) result = sum_of<Number>(move, offset, result);
            }
#pragma unroll 1
            for (u32 to = 0; to < move.destination_count; ++to) {
                msccl::store<BYTES, 4>(move.destinations[to], offset, result);
            }
        }
    }

private:
    // `UNROLL` packs on their way in every thread, of one source after another.
    template <class Number, int UNROLL>
    __device__ __forceinline__ static void whole(const Move& move, u32 packs) {
#pragma unroll 1
        for (u32 first = Team::index(); first < packs; first += UNROLL * Team::count()) {
            Pack<4> results[UNROLL] = {};
            load(move.sources[0], first, packs, results);
            if constexpr (Number::COMPUTES) {
                if (!move.is_copy()) combine<Number>(move, first, packs, results);
            }
#pragma unroll 1
            for (u32 to = 0; to < move.destination_count; ++to) {
                store<Number::BYTES>(move.destinations[to], first, packs, results);
            }
        }
    }

    template <int UNROLL>
    __device__ __forceinline__ static void load(const Span& from, u32 first, u32 packs,
                                                Pack<4> (&values)[UNROLL]) {
        Shifted source(from);
        Pack<4> next[UNROLL] = {};
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
            u32 pack = first + at * Team::count();
            if (pack >= packs) continue;
            u64 address = source.base + u64(pack) * 16;
            Pack<4>* kind = nullptr;
            values[at] = load_whole<Coherence::WEAK>(address, kind);
            if (source.shift != 0) next[at] = load_whole<Coherence::WEAK>(address + 16, kind);
        }
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) values[at] = source.pick(values[at], next[at]);
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

    template <int BYTES, int UNROLL>
    __device__ __forceinline__ static void store(const Span& to, u32 first, u32 packs,
                                                 const Pack<4> (&values)[UNROLL]) {
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
            u32 pack = first + at * Team::count();
            if (pack < packs) msccl::store<BYTES, 4>(to, pack * 16, values[at]);
        }
    }

    // The combination of all sources, of which the first gives `first`.
    template <class Number>
    __device__ __forceinline__ static Pack<4> sum_of(const Move& move, u32 offset,
                                                     const Pack<4>& first) {
        Sum<Number, 4> sum;
        sum.start(first);
#pragma unroll 1
        for (u32 from = 1; from < move.source_count; ++from) {
            const Operand& source = move.sources[from];
            Pack<4> other[1] = {msccl::load<4, Coherence::WEAK>(source, offset)};
            sum.add(move.arithmetic.reduction, other, 0, 1);
        }
        return sum.finish(move.arithmetic.divisor);
    }
};

}  // namespace msccl

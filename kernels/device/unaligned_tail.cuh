// Chunks sixteen bytes at a time, wherever operands begin and end: what is left where some end
// early; and all of unaligned ones, slowly, in kernels that hardly ever see any (`unaligned.cuh` is
// for the others).
//
// Each sixteen bytes are moved by one thread: that which has the pack of the same number where
// operands are aligned. So a thread handles the same places of every chunk, move after move, and
// need not meet the others in between.
#pragma once

#include "block.cuh"
#include "move.cuh"

namespace msccl {

// By the threads of `Group`.
template <class Group>
struct UnalignedTail {
    // What comes after the packs that every operand has, if all are aligned; otherwise all.
    template <class Number>
    __device__ __forceinline__ static void rest(const Move& move) {
        between<Number>(move, move.misalignment == 0 ? move.whole / 16 * 16 : 0, move.most);
    }

    // Bytes `begin` to `end`, sixteen at a time, as far as operands have them.
    template <class Number>
    __device__ __forceinline__ static void between(const Move& move, u32 begin, u32 end) {
#pragma unroll 1
        for (u32 at = begin + turn(begin / 16) * 16; at < end; at += Group::count() * 16) {
            Pack<4> result = result_at<Number>(move, at, end);
#pragma unroll 1
            for (u32 to = 0; to < move.destination_count; ++to) {
                Span place = part(move.destinations[to], at, end);
                msccl::store(place, 0, result);
            }
        }
    }

private:
    // How many come before this thread, from the one that has pack `first` on.
    __device__ static u32 turn(u32 first) {
        u32 before = first % Group::count();
        return Group::index() < before ? Group::index() + Group::count() - before
                                       : Group::index() - before;
    }

    // Bytes `begin` to `end` of an operand, as far as it has them.
    __device__ static Span part(const Span& of, u32 begin, u32 end) {
        Span part;
        part.address = of.address + begin;
        part.limit = min(of.limit, end) - min(of.limit, begin);
        part.traits = part.address % 16 == 0 ? Span::ALIGNED : 0;
        return part;
    }

    // The first sixteen bytes of `of`; 0 what does not exist.
    __device__ __forceinline__ static Pack<4> first_pack(const Span& of) {
        Row row(of);
        u64 low = row.word(0), middle = row.word(8), high = row.next(8);
        u64 first = existing(of, 0, row.pick(low, middle));
        u64 second = existing(of, 8, row.pick(middle, high));
        return {{u32(first), u32(first >> 32), u32(second), u32(second >> 32)}};
    }

    // The pack of source `at`, multiplied if it is to be.
    template <class Number>
    __device__ __forceinline__ static Pack<4> scaled(const Move& move, u32 at,
                                                     const Pack<4>& pack) {
        if constexpr (Number::SCALES) {
            if (move.scales(at)) return Factor<Number>(move.arithmetic).of(pack);
        }
        return pack;
    }

    // What destinations are to hold of bytes `begin` to `end`, sources being 0 where they do not
    // exist. The first two are on their way together.
    template <class Number>
    __device__ __forceinline__ static Pack<4> result_at(const Move& move, u32 begin, u32 end) {
        const Operand* sources = move.sources;
        Pack<4> one = first_pack(part(sources[0], begin, end));
        if constexpr (Number::COMPUTES) {
            if (!move.is_copy()) {
                u32 reduction = move.arithmetic.combination();
                u32 next = min(1, int(move.source_count) - 1);
                Pack<4> two = first_pack(part(sources[next], begin, end));
                Sum<Number, 4> sum;
                sum.start(scaled<Number>(move, 0, one));
#pragma unroll 1
                for (u32 at = 1; at < move.source_count; ++at) {
                    if (at > 1) two = first_pack(part(sources[at], begin, end));
                    Pack<4> other[1] = {scaled<Number>(move, at, two)};
                    sum.add(reduction, other, 0, 1);
                }
                return sum.finish(move.arithmetic.divisor);
            }
        }
        return one;
    }
};

}  // namespace msccl

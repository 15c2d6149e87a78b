// Combining packs of elements: scale those that are raw, widen, combine in order, divide, narrow.
#pragma once

#include "../include/msccl_plan.h"
#include "number.cuh"

namespace msccl {

// What a call does with its elements.
struct Arithmetic {
    u32 reduction;  // a `MSCCL_REDUCTION_` value, the same for all threads
    u32 divisor;    // 0: nothing is divided
    u32 contributions;  // of an average

    // Whether raw contributions are scaled before they are added.
    __device__ bool scales() const { return reduction == MSCCL_REDUCTION_AVERAGE; }
    // How elements are combined, once they are.
    __device__ u32 combination() const { return scales() ? u32(MSCCL_REDUCTION_SUM) : reduction; }
};

// Most sources whose loads are in flight before the first is used. Bytes take many instructions
// each.
template <class Number>
constexpr int group() {
    return Number::BYTES == 1 ? 4 : 8;
}

// ---- One element --------------------------------------------------------------------------------

// Signed overflow has no meaning in C++, so integers are combined as unsigned ones.
__device__ inline int sum(int a, int b) { return int(unsigned(a) + unsigned(b)); }
__device__ inline unsigned sum(unsigned a, unsigned b) { return a + b; }
__device__ inline long long sum(long long a, long long b) { return (long long)(u64(a) + u64(b)); }
__device__ inline u64 sum(u64 a, u64 b) { return a + b; }
__device__ inline float sum(float a, float b) { return a + b; }
__device__ inline double sum(double a, double b) { return a + b; }

__device__ inline int product(int a, int b) { return int(unsigned(a) * unsigned(b)); }
__device__ inline unsigned product(unsigned a, unsigned b) { return a * b; }
__device__ inline long long product(long long a, long long b) {
    return (long long)(u64(a) * u64(b));
}
__device__ inline u64 product(u64 a, u64 b) { return a * b; }
__device__ inline float product(float a, float b) { return a * b; }
__device__ inline double product(double a, double b) { return a * b; }

template <class Wide>
__device__ inline Wide smaller(Wide a, Wide b) {
    return a < b ? a : b;
}
__device__ inline float smaller(float a, float b) { return ptx::min_f32(a, b); }
__device__ inline double smaller(double a, double b) { return ptx::min_f64(a, b); }

template <class Wide>
__device__ inline Wide larger(Wide a, Wide b) {
    return a < b ? b : a;
}
__device__ inline float larger(float a, float b) { return ptx::max_f32(a, b); }
__device__ inline double larger(double a, double b) { return ptx::max_f64(a, b); }

// ---- Scaling ------------------------------------------------------------------------------------

// By what an average multiplies contributions: one over their number, as an element. What does not
// scale has none.
template <class Number, bool SCALES = true>
struct Factor {
    typename Number::Wide value;

    __device__ explicit Factor(const Arithmetic& arithmetic)
        : value(Number::widen(Number::narrow(Number::divide(1, arithmetic.contributions)))) {}

    // Each element of the pack multiplied, and rounded once.
    template <int WORDS>
    __device__ __forceinline__ Pack<WORDS> of(const Pack<WORDS>& pack) const {
        Pack<WORDS> scaled{};
        if constexpr (Number::SCALES_WORDS) {
#pragma unroll
            for (int at = 0; at < WORDS; ++at)
                scaled.word[at] = Number::scale_word(pack.word[at], value);
            return scaled;
        }
#pragma unroll
        for (int at = 0; at < 4 * WORDS / Number::BYTES; ++at) {
            auto wide = product(Number::widen(element<Number::BYTES>(pack, at)), value);
            put_element<Number::BYTES>(scaled, at, Number::narrow(wide));
        }
        return scaled;
    }
};

template <class Number>
struct Factor<Number, false> {
    __device__ explicit Factor(const Arithmetic&) {}
};

// ---- A pack -------------------------------------------------------------------------------------

// The wide values of a pack of `Number`s.
template <class Number, int WORDS>
struct Sum {
    static constexpr int ELEMENTS = 4 * WORDS / Number::BYTES;

    typename Number::Wide value[ELEMENTS];

    __device__ __forceinline__ void start(const Pack<WORDS>& pack) {
#pragma unroll
        for (int at = 0; at < ELEMENTS; ++at) {
            value[at] = Number::widen(element<Number::BYTES>(pack, at));
        }
    }

    // Combines with `packs[first]` and those after it, as far as there are `count`.
    template <int MOST>
    __device__ __forceinline__ void add(u32 reduction, const Pack<WORDS> (&packs)[MOST], int first,
                                        int count) {
        auto each = [&](auto combine) {
#pragma unroll
            for (int pack = 0; pack < MOST; ++pack) {
                if (pack < first || pack >= count) continue;
#pragma unroll
                for (int at = 0; at < ELEMENTS; ++at) {
                    auto other = Number::widen(element<Number::BYTES>(packs[pack], at));
                    value[at] = combine(value[at], other);
                }
            }
        };
        switch (reduction) {
            case MSCCL_REDUCTION_SUM: return each([](auto a, auto b) { return sum(a, b); });
            case MSCCL_REDUCTION_PROD: return each([](auto a, auto b) { return product(a, b); });
            case MSCCL_REDUCTION_MIN: return each([](auto a, auto b) { return smaller(a, b); });
            default: return each([](auto a, auto b) { return larger(a, b); });
        }
    }

    __device__ __forceinline__ Pack<WORDS> finish(u32 divisor) {
        Pack<WORDS> pack{};
        if constexpr (!Number::SCALES) {
            if (divisor != 0) {
#pragma unroll
                for (int at = 0; at < ELEMENTS; ++at)
                    value[at] = Number::divide(value[at], divisor);
            }
        }
#pragma unroll
        for (int at = 0; at < ELEMENTS; ++at) {
            put_element<Number::BYTES>(pack, at, Number::narrow(value[at]));
        }
        return pack;
    }
};

// The sums of the elements of two packs.
template <class Number, int WORDS>
__device__ __forceinline__ Pack<WORDS> add_words(const Pack<WORDS>& a, const Pack<WORDS>& b) {
    Pack<WORDS> sum;
#pragma unroll
    for (int word = 0; word < WORDS; ++word) {
        sum.word[word] = Number::add_words(a.word[word], b.word[word]);
    }
    return sum;
}

}  // namespace msccl

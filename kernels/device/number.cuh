// The element types: how each of the twelve widens for arithmetic and narrows for storage.
//
// The same table as the host executor's, bit for bit (NaN payloads aside): integers wrap; the half
// and byte floats are combined in f32 and rounded once, to nearest even; byte floats saturate,
// infinities included; a NaN stays one.
//
// `avg` of integers divides the sum, toward zero. `avg` of floats (`SCALES`) multiplies each
// contribution before it is added: the factor, one over the number of contributions, is an element,
// and so is the product.
//
// Where `ADDS_WORDS`, sums of two need neither: `add_words` adds all elements of a word.
#pragma once

#include "memory.cuh"

namespace msccl {

// ---- No numbers ---------------------------------------------------------------------------------

// Elements, whatever they are, that are moved and never combined.
struct Bits {
    static constexpr bool COMPUTES = false;
    static constexpr bool SCALES = false;
};

// ---- Integers -----------------------------------------------------------------------------------

// `Stored` as it lies in memory; wide sums may carry more bits, of which the low ones count.
template <class Stored, class WideType, int SIZE>
struct Integer {
    using Wide = WideType;
    static constexpr int BYTES = SIZE;
    static constexpr bool COMPUTES = true;
    static constexpr bool ADDS_WORDS = SIZE == 4;
    static constexpr bool SCALES = false;

    __device__ static u32 add_words(u32 a, u32 b) { return a + b; }

    __device__ static Wide widen(u64 bits) { return Wide(Stored(bits)); }
    __device__ static u64 narrow(Wide value) { return u64(value) & (~0ull >> (64 - 8 * SIZE)); }
    __device__ static Wide divide(Wide value, u32 divisor) {
        // The quotient of 64-bit integers needs no wider ones: it is no larger than the dividend.
        if constexpr (Stored(-1) < Stored(0)) {
            return Wide((long long)(Stored(value)) / (long long)(divisor));
        } else {
            return Wide(u64(Stored(value)) / u64(divisor));
        }
    }
};

using I8 = Integer<signed char, int, 1>;
using U8 = Integer<unsigned char, unsigned, 1>;
using I32 = Integer<int, int, 4>;
using U32 = Integer<unsigned, unsigned, 4>;
using I64 = Integer<long long, long long, 8>;
using U64 = Integer<unsigned long long, unsigned long long, 8>;

// ---- Floats -------------------------------------------------------------------------------------

// What is combined in f32.
struct Float {
    using Wide = float;
    static constexpr bool COMPUTES = true;
    static constexpr bool ADDS_WORDS = false;
    static constexpr bool SCALES = true;
    // Whether products are formed in words, by `scale_word`.
    static constexpr bool SCALES_WORDS = false;

    __device__ static float divide(float value, u32 divisor) { return value / float(divisor); }
};

struct F32 : Float {
    static constexpr int BYTES = 4;
    static constexpr bool ADDS_WORDS = true;

    __device__ static u32 add_words(u32 a, u32 b) {
        return __float_as_uint(__uint_as_float(a) + __uint_as_float(b));
    }

    __device__ static float widen(u64 bits) { return __uint_as_float(u32(bits)); }
    __device__ static u64 narrow(float value) { return __float_as_uint(value); }
};

struct F64 {
    using Wide = double;
    static constexpr int BYTES = 8;
    static constexpr bool COMPUTES = true;
    static constexpr bool ADDS_WORDS = false;
    static constexpr bool SCALES = true;
    static constexpr bool SCALES_WORDS = false;

    __device__ static double widen(u64 bits) { return __longlong_as_double((long long)(bits)); }
    __device__ static u64 narrow(double value) { return u64(__double_as_longlong(value)); }
    __device__ static double divide(double value, u32 divisor) { return value / double(divisor); }
};

// Half floats can be added two at a time, in words. The sum of two is the same as by way of f32: a
// format with at least 2p + 2 digits for the p of the result never makes the second rounding go
// astray.
struct F16 : Float {
    static constexpr int BYTES = 2;
    static constexpr bool ADDS_WORDS = true;

    // The product of two needs no more digits than an f32 has, so it is rounded once either way.
    static constexpr bool SCALES_WORDS = true;

    __device__ static u32 add_words(u32 a, u32 b) { return ptx::add_rn_f16x2(a, b); }
    __device__ static u32 scale_word(u32 word, float factor) {
        u32 half = ptx::cvt_rn_f16_f32(factor);
        return ptx::mul_rn_f16x2(word, half << 16 | half);
    }

    __device__ static float widen(u64 bits) { return ptx::cvt_f32_f16(u16(bits)); }
    __device__ static u64 narrow(float value) { return ptx::cvt_rn_f16_f32(value); }
};

struct Bf16 : Float {
    static constexpr int BYTES = 2;
#if __CUDA_ARCH__ >= 900
    static constexpr bool ADDS_WORDS = true;

    __device__ static u32 add_words(u32 a, u32 b) { return ptx::add_rn_bf16x2(a, b); }
#endif

    __device__ static float widen(u64 bits) { return __uint_as_float(u32(bits) << 16); }
    __device__ static u64 narrow(float value) {
#if __CUDA_ARCH__ >= 800
        return ptx::cvt_rn_bf16_f32(value);
#else
        u32 bits = __float_as_uint(value);
        bool nan = (bits & 0x7fffffff) > 0x7f800000;
        return nan ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
    }
};

// Rounds the magnitude of `value`, which is not a NaN, to `MANTISSA` bits, with exponents biased by
// `BIAS`, and saturates to `LARGEST`.
template <int MANTISSA, int BIAS, u32 LARGEST>
__device__ inline u32 narrow_to_byte(float value) {
    u32 bits = __float_as_uint(value) & 0x7fffffff;
    constexpr int DROPPED = 23 - MANTISSA;
    // Below the least normal number the spacing is constant. A float whose own spacing that is
    // rounds the sum of the two for us.
    constexpr u32 LEAST_NORMAL = u32(128 - BIAS) << 23;
    constexpr u32 SPACER = u32(128 - BIAS + DROPPED) << 23;
    if (bits < LEAST_NORMAL) {
        return __float_as_uint(__uint_as_float(bits) + __uint_as_float(SPACER)) - SPACER;
    }
    u32 half = (1u << (DROPPED - 1)) - 1 + (bits >> DROPPED & 1);
    u32 rounded = ((bits + half) >> DROPPED) - (u32(127 - BIAS) << MANTISSA);
    return rounded < LARGEST ? rounded : LARGEST;
}

__device__ inline u32 sign_byte(float value) { return __float_as_uint(value) >> 24 & 0x80; }

struct F8E4M3 : Float {
    static constexpr int BYTES = 1;

    __device__ static float widen(u64 bits) {
        u32 magnitude = u32(bits) & 0x7f;
        // As if the exponent's bias were 127; the product puts it right, and is exact.
        float value = __uint_as_float(magnitude << 20) * 0x1p120f;
        u32 wide = magnitude == 0x7f ? 0x7fffffff : __float_as_uint(value);
        return __uint_as_float(wide | (u32(bits) & 0x80) << 24);
    }
    __device__ static u64 narrow(float value) {
#if __CUDA_ARCH__ >= 890
        return ptx::cvt_rn_satfinite_e4m3x2_f32(0.0f, value) & 0xff;
#else
        if (value != value) return 0x7f;
        return narrow_to_byte<3, 7, 0x7e>(value) | sign_byte(value);
#endif
    }
};

struct F8E5M2 : Float {
    static constexpr int BYTES = 1;

    // The upper byte of an f16.
    __device__ static float widen(u64 bits) { return ptx::cvt_f32_f16(u16(bits << 8)); }
    __device__ static u64 narrow(float value) {
#if __CUDA_ARCH__ >= 890
        return ptx::cvt_rn_satfinite_e5m2x2_f32(0.0f, value) & 0xff;
#else
        if (value != value) return 0x7f;
        return narrow_to_byte<2, 15, 0x7b>(value) | sign_byte(value);
#endif
    }
};

}  // namespace msccl

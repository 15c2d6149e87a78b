//! The twelve element types: how each widens for arithmetic and narrows for storage.
//!
//! Arithmetic happens in a wide type and is rounded to the storage type once per stored value:
//!
//! | storage | wide | narrowing |
//! |---|---|---|
//! | `i8 u8 i32 u32 i64 u64` | itself | exact; arithmetic wraps |
//! | `f16 bf16` | `f32` | round to nearest, ties to even; overflow gives infinity |
//! | `f8e4m3 f8e5m2` | `f32` | round to nearest, ties to even; overflow and infinities saturate to the largest finite value (OCP's saturating mode, NVIDIA's `SATFINITE`); a NaN stays one |
//! | `f32 f64` | itself | exact |
//!
//! Minimum and maximum ignore a NaN unless every operand is one, and order `-0` before `+0`; both
//! are therefore independent of the order of operands (up to the payload of a NaN).
//!
//! `avg` of integers divides the complete sum, after it has wrapped, toward zero. `avg` of floats
//! multiplies each contribution before it is added, as a stored element: the factor, one over the
//! number of contributions, is rounded to the storage type, and so is the product. It is NCCL's
//! rule, and the same as a scaled sum with that factor.

use std::num::NonZeroU32;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

/// An element as it lies in memory.
pub(crate) trait Element: Copy + Send + Sync + 'static {
    /// What arithmetic is done in.
    type Wide: Wide;

    /// The element in the first bytes of `bytes`; zero where they are too few.
    fn load(bytes: &[u8]) -> Self;

    /// Writes the element to the first bytes of `bytes`; nothing where they are too few.
    fn store(self, bytes: &mut [u8]);

    /// The same value, ready for arithmetic. Exact.
    fn widen(self) -> Self::Wide;

    /// The nearest element.
    fn narrow(wide: Self::Wide) -> Self;
}

/// What arithmetic is done in.
pub(crate) trait Wide: Copy + Default + Send + Sync + 'static {
    /// One.
    const ONE: Self;

    /// `self + other`.
    fn sum(self, other: Self) -> Self;
    /// `self · other`.
    fn prod(self, other: Self) -> Self;
    /// The smaller one.
    fn smaller(self, other: Self) -> Self;
    /// The larger one.
    fn larger(self, other: Self) -> Self;
    /// `self / divisor`; the divisor is a number of contributions.
    fn divide(self, divisor: NonZeroU32) -> Self;
}

macro_rules! memory {
    () => {
        #[inline]
        fn load(bytes: &[u8]) -> Self {
            match bytes.first_chunk() {
                Some(bytes) => Self::from_ne_bytes(*bytes),
                None => Self::from_ne_bytes([0; size_of::<Self>()]),
            }
        }

        #[inline]
        fn store(self, bytes: &mut [u8]) {
            if let Some(to) = bytes.first_chunk_mut() {
                *to = self.to_ne_bytes();
            }
        }
    };
}

macro_rules! own_wide {
    ($($type:ty),*) => {$(
        impl Element for $type {
            type Wide = Self;

            memory!();

            #[inline]
            fn widen(self) -> Self {
                self
            }

            #[inline]
            fn narrow(wide: Self) -> Self {
                wide
            }
        }
    )*};
}

own_wide!(i8, u8, i32, u32, i64, u64, f32, f64);

macro_rules! half_wide {
    ($($type:ty),*) => {$(
        impl Element for $type {
            type Wide = f32;

            memory!();

            #[inline]
            fn widen(self) -> f32 {
                self.to_f32()
            }

            #[inline]
            fn narrow(wide: f32) -> Self {
                Self::from_f32(wide)
            }
        }
    )*};
}

half_wide!(f16, bf16);

macro_rules! byte_wide {
    ($($type:ty),*) => {$(
        impl Element for $type {
            type Wide = f32;

            #[inline]
            fn load(bytes: &[u8]) -> Self {
                Self::from_bits(bytes.first().copied().unwrap_or(0))
            }

            #[inline]
            fn store(self, bytes: &mut [u8]) {
                if let Some(to) = bytes.first_mut() {
                    *to = self.to_bits();
                }
            }

            #[inline]
            fn widen(self) -> f32 {
                const TABLE: [f32; 256] = {
                    let mut table = [0.0; 256];
                    let mut bits = 0;
                    while bits < 256 {
                        table[bits] = <$type>::from_bits(bits as u8).to_f32();
                        bits += 1;
                    }
                    table
                };
                static WIDE: [f32; 256] = TABLE;
                WIDE[self.to_bits() as usize]
            }

            #[inline]
            fn narrow(wide: f32) -> Self {
                Self::from_f32(wide)
            }
        }
    )*};
}

byte_wide!(F8E4M3, F8E5M2);

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Wide for $type {
            const ONE: Self = 1;

            #[inline]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline]
            fn prod(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline]
            fn smaller(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            #[inline]
            fn larger(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            #[inline]
            fn divide(self, divisor: NonZeroU32) -> Self {
                // 128 bits hold every element and every divisor, and the quotient is no larger than
                // the element.
                (i128::from(self) / i128::from(divisor.get())) as Self
            }
        }
    )*};
}

integer!(i8, u8, i32, u32, i64, u64);

macro_rules! float {
    ($($type:ty),*) => {$(
        impl Wide for $type {
            const ONE: Self = 1.0;

            #[inline]
            fn sum(self, other: Self) -> Self {
                self + other
            }

            #[inline]
            fn prod(self, other: Self) -> Self {
                self * other
            }

            #[inline]
            fn smaller(self, other: Self) -> Self {
                if self < other || other.is_nan() {
                    self
                } else if self == other && self.is_sign_negative() {
                    self
                } else {
                    other
                }
            }

            #[inline]
            fn larger(self, other: Self) -> Self {
                if self > other || other.is_nan() {
                    self
                } else if self == other && self.is_sign_positive() {
                    self
                } else {
                    other
                }
            }

            #[inline]
            fn divide(self, divisor: NonZeroU32) -> Self {
                self / divisor.get() as Self
            }
        }
    )*};
}

float!(f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    /// The finite values of a fp8 type, with their bits, found by the format's definition and not
    /// by the library: `(-1)^s · 2^(e - bias) · 1.m`, and subnormals for `e == 0`.
    fn finite(exponent_bits: u32, largest: u8) -> Vec<(f64, u8)> {
        let mantissa_bits = 7 - exponent_bits;
        let bias = (1 << (exponent_bits - 1)) - 1;
        let value = |bits: u8| {
            let mantissa = f64::from(bits & ((1 << mantissa_bits) - 1));
            let fraction = mantissa / f64::from(1 << mantissa_bits);
            match i32::from(bits >> mantissa_bits) {
                0 => fraction * f64::from(1 - bias).exp2(),
                exponent => (1.0 + fraction) * f64::from(exponent - bias).exp2(),
            }
        };
        (0..=largest).map(|bits| (value(bits), bits)).collect()
    }

    /// The bits to which `x >= 0` must round.
    fn nearest(table: &[(f64, u8)], x: f64) -> u8 {
        let distance = |&(value, bits): &(f64, u8)| ((value - x).abs(), bits & 1);
        let closer =
            |a: &&(f64, u8), b: &&(f64, u8)| distance(a).partial_cmp(&distance(b)).unwrap();
        table.iter().min_by(closer).unwrap().1
    }

    fn check_fp8(table: &[(f64, u8)], narrow: impl Fn(f32) -> u8, widen: impl Fn(u8) -> f32) {
        for &(value, bits) in table {
            assert_eq!(f64::from(widen(bits)), value, "{bits:#x}");
            assert_eq!(f64::from(widen(bits | 0x80)), -value, "{bits:#x}");
        }
        let probes = (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32());
        let midpoints = table.windows(2).map(|pair| f64::midpoint(pair[0].0, pair[1].0) as f32);
        let around = midpoints.flat_map(|x| [x.next_down(), x, x.next_up()]);
        for x in probes.chain(around).filter(|x| x.is_finite()) {
            let expected = nearest(table, f64::from(x.abs()));
            let sign = if x.is_sign_negative() { 0x80 } else { 0 };
            assert_eq!(narrow(x), expected | sign, "{x}");
        }
        let largest = table.last().unwrap().1;
        assert_eq!(narrow(f32::INFINITY), largest);
        assert_eq!(narrow(f32::MAX), largest);
        assert!(widen(narrow(f32::NAN)).is_nan());
    }

    #[test]
    fn fp8_conversions_are_those_of_the_format() {
        let table = finite(4, 0x7e);
        check_fp8(&table, |x| F8E4M3::narrow(x).to_bits(), |bits| F8E4M3::from_bits(bits).widen());
        let table = finite(5, 0x7b);
        check_fp8(&table, |x| F8E5M2::narrow(x).to_bits(), |bits| F8E5M2::from_bits(bits).widen());
    }

    #[test]
    fn minimum_and_maximum_ignore_nan_and_order_zeros() {
        for (a, b) in [(0.0_f32, -0.0), (-0.0, 0.0)] {
            assert!(Wide::smaller(a, b).is_sign_negative());
            assert!(Wide::larger(a, b).is_sign_positive());
        }
        assert_eq!(Wide::smaller(f32::NAN, 1.0), 1.0);
        assert_eq!(Wide::larger(1.0, f64::NAN), 1.0);
        assert!(Wide::larger(f64::NAN, f64::NAN).is_nan());
    }

    fn by(divisor: u32) -> NonZeroU32 {
        NonZeroU32::new(divisor).unwrap()
    }

    #[test]
    fn integers_wrap_and_divide_toward_zero() {
        assert_eq!(Wide::sum(i8::MAX, 1), i8::MIN);
        assert_eq!(Wide::prod(u32::MAX, 2), u32::MAX - 1);
        assert_eq!(Wide::divide(-7_i32, by(2)), -3);
        assert_eq!(Wide::divide(i8::MIN, by(300)), 0);
        assert_eq!(Wide::divide(u64::MAX, by(2)), u64::MAX / 2);
    }
}

//! Elements as exact numbers: for the reference, for test inputs and for messages, never for speed.

use std::fmt;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use msccl_collective::{DataType, Reduction};

/// The value of an element, wide enough to be exact.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    /// The element in `bytes`, which are as many as `data_type` needs; zero if they are fewer.
    pub(crate) fn load(data_type: DataType, bytes: &[u8]) -> Self {
        fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
            bytes.first_chunk().copied().unwrap_or([0; N])
        }
        let integer = Number::Integer;
        match data_type {
            DataType::I8 => integer(i8::from_ne_bytes(array(bytes)).into()),
            DataType::U8 => integer(u8::from_ne_bytes(array(bytes)).into()),
            DataType::I32 => integer(i32::from_ne_bytes(array(bytes)).into()),
            DataType::U32 => integer(u32::from_ne_bytes(array(bytes)).into()),
            DataType::I64 => integer(i64::from_ne_bytes(array(bytes)).into()),
            DataType::U64 => integer(u64::from_ne_bytes(array(bytes)).into()),
            DataType::F16 => Number::Float(f16::from_ne_bytes(array(bytes)).to_f64()),
            DataType::Bf16 => Number::Float(bf16::from_ne_bytes(array(bytes)).to_f64()),
            DataType::F32 => Number::Float(f32::from_ne_bytes(array(bytes)).into()),
            DataType::F64 => Number::Float(f64::from_ne_bytes(array(bytes))),
            DataType::F8E4M3 => Number::Float(F8E4M3::from_bits(array::<1>(bytes)[0]).to_f64()),
            DataType::F8E5M2 => Number::Float(F8E5M2::from_bits(array::<1>(bytes)[0]).to_f64()),
        }
    }

    /// Appends the nearest element of `data_type`; integers wrap.
    pub(crate) fn store(self, data_type: DataType, into: &mut Vec<u8>) {
        let (integer, float) = match self {
            Number::Integer(value) => (value, value as f64),
            Number::Float(value) => (value as i128, value),
        };
        match data_type {
            DataType::I8 | DataType::U8 => into.push(integer as u8),
            DataType::I32 | DataType::U32 => into.extend((integer as u32).to_ne_bytes()),
            DataType::I64 | DataType::U64 => into.extend((integer as u64).to_ne_bytes()),
            DataType::F16 => into.extend(f16::from_f64(float).to_ne_bytes()),
            DataType::Bf16 => into.extend(bf16::from_f64(float).to_ne_bytes()),
            DataType::F32 => into.extend((float as f32).to_ne_bytes()),
            DataType::F64 => into.extend(float.to_ne_bytes()),
            DataType::F8E4M3 => into.push(F8E4M3::from_f64(float).to_bits()),
            DataType::F8E5M2 => into.push(F8E5M2::from_f64(float).to_bits()),
        }
    }

    /// `self` and `other` combined; `avg` adds.
    pub(crate) fn combine(self, reduction: Reduction, other: Self) -> Self {
        use Number::{Float, Integer};
        match (self, other, reduction) {
            (Integer(a), Integer(b), Reduction::Sum | Reduction::Avg) => Integer(a.wrapping_add(b)),
            (Integer(a), Integer(b), Reduction::Prod) => Integer(a.wrapping_mul(b)),
            (Integer(a), Integer(b), Reduction::Min) => Integer(a.min(b)),
            (Integer(a), Integer(b), Reduction::Max) => Integer(a.max(b)),
            (Float(a), Float(b), Reduction::Sum | Reduction::Avg) => Float(a + b),
            (Float(a), Float(b), Reduction::Prod) => Float(a * b),
            (Float(a), Float(b), Reduction::Min) => Float(a.min(b)),
            (Float(a), Float(b), Reduction::Max) => Float(a.max(b)),
            // Elements of one type are all integers or all floats.
            (Integer(_), Float(_), _) | (Float(_), Integer(_), _) => self,
        }
    }

    /// What one of `contributions` elements of `data_type` adds to their average: of floats the
    /// product with one over their number, both rounded to the type; of integers all of it.
    pub(crate) fn share(self, data_type: DataType, contributions: usize) -> Self {
        match self {
            Number::Float(value) => {
                let factor = Number::Float(1.0 / contributions as f64).stored(data_type);
                let Number::Float(factor) = factor else { return self };
                Number::Float(value * factor).stored(data_type)
            }
            Number::Integer(_) => self,
        }
    }

    /// The average of `contributions` elements of `data_type` whose shares have this sum: integers
    /// are divided after they have wrapped, toward zero.
    pub(crate) fn average(self, data_type: DataType, contributions: usize) -> Self {
        match self.stored(data_type) {
            Number::Integer(sum) => Number::Integer(sum / contributions.max(1) as i128),
            Number::Float(_) => self,
        }
    }

    /// The number as `data_type` holds it.
    fn stored(self, data_type: DataType) -> Self {
        let mut bytes = Vec::new();
        self.store(data_type, &mut bytes);
        Number::load(data_type, &bytes)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
        }
    }
}

/// The largest `n` such that `data_type` holds every integer from 0 to `n`; `None` for integers,
/// whose sums wrap and so are exact in any order.
pub(crate) fn exact_integers(data_type: DataType) -> Option<u64> {
    match data_type {
        DataType::I8
        | DataType::U8
        | DataType::I32
        | DataType::U32
        | DataType::I64
        | DataType::U64 => None,
        DataType::F16 => Some(1 << 11),
        DataType::Bf16 => Some(1 << 8),
        DataType::F32 => Some(1 << 24),
        DataType::F64 => Some(1 << 53),
        DataType::F8E4M3 => Some(1 << 4),
        DataType::F8E5M2 => Some(1 << 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_integers_are_exact_and_the_next_is_not() {
        for data_type in DataType::ALL {
            let Some(limit) = exact_integers(data_type) else { continue };
            let stored = |value: u64| {
                let mut bytes = Vec::new();
                Number::Float(value as f64).store(data_type, &mut bytes);
                Number::load(data_type, &bytes)
            };
            for value in (0..=limit).rev().take(3000) {
                assert_eq!(stored(value), Number::Float(value as f64), "{data_type}");
            }
            if limit < 1 << 53 {
                assert_ne!(stored(limit + 1), Number::Float((limit + 1) as f64), "{data_type}");
            }
        }
    }

    #[test]
    fn integers_wrap_before_they_are_averaged() {
        let sum = Number::Integer(127 + 127 + 2);
        assert_eq!(sum.average(DataType::I8, 2), Number::Integer(0));
        assert_eq!(Number::Integer(-7).average(DataType::I32, 2), Number::Integer(-3));
    }

    #[test]
    fn floats_are_shared_before_they_are_added() {
        let share = |data_type, value, of| Number::Float(value).share(data_type, of);
        // A third is 0.34375 in e4m3, and 154 lies between 144 and 160.
        assert_eq!(share(DataType::F8E4M3, 448.0, 3), Number::Float(160.0));
        assert_eq!(share(DataType::F8E4M3, 448.0, 7), Number::Float(64.0));
        assert_eq!(share(DataType::F16, 65504.0, 4), Number::Float(16376.0));
        assert_eq!(share(DataType::F32, 3.0, 3), Number::Float(1.0));
        assert_eq!(Number::Integer(-7).share(DataType::I32, 2), Number::Integer(-7));
    }
}

//! Data types and reductions: launch arguments, never part of an algorithm.

use std::fmt;
use std::str::FromStr;

/// The type of one element, as in the NCCL C API.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DataType {
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE 754 half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// 8-bit float, 4 exponent bits, 3 mantissa bits, no infinities (OCP E4M3).
    F8E4M3,
    /// 8-bit float, 5 exponent bits, 2 mantissa bits (OCP E5M2).
    F8E5M2,
}

impl DataType {
    /// Every data type, in the order of the NCCL C API's names.
    pub const ALL: [DataType; 12] = [
        DataType::I8,
        DataType::U8,
        DataType::I32,
        DataType::U32,
        DataType::I64,
        DataType::U64,
        DataType::F16,
        DataType::Bf16,
        DataType::F32,
        DataType::F64,
        DataType::F8E4M3,
        DataType::F8E5M2,
    ];

    /// Size of one element in bytes.
    pub fn size_bytes(self) -> usize {
        match self {
            DataType::I8 | DataType::U8 | DataType::F8E4M3 | DataType::F8E5M2 => 1,
            DataType::F16 | DataType::Bf16 => 2,
            DataType::I32 | DataType::U32 | DataType::F32 => 4,
            DataType::I64 | DataType::U64 | DataType::F64 => 8,
        }
    }

    /// Whether elements are floats, of which sums are rounded; otherwise they are integers, of
    /// which sums wrap.
    pub fn is_float(self) -> bool {
        match self {
            DataType::I8
            | DataType::U8
            | DataType::I32
            | DataType::U32
            | DataType::I64
            | DataType::U64 => false,
            DataType::F16
            | DataType::Bf16
            | DataType::F32
            | DataType::F64
            | DataType::F8E4M3
            | DataType::F8E5M2 => true,
        }
    }

    /// The name used on the command line and in messages.
    pub fn name(self) -> &'static str {
        match self {
            DataType::I8 => "i8",
            DataType::U8 => "u8",
            DataType::I32 => "i32",
            DataType::U32 => "u32",
            DataType::I64 => "i64",
            DataType::U64 => "u64",
            DataType::F16 => "f16",
            DataType::Bf16 => "bf16",
            DataType::F32 => "f32",
            DataType::F64 => "f64",
            DataType::F8E4M3 => "f8e4m3",
            DataType::F8E5M2 => "f8e5m2",
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DataType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::ALL, Self::name, "data type", text)
    }
}

/// How contributions combine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reduction {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Mean. Of integers: the sum, which wraps, divided by the number of contributions, toward
    /// zero. Of floats: the sum of contributions of which each is multiplied before by one over
    /// their number, so that it overflows only where the mean does.
    Avg,
}

impl Reduction {
    /// Every reduction.
    pub const ALL: [Reduction; 5] =
        [Reduction::Sum, Reduction::Prod, Reduction::Min, Reduction::Max, Reduction::Avg];

    /// The name used on the command line and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Prod => "prod",
            Reduction::Min => "min",
            Reduction::Max => "max",
            Reduction::Avg => "avg",
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Reduction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::ALL, Self::name, "reduction", text)
    }
}

/// The member of `all` called `text`, or a message that lists the names.
pub(crate) fn by_name<T: Copy>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
    what: &str,
    text: &str,
) -> Result<T, String> {
    let found = all.iter().copied().find(|&item| name(item).eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&item| name(item)).collect();
        format!("unknown {what} `{text}`; expected one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for data_type in DataType::ALL {
            assert_eq!(data_type.name().parse(), Ok(data_type));
        }
        for reduction in Reduction::ALL {
            assert_eq!(reduction.name().parse(), Ok(reduction));
        }
        assert!("f17".parse::<DataType>().unwrap_err().contains("bf16"));
    }
}

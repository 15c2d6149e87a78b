//! Data types and reductions as the C interface and nccl-tests have them.

use std::fmt;
use std::str::FromStr;

use msccl_collective::{DataType, Reduction};
use serde::{Deserialize, Serialize};

/// The type of an element, under nccl-tests' name for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct ElementType(pub DataType);

/// How contributions combine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Redop {
    /// One of the standard reductions.
    Plain(Reduction),
    /// A sum in which every odd rank counts twice.
    MulSum,
}

impl ElementType {
    /// Every type, in the order of the C interface's numbers.
    pub const ALL: [Self; 12] = [
        Self(DataType::I8),
        Self(DataType::U8),
        Self(DataType::I32),
        Self(DataType::U32),
        Self(DataType::I64),
        Self(DataType::U64),
        Self(DataType::F16),
        Self(DataType::F32),
        Self(DataType::F64),
        Self(DataType::Bf16),
        Self(DataType::F8E4M3),
        Self(DataType::F8E5M2),
    ];

    /// nccl-tests' name.
    pub fn name(self) -> &'static str {
        match self.0 {
            DataType::I8 => "int8",
            DataType::U8 => "uint8",
            DataType::I32 => "int32",
            DataType::U32 => "uint32",
            DataType::I64 => "int64",
            DataType::U64 => "uint64",
            DataType::F16 => "half",
            DataType::F32 => "float",
            DataType::F64 => "double",
            DataType::Bf16 => "bfloat16",
            DataType::F8E4M3 => "f8e4m3",
            DataType::F8E5M2 => "f8e5m2",
        }
    }

    /// What others call it.
    fn aliases(&self) -> Vec<&'static str> {
        let others: &[&'static str] = match self.0 {
            DataType::I8 => &["char"],
            DataType::U8 => &[],
            DataType::I32 => &["int"],
            DataType::U32 => &[],
            DataType::I64 => &[],
            DataType::U64 => &[],
            DataType::F16 => &["float16", "fp16"],
            DataType::F32 => &["float32", "fp32"],
            DataType::F64 => &["float64", "fp64"],
            DataType::Bf16 => &[],
            DataType::F8E4M3 => &["fp8e4m3", "float8e4m3", "float8e4m3fn", "e4m3"],
            DataType::F8E5M2 => &["fp8e5m2", "float8e5m2", "e5m2"],
        };
        [self.0.name()].into_iter().chain(others.iter().copied()).collect()
    }

    /// The number that the C interface gives it.
    pub fn code(self) -> i32 {
        match self.0 {
            DataType::I8 => 0,
            DataType::U8 => 1,
            DataType::I32 => 2,
            DataType::U32 => 3,
            DataType::I64 => 4,
            DataType::U64 => 5,
            DataType::F16 => 6,
            DataType::F32 => 7,
            DataType::F64 => 8,
            DataType::Bf16 => 9,
            DataType::F8E4M3 => 10,
            DataType::F8E5M2 => 11,
        }
    }

    /// Size of one element in bytes.
    pub fn size_bytes(self) -> u64 {
        self.0.size_bytes() as u64
    }

    /// Bits of the fraction, and the bias of the exponent; `None` for integers.
    pub(crate) fn float_layout(self) -> Option<FloatLayout> {
        let layout = |fraction_bits, bias| Some(FloatLayout { fraction_bits, bias });
        match self.0 {
            DataType::I8
            | DataType::U8
            | DataType::I32
            | DataType::U32
            | DataType::I64
            | DataType::U64 => None,
            DataType::F16 => layout(10, 15),
            DataType::Bf16 => layout(7, 127),
            DataType::F32 => layout(23, 127),
            DataType::F64 => layout(52, 1023),
            DataType::F8E4M3 => layout(3, 7),
            DataType::F8E5M2 => layout(2, 15),
        }
    }

    /// The bits of 2 to the power `exponent`, a small one and not negative.
    pub(crate) fn power_of_two(self, exponent: u32) -> u64 {
        match self.float_layout() {
            None => 1 << exponent,
            Some(FloatLayout { fraction_bits, bias }) => {
                (bias + u64::from(exponent)) << fraction_bits
            }
        }
    }
}

/// Where a float has its exponent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FloatLayout {
    pub(crate) fraction_bits: u32,
    pub(crate) bias: u64,
}

impl Redop {
    /// Every reduction, in nccl-tests' order.
    pub const ALL: [Self; 6] = [
        Self::Plain(Reduction::Sum),
        Self::Plain(Reduction::Prod),
        Self::Plain(Reduction::Max),
        Self::Plain(Reduction::Min),
        Self::Plain(Reduction::Avg),
        Self::MulSum,
    ];

    /// nccl-tests' name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain(reduction) => reduction.name(),
            Self::MulSum => "mulsum",
        }
    }

    /// The number that the C interface gives it; `None` where the library makes one.
    pub(crate) fn code(self) -> Option<i32> {
        match self {
            Self::Plain(Reduction::Sum) => Some(0),
            Self::Plain(Reduction::Prod) => Some(1),
            Self::Plain(Reduction::Max) => Some(2),
            Self::Plain(Reduction::Min) => Some(3),
            Self::Plain(Reduction::Avg) => Some(4),
            Self::MulSum => None,
        }
    }
}

/// By what the contribution of `rank` to a [`Redop::MulSum`] is multiplied: 2 to this power.
pub(crate) fn mulsum_exponent(rank: u32) -> u32 {
    rank % 2
}

/// Reading, printing and serialising by name.
macro_rules! named {
    ($type:ident, $what:literal, $aliases:expr) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl From<$type> for &'static str {
            fn from(value: $type) -> Self {
                value.name()
            }
        }

        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let plain = |name: &str| name.to_lowercase().replace(['_', '-'], "");
                let is = |value: &Self| {
                    let names = [value.name()].into_iter().chain($aliases(value));
                    names.into_iter().any(|name| plain(name) == plain(text))
                };
                Self::ALL.into_iter().find(is).ok_or_else(|| {
                    let names = Self::ALL.map(Self::name).join(", ");
                    format!("unknown {} `{text}`; expected one of {names}, all", $what)
                })
            }
        }
    };
}

named!(ElementType, "data type", ElementType::aliases);
named!(Redop, "reduction", |_: &Redop| []);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_numbers_of_the_interface_and_both_names() {
        for (number, element) in ElementType::ALL.into_iter().enumerate() {
            assert_eq!(usize::try_from(element.code()), Ok(number));
            assert_eq!(element.name().parse(), Ok(element));
            assert_eq!(element.0.name().parse(), Ok(element));
        }
        for (text, data_type) in [
            ("fp8_e4m3", DataType::F8E4M3),
            ("float8_e5m2", DataType::F8E5M2),
            ("Float16", DataType::F16),
            ("fp32", DataType::F32),
            ("char", DataType::I8),
        ] {
            assert_eq!(text.parse(), Ok(ElementType(data_type)));
        }
        // Which of the two is not said.
        assert!("float8".parse::<ElementType>().unwrap_err().contains("f8e4m3, f8e5m2"));
        assert!("f17".parse::<ElementType>().unwrap_err().contains("bfloat16"));
    }

    #[test]
    fn reductions_read_back() {
        for redop in Redop::ALL {
            assert_eq!(redop.name().parse(), Ok(redop));
        }
        assert_eq!("MULSUM".parse(), Ok(Redop::MulSum));
    }

    #[test]
    fn powers_of_two_have_the_right_bits() {
        let bits = |data_type, exponent| ElementType(data_type).power_of_two(exponent);
        assert_eq!(bits(DataType::F32, 1), u64::from(2_f32.to_bits()));
        assert_eq!(bits(DataType::F64, 0), 1_f64.to_bits());
        assert_eq!(bits(DataType::F16, 1), 0x4000);
        assert_eq!(bits(DataType::Bf16, 0), 0x3f80);
        assert_eq!(bits(DataType::F8E4M3, 0), 0x38);
        assert_eq!(bits(DataType::F8E5M2, 1), 0x40);
        assert_eq!(bits(DataType::U8, 1), 2);
    }
}

//! Sizes in bytes, as people write and read them: `512`, `64KiB`, `1.5 MiB`, `64KiB..8MiB`.

use std::fmt;
use std::str::FromStr;

use msccl_collective::SizeRange;

/// Units, largest first.
const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// Most digits of a number that is given exactly.
const MOST_DIGITS: usize = 20;

/// A number of bytes. Reads `4096`, `4KiB`, `4K`, `4KB`, `1.5M`, `1e3`; prints `4 KiB`.
///
/// As the field's benchmarks, a thousand is 1024 in every unit, and what is less than a byte is cut
/// off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Scaled { whole, rest: _ } = Scaled::parse(text)?;
        Ok(ByteSize(whole))
    }
}

/// A number with its unit, and whether something less than one was cut off.
pub struct Scaled {
    /// The whole number.
    pub whole: u64,
    /// Whether there was something behind it.
    pub rest: bool,
}

impl Scaled {
    /// Reads a number with or without a unit.
    ///
    /// # Errors
    ///
    /// It is none, or beyond 64 bits.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let hex = trimmed.strip_prefix("0x").or(trimmed.strip_prefix("0X"));
        if let Some(digits) = hex.filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit())) {
            let whole = u64::from_str_radix(digits, 16).map_err(|_| misread(text))?;
            return Ok(Scaled { whole, rest: false });
        }
        let (number, unit) = trimmed.split_at(end_of_number(trimmed));
        let shift = shift_of(unit.trim()).ok_or_else(|| misread(text))?;
        let Decimal { digits, exponent } = Decimal::parse(number).ok_or_else(|| misread(text))?;
        let too_large = || format!("`{text}` is more than 2^64 bytes");
        let scaled = u128::from(digits) << shift;
        if digits == 0 {
            return Ok(Scaled { whole: 0, rest: false });
        }
        let power = 10_u128.checked_pow(exponent.unsigned_abs());
        let (whole, rest) = match (exponent >= 0, power) {
            (true, power) => (power.and_then(|power| scaled.checked_mul(power)), 0),
            (false, Some(power)) => (Some(scaled / power), scaled % power),
            (false, None) => (Some(0), 1),
        };
        let whole = whole.and_then(|whole| u64::try_from(whole).ok()).ok_or_else(too_large)?;
        Ok(Scaled { whole, rest: rest > 0 })
    }
}

/// Where the unit begins.
fn end_of_number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_part = |at: usize| match bytes[at] {
        b'0'..=b'9' | b'_' | b'.' => true,
        b'+' => at == 0 || matches!(bytes[at - 1], b'e' | b'E'),
        b'-' => at > 0 && matches!(bytes[at - 1], b'e' | b'E'),
        b'e' | b'E' => matches!(bytes.get(at + 1), Some(b'0'..=b'9' | b'+' | b'-')),
        _ => false,
    };
    (0..bytes.len()).find(|&at| !is_part(at)).unwrap_or(bytes.len())
}

/// `digits` times ten to the power `exponent`.
struct Decimal {
    digits: u64,
    exponent: i32,
}

impl Decimal {
    /// Reads digits with an optional point and exponent.
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('+').unwrap_or(text).replace('_', "");
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i16>().ok()?),
            None => (text.as_str(), 0),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let part = part.trim_end_matches('0');
        let digits = format!("{whole}{part}");
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number
            || whole.len() + part.len() > MOST_DIGITS
            || (whole.is_empty() && part.is_empty())
        {
            return None;
        }
        let exponent = i32::from(exponent) - i32::try_from(part.len()).ok()?;
        Some(Self { digits: digits.parse().ok()?, exponent })
    }
}

/// By how many bits a unit shifts: `K`, `KB` and `KiB` are all 1024.
fn shift_of(unit: &str) -> Option<u32> {
    if unit.is_empty() || unit.eq_ignore_ascii_case("b") {
        return Some(0);
    }
    let is_named = |name: &str| {
        let letter = &name[..1];
        let short =
            [letter.to_owned(), format!("{letter}b"), format!("{letter}i"), name.to_owned()];
        short.iter().any(|name| name.eq_ignore_ascii_case(unit))
    };
    UNITS.iter().find(|(name, _)| is_named(name)).map(|&(_, shift)| shift)
}

fn misread(text: &str) -> String {
    format!(
        "`{text}` is no size; write a number of bytes, KiB, MiB or GiB, such as 512, 64KiB, 64K or \
         1.5MB"
    )
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ByteSize(bytes) = *self;
        let Some((unit, shift)) = UNITS.iter().find(|(_, shift)| bytes >> shift > 0) else {
            return write!(f, "{bytes} B");
        };
        let (whole, rest) = (bytes >> shift, bytes & ((1 << shift) - 1));
        match rest {
            0 => write!(f, "{whole} {unit}"),
            _ => write!(f, "{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        }
    }
}

/// A range of sizes, upper end included: `64KiB..8MiB`, `..8MiB`, `64KiB..`, or one size alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeSpan(pub SizeRange);

impl FromStr for SizeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((low, high)) = text.split_once("..") else {
            let ByteSize(bytes) = text.parse()?;
            return Ok(SizeSpan(SizeRange { min_bytes: bytes, max_bytes: Some(bytes) }));
        };
        let high = high.strip_prefix('=').unwrap_or(high);
        let end = |text: &str| -> Result<Option<u64>, String> {
            if text.trim().is_empty() {
                return Ok(None);
            }
            text.parse().map(|ByteSize(bytes)| Some(bytes))
        };
        let range = SizeRange { min_bytes: end(low)?.unwrap_or(0), max_bytes: end(high)? };
        match range.max_bytes {
            Some(max) if max < range.min_bytes => Err(format!("`{text}` ends before it starts")),
            _ => Ok(SizeSpan(range)),
        }
    }
}

/// `sizes from 4 KiB below 1 MiB`.
pub fn range_in_words(range: SizeRange) -> String {
    match (range.min_bytes, range.max_bytes) {
        (0, None) => "all sizes".to_owned(),
        (0, Some(max)) => format!("sizes {}", up_to(max)),
        (min, None) => format!("sizes from {}", ByteSize(min)),
        (min, Some(max)) if min == max => format!("calls of {}", ByteSize(max)),
        (min, Some(max)) => format!("sizes from {} {}", ByteSize(min), up_to(max)),
    }
}

/// The upper end of a range: files mostly name the first size that is too large.
fn up_to(max: u64) -> String {
    match max.checked_add(1) {
        Some(end) if end % 1024 == 0 => format!("below {}", ByteSize(end)),
        _ => format!("up to {}", ByteSize(max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_in_every_common_spelling() {
        for text in [
            "65536", "64KiB", "64K", "64k", "65_536", "64 kib", "65536B", "64KB", "64kb", "64 KB",
            "64Ki", "6.4e1K", "0.0625M", "65536.0", "+65536", "0x10000", "655.36e2", "65536.9",
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(65536)), "{text}");
        }
        let bytes = |text: &str| text.parse::<ByteSize>().map(|ByteSize(bytes)| bytes).unwrap();
        assert_eq!([bytes("64MB"), bytes("64mb"), bytes("64M")], [64 << 20; 3]);
        assert_eq!(
            [bytes("1.5M"), bytes("1e3"), bytes("1E3"), bytes("1e+3")],
            [3 << 19, 1000, 1000, 1000]
        );
        assert_eq!(
            [bytes("1G"), bytes("2TB"), bytes("0"), bytes("0e99"), bytes("1e-99")],
            [1 << 30, 2 << 40, 0, 0, 0]
        );
        assert_eq!([bytes("0.3K"), bytes(".5K"), bytes("5.")], [307, 512, 5]);
        assert_eq!(bytes("18446744073709551615"), u64::MAX);
        for text in [
            "", "KiB", "-1", "-1K", "1e", "1e3e3", "1.2.3", "x", "1X", "1KX", "1 2", "nan", "inf",
            ".", "0x", "0xg", "1e99999", "K1", "1,5M", "64MBps",
        ] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        for text in ["99999999999999999999", "1e99", "18446744073709551616", "16777216T"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert!("99999999TiB".parse::<ByteSize>().unwrap_err().contains("2^64"));
    }

    #[test]
    fn sizes_print_in_the_largest_unit_that_fits() {
        let printed = [0, 1023, 1024, 1536, 1 << 20, (1 << 30) + (1 << 29)];
        let printed = printed.map(|bytes| ByteSize(bytes).to_string());
        assert_eq!(printed, ["0 B", "1023 B", "1 KiB", "1.5 KiB", "1 MiB", "1.5 GiB"]);
    }

    #[test]
    fn spans_may_be_open() {
        let span = |min_bytes, max_bytes| Ok(SizeSpan(SizeRange { min_bytes, max_bytes }));
        assert_eq!("1K..2K".parse(), span(1024, Some(2048)));
        assert_eq!("..8".parse(), span(0, Some(8)));
        assert_eq!("8..".parse(), span(8, None));
        assert_eq!("8".parse(), span(8, Some(8)));
        assert!("9..8".parse::<SizeSpan>().is_err());
    }
}

//! Sizes in bytes, as people write and read them: `512`, `64KiB`, `1.5 MiB`, `64KiB..8MiB`.

use std::fmt;
use std::str::FromStr;

use msccl_collective::SizeRange;

/// Units, largest first.
const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// A number of bytes. Reads `4096`, `4KiB`, `4K`; prints `4 KiB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '_');
        let (number, unit) = trimmed.split_at(digits.unwrap_or(trimmed.len()));
        let shift = shift_of(unit.trim()).ok_or_else(|| misread(text))?;
        let number: u64 = number.replace('_', "").parse().map_err(|_| misread(text))?;
        let bytes = number.checked_mul(1 << shift);
        bytes.map(ByteSize).ok_or_else(|| format!("`{text}` is more than 2^64 bytes"))
    }
}

/// By how many bits a unit shifts. Like the field's benchmarks, `K` is 1024.
fn shift_of(unit: &str) -> Option<u32> {
    if unit.is_empty() || unit.eq_ignore_ascii_case("b") {
        return Some(0);
    }
    let named = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit) || name[..1].eq_ignore_ascii_case(unit));
    named.map(|&(_, shift)| shift)
}

fn misread(text: &str) -> String {
    format!("`{text}` is no size; write a whole number of bytes, KiB, MiB or GiB, such as 64KiB")
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
        for text in ["65536", "64KiB", "64K", "64k", "65_536", "64 kib", "65536B"] {
            assert_eq!(text.parse(), Ok(ByteSize(65536)), "{text}");
        }
        for text in ["", "KiB", "1.5MiB", "64KB", "-1", "99999999999999999999", "1e6"] {
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

//! Rates and latencies, to the last digit: a text that states more than is kept is refused.

use std::fmt;

use super::error::ParseError;
use super::tokens::{Token, TokenKind};
use crate::bandwidth::Bandwidth;

/// `count` links of the rate that `number` and `unit` say.
pub(super) fn rate(
    count: Option<Token<'_>>,
    number: Token<'_>,
    unit: Token<'_>,
) -> Result<Bandwidth, ParseError> {
    let divisor = match (unit.kind, unit.text) {
        (TokenKind::Word, "GB/s") => 1,
        (TokenKind::Word, "Gbit/s") => 8,
        (TokenKind::Word, "MB/s") => 1000,
        _ => return Err(unit_error(unit, "`GB/s`, `MB/s` or `Gbit/s`")),
    };
    let count = match count {
        Some(token) => token.text.parse().map_err(|_| number_error(token, "a count of links"))?,
        None => 1u64,
    };
    let all = thousandths(number.text).and_then(|it| it.checked_mul(count));
    let whole = all.filter(|all| all % divisor == 0).map(|all| all / divisor);
    let rate = whole.and_then(|it| u32::try_from(it).ok()).filter(|it| *it > 0);
    let expected = "a rate of whole MB/s, from 1 MB/s to 4294967 GB/s";
    rate.map(Bandwidth::from_mb_per_s).ok_or_else(|| number_error(number, expected))
}

/// The nanoseconds that `number` and `unit` say.
pub(super) fn latency_ns(number: Token<'_>, unit: Token<'_>) -> Result<u32, ParseError> {
    let divisor = match (unit.kind, unit.text) {
        (TokenKind::Word, "us") => 1,
        (TokenKind::Word, "ns") => 1000,
        _ => return Err(unit_error(unit, "`us` or `ns`")),
    };
    let whole = thousandths(number.text).filter(|it| it % divisor == 0).map(|it| it / divisor);
    let latency = whole.and_then(|it| u32::try_from(it).ok());
    latency.ok_or_else(|| number_error(number, "a latency of whole ns, at most 4 s"))
}

fn unit_error(unit: Token<'_>, expected: &str) -> ParseError {
    ParseError::new(unit.at, expected, &unit.describe())
}

fn number_error(number: Token<'_>, expected: &str) -> ParseError {
    ParseError::new(number.at, expected, &number.describe())
}

/// A number with at most three digits after the point, times 1000.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let part_fits = (1..=3).contains(&part.len()) && part.bytes().all(|it| it.is_ascii_digit());
    let part: u64 = part_fits.then(|| format!("{part:0<3}").parse().ok())??;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

/// A number of thousandths, with as many digits after the point as it has.
pub(super) struct Thousandths(pub u32);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        let part = format!("{part:03}");
        match part.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            part => write!(f, "{whole}.{part}"),
        }
    }
}

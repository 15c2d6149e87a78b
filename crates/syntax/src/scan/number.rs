//! What looks like a number and is none.

use super::{Wrong, word_bytes};

/// The length of what a person meant as one number: digits, letters, and a decimal point.
pub(super) fn bytes(text: &str) -> usize {
    let whole = word_bytes(text);
    let mut after = text[whole..].chars();
    match (after.next(), after.next()) {
        (Some('.'), Some('0'..='9')) => whole + 1 + word_bytes(&text[whole + 1..]),
        _ => whole,
    }
}

/// What is wrong with it, if anything.
pub(super) fn check(number: &str) -> Option<Wrong> {
    let tail = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let found = |what: &str| format!("expected an integer, found {what} `{number}`");
    let (message, hint) = match tail {
        "" | "KiB" | "MiB" | "GiB" => return None,
        _ if tail.starts_with('.') => (found("the decimal"), "numbers are integers"),
        _ if is_radix(number) => (found("the literal"), "integers are written in decimal"),
        "K" | "M" | "G" | "KB" | "MB" | "GB" | "k" | "kB" | "kb" | "kib" | "mb" | "gb" => {
            (format!("unknown suffix `{tail}`"), "the suffixes are `KiB`, `MiB` and `GiB`")
        }
        _ => (found("the word"), "a name starts with a letter or `_`"),
    };
    Some(Wrong { message, hint: Some(hint) })
}

fn is_radix(number: &str) -> bool {
    let number = number.to_ascii_lowercase();
    ["0x", "0b", "0o"].iter().any(|radix| number.starts_with(radix))
}

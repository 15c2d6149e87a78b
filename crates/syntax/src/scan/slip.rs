//! Symbols: the language's own, and those that people bring along from other languages.

use super::{Mend, Wrong};

/// The symbols of the language, longest first.
const SYMBOLS: [&str; 23] = [
    "**", "==", "!=", "<=", ">=", "..", "<<", ">>", "+=", "=", "<", ">", "+", "-", "*", "/", "%",
    "|", "^", "&", "@", ",", ":",
];

/// Symbols that the language lacks, longest first: what the grammar reads instead, and the hint.
const SLIPS: [(&str, Mend, &str); 24] = [
    (".copy", Mend::Blank, "write the destination first: `destination = source`"),
    (".reduce", Mend::Blank, "write the destination first: `destination += source`"),
    (".split", Mend::Blank, "parts of a region are regions: `input@rank[a..b]`"),
    (".group", Mend::Blank, "a run of chunks is one region: `input@rank[a..b]`"),
    ("...", Mend::Text(".."), "a range is written `a..b`; it ends before b"),
    ("..=", Mend::Text(".."), "a range is written `a..b` and ends before b: `a..b+1` includes b"),
    ("&&", Mend::Text("&"), "write `and`"),
    ("||", Mend::Text("|"), "write `or`"),
    ("<>", Mend::Text("!="), "write `!=`"),
    ("=>", Mend::Text(">="), "write `=` to copy, `>=` to compare"),
    ("->", Mend::Text("-"), "write the destination first: `destination = source`"),
    (":=", Mend::Text("="), "write `let name = value`, or `destination = source`"),
    ("-=", Mend::Text("+="), MOVES),
    ("*=", Mend::Text("+="), MOVES),
    ("/=", Mend::Text("+="), MOVES),
    ("%=", Mend::Text("+="), MOVES),
    ("|=", Mend::Text("+="), MOVES),
    ("&=", Mend::Text("+="), MOVES),
    ("^=", Mend::Text("+="), MOVES),
    ("++", Mend::Text("+"), "names keep their values; lists are joined by `+`"),
    (";", Mend::Blank, "statements need no separator, and binders have `,` between them"),
    ("!", Mend::Text("-"), "write `not`"),
    ("\\", Mend::Blank, "line breaks are free; remove it"),
    (".", Mend::Blank, "there are no members; functions are called as `name(arguments)`"),
];

const MOVES: &str = "`=` copies and `+=` reduces; the operator is chosen when the algorithm runs";

/// A symbol at the start of a text.
pub(super) struct Found {
    /// Its length.
    pub bytes: usize,
    /// What is wrong with it, if anything.
    pub wrong: Option<(Mend, Wrong)>,
}

/// The symbol that a text begins with; at least one character long.
pub(super) fn find(text: &str) -> Found {
    if let Some(comment) = foreign_comment(text) {
        return comment;
    }
    if let Some(quoted) = foreign_quote(text) {
        return quoted;
    }
    let known = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol)).map_or(0, |s| s.len());
    let slip = SLIPS.iter().find(|(slip, ..)| text.starts_with(slip) && slip.len() > known);
    match slip {
        Some((symbol, mend, hint)) => wrong(symbol, *mend, Some(hint)),
        None if known > 0 => Found { bytes: known, wrong: None },
        None => unexpected(text),
    }
}

fn wrong(symbol: &str, mend: Mend, hint: Option<&'static str>) -> Found {
    let message = format!("unexpected `{symbol}`");
    Found { bytes: symbol.len(), wrong: Some((mend, Wrong { message, hint })) }
}

/// `# …`, `/* … */`.
fn foreign_comment(text: &str) -> Option<Found> {
    let (symbol, bytes) = if text.starts_with('#') {
        ("#", text.find('\n').unwrap_or(text.len()))
    } else if text.starts_with("/*") {
        ("/*", text.find("*/").map_or(text.len(), |end| end + 2))
    } else {
        return None;
    };
    let message = format!("unexpected `{symbol}`");
    let hint = Some("comments run from `//` to the end of the line");
    Some(Found { bytes, wrong: Some((Mend::Blank, Wrong { message, hint })) })
}

/// `'…'`, `“…”`, `` `…` ``.
fn foreign_quote(text: &str) -> Option<Found> {
    let quote = text.chars().next()?;
    let closing = match quote {
        '\'' | '`' => quote,
        '“' => '”',
        _ => return None,
    };
    let line = text.split('\n').next().unwrap_or_default();
    let end = line[quote.len_utf8()..].find(closing);
    let bytes = end.map_or(quote.len_utf8(), |end| quote.len_utf8() + end + closing.len_utf8());
    let message = format!("unexpected `{quote}`");
    let hint = Some("texts stand in double quotes: \"text\"");
    Some(Found { bytes, wrong: Some((Mend::Blank, Wrong { message, hint })) })
}

fn unexpected(text: &str) -> Found {
    let character = text.chars().next().unwrap_or_default();
    let bytes = character.len_utf8();
    let (shown, hint) = match character {
        c if c.is_alphabetic() => (c.to_string(), Some("names are made of a-z, A-Z, 0-9 and `_`")),
        c if c.is_control() || c.is_whitespace() => (format!("U+{:04X}", c as u32), None),
        c => (c.to_string(), None),
    };
    let message = format!("unexpected character `{shown}`");
    Found { bytes, wrong: Some((Mend::Blank, Wrong { message, hint })) }
}

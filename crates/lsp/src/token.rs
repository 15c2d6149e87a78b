//! Tokens of a text, whether it parses or not.
//!
//! The grammar refuses a text that is being written, so that what must work in the middle of a word
//! (completion, colours, folding) reads tokens. They cover the text but for blanks.

use std::ops::Range;

/// A token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// Which kind.
    pub kind: TokenKind,
    /// Its bytes.
    pub bytes: Range<usize>,
}

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// From `//` to the end of the line.
    Comment,
    /// In double quotes, or up to the end of the line.
    Text,
    /// With its suffix.
    Number,
    /// A name or a keyword.
    Word,
    /// One character, or an operator of two.
    Symbol,
}

/// Operators of two characters.
const PAIRS: [&str; 9] = ["**", "==", "!=", "<=", ">=", "..", "<<", ">>", "+="];

/// The words that cannot be names.
pub const KEYWORDS: [&str; 26] = [
    "import",
    "fn",
    "collective",
    "algorithm",
    "implements",
    "in",
    "place",
    "let",
    "if",
    "then",
    "else",
    "for",
    "on",
    "by",
    "scratch",
    "require",
    "given",
    "promise",
    "sum",
    "and",
    "or",
    "not",
    "true",
    "false",
    "input",
    "output",
];

impl Token {
    /// The token as it stands in its text.
    pub fn of<'t>(&self, text: &'t str) -> &'t str {
        &text[self.bytes.clone()]
    }
}

/// The tokens of `text`.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() || first == '\u{feff}' {
            at += first.len_utf8();
            continue;
        }
        let (kind, length) = token(&text[at..], first);
        tokens.push(Token { kind, bytes: at..at + length });
        at += length;
    }
    tokens
}

/// The kind and the length of the token that `rest` begins with.
fn token(rest: &str, first: char) -> (TokenKind, usize) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = || rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
    if rest.starts_with("//") {
        return (TokenKind::Comment, line(rest).trim_end().len());
    }
    match first {
        '"' => (TokenKind::Text, text_length(rest)),
        '0'..='9' => (TokenKind::Number, word()),
        first if is_word(first) => (TokenKind::Word, word()),
        _ if PAIRS.iter().any(|pair| rest.starts_with(pair)) => (TokenKind::Symbol, 2),
        _ => (TokenKind::Symbol, first.len_utf8()),
    }
}

fn line(rest: &str) -> &str {
    rest.split('\n').next().unwrap_or_default()
}

/// The length of a text in quotes; one that is not closed ends with the line.
fn text_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in line(rest).bytes().enumerate().skip(1) {
        if byte == b'"' && !escaped {
            return at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    line(rest).trim_end().len()
}

/// Whether `word` can be a name.
pub fn is_name(word: &str) -> bool {
    let mut bytes = word.bytes();
    let starts = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    starts
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_cover_a_text_that_does_not_parse() {
        let text = "for r in 0..N { input@r += \"a\\\"b // c\n  8KiB } // ende 😀 \r\n\"open\r\nx";
        let found: Vec<_> = tokens(text).iter().map(|token| token.of(text)).collect();
        let expected = [
            "for",
            "r",
            "in",
            "0",
            "..",
            "N",
            "{",
            "input",
            "@",
            "r",
            "+=",
            "\"a\\\"b // c",
            "8KiB",
            "}",
            "// ende 😀",
            "\"open",
            "x",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn keywords_are_no_names() {
        assert!(is_name("ranks") && is_name("_x1"));
        assert!(!is_name("for") && !is_name("1x") && !is_name("a-b") && !is_name(""));
    }
}

//! The words, numbers and signs of a text.

use super::error::{ParseError, Position};

/// Longest text, in bytes.
pub const MOST_TEXT_BYTES: usize = 1 << 20;

/// A word, number or sign, and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token<'a> {
    pub kind: TokenKind,
    /// As it stands there; a string without its quotes.
    pub text: &'a str,
    pub at: Position,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    /// A keyword, name, pattern or unit.
    Word,
    /// Digits, perhaps with a point and more digits.
    Number,
    /// What stands in quotes.
    Text,
    /// `-`, `>`, `*`, `{` or `}`.
    Sign,
    /// One or more ends of lines.
    LineEnd,
    /// The end of the text.
    End,
}

impl Token<'_> {
    /// For messages.
    pub fn describe(&self) -> String {
        match self.kind {
            TokenKind::Word | TokenKind::Number | TokenKind::Sign => format!("`{}`", self.text),
            TokenKind::Text => format!("\"{}\"", self.text),
            TokenKind::LineEnd => "the end of the line".to_owned(),
            TokenKind::End => "the end of the text".to_owned(),
        }
    }

    pub fn is(&self, kind: TokenKind, text: &str) -> bool {
        self.kind == kind && self.text == text
    }
}

/// The tokens of `text`, of which the last is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let start = Position { line: 1, column: 1 };
    if text.len() > MOST_TEXT_BYTES {
        let expected = format!("at most {MOST_TEXT_BYTES} bytes");
        return Err(ParseError::new(start, expected, &format!("{} bytes", text.len()))
            .advise("write equal nodes once, by `node * COUNT { … }`"));
    }
    let mut out: Vec<Token<'_>> = Vec::new();
    let (mut rest, mut at) = (text, start);
    while let Some(first) = rest.chars().next() {
        let length = token_length(rest, first, at)?;
        let (found, after) = rest.split_at(length);
        if let Some(kind) = kind(first, found) {
            let repeats = kind == TokenKind::LineEnd && out.last().is_none_or(|it| it.kind == kind);
            let text = if kind == TokenKind::Text { found.trim_matches('"') } else { found };
            out.extend((!repeats).then_some(Token { kind, text, at }));
        }
        at = match first {
            '\n' => Position { line: at.line + 1, column: 1 },
            _ => Position { column: at.column + found.chars().count(), ..at },
        };
        rest = after;
    }
    out.push(Token { kind: TokenKind::End, text: "", at });
    Ok(out)
}

/// What `found`, which begins with `first`, is; `None` for spaces and comments.
fn kind(first: char, found: &str) -> Option<TokenKind> {
    match first {
        '\n' => Some(TokenKind::LineEnd),
        '"' => Some(TokenKind::Text),
        '/' => None,
        _ if first.is_whitespace() => None,
        _ if first.is_ascii_digit() => Some(TokenKind::Number),
        _ if first.is_ascii_alphabetic() => Some(TokenKind::Word),
        _ => (!found.is_empty()).then_some(TokenKind::Sign),
    }
}

/// How many bytes belong together at the start of `rest`; at least one.
fn token_length(rest: &str, first: char, at: Position) -> Result<usize, ParseError> {
    let until = |end: fn(char) -> bool| rest.find(end).unwrap_or(rest.len());
    match first {
        '-' | '>' | '*' | '{' | '}' | '\n' => Ok(1),
        '"' => string_length(rest, at),
        '/' if rest.starts_with("//") => Ok(until(|it| it == '\n')),
        _ if first.is_whitespace() => Ok(until(|it| !it.is_whitespace() || it == '\n')),
        _ if first.is_ascii_digit() => Ok(until(|it| !it.is_ascii_digit() && it != '.')),
        _ if first.is_ascii_alphabetic() => Ok(word_length(rest)),
        _ => Err(ParseError::new(at, "a name, number, sign or comment", &format!("`{first}`"))
            .advise("comments begin with `//`; names have letters, digits, `_` and `.`")),
    }
}

fn string_length(rest: &str, at: Position) -> Result<usize, ParseError> {
    let inside = rest.get(1..).unwrap_or_default();
    match inside.find(|it: char| it == '"' || it.is_control()) {
        Some(end) if inside[end..].starts_with('"') => Ok(end + 2),
        Some(_) | None => {
            let found = "a title without its second quote";
            Err(ParseError::new(at, "`\"` after the title, on the same line", found))
        }
    }
}

/// A word is letters, digits, `_`, `.`, `*`, brackets with what they hold, and `/` between letters.
fn word_length(rest: &str) -> usize {
    let mut inside_brackets = false;
    let mut last = ' ';
    for (at, it) in rest.char_indices() {
        let next = rest.get(at + 1..).and_then(|after| after.chars().next());
        let divides = last.is_ascii_alphabetic() && next.is_some_and(|it| it.is_ascii_alphabetic());
        let belongs = match it {
            '[' => !std::mem::replace(&mut inside_brackets, true),
            ']' => std::mem::replace(&mut inside_brackets, false),
            '-' => inside_brackets,
            '/' => divides,
            _ => it.is_ascii_alphanumeric() || "_.*".contains(it),
        };
        if !belongs {
            return at;
        }
        last = it;
    }
    rest.len()
}

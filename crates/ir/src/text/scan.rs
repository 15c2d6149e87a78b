//! Words, numbers and names of one line.

use std::fmt;

/// A complaint about a text: where, what was expected, and what was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1, in characters.
    pub column: usize,
    /// What was expected.
    pub expected: String,
    /// What was found instead.
    pub found: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TextError { line, column, expected, found } = self;
        write!(f, "line {line}, column {column}: expected {expected}, found {found}")
    }
}

impl std::error::Error for TextError {}

/// What is left of one line.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// The line's number, counted from 1.
    number: usize,
    whole: &'a str,
    rest: &'a str,
}

/// The result of reading a part of a line.
pub(super) type Scan<T> = Result<T, TextError>;

/// The lines of a text that hold more than white space and comments.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let lines = text.lines().enumerate();
    lines
        .map(|(index, whole)| Line { number: index + 1, whole, rest: whole }.skip_space())
        .filter(|line| !line.rest.is_empty())
}

/// The error that a text ends too soon.
pub(super) fn ends_before(text: &str, expected: &str) -> TextError {
    TextError {
        line: 1 + text.lines().count(),
        column: 1,
        expected: expected.to_owned(),
        found: "the end of the text".to_owned(),
    }
}

impl<'a> Line<'a> {
    fn skip_space(mut self) -> Self {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with("//") {
            self.rest = "";
        }
        self
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
        *self = self.skip_space();
    }

    /// An error at what is left.
    pub(super) fn error(&self, expected: impl Into<String>) -> TextError {
        let before = self.whole.len() - self.rest.len();
        let column = 1 + self.whole.get(..before).map_or(0, |before| before.chars().count());
        let found: String = self.rest.chars().take_while(|c| !c.is_whitespace()).take(40).collect();
        let found =
            if found.is_empty() { "the end of the line".to_owned() } else { format!("`{found}`") };
        TextError { line: self.number, column, expected: expected.into(), found }
    }

    /// Takes a mark such as `,` if it is next.
    pub(super) fn takes(&mut self, mark: &str) -> bool {
        let is_next = self.rest.starts_with(mark);
        if is_next {
            self.advance(mark.len());
        }
        is_next
    }

    /// Takes a mark that must be next.
    pub(super) fn mark(&mut self, mark: &str) -> Scan<()> {
        if self.takes(mark) { Ok(()) } else { Err(self.error(format!("`{mark}`"))) }
    }

    /// The letters and digits that are next.
    fn peek_word(&self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        &self.rest[..end]
    }

    /// Whether a prefix with a number is next: `r3` for the prefix `r`.
    pub(super) fn starts_with_number(&self, prefix: &str) -> bool {
        let digits = self.peek_word().strip_prefix(prefix);
        digits.is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Whether a word is next.
    pub(super) fn starts_with_word(&self, word: &str) -> bool {
        self.peek_word() == word
    }

    /// Takes a word if it is next.
    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        let is_next = self.starts_with_word(word);
        if is_next {
            self.advance(word.len());
        }
        is_next
    }

    /// Takes a word that must be next.
    pub(super) fn word(&mut self, word: &str) -> Scan<()> {
        if self.takes_word(word) { Ok(()) } else { Err(self.error(format!("`{word}`"))) }
    }

    /// Takes whichever of `choices` is next, by its words.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[(&str, T)]) -> Scan<T> {
        for &(words, value) in choices {
            let mut line = *self;
            if words.split(' ').all(|word| line.takes_word(word)) {
                *self = line;
                return Ok(value);
            }
        }
        let names: Vec<_> = choices.iter().map(|(words, _)| format!("`{words}`")).collect();
        Err(self.error(format!("one of {}", names.join(", "))))
    }

    /// Takes digits after a prefix: `r3` for the prefix `r`, `17` for none.
    pub(super) fn number<T: std::str::FromStr>(&mut self, prefix: &str) -> Scan<T> {
        let word = self.peek_word();
        let digits = word.strip_prefix(prefix).filter(|digits| is_plain(digits));
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(number) => {
                self.advance(word.len());
                Ok(number)
            }
            None if prefix.is_empty() => Err(self.error("a number")),
            None => Err(self.error(format!("`{prefix}` with a number"))),
        }
    }

    /// Takes a list with marks between its items.
    pub(super) fn list<T>(
        &mut self,
        mark: &str,
        mut item: impl FnMut(&mut Self) -> Scan<T>,
    ) -> Scan<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.takes(mark) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Takes a quoted string.
    pub(super) fn quoted(&mut self) -> Scan<String> {
        let Some(mut rest) = self.rest.strip_prefix('"') else {
            return Err(self.error("a string in double quotes"));
        };
        let mut text = String::new();
        loop {
            let Some(end) = rest.find(['"', '\\']) else {
                return Err(self.error("a string with a closing quote"));
            };
            text.push_str(&rest[..end]);
            if let Some(after) = rest[end..].strip_prefix('"') {
                self.advance(self.rest.len() - after.len());
                return Ok(text);
            }
            let Some((c, after)) = unescape(&rest[end..]) else {
                return Err(self.error("a string with no escapes but \\\", \\\\ and \\u{…}"));
            };
            text.push(c);
            rest = after;
        }
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Scan<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error("the end of the line")) }
    }
}

/// The character that an escape at the start of `text` stands for, and what follows it.
fn unescape(text: &str) -> Option<(char, &str)> {
    let text = text.strip_prefix('\\')?;
    if let Some(code) = text.strip_prefix("u{") {
        let (digits, after) = code.split_once('}')?;
        return Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, after));
    }
    let c = text.chars().next().filter(|c| matches!(c, '"' | '\\'))?;
    Some((c, &text[1..]))
}

/// Digits that print back the same: no sign, no leading zeros.
fn is_plain(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'))
}

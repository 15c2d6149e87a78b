//! What a JSON parser says, in our words: expected, found, what to do.
//!
//! The parser gives its causes as text alone. All its forms stand here, and a test holds them to
//! it; a text of no such form is one of our own, made where values are checked.

use std::fmt;

use serde_json::error::Category;

/// A complaint in our words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Words {
    /// Something else stands there.
    Instead {
        expected: String,
        found: String,
        /// What to do, if there is more to say.
        advice: &'static str,
    },
    /// What whoever checks values says.
    Own(String),
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Words::Own(text) => f.write_str(text),
            Words::Instead { expected, found, advice: "" } => {
                write!(f, "expected {expected}, found {found}")
            }
            Words::Instead { expected, found, advice } => {
                write!(f, "expected {expected}, found {found}; {advice}")
            }
        }
    }
}

/// Line and column, counted from 1.
pub(super) fn position(error: &serde_json::Error) -> Option<(usize, usize)> {
    (error.line() > 0).then(|| (error.line(), error.column().max(1)))
}

impl Words {
    pub(super) fn new(error: &serde_json::Error, text: &[u8]) -> Self {
        let mut said = error.to_string();
        // The parser repeats the position at the end of its message.
        if let Some(end) = said.rfind(" at line ") {
            said.truncate(end);
        }
        match error.classify() {
            Category::Eof => end_of_file(&said),
            Category::Syntax if said == "expected value" && is_a_value(error, text) => {
                let expected = "a word in double quotes, or an object with one field";
                Words::new_with(expected, found_at(rest_at(error, text)), "")
            }
            Category::Syntax => syntax(&said, &found_at(rest_at(error, text))),
            Category::Data => data(&said).unwrap_or(Words::Own(said)),
            Category::Io => Words::Own("the text cannot be read".to_owned()),
        }
    }

    fn new_with(
        expected: impl Into<String>,
        found: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        Words::Instead { expected: expected.into(), found: found.into(), advice }
    }
}

fn end_of_file(said: &str) -> Words {
    let expected = match said {
        "EOF while parsing a list" => "the end of a list, `]`",
        "EOF while parsing an object" => "the end of an object, `}`",
        "EOF while parsing a string" => "the end of a text, `\"`",
        _ => "a value",
    };
    Words::new_with(expected, "the end of the file", "the file is empty or cut short")
}

fn syntax(said: &str, found: &str) -> Words {
    let (expected, advice) = match said {
        "expected `:`" => ("`:` after the name of a field", ""),
        "expected `,` or `]`" => ("`,` or `]`", ""),
        "expected `,` or `}`" => ("`,` or `}`", ""),
        "expected ident" => ("true, false or null", ""),
        "key must be a string" => ("the name of a field in double quotes", ""),
        "trailing comma" => ("a value after the comma", "remove the comma"),
        "trailing characters" => ("the end of the file", "a file holds one value; remove the rest"),
        "invalid number" => ("a number as JSON has it, such as 7 or -0.5", ""),
        "number out of range" => ("a number that 64 bits hold", ""),
        "invalid escape" | "unexpected end of hex escape" => {
            ("an escape such as \\n, \\\" or \\u00e9", "write \\\\ for a backslash")
        }
        "lone leading surrogate in hex escape" => {
            ("the second half of a character in \\u escapes", "write the character itself")
        }
        "invalid unicode code point" => ("UTF-8 text", "save the file as UTF-8"),
        "recursion limit exceeded" => ("at most 128 lists and objects inside one another", ""),
        _ if said.starts_with("control character") => {
            ("no line end, tab or other control character in a text", "write \\n or \\t")
        }
        _ => ("a value: a text in double quotes, a number, true, false, null, `[` or `{`", ""),
    };
    Words::new_with(expected, found, advice)
}

/// The rest of the line from where the parser stumbled.
fn rest_at<'a>(error: &serde_json::Error, text: &'a [u8]) -> &'a [u8] {
    let line = text.split(|&byte| byte == b'\n').nth(error.line().saturating_sub(1));
    line.and_then(|line| line.get(error.column().saturating_sub(1)..)).unwrap_or_default()
}

/// Whether there is a value where the parser expects one: then it wants a word, or one field around
/// something, and there is something else, or a second field.
fn is_a_value(error: &serde_json::Error, text: &[u8]) -> bool {
    match rest_at(error, text) {
        [b'-' | b'0'..=b'9' | b't' | b'f' | b'n' | b'[', ..] => true,
        [_, rest @ ..] => rest.trim_ascii_start().first() == Some(&b','),
        [] => false,
    }
}

/// The character at the beginning of `rest`.
fn found_at(rest: &[u8]) -> String {
    let rest = &rest[..rest.len().min(4)];
    let valid = match std::str::from_utf8(rest) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(character) if !character.is_control() => format!("`{character}`"),
        Some(character) => format!("the character U+{:04X}", u32::from(character)),
        None if rest.is_empty() => "the end of a line".to_owned(),
        None => "bytes that are not UTF-8".to_owned(),
    }
}

fn data(said: &str) -> Option<Words> {
    let quoted = |text: &str| text.strip_prefix('`')?.strip_suffix('`').map(str::to_owned);
    if let Some(field) = said.strip_prefix("missing field ") {
        return Some(Words::new_with(format!("a field {field}"), "none", "add it"));
    }
    if let Some(field) = said.strip_prefix("duplicate field ") {
        return Some(Words::new_with(
            format!("one field {field}"),
            "a second one",
            "remove one of them",
        ));
    }
    if let Some(rest) = said.strip_prefix("unknown field ") {
        let (found, known) = rest.split_once(", ").unwrap_or((rest, ""));
        let known = list(known).unwrap_or_else(|| "no field".to_owned());
        let advice = "correct its name, or remove it";
        return Some(Words::new_with(format!("a field out of {known}"), found, advice));
    }
    if let Some(rest) = said.strip_prefix("unknown variant ") {
        let (found, known) = rest.split_once(", ").unwrap_or((rest, ""));
        let known = list(known).unwrap_or_else(|| "no such word".to_owned());
        let found = quoted(found).unwrap_or_else(|| found.to_owned());
        return Some(Words::new_with(format!("one of {known}"), format!("`{found}`"), ""));
    }
    let wrong = ["invalid type: ", "invalid value: ", "invalid length "];
    let rest = wrong.iter().find_map(|start| said.strip_prefix(start))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    Some(Words::new_with(expected_value(expected), found_value(found), ""))
}

/// The names in `expected one of ...`, with commas; `None` if there are none.
fn list(known: &str) -> Option<String> {
    let names = known.strip_prefix("expected ")?;
    Some(names.strip_prefix("one of ").unwrap_or(names).replace(" or ", ", "))
}

fn expected_value(said: &str) -> String {
    let whole = |most: u64| format!("a whole number from 0 to {most}");
    let signed = |bits: u32| {
        let most = i64::MAX >> (64 - bits);
        format!("a whole number from {} to {most}", -most - 1)
    };
    match said {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => whole(u64::MAX),
        "i8" => signed(8),
        "i16" => signed(16),
        "i32" => signed(32),
        "i64" | "isize" => signed(64),
        "f32" | "f64" => "a number".to_owned(),
        "a string" | "a borrowed string" | "string" => "a text in double quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list, `[`".to_owned(),
        "a map" | "map" => "an object, `{`".to_owned(),
        "unit" | "null" => "null".to_owned(),
        "unit variant" => "the word alone, without an object around it".to_owned(),
        "newtype variant" => "an object with one field and its value".to_owned(),
        "string or map" => "a word in double quotes, or an object with one field".to_owned(),
        _ if said.starts_with("struct ") || said.starts_with("struct variant ") => {
            "an object, `{`".to_owned()
        }
        _ if said.starts_with("enum ") || said.ends_with(" identifier") => {
            "a word in double quotes, or an object with one field".to_owned()
        }
        _ if said.starts_with("tuple ") => "a list, `[`".to_owned(),
        _ => match elements(said) {
            Some(count) => format!("a list of {count} elements"),
            None => said.to_owned(),
        },
    }
}

/// How many elements a list must have.
fn elements(said: &str) -> Option<&str> {
    said.strip_prefix("a tuple of size ").or_else(|| said.strip_prefix("an array of length "))
}

fn found_value(said: &str) -> String {
    /// Longest piece of someone's file in a message, in characters.
    const MOST_CHARS: usize = 60;
    let plain = |start: &str| said.strip_prefix(start)?.strip_suffix('`');
    let number =
        plain("integer `").or_else(|| plain("floating point `")).or_else(|| plain("boolean `"));
    if let Some(value) = number {
        return value.to_owned();
    }
    if let Some(text) = said.strip_prefix("string ") {
        let cut = text.char_indices().nth(MOST_CHARS);
        let text = cut.map_or(text.to_owned(), |(end, _)| format!("{}…\"", &text[..end]));
        return format!("the text {text}");
    }
    match said {
        "null" | "unit value" => "null".to_owned(),
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit variant" => "the word alone".to_owned(),
        "newtype variant" | "tuple variant" | "struct variant" => "an object around it".to_owned(),
        count if count.parse::<u64>().is_ok() => count.to_owned(),
        _ => "something else".to_owned(),
    }
}

#[cfg(test)]
mod tests;

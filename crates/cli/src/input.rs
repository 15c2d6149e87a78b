//! Reading files: what is there, how large, which encoding, and which format it holds.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use msccl_environment::guarded;
pub use msccl_pages::content::Content;

use crate::failure::{Failure, Result};

/// Largest file read, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// The path that means standard input.
pub const STDIN: &str = "-";

/// What messages call it.
pub const STDIN_NAME: &str = "<stdin>";

/// What messages call a text that a program gives.
const GIVEN_NAME: &str = "<program>";

thread_local! {
    /// What stands for standard input while a program calls the command.
    static GIVEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Does `work`, in which `text` stands for standard input, if there is one.
pub fn with_text<T>(text: Option<&str>, work: impl FnOnce() -> T) -> T {
    GIVEN.set(text.map(str::to_owned));
    let done = work();
    GIVEN.set(None);
    done
}

/// A file's text, and the name under which messages show it.
#[derive(Clone, Debug)]
pub struct Input {
    /// The path as given, or [`STDIN_NAME`].
    pub name: String,
    /// The text, without byte order mark.
    pub text: String,
}

impl Input {
    /// Reads `path`; [`STDIN`] is standard input, and where there is no such file, the name of a
    /// built-in program stands for it.
    pub fn read(path: &str) -> Result<Self> {
        if path == STDIN {
            if let Some(text) = GIVEN.with_borrow(Clone::clone) {
                return Self::decode(GIVEN_NAME, text.into_bytes());
            }
            let bytes = read_bytes("standard input", io::stdin().lock())?;
            return Self::decode(STDIN_NAME, bytes);
        }
        match (open(path), msccl_registry::built_in_programs().get(path)) {
            (Ok(file), _) => Self::decode(path, read_bytes(path, file)?),
            (Err(_), Some(&text)) => Ok(Self { name: path.to_owned(), text: text.to_owned() }),
            (Err(reason), None) => Err(Failure::new(format!("cannot read {path}: {reason}"))),
        }
    }

    fn decode(name: &str, bytes: Vec<u8>) -> Result<Self> {
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
            let advice = "expected UTF-8 text, found UTF-16; save the file as UTF-8";
            return Err(Failure::new(format!("{name}: {advice}")));
        }
        let mut text = String::from_utf8(bytes).map_err(|error| not_utf8(name, &error))?;
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        Ok(Self { name: name.to_owned(), text })
    }

    /// What the text holds. Its first character other than white space decides: `<` begins XML, `{`
    /// JSON; the IR's text form begins with a name in quotes, and anything else is taken for a
    /// program, whose parser gives the best messages.
    ///
    /// # Errors
    ///
    /// It would be a program, and the file's name says that it is none, or that it is one in
    /// Python.
    pub fn content(&self) -> Result<Content> {
        let content = self.content_by_looks();
        let extension = Path::new(&self.name).extension().and_then(|extension| extension.to_str());
        let named = match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("xml") => "XML",
            Some("json") => "JSON",
            Some("py") => return Err(self.is_python()),
            _ => return Ok(content),
        };
        if content != Content::Program {
            return Ok(content);
        }
        let found = match self.text.split_whitespace().next() {
            Some(word) => {
                format!("text that begins with `{}`", word.chars().take(20).collect::<String>())
            }
            None => "nothing".to_owned(),
        };
        let text =
            format!("{}:1:1: expected {named}, as the file's name says, found {found}", self.name);
        Err(Failure::new(text))
    }

    fn is_python(&self) -> Failure {
        let advice = "a program of the Python toolkit prints XML when it is run: give that; or \
                      write the algorithm in the language, for which docs/LANGUAGE.md has a table \
                      \"From MSCCLang\"";
        Failure::new(format!("{}: expected an algorithm, found Python; {advice}", self.name))
    }

    /// What the text holds, whatever the name of the file says.
    pub fn content_by_looks(&self) -> Content {
        Content::of(&self.text)
    }
}

/// Everything in the file at `path`, whatever it holds; [`STDIN`] is standard input.
pub fn bytes(path: &str) -> std::result::Result<Vec<u8>, String> {
    if let Some(text) = GIVEN.with_borrow(Clone::clone).filter(|_| path == STDIN) {
        return Ok(text.into_bytes());
    }
    let bytes = match path {
        STDIN => read_bytes("standard input", io::stdin().lock()),
        _ => read_bytes(path, open(path)?),
    };
    bytes.map_err(|failure| failure.to_string())
}

/// Opens a regular file, or a pipe or a terminal; no folder, and no device without end.
pub fn open(path: &str) -> std::result::Result<File, String> {
    let opened = guarded::open_input(Path::new(path)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(path),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    })?;
    opened.map_err(|why| {
        if Path::new(path).is_dir() { "it is a folder; name a file in it".to_owned() } else { why }
    })
}

fn missing(path: &str) -> String {
    if path.is_empty() {
        return "its name is empty".to_owned();
    }
    let parent = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent {
        Some(parent) if !parent.exists() => {
            format!("there is no folder {}", parent.display())
        }
        _ => "there is no such file".to_owned(),
    }
}

/// Everything that `reader` gives, up to [`MAX_FILE_BYTES`].
fn read_bytes(name: &str, reader: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = reader.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::new(format!("{name} is larger than 1 GiB; no program is that long")));
    }
    Ok(bytes)
}

fn not_utf8(name: &str, error: &std::string::FromUtf8Error) -> Failure {
    let valid = error.utf8_error().valid_up_to();
    let before = &error.as_bytes()[..valid];
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let column = 1 + String::from_utf8_lossy(&before[start..]).chars().count();
    Failure::new(format!(
        "{name}:{line}:{column}: expected UTF-8 text, found the byte 0x{:02x}; save the file as \
         UTF-8",
        error.as_bytes()[valid]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(bytes: &[u8]) -> Result<Input> {
        Input::decode("x", bytes.to_vec())
    }

    #[test]
    fn content_decides_the_format() {
        let content =
            |text: &str| input(text.as_bytes()).and_then(|input| input.content()).unwrap();
        assert_eq!(content("\u{feff} \n<algo/>"), Content::Xml);
        assert_eq!(content("\n{}"), Content::Json);
        assert_eq!(content("// a ring\nalgorithm"), Content::Program);
        assert_eq!(content("// a ring\n algorithm \"ring\""), Content::Text);
        assert_eq!(content(""), Content::Program);
    }

    #[test]
    fn names_promise_a_format() {
        let content = |name: &str, text: &str| {
            Input { name: name.to_owned(), text: text.to_owned() }
                .content()
                .map_err(|why| why.to_string())
        };
        assert_eq!(content("a.xml", "{}"), Ok(Content::Json));
        let expected =
            "a.xml:1:1: expected XML, as the file's name says, found text that begins with `hello`";
        assert_eq!(content("a.xml", "hello there"), Err(expected.to_owned()));
        assert!(
            content("a.JSON", " ")
                .unwrap_err()
                .ends_with("expected JSON, as the file's name says, found nothing")
        );
        assert_eq!(content("a.txt", "hello"), Ok(Content::Program));
    }

    #[test]
    fn wrong_encodings_are_located() {
        let message = |bytes: &[u8]| input(bytes).unwrap_err().to_string();
        assert!(message(b"ab\nc\xc3\xa7\xff").starts_with("x:2:3: expected UTF-8"));
        assert!(message(b"\xff\xfea\0").contains("UTF-16"));
    }
}

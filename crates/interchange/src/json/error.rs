//! Why a text is not an algorithm in JSON.

use std::fmt;

/// A complaint with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// Line and column, counted from 1; `None` where the complaint concerns more than one place.
    position: Option<(usize, usize)>,
    /// The path to the value, like `ranks[3].thread_blocks[1].steps[4].count`; empty for the whole.
    path: String,
    message: String,
}

impl ReadError {
    pub(super) fn at_path(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        // `.` is the whole, `?` a place that the parser could not tell.
        let path = error.path().to_string();
        let error = Self::at_end(error.into_inner());
        if path == "." || path == "?" {
            let message =
                format!("expected an algorithm as docs/IR.md describes it: {}", error.message);
            return Self { message, ..error };
        }
        Self { path, ..error }
    }

    pub(super) fn at_end(error: serde_json::Error) -> Self {
        let position = (error.line() > 0).then(|| (error.line(), error.column().max(1)));
        let mut message = error.to_string();
        // serde_json repeats the position at the end of its message.
        if let Some(end) = message.rfind(" at line ") {
            message.truncate(end);
        }
        Self { position, path: String::new(), message }
    }

    pub(super) fn meaning((path, message): (String, String)) -> Self {
        Self { position: None, path, message }
    }

    /// An array stands behind the white space `before`, which could pass for an object without names.
    pub(super) fn no_object(before: &[u8]) -> Self {
        let ends = before.iter().filter(|&&byte| byte == b'\n').count();
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        let position = (ends + 1, column);
        let message = "expected an algorithm as docs/IR.md describes it: an object, found an array";
        Self { position: Some(position), path: String::new(), message: message.to_owned() }
    }

    pub(super) fn too_large(found_bytes: usize, most_bytes: usize) -> Self {
        let message = format!("expected at most {most_bytes} bytes, found {found_bytes}");
        Self { position: None, path: String::new(), message }
    }

    /// The line, counted from 1, if the complaint concerns one place.
    pub fn line(&self) -> Option<usize> {
        self.position.map(|(line, _)| line)
    }

    /// The column, counted from 1, if the complaint concerns one place.
    pub fn column(&self) -> Option<usize> {
        self.position.map(|(_, column)| column)
    }

    /// The path to the value, like `ranks[3].thread_blocks[1].steps[4].count`; empty for the whole.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadError { position, path, message } = self;
        if let Some((line, column)) = position {
            write!(f, "line {line}, column {column}: ")?;
        }
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(message)
    }
}

impl std::error::Error for ReadError {}

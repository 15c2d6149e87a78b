//! Why a text is not an algorithm in JSON.

use std::fmt;

use super::words::{self, Words};

/// Where the whole is described.
pub(super) const SEE: &str = " (docs/IR.md describes the format)";

/// A complaint with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonError {
    /// Line and column, counted from 1; `None` where the complaint concerns more than one place.
    position: Option<(usize, usize)>,
    /// The path to the value, like `ranks[3].thread_blocks[1].steps[4].count`; empty for the whole.
    path: String,
    message: String,
}

impl JsonError {
    /// `see` stands behind what concerns the whole.
    pub(super) fn at_path(
        error: serde_path_to_error::Error<serde_json::Error>,
        text: &[u8],
        see: &str,
    ) -> Self {
        // `.` is the whole, `?` a place that the parser does not know.
        let path = error.path().to_string();
        let is_whole = path == "." || path == "?";
        let mut error = Self::at_end(&error.into_inner(), text);
        if is_whole {
            error.message.push_str(see);
        } else {
            error.path = path;
        }
        error
    }

    pub(super) fn at_end(error: &serde_json::Error, text: &[u8]) -> Self {
        let message = Words::new(error, text).to_string();
        Self { position: words::position(error), path: String::new(), message }
    }

    /// JSON of another format, which does not say that it is ours.
    pub(super) fn other_format(is_execution_plan: bool) -> Self {
        let found = if is_execution_plan {
            "none, but `gpus`, as execution plans of MSCCL++ have; they are another format: give \
             the algorithm as a program or as MSCCL XML"
        } else {
            "none; add it if the file is an algorithm"
        };
        let message = format!("expected a field `format` that is \"msccl-ir\", found {found}{SEE}");
        Self { position: None, path: String::new(), message }
    }

    pub(super) fn meaning((path, message): (String, String)) -> Self {
        Self { position: None, path, message }
    }

    /// An array stands behind the white space `before`, which could pass for an object without
    /// names.
    pub(super) fn no_object(before: &[u8]) -> Self {
        let ends = before.iter().filter(|&&byte| byte == b'\n').count();
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        let position = (ends + 1, column);
        let message = format!("expected an object, `{{`, found a list{SEE}");
        Self { position: Some(position), path: String::new(), message }
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

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JsonError { position, path, message } = self;
        if let Some((line, column)) = position {
            write!(f, "line {line}, column {column}: ")?;
        }
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(message)
    }
}

impl std::error::Error for JsonError {}

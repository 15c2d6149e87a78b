//! The reader: tolerant of how a file is written, strict about what it means.
//!
//! Attribute order, white space, either quote, comments, a prolog, unknown attributes and elements,
//! and attributes that have a default are no obstacle. What the interpreters would stumble over is
//! a warning; what they would run wrong is a [`Contradiction`].

mod algo;
mod attributes;
mod contract;
mod cursor;
mod error;
mod gpu;
mod notes;
mod places;
mod resolve;
mod step;

pub use error::ReadError;
pub use notes::{Contradiction, Demand};
pub use places::Places;

use msccl_ir::Algorithm;

use super::{Dialect, collective, vocabulary};
use algo::Head;
use contract::Clauses;
use cursor::Cursor;
use gpu::Gpu;

/// Largest file, in bytes.
const MOST_BYTES: usize = 1 << 30;

/// A file of MSCCL XML, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// What it says. Where it contradicts itself, the part that makes sense.
    pub algorithm: Algorithm,
    /// Whose habits it follows: the executor's if it has the attribute `outofplace` or a
    /// collective's name that only the executor knows.
    pub dialect: Dialect,
    /// What the file says that no interpreter runs right, the first few dozen in the order of the
    /// file. A file with any is to be refused as faulty in structure.
    pub contradictions: Vec<Contradiction>,
    /// Why the runtimes of the dialects do not load the file, though what it says is clear.
    pub demands: Vec<Demand>,
    /// What an interpreter may stumble over, or ignores.
    pub warnings: Vec<String>,
    /// Where the steps of the algorithm stand in the text.
    pub places: Places,
}

/// Reads a file's bytes; they must be UTF-8, with or without a byte order mark.
///
/// # Errors
///
/// As [`read`], and for any other encoding.
pub fn read_bytes(bytes: &[u8]) -> Result<Read, ReadError> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(ReadError::encoding(0, "UTF-16"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => read(text),
        Err(error) => Err(ReadError::encoding(error.valid_up_to(), "bytes that are not UTF-8")),
    }
}

/// Reads a file's text.
///
/// # Errors
///
/// Where the text is not MSCCL XML, with its place, what was expected and what to do.
pub fn read(text: &str) -> Result<Read, ReadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MOST_BYTES {
        return Err(ReadError::too_large(text.len(), MOST_BYTES));
    }
    let mut cursor = Cursor::new(text);
    let root = cursor.root()?;
    let head = Head::read(&mut cursor, &root)?;
    let mut gpus = Vec::new();
    let mut clauses = Clauses::default();
    while let Some(child) = cursor.next_child()? {
        match child.name() {
            b"gpu" => gpus.push(Gpu::read(&mut cursor, &child, &head)?),
            name if name == vocabulary::CONTRACT.as_bytes() => clauses.read(&mut cursor)?,
            _ => cursor.ignore(&child)?,
        }
        cursor.locus = super::Locus::default();
    }
    cursor.end()?;
    let (algorithm, places) = algo::assemble(&mut cursor.notes, head.clone(), gpus, clauses);
    let demands = cursor.notes.demands(text);
    let (contradictions, warnings) = cursor.finish();
    Ok(Read { algorithm, dialect: head.dialect, contradictions, demands, warnings, places })
}

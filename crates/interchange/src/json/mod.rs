//! Our own IR as JSON: all of it, versioned.
//!
//! ```json
//! {"format": "msccl-ir", "version": 1, "name": "hop", "collective": {"kind": "allgather", …},
//!  "ranks": [{"scratch_chunks": 0, "thread_blocks": [{"channel": 0, "sends": [1], "receives": [],
//!    "steps": [{"sources": [{"input": 0}], "destinations": [{"link": 1}], "count": 1}]}]}]}
//! ```
//!
//! The shapes are those of module `wire`, which alone knows serde: types of the IR are not
//! serializable, so that a change to them cannot silently change the format. `docs/IR.md` describes
//! the format for people, `ir-schemas/msccl-ir.schema.json` for machines.
//!
//! Guarantees: `read(write(a)) == a` for every algorithm; the output does not depend on anything
//! but the algorithm. A file that reads well need not be well formed as an algorithm: that is
//! [`validate`](msccl_ir::validate())'s affair.

mod convert;
mod error;
mod list;
mod schema;
mod wire;
mod words;

use std::io;

use msccl_ir::Algorithm;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

pub use error::JsonError;
use error::SEE;
pub use schema::schema;

/// The version that is written and read.
const VERSION: u32 = 1;

/// Largest file, in bytes.
const MOST_BYTES: usize = 1 << 30;

/// The algorithm as JSON.
pub fn write(algorithm: &Algorithm) -> String {
    serde_json::to_string(&convert::to_wire(algorithm))
        .expect("wire types have string keys and no serializer that fails")
}

/// Writes the algorithm as JSON, in small pieces: give it a buffered `out`.
///
/// # Errors
///
/// Where `out` fails.
pub fn write_to(algorithm: &Algorithm, out: &mut impl io::Write) -> io::Result<()> {
    serde_json::to_writer(out, &convert::to_wire(algorithm)).map_err(io::Error::from)
}

/// Reads an algorithm.
///
/// # Errors
///
/// Where the text is not JSON, or not of this format and version, with its line, column and path.
pub fn read(text: &str) -> Result<Algorithm, JsonError> {
    read_bytes(text.as_bytes())
}

/// Reads an algorithm from UTF-8 bytes, with or without a byte order mark.
///
/// # Errors
///
/// As [`read`].
pub fn read_bytes(bytes: &[u8]) -> Result<Algorithm, JsonError> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    if bytes.len() > MOST_BYTES {
        return Err(JsonError::too_large(bytes.len(), MOST_BYTES));
    }
    let before = bytes.len() - bytes.trim_ascii_start().len();
    if bytes.get(before) == Some(&b'[') {
        return Err(JsonError::no_object(&bytes[..before]));
    }
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let wire = serde_path_to_error::deserialize(&mut parser);
    let wire = wire.map_err(|error| match other_format(bytes) {
        Some(error) => error,
        None => JsonError::at_path(error, bytes, SEE),
    })?;
    parser.end().map_err(|error| JsonError::at_end(&error, bytes))?;
    convert::from_wire(wire).map_err(JsonError::meaning)
}

/// Reads any value from JSON that people may have written, or spoilt.
///
/// # Errors
///
/// What is wrong, with line, column and path, in words that say what was expected and what was
/// found.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut parser);
    let read = read.map_err(|error| JsonError::at_path(error, text.as_bytes(), ""));
    let ended = read.and_then(|value| match parser.end() {
        Ok(()) => Ok(value),
        Err(error) => Err(JsonError::at_end(&error, text.as_bytes())),
    });
    ended.map_err(|error| error.to_string())
}

/// What to say of JSON that does not say that it is of this format.
fn other_format(bytes: &[u8]) -> Option<JsonError> {
    /// All that is looked at.
    #[derive(Deserialize)]
    struct Fields {
        format: Option<IgnoredAny>,
        gpus: Option<IgnoredAny>,
    }
    let Fields { format, gpus } = serde_json::from_slice(bytes).ok()?;
    format.is_none().then(|| JsonError::other_format(gpus.is_some()))
}

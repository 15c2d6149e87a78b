//! How images are packed: as files of lzip, which the tools `lzip` and `xz` open, too.
//!
//! An image holds a kernel for each element type, and these differ little; lzip finds what is alike
//! over the whole image, where zlib looks back 32 KiB. An image takes less than half of the space.

use std::fmt;
use std::io::Read;

use lzma_rust2::LzipReader;

/// Unpacks an image.
///
/// # Errors
///
/// The bytes are no such file, or damaged: it holds its length and a checksum.
pub fn unpack(packed: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let mut bytes = Vec::new();
    LzipReader::new(packed).read_to_end(&mut bytes).map_err(|_| Corrupt)?;
    if bytes.is_empty() { Err(Corrupt) } else { Ok(bytes) }
}

/// An image that does not unpack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernels in this library do not unpack; the library's file is damaged")
    }
}

impl std::error::Error for Corrupt {}

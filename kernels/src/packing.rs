//! How images are packed: as Zstandard files, which the tool `zstd` opens, too.
//!
//! An image holds a kernel for each element type, and these differ little. The window of the packer
//! covers the whole image, so it finds what they share.

use std::fmt;
use std::io::Read;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// No image has more bytes, so no more memory is reserved for one.
const LARGEST_BYTES: u64 = 64 << 20;

/// Unpacks an image.
///
/// # Errors
///
/// The bytes are no such file, or damaged: it holds its length and a checksum.
pub fn unpack(packed: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let mut reader = StreamingDecoder::new(packed).map_err(|_| Corrupt)?;
    let length = reader.decoder.content_size();
    // The zero that text needs at its end takes a byte more.
    let mut bytes = Vec::with_capacity(1 + length.min(LARGEST_BYTES) as usize);
    reader.read_to_end(&mut bytes).map_err(|_| Corrupt)?;
    let is_whole = !bytes.is_empty() && bytes.len() as u64 == length;
    let (rest, decoder) = reader.into_parts();
    if is_whole && rest.is_empty() && is_checked(&decoder) { Ok(bytes) } else { Err(Corrupt) }
}

/// Whether the file has a checksum, and that of its bytes is the same.
fn is_checked(decoder: &FrameDecoder) -> bool {
    let written = decoder.get_checksum_from_data();
    written.is_some() && written == decoder.get_calculated_checksum()
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

//! Packing images as files of lzip.

use std::io::{self, Write};

use lzma_rust2::{LzipOptions, LzipWriter};

/// The least window that the format knows.
const LEAST_WINDOW_BYTES: usize = 4 << 10;

/// Packs an image; [`msccl_kernels::unpack`] unpacks it.
pub fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut options = LzipOptions::with_preset(9);
    // The reader allocates the window: no more than the image needs.
    let window = bytes.len().next_power_of_two().max(LEAST_WINDOW_BYTES);
    options.lzma_options.dict_size = u32::try_from(window).map_err(io::Error::other)?;
    let mut writer = LzipWriter::new(Vec::new(), options);
    writer.write_all(bytes)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_unpacks() {
        let long = b"a text and again ".repeat(1000);
        for bytes in [b"a".as_slice(), &long] {
            assert_eq!(msccl_kernels::unpack(&pack(bytes).unwrap()).as_deref(), Ok(bytes));
        }
        assert!(pack(&long).unwrap().len() < 200);
    }
}

//! Packing images as Zstandard files.

use std::io;

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// The level above which a file takes longer to unpack and is hardly smaller.
const LEVEL: i32 = 19;

/// The least and the largest window, in bits, of which the packer knows.
const WINDOW_BITS: std::ops::RangeInclusive<u32> = 10..=27;

/// Packs an image; [`msccl_kernels::unpack`] unpacks it. The same bytes are packed alike.
pub fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = Compressor::new(LEVEL)?;
    // All of the image, so that what its kernels share is stored once.
    let window_bits = bytes.len().next_power_of_two().ilog2();
    let window_bits = window_bits.clamp(*WINDOW_BITS.start(), *WINDOW_BITS.end());
    compressor.set_parameter(CParameter::WindowLog(window_bits))?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    compressor.set_parameter(CParameter::ContentSizeFlag(true))?;
    compressor.compress(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_unpacks() {
        let long = b"a text and again ".repeat(1000);
        for bytes in [b"a".as_slice(), &long] {
            assert_eq!(msccl_kernels::unpack(&pack(bytes).unwrap()).as_deref(), Ok(bytes));
            assert_eq!(pack(bytes).unwrap(), pack(bytes).unwrap());
        }
        assert!(pack(&long).unwrap().len() < 200);
    }
}

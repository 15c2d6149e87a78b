//! Machine code in a file that says whose it is, and whether it is whole.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `msccl-k1` |
//! | 32 | the [`Key`] |
//! | 8 | the length of the code, the lowest byte first |
//! | 32 | SHA-256 of the code |
//! | | the code |
//!
//! It guards against chance: files cut short, mixed up, or written by something else. It does not
//! guard against malice; who may write a folder of kernels may run code on the GPUs of those who
//! read it.

use std::fmt;

use sha2::{Digest, Sha256};

use super::Key;

/// How every file begins.
const MARK: [u8; 8] = *b"msccl-k1";

/// Longer code is not believed.
const LONGEST_BYTES: u64 = 64 << 20;

/// Why a file holds no code for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsealed {
    /// It does not begin like one.
    Foreign,
    /// It is of another kernel.
    OfAnother,
    /// It is shorter or longer than it says.
    Length,
    /// Its code is not what was written.
    Damaged,
}

/// The file of `code`, which is that of `key`.
pub fn seal(key: &Key, code: &[u8]) -> Vec<u8> {
    let length = (code.len() as u64).to_le_bytes();
    let sum: [u8; 32] = Sha256::digest(code).into();
    [&MARK[..], &key.0, &length, &sum, code].concat()
}

/// The code in `file`, if that is of `key`.
///
/// # Errors
///
/// It is not, or not whole.
pub fn unseal<'a>(key: &Key, file: &'a [u8]) -> Result<&'a [u8], Unsealed> {
    let (mark, rest) = file.split_first_chunk::<8>().ok_or(Unsealed::Foreign)?;
    if *mark != MARK {
        return Err(Unsealed::Foreign);
    }
    let (of, rest) = rest.split_first_chunk::<32>().ok_or(Unsealed::Length)?;
    if *of != key.0 {
        return Err(Unsealed::OfAnother);
    }
    let (length, rest) = rest.split_first_chunk::<8>().ok_or(Unsealed::Length)?;
    let (sum, code) = rest.split_first_chunk::<32>().ok_or(Unsealed::Length)?;
    let length = u64::from_le_bytes(*length);
    if length > LONGEST_BYTES || length != code.len() as u64 || code.is_empty() {
        return Err(Unsealed::Length);
    }
    let found: [u8; 32] = Sha256::digest(code).into();
    if found == *sum { Ok(code) } else { Err(Unsealed::Damaged) }
}

impl fmt::Display for Unsealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreign => "it is no file of a kernel",
            Self::OfAnother => "it is of another kernel",
            Self::Length => "it is shorter or longer than it says",
            Self::Damaged => "its checksum is wrong",
        })
    }
}

impl std::error::Error for Unsealed {}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key([7; 32]);

    #[test]
    fn what_was_sealed_comes_back() {
        for code in [&b"x"[..], &[0; 4096]] {
            assert_eq!(unseal(&KEY, &seal(&KEY, code)), Ok(code));
        }
    }

    #[test]
    fn every_change_of_a_byte_and_every_length_is_noticed() {
        let file = seal(&KEY, b"some code");
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 0x10;
            assert!(unseal(&KEY, &changed).is_err(), "byte {at}");
            assert!(unseal(&KEY, &file[..at]).is_err(), "{at} bytes");
        }
        assert_eq!(unseal(&KEY, &[&file[..], b"!"].concat()), Err(Unsealed::Length));
        assert_eq!(unseal(&Key([8; 32]), &file), Err(Unsealed::OfAnother));
        assert_eq!(unseal(&KEY, b"#!/bin/sh"), Err(Unsealed::Foreign));
        assert_eq!(unseal(&KEY, &seal(&KEY, b"")), Err(Unsealed::Length));
    }
}

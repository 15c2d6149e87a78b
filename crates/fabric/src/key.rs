//! Secrets that ranks share, and what is derived from them.
//!
//! A [`Key`] is 32 bytes. The first comes from the token of a unique id or from a user's secret;
//! every other one is HMAC-SHA-256 of its parent over a label and parts, each behind its length. So
//! no two uses share a key, and a key that became known says nothing of its parent. Keys never
//! cross a wire; comparisons take constant time.

use std::fmt;

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

/// Length of a key and of a message authentication code.
pub const MAC_BYTES: usize = 32;

/// What SHA-256 takes at a time.
const BLOCK_BYTES: usize = 64;

/// A secret of the ranks of one job. Its `Debug` form does not show it.
#[derive(Clone)]
pub struct Key([u8; MAC_BYTES]);

impl Key {
    /// The key of those who know `secret`.
    pub(crate) fn from_secret(secret: &[u8]) -> Self {
        // What is public here only keeps this use of the secret apart from others.
        Self(*b"msccl: ranks find one another, 1").derive("secret", &[secret])
    }

    /// The key of those who know this one, for the use `label` with `parts`.
    pub(crate) fn derive(&self, label: &str, parts: &[&[u8]]) -> Self {
        Self(self.mac(label, parts))
    }

    /// The code of `parts` for the use `label`.
    pub(crate) fn mac(&self, label: &str, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        self.state(label, parts).finalize().into_bytes().into()
    }

    /// Whether `mac` is the code of `parts` for the use `label`. Takes as long whatever `mac` is.
    pub(crate) fn verifies(&self, label: &str, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.state(label, parts).verify_slice(mac).is_ok()
    }

    /// Eight bytes that everyone may know, the same for all who know the key.
    pub(crate) fn public_number(&self, label: &str) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.mac(label, &[]);
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    fn state(&self, label: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        // HMAC fills keys up to the length of a block with zeros.
        let mut block = [0; BLOCK_BYTES];
        block[..MAC_BYTES].copy_from_slice(&self.0);
        let mut state = <Hmac<Sha256> as KeyInit>::new(&block.into());
        for part in [label.as_bytes()].iter().chain(parts) {
            state.update(&(part.len() as u64).to_le_bytes());
            state.update(part);
        }
        state
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The digest of `bytes`, for codes of long messages that go to many.
pub(crate) fn digest(bytes: &[u8]) -> [u8; MAC_BYTES] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_depend_on_everything_and_verify() {
        let key = Key::from_secret(b"secret");
        let mac = key.mac("use", &[b"ab", b"c"]);
        assert!(key.verifies("use", &[b"ab", b"c"], &mac));
        assert!(!key.verifies("use", &[b"a", b"bc"], &mac));
        assert!(!key.verifies("abuse", &[b"ab", b"c"], &mac));
        assert!(!key.verifies("use", &[b"ab", b"c"], &mac[..31]));
        assert!(!Key::from_secret(b"other").verifies("use", &[b"ab", b"c"], &mac));
        assert!(!key.derive("use", &[]).verifies("use", &[b"ab", b"c"], &mac));
    }

    #[test]
    fn the_code_is_hmac_sha_256() {
        // Reckoned by another implementation.
        let found = Key([0x0b; MAC_BYTES]).mac("Hi", &[b"There"]);
        assert_eq!(found[..8], [0x80, 0xe5, 0xad, 0xa2, 0x03, 0x8b, 0x65, 0x11]);
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", Key::from_secret(b"secret")), "Key(…)");
    }
}

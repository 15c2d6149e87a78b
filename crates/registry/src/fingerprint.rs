//! A number for an algorithm.

use std::fmt;

use msccl_ir::{Algorithm, text};

/// Equal for equal algorithms, and different for different ones but for chance (64 bits). It serves
/// to notice that ranks were given different files, not to guard against malice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// The fingerprint of an algorithm: FNV-1a over its text form.
    pub fn of(algorithm: &Algorithm) -> Self {
        Self(fnv(text::print(algorithm).bytes()))
    }

    /// The fingerprint of a sequence.
    pub fn of_all(parts: impl Iterator<Item = Fingerprint>) -> Self {
        Self(fnv(parts.flat_map(|part| part.0.to_le_bytes())))
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

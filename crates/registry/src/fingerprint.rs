//! A number for an algorithm.

use std::fmt;

use msccl_ir::{Algorithm, text};
use msccl_verify::AdditionOrder;

/// Equal for equal algorithms, and different for different ones but for chance (64 bits). It serves
/// to notice that ranks were given different files, not to guard against malice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// The fingerprint of an algorithm: FNV-1a over its text form.
    pub fn of(algorithm: &Algorithm) -> Self {
        Self(fnv(text::print(algorithm).bytes()))
    }

    /// The fingerprint of an order of additions: FNV-1a over its text.
    pub fn of_order(order: &AdditionOrder) -> Self {
        Self(fnv(order.to_string().bytes()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_of_orders_are_those_of_their_text() {
        // FNV-1a of "0+1", from its definition in decimal numbers.
        let expected = "0+1".bytes().fold(14_695_981_039_346_656_037u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
        });
        assert_eq!(Fingerprint::of_order(&AdditionOrder::flat(2)), Fingerprint(expected));
        let [flat, tree] = [AdditionOrder::flat(3), AdditionOrder::tree(3)];
        assert_ne!(Fingerprint::of_order(&flat), Fingerprint::of_order(&tree));
    }
}

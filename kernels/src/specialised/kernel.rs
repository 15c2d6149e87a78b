//! A specialised kernel that knows one rank's plan, and what distinguishes it from all others.

use std::fmt;
use std::sync::OnceLock;

use msccl_collective::{DataType, Protocol};
use msccl_plan::Plan;
use msccl_plan::launch::Launch;
use sha2::{Digest, Sha256};

use super::{Known, headers, kernel, source};
use crate::recipe::{Architecture, OPTIONS};

/// What the text of kernels and the options of the compiler do not show; higher with every change
/// of that kind.
const VERSION: u32 = 1;

/// A kernel to be compiled: it serves every call of its plan under one protocol, of one type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The protocol that it speaks.
    pub protocol: Protocol,
    /// The type of every element.
    pub data_type: DataType,
    source: String,
}

/// What the machine code of a kernel depends on, in a number: the text of the kernel and of all
/// that it includes, the compiler's options and the architecture. Not the compiler's version: any
/// that knows them gives kernels that do the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(pub [u8; 32]);

impl Kernel {
    /// The kernel for `plan` in communicators of `ranks` ranks.
    pub fn of(plan: &Plan, ranks: u32, protocol: Protocol, data_type: DataType) -> Self {
        let launch = Launch { ranks, ..Launch::default() }.with_plan(plan);
        let source = source(protocol, data_type, Known::Plan, &[(plan, launch)]);
        Self { protocol, data_type, source }
    }

    /// Its name in its image.
    pub fn name() -> String {
        kernel(0)
    }

    /// The text to compile, which includes [`headers`].
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What distinguishes its machine code for `architecture` from any other.
    pub fn key(&self, architecture: Architecture) -> Key {
        static COMMON: OnceLock<Sha256> = OnceLock::new();
        let common = COMMON.get_or_init(|| common(headers()));
        Key::new(common, architecture, &self.source)
    }
}

impl Key {
    /// The key of the kernel `source` for `architecture`, of which `common` is what all kernels
    /// with its headers have in common.
    pub(crate) fn new(common: &Sha256, architecture: Architecture, source: &str) -> Self {
        let mut hasher = common.clone();
        enter(&mut hasher, &architecture.name());
        enter(&mut hasher, source);
        Key(hasher.finalize().into())
    }
}

/// What all kernels that include `headers` have in common; to be hashed once.
pub(crate) fn common(headers: &[(String, String)]) -> Sha256 {
    let mut hasher = Sha256::new();
    hasher.update(VERSION.to_le_bytes());
    OPTIONS.iter().for_each(|option| enter(&mut hasher, option));
    for (name, text) in headers {
        enter(&mut hasher, name);
        enter(&mut hasher, text);
    }
    hasher
}

/// With its length, so that no two sequences of texts are one.
fn enter(hasher: &mut Sha256, text: &str) {
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text);
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use msccl_collective::{CallPlacement, CollectiveKind};
    use msccl_registry::{Registry, Shape};

    use super::*;

    /// The plans of two ranks for an all-reduce in place or not.
    fn plans(in_place: bool) -> Vec<Plan> {
        let registry = Registry::new(Shape { ranks: 2, per_node: 2 }, &[]);
        let [first, ..] =
            &*registry.built_in(CollectiveKind::AllReduce, CallPlacement::from_in_place(in_place))
        else {
            panic!()
        };
        Plan::all(&first.verified).unwrap()
    }

    #[test]
    fn keys_differ_in_all_that_matters() {
        let mut keys = BTreeSet::new();
        let mut kernels = 0;
        for in_place in [false, true] {
            for plan in plans(in_place) {
                for protocol in Protocol::ALL {
                    for data_type in [DataType::F32, DataType::Bf16] {
                        for capability in [80, 90] {
                            let kernel = Kernel::of(&plan, 2, protocol, data_type);
                            keys.insert(kernel.key(Architecture::Machine(capability)).to_string());
                            kernels += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(keys.len(), kernels);
        let key = |ranks| {
            let kernel = Kernel::of(&plans(false)[0], ranks, Protocol::Ll, DataType::F32);
            kernel.key(Architecture::Machine(90))
        };
        assert_eq!(key(2), key(2));
        assert_ne!(key(2), key(3));
    }
}

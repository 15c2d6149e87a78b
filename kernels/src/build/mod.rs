//! From sources to images, and how images are held to their sources: for `cargo xtask kernels` and
//! the test that guards `images/`.
//!
//! [`Sources`] gives, for a module, exactly what the compiler reads: the tokens of its entry and of
//! all headers that are included, without comments and layout ([`tokens`]). The hash of that
//! ([`Inputs::fingerprint`]) and the hash of the image are a line of `images/MANIFEST`
//! ([`Manifest`]); [`fn@faults`] recomputes both.

mod faults;
pub mod inputs;
mod manifest;
pub mod tokens;

use sha2::{Digest, Sha256};

pub use faults::{Fault, Reason, damage, faults, report, stale};
pub use inputs::{Input, Inputs, Sources};
pub use manifest::{Line, MANIFEST, Manifest};

use crate::Module;
use crate::recipe::Architecture;

/// How a file is read, given its path below the folder of this package.
pub type Read<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// What one image is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// Its kernels.
    pub module: Module,
    /// What it is for.
    pub architecture: Architecture,
}

impl Target {
    /// Every image, module by module.
    pub fn all() -> Vec<Target> {
        let of = |module| Architecture::ALL.map(|architecture| Target { module, architecture });
        Module::ALL.into_iter().flat_map(of).collect()
    }

    /// Its name, `simple.sm_90`: of its file, without the extension, and in the manifest.
    pub fn name(self) -> String {
        format!("{}.{}", self.module.name(), self.architecture.name())
    }

    /// The path of its image below the folder of this package.
    pub fn path(self) -> String {
        format!("images/{}.zst", self.name())
    }
}

/// The SHA-256 of `bytes`, in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

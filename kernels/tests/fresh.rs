//! The committed images are what the sources give.
//!
//! Here, without a compiler: the sources and options are those that the images were made from.
//! `cargo xtask kernels --check` compiles them again and compares every byte.

#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

use std::fs;
use std::path::{Path, PathBuf};

use msccl_kernels::recipe;
use sha2::{Digest, Sha256};

fn in_package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn images_are_of_these_sources() {
    let expected = recipe::stamp(|path| fs::read(in_package(path)), hash).unwrap();
    let found = fs::read_to_string(in_package(recipe::STAMP)).unwrap_or_default();
    assert!(
        found == expected,
        "the images are not those of the sources: run `cargo xtask kernels`"
    );
}

#[test]
fn every_source_is_listed() {
    for entry in fs::read_dir(in_package("device")).unwrap() {
        let path = format!("device/{}", entry.unwrap().file_name().into_string().unwrap());
        let is_module = recipe::Module::ALL.into_iter().any(|of| recipe::source(of) == path);
        let is_header = recipe::HEADERS.contains(&path.as_str());
        assert!(is_module || is_header, "recipe.rs does not know {path}");
    }
}

#[test]
fn the_compiler_is_pinned() {
    let requirements = fs::read_to_string(in_package("requirements.txt")).unwrap();
    let version = recipe::COMPILER.rsplit(' ').next().unwrap();
    assert!(requirements.contains(&format!("=={version}")), "{version} is not in {requirements}");
}

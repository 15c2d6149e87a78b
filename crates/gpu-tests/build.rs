//! Puts the programs of `dsl-examples/` into the binary, which runs where there are no sources.

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl-examples");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut table = String::from("&[\n");
    for path in programs(&folder)? {
        let path = path.canonicalize()?;
        let text = path.display().to_string();
        let kind = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{kind}/{name}");
        writeln!(table, "    ({name:?}, include_str!({text:?})),").map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("examples.rs"), table)
}

/// The programs in the folders of `folder`, in the order of their paths.
fn programs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for kind in fs::read_dir(folder)?.filter_map(Result::ok).filter(|entry| entry.path().is_dir()) {
        for file in fs::read_dir(kind.path())?.filter_map(Result::ok) {
            found.push(file.path());
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "msccl"));
    found.sort();
    Ok(found)
}

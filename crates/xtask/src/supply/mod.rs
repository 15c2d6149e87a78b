//! What this project is made of: packages with known faults, and bills of materials of what is given to users.
//!
//! Licences, sources and duplicates are checked by `cargo deny` (`deny.toml`, `.ci/supply`).

mod advisories;
mod audit;
mod civil;
mod lock;
mod sbom;

use std::path::Path;

pub use audit::audit;
pub use sbom::write as write_sboms;

use crate::root::root;
use advisories::Database;

/// The lock files: of the workspace, and of the library that stands outside of it.
const LOCKS: [&str; 2] = ["Cargo.lock", "crates/rdma/Cargo.lock"];

/// The facts of the database that are kept here, for machines that cannot reach it.
const TABLE: &str = "supply/advisories.tsv";

/// Rewrites the table from a clone of the database.
///
/// # Errors
///
/// The clone cannot be read, or the table not written.
pub fn write_table(clone: &Path) -> Result<(), String> {
    let database = Database::of_clone(clone)?;
    let path = root().join(TABLE);
    std::fs::write(&path, database.to_text())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

//! What a lock file pins.

use std::path::Path;

use semver::Version;
use serde::Deserialize;

/// A package of a lock file.
#[derive(Clone, PartialEq, Eq, Deserialize, Debug)]
pub struct Package {
    /// What it is called.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// Where it comes from; our own packages come from nowhere.
    pub source: Option<String>,
    /// The SHA-256 of its archive.
    pub checksum: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

/// The packages that the lock file at `path` pins.
///
/// # Errors
///
/// It cannot be read, or is no lock file.
pub fn packages(path: &Path) -> Result<Vec<Package>, String> {
    let lock: Lock = toml::from_str(&super::read(path)?)
        .map_err(|error| format!("{} is no lock file: {error}", path.display()))?;
    Ok(lock.package)
}

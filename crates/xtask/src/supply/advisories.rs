//! The advisory database of RustSec: read from a clone of it, or from a table of its facts.
//!
//! A table is text: remarks behind `#`, a line `database COMMIT DATE`, and a line for each advisory with its number, the
//! package, the kind, and the ranges of versions in which it is mended and which never had it, separated by tabs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use semver::{Version, VersionReq};
use serde::Deserialize;

/// What stands between ranges of versions.
const BETWEEN: &str = "; ";

/// All advisories, as of some day.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Database {
    /// Which state of the database it is.
    pub commit: String,
    /// When that was made, as `YYYY-MM-DD`.
    pub date: String,
    /// By number.
    pub advisories: Vec<Advisory>,
}

/// Something that is wrong with some versions of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advisory {
    /// Its number.
    pub id: String,
    /// The package.
    pub package: String,
    /// What is wrong.
    pub kind: Kind,
    mended: Vec<VersionReq>,
    unaffected: Vec<VersionReq>,
}

/// What is wrong with a package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It can be attacked.
    Vulnerability,
    /// It breaks what Rust promises.
    Unsound,
    /// Nobody looks after it.
    Unmaintained,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Vulnerability, Kind::Unsound, Kind::Unmaintained];

    /// What the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Vulnerability => "vulnerability",
            Kind::Unsound => "unsound",
            Kind::Unmaintained => "unmaintained",
        }
    }
}

impl Advisory {
    /// Whether `version` of its package has what is wrong.
    pub fn affects(&self, version: &Version) -> bool {
        !self.mended.iter().chain(&self.unaffected).any(|range| range.matches(version))
    }

    fn to_line(&self) -> String {
        let Self { id, package, kind, mended, unaffected } = self;
        let list = |ranges: &[VersionReq]| {
            ranges.iter().map(VersionReq::to_string).collect::<Vec<_>>().join(BETWEEN)
        };
        format!("{id}\t{package}\t{}\t{}\t{}", kind.name(), list(mended), list(unaffected))
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut parts = line.split('\t');
        let (id, package, kind) = (parts.next()?, parts.next()?, parts.next()?);
        let mut list = || {
            let ranges = parts.next()?.split(BETWEEN).filter(|range| !range.is_empty());
            ranges.map(|range| range.parse().ok()).collect::<Option<Vec<_>>>()
        };
        let (mended, unaffected) = (list()?, list()?);
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind)?;
        Some(Self { id: id.to_owned(), package: package.to_owned(), kind, mended, unaffected })
    }
}

impl Database {
    /// That of a table.
    ///
    /// # Errors
    ///
    /// It is no table; with the line.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#'));
        let mut lines = lines.filter(|(_, line)| !line.is_empty());
        let head = lines.next().and_then(|(_, line)| line.strip_prefix("database "));
        let head = head.and_then(|head| head.split_once(' '));
        let (commit, date) = head.ok_or("expected a line `database COMMIT DATE`")?;
        let advisory = |(number, line): (usize, &str)| {
            Advisory::from_line(line).ok_or_else(|| format!("line {number} is no advisory: {line}"))
        };
        let advisories = lines.map(advisory).collect::<Result<_, _>>()?;
        Ok(Self { commit: commit.to_owned(), date: date.to_owned(), advisories })
    }

    /// The table.
    pub fn to_text(&self) -> String {
        let Self { commit, date, advisories } = self;
        let lines: Vec<_> = advisories.iter().map(Advisory::to_line).collect();
        format!(
            "# Facts of the RustSec advisory database (CC0-1.0, imported ones CC-BY-4.0), made by `cargo xtask advisories`.\n\
             # Number, package, kind, mended in, never in.\n\
             database {commit} {date}\n{}\n",
            lines.join("\n")
        )
    }

    /// That of a clone.
    ///
    /// # Errors
    ///
    /// It is none, or an advisory cannot be understood.
    pub fn of_clone(clone: &Path) -> Result<Self, String> {
        let mut advisories = BTreeMap::new();
        for path in files(&clone.join("crates"))? {
            let advisory = advisory(&super::read(&path)?);
            let advisory = advisory.map_err(|why| format!("{}: {why}", path.display()))?;
            advisories.extend(advisory.map(|advisory| (advisory.id.clone(), advisory)));
        }
        let (commit, date) = (last(clone, "%H")?, last(clone, "%cs")?);
        Ok(Self { commit, date, advisories: advisories.into_values().collect() })
    }
}

/// What git says in `format` of the last commit of `clone`.
fn last(clone: &Path, format: &str) -> Result<String, String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(clone).args(["log", "-1", &format!("--format={format}")]);
    let output = git.output().map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("{}: {}", clone.display(), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The advisories below `folder`, which has a folder for each package.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = |folder: &Path| -> Result<Vec<PathBuf>, String> {
        let cannot = |error| format!("cannot read {}: {error}", folder.display());
        let entries = fs::read_dir(folder).map_err(cannot)?;
        entries.map(|entry| Ok(entry.map_err(cannot)?.path())).collect()
    };
    let mut files = Vec::new();
    for package in entries(folder)?.iter().filter(|path| path.is_dir()) {
        files.extend(entries(package)?);
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    Ok(files)
}

/// The head of an advisory, as far as it counts here.
#[derive(Deserialize)]
struct Document {
    advisory: Head,
    versions: Versions,
}

#[derive(Deserialize)]
struct Head {
    id: String,
    package: String,
    informational: Option<String>,
    withdrawn: Option<String>,
}

#[derive(Deserialize)]
struct Versions {
    patched: Vec<String>,
    #[serde(default)]
    unaffected: Vec<String>,
}

/// The advisory that `text` holds; nothing if it was withdrawn, or is no more than a remark.
fn advisory(text: &str) -> Result<Option<Advisory>, String> {
    let head = text.strip_prefix("```toml\n").and_then(|rest| rest.split_once("\n```"));
    let (head, _) = head.ok_or("expected it to begin with a block of TOML")?;
    let Document { advisory, versions } =
        toml::from_str(head).map_err(|error| error.to_string())?;
    let Head { id, package, informational, withdrawn } = advisory;
    let kind = match informational.as_deref() {
        None => Kind::Vulnerability,
        Some("unsound") => Kind::Unsound,
        Some("unmaintained") => Kind::Unmaintained,
        Some(_) => return Ok(None),
    };
    if withdrawn.is_some() {
        return Ok(None);
    }
    let ranges = |texts: &[String]| -> Result<Vec<VersionReq>, String> {
        let range = |text: &String| text.parse().map_err(|error| format!("{text}: {error}"));
        texts.iter().map(range).collect()
    };
    let (mended, unaffected) = (ranges(&versions.patched)?, ranges(&versions.unaffected)?);
    Ok(Some(Advisory { id, package, kind, mended, unaffected }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(more: &str, versions: &str) -> String {
        format!(
            "```toml\n[advisory]\nid = \"X-1\"\npackage = \"p\"\n{more}\n[versions]\n{versions}\n```\n# A title"
        )
    }

    #[test]
    fn ranges_tell_which_versions_are_affected() {
        let versions = "patched = [\">= 1.2.3\", \"^ 0.9.4\"]\nunaffected = [\"< 0.8\"]";
        let advisory = advisory(&document("", versions)).unwrap().unwrap();
        let affects = |version: &str| advisory.affects(&version.parse().unwrap());
        for version in ["0.8.0", "0.9.3", "1.0.0", "1.2.2"] {
            assert!(affects(version), "{version}");
        }
        for version in ["0.7.9", "0.9.4", "0.9.9", "1.2.3", "2.0.0"] {
            assert!(!affects(version), "{version}");
        }
    }

    #[test]
    fn kinds_and_what_does_not_count() {
        let kind = |more: &str| {
            advisory(&document(more, "patched = []")).unwrap().map(|advisory| advisory.kind)
        };
        assert_eq!(kind(""), Some(Kind::Vulnerability));
        assert_eq!(kind("informational = \"unsound\""), Some(Kind::Unsound));
        assert_eq!(kind("informational = \"unmaintained\""), Some(Kind::Unmaintained));
        assert_eq!(kind("informational = \"notice\""), None);
        assert_eq!(kind("withdrawn = \"2026-01-01\""), None);
        assert!(advisory("# no head").is_err());
        assert!(advisory(&document("", "patched = [\"soon\"]")).is_err());
    }

    #[test]
    fn a_table_reads_back() {
        let versions = "patched = [\">=1.2.3, <2.0.0\", \">=2.0.1\"]";
        let advisories = vec![advisory(&document("", versions)).unwrap().unwrap()];
        let (commit, date) = ("abc".to_owned(), "2026-01-02".to_owned());
        let database = Database { commit, date, advisories };
        assert_eq!(Database::from_text(&database.to_text()), Ok(database));
        assert!(Database::from_text("").is_err());
        let broken = Database::from_text("database a 2026-01-02\nX-1\tp\tunknown\t\t\n");
        assert!(broken.unwrap_err().starts_with("line 2 is no advisory"));
    }
}

//! Whether what we are made of is known to be at fault.

use std::fmt::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use super::advisories::{Advisory, Database};
use super::lock::{Package, packages};
use super::{LOCKS, TABLE, civil, read, root};

/// A database that is older has missed much.
const OLD_DAYS: u64 = 180;

/// An advisory that concerns us, and why that is accepted.
#[derive(Clone, PartialEq, Eq, Deserialize, Debug)]
struct Accepted {
    id: String,
    reason: String,
}

#[derive(Deserialize)]
struct Rules {
    advisories: Advisories,
}

#[derive(Deserialize)]
struct Advisories {
    #[serde(default)]
    ignore: Vec<Accepted>,
}

/// Compares what is locked with the database in `clone`, or with the table of it that is kept here; tells `say` how old that
/// is, and what was compared.
///
/// # Errors
///
/// A package is at fault and `deny.toml` does not accept that, or something cannot be read.
pub fn audit(clone: Option<&Path>, say: &dyn Fn(&str)) -> Result<(), String> {
    let database = match clone {
        Some(clone) => Database::of_clone(clone)?,
        None => Database::from_text(&read(&root().join(TABLE))?)
            .map_err(|why| format!("{TABLE}: {why}"))?,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    say(&age(&database, civil::day_of_seconds(now.as_secs()), clone.is_none())?);
    let rules: Rules = toml::from_str(&read(&root().join("deny.toml"))?)
        .map_err(|error| format!("deny.toml: {error}"))?;
    let mut found = String::new();
    let mut accepted = rules.advisories.ignore;
    for lock in LOCKS {
        let packages = packages(&root().join(lock))?;
        say(&format!("{lock}: {} packages", packages.len()));
        for (package, advisory) in faults(&packages, &database) {
            if let Some(Accepted { id, reason }) = accepted.iter().find(|of| of.id == advisory.id) {
                say(&format!("{id} is accepted: {reason}"));
                continue;
            }
            let (kind, id) = (advisory.kind.name(), &advisory.id);
            let Package { name, version, .. } = package;
            let _ = writeln!(found, "{lock}: {name} {version}: {id} ({kind})");
        }
    }
    accepted.retain(|of| !database.advisories.iter().any(|known| known.id == of.id));
    for Accepted { id, .. } in accepted {
        say(&format!("deny.toml accepts {id}, which the database does not have"));
    }
    if found.is_empty() { Ok(()) } else { Err(found.trim_end().to_owned()) }
}

/// How old `database` is on the day `today`, in words.
fn age(database: &Database, today: u64, is_table: bool) -> Result<String, String> {
    let Database { commit, date, advisories } = database;
    let made = civil::day(date).ok_or_else(|| format!("{date} is no date"))?;
    let days = today.saturating_sub(made);
    let what = if is_table { "the table kept here" } else { "a clone" };
    let old =
        if days > OLD_DAYS { "; IT IS OLD: rewrite it with `cargo xtask advisories`" } else { "" };
    let commit = commit.get(..12).unwrap_or(commit);
    Ok(format!(
        "advisories: {} of {date} ({commit}, {what}), {days} days old{old}",
        advisories.len()
    ))
}

/// The packages from elsewhere that some advisory affects.
fn faults<'a>(packages: &'a [Package], database: &'a Database) -> Vec<(&'a Package, &'a Advisory)> {
    let from_elsewhere = packages.iter().filter(|package| package.source.is_some());
    let of_package = |package: &'a Package| {
        let named = database.advisories.iter().filter(|known| known.package == package.name);
        let affecting = named.filter(|known| known.affects(&package.version));
        affecting.map(move |advisory| (package, advisory))
    };
    from_elsewhere.flat_map(of_package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> Database {
        Database::from_text(
            "database 0123456789abcdef 2026-01-02\nX-1\tp\tvulnerability\t>=2.0.0\t\n",
        )
        .unwrap()
    }

    #[test]
    fn what_is_at_fault_is_found() {
        let package = |name: &str, version: &str, source: Option<&str>| Package {
            name: name.to_owned(),
            version: version.parse().unwrap(),
            source: source.map(str::to_owned),
            checksum: None,
        };
        let packages = [
            package("p", "1.9.9", Some("registry")),
            package("p", "2.0.0", Some("registry")),
            package("q", "1.0.0", Some("registry")),
            // Ours, whatever it is called.
            package("p", "1.0.0", None),
        ];
        let database = database();
        let found = faults(&packages, &database);
        let [(package, advisory)] = found[..] else { panic!("{found:?}") };
        assert_eq!((package, advisory.id.as_str()), (&packages[0], "X-1"));
    }

    #[test]
    fn ages_are_told() {
        let made = civil::day("2026-01-02").unwrap();
        let told = age(&database(), made + 90, true).unwrap();
        let expected =
            "advisories: 1 of 2026-01-02 (0123456789ab, the table kept here), 90 days old";
        assert_eq!(told, expected);
        assert!(age(&database(), made + 181, false).unwrap().contains("IT IS OLD"));
    }

    /// The table is there, and was made of the whole database.
    #[test]
    fn the_table_can_be_read() {
        let table = Database::from_text(&read(&root().join(TABLE)).unwrap()).unwrap();
        assert!(table.advisories.len() > 1000, "{}", table.advisories.len());
        assert!(civil::day(&table.date).is_some());
        // Known for long, and in many ranges.
        let known = |id: &str, package: &str, version: &str| {
            let found = table.advisories.iter().find(|of| of.id == id && of.package == package);
            found.unwrap().affects(&version.parse().unwrap())
        };
        assert!(known("RUSTSEC-2021-0003", "smallvec", "1.6.0"));
        assert!(!known("RUSTSEC-2021-0003", "smallvec", "1.6.1"));
    }
}

//! Which files are given to users, and where they stand in each package.

use std::path::Path;

use flate2::Compression;

use super::build::{Built, PYTHON, Pages};
use super::entry::{Entry, gzip};
use super::read;
use crate::root::{files, root};

/// The name of the library as programs ask the loader for it.
const SONAME: &str = "libnccl.so.2";

/// Files of the Python package.
pub fn of_wheel(built: &Built) -> Result<Vec<Entry>, String> {
    let mut entries = vec![
        Entry::program(format!("msccl/lib/{SONAME}"), &built.library),
        Entry::program(format!("msccl/lib/{PYTHON}"), &built.python),
        Entry::program("msccl/bin/msccl", &built.command),
    ];
    entries.extend(folder("crates/python/msccl", &["py", "typed"])?.into_iter().map(in_("msccl")));
    entries.extend(headers()?.into_iter().map(in_("msccl/include")));
    entries.extend(shared()?.into_iter().map(in_("msccl/share")));
    sorted(entries)
}

/// Files of the archive.
pub fn of_archive(built: &Built, pages: &Pages) -> Result<Vec<Entry>, String> {
    let mut entries = vec![
        Entry::program(format!("lib/{SONAME}"), &built.library),
        Entry::program("bin/msccl", &built.command),
    ];
    entries.extend(headers()?.into_iter().map(in_("include")));
    entries.extend(shared()?.into_iter().map(in_("share/msccl")));
    entries.extend(pages.manual.iter().cloned().map(in_("share/man/man1")));
    let named = [("bash", "msccl.bash"), ("zsh", "_msccl"), ("fish", "msccl.fish")];
    entries.extend(completions(pages, named.map(|(shell, name)| (shell, name, "completions"))));
    entries.extend(licences()?);
    sorted(entries)
}

/// Files of the package of Debian. The library has a folder of its own, so that it does not take
/// the place of another package's.
pub fn of_deb(built: &Built, pages: &Pages) -> Result<Vec<Entry>, String> {
    let mut entries = vec![
        Entry::program(format!("usr/lib/msccl/{SONAME}"), &built.library),
        Entry::program("usr/bin/msccl", &built.command),
    ];
    entries.extend(headers()?.into_iter().map(in_("usr/include/msccl")));
    entries.extend(shared()?.into_iter().map(in_("usr/share/msccl")));
    for page in &pages.manual {
        let path = format!("usr/share/man/man1/{}.gz", page.path);
        entries.push(Entry::file(path, gzip(&page.bytes, Compression::best())?));
    }
    let named = [
        ("bash", "msccl", "usr/share/bash-completion/completions"),
        ("zsh", "_msccl", "usr/share/zsh/vendor-completions"),
        ("fish", "msccl.fish", "usr/share/fish/vendor_completions.d"),
    ];
    entries.extend(completions(pages, named));
    let licences = licences()?;
    let texts: Vec<u8> = licences.into_iter().flat_map(|licence| licence.bytes).collect();
    entries.push(Entry::file("usr/share/doc/msccl/copyright", texts));
    sorted(entries)
}

fn completions(
    pages: &Pages,
    named: [(&'static str, &'static str, &'static str); 3],
) -> Vec<Entry> {
    let of = |(shell, name, folder): (&str, &str, &str)| {
        let (_, script) = pages.completions.iter().find(|(known, _)| *known == shell)?;
        Some(Entry::file(format!("{folder}/{name}"), script.clone()))
    };
    named.into_iter().filter_map(of).collect()
}

fn headers() -> Result<Vec<Entry>, String> {
    folder("crates/nccl/include", &["h"])
}

/// Algorithms, the standard library and tuning tables, to read and to begin from; the command and
/// the library have their own.
fn shared() -> Result<Vec<Entry>, String> {
    let mut entries: Vec<_> =
        folder("dsl-examples", &["msccl", "md"])?.into_iter().map(in_("examples")).collect();
    entries.extend(folder("crates/compiler/std", &["msccl"])?.into_iter().map(in_("std")));
    entries.extend(folder("crates/select/tuning", &["tuning"])?.into_iter().map(in_("tuning")));
    Ok(entries)
}

/// Both licences.
pub fn licences() -> Result<Vec<Entry>, String> {
    let names = ["LICENSE-APACHE", "LICENSE-MIT"];
    names.into_iter().map(|name| Ok(Entry::file(name, read(&root().join(name))?))).collect()
}

fn in_(folder: &str) -> impl Fn(Entry) -> Entry {
    move |entry| entry.below(folder)
}

/// The files below a folder of the repository that end so.
fn folder(name: &str, extensions: &[&str]) -> Result<Vec<Entry>, String> {
    let ends_so = |path: &Path| {
        path.extension().is_some_and(|end| extensions.iter().any(|extension| end == *extension))
    };
    let found = folder_where(name, ends_so)?;
    if found.is_empty() {
        return Err(format!("expected files that end in {extensions:?} in {name}, found none"));
    }
    Ok(found)
}

/// The files below a folder of the repository of which `belongs` is true.
pub fn folder_where(name: &str, belongs: impl Fn(&Path) -> bool) -> Result<Vec<Entry>, String> {
    let top = root().join(name);
    let mut found = Vec::new();
    for path in files(&top)?.into_iter().filter(|path| belongs(path)) {
        let relative = path.strip_prefix(&top).unwrap_or(&path).to_string_lossy();
        found.push(Entry::file(relative.into_owned(), read(&path)?));
    }
    Ok(found)
}

/// In the order of paths, each once.
pub fn sorted(mut entries: Vec<Entry>) -> Result<Vec<Entry>, String> {
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let twice = entries.windows(2).find(|pair| pair[0].path == pair[1].path);
    match twice {
        Some(pair) => Err(format!("{} stands twice in a package", pair[0].path)),
        None => Ok(entries),
    }
}

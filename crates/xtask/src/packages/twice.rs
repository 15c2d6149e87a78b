//! Whether packages depend on nothing but what is committed: they are built from two clones in
//! different folders, one after the other, and compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::read;
use crate::root::{files, root};

/// Builds all packages twice, and writes them to `folder` if both builds gave the same.
///
/// The clones have paths of different lengths: a path in a program moves what stands behind it.
/// Each clone goes when its packages are made, since its build takes some GiB.
pub fn dist(folder: &Path, say: &dyn Fn(&str)) -> Result<(), String> {
    let place = root().join("target/dist-twice");
    remove(&place)?;
    let one = build(&place.join("one"), &place.join("packages-of-one"), say)?;
    let other =
        build(&place.join("deeper/and-longer/two"), &place.join("packages-of-the-other"), say)?;
    compare(&one, &other, say)?;
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    for path in files(&one)? {
        let written = folder.join(path.file_name().unwrap_or_default());
        fs::copy(&path, &written).map_err(|error| failed(&written, &error))?;
    }
    remove(&place)
}

/// Builds what is committed in a clone, and returns the folder of its packages.
fn build(clone: &Path, packages: &Path, say: &dyn Fn(&str)) -> Result<PathBuf, String> {
    say(&format!("building what is committed in {}", clone.display()));
    run(Command::new("git").args(["clone", "--quiet"]).arg(root()).arg(clone))?;
    let mut command = Command::new("cargo");
    command.args(["xtask", "dist", "--output"]).arg(packages).current_dir(clone);
    // The clone has a build folder of its own.
    run(command.env_remove("CARGO_TARGET_DIR"))?;
    remove(clone)?;
    Ok(packages.to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status();
    let status = status.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

/// Fails unless both folders hold files of the same names and bytes.
fn compare(one: &Path, other: &Path, say: &dyn Fn(&str)) -> Result<(), String> {
    let names = |folder: &Path| -> Result<Vec<_>, String> {
        Ok(files(folder)?.iter().filter_map(|path| path.file_name().map(Into::into)).collect())
    };
    let (first, second): (Vec<PathBuf>, Vec<PathBuf>) = (names(one)?, names(other)?);
    if first != second {
        return Err(format!("expected the same packages twice, found {first:?} and {second:?}"));
    }
    let mut different = Vec::new();
    for name in &first {
        let (one, other) = (one.join(name), other.join(name));
        let bytes = read(&one)?;
        if bytes == read(&other)? {
            say(&format!("{}  {}", sha256(&bytes), name.display()));
        } else {
            different.push(format!("diffoscope {} {}", one.display(), other.display()));
        }
    }
    if different.is_empty() {
        return Ok(());
    }
    let commands = different.join("\n");
    Err(format!("expected the same bytes twice, found others; to see what differs:\n{commands}"))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if folder.exists() => Err(failed(folder, &error)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Compares folders of one file each; returns what was said, or the fault.
    fn compared(one: (&str, &[u8]), other: (&str, &[u8])) -> Result<String, String> {
        let top = std::env::temp_dir().join(format!("msccl-twice-{}", std::process::id()));
        let folders = [("one", one), ("other", other)].map(|(folder, (name, bytes))| {
            let folder = top.join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), bytes).unwrap();
            folder
        });
        let said = RefCell::new(String::new());
        let result = compare(&folders[0], &folders[1], &|line| said.borrow_mut().push_str(line));
        fs::remove_dir_all(top).unwrap();
        result.map(|()| said.into_inner())
    }

    #[test]
    fn one_byte_is_a_difference() {
        let said = compared(("a.whl", b"abc"), ("a.whl", b"abc")).unwrap();
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(said, format!("{sum}  a.whl"));
        let fault = compared(("a.whl", b"abc"), ("a.whl", b"abd")).unwrap_err();
        assert!(fault.contains("\ndiffoscope ") && fault.ends_with("other/a.whl"), "{fault}");
        let fault = compared(("a.whl", b"abc"), ("b.whl", b"abc")).unwrap_err();
        assert!(fault.contains("[\"a.whl\"] and [\"b.whl\"]"), "{fault}");
    }
}

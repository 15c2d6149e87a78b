//! A list of files as a wheel: a zip with metadata, as the binary distribution format has it.

use flate2::Compression;
use sha2::{Digest, Sha256};

use super::contents::licences;
use super::entry::{Entry, zipped};
use super::{VERSION, read};
use crate::root::root;

/// The name of the wheel: one for all Pythons from 3.10 on, since nothing in it is linked with one.
pub fn file_name(tag: &str) -> String {
    format!("msccl-{VERSION}-py3-none-{tag}.whl")
}

/// Packs it.
pub fn pack(mut entries: Vec<Entry>, tag: &str, effort: Compression) -> Result<Vec<u8>, String> {
    let folder = format!("msccl-{VERSION}.dist-info");
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: cargo xtask wheel\nRoot-Is-Purelib: false\nTag: \
         py3-none-{tag}\n"
    );
    entries.push(Entry::file(format!("{folder}/METADATA"), metadata()?));
    entries.push(Entry::file(format!("{folder}/WHEEL"), wheel.into_bytes()));
    entries.push(Entry::file(format!("{folder}/entry_points.txt"), ENTRY_POINTS.into()));
    entries.push(Entry::file(format!("{folder}/top_level.txt"), b"msccl\n".to_vec()));
    for licence in licences()? {
        let path = format!("{folder}/licenses/{}", licence.path);
        entries.push(Entry { path, ..licence });
    }
    // The record comes last, and has no hash of itself.
    let record = format!("{folder}/RECORD");
    let mut lines: String = entries.iter().map(line).collect();
    lines.push_str(&format!("{record},,\n"));
    entries.push(Entry::file(record, lines.into_bytes()));
    zipped(&entries, effort)
}

const ENTRY_POINTS: &str = "\
[console_scripts]
msccl = msccl._command:main

[torch.distributed.backends]
msccl = msccl.torch:_register
";

fn metadata() -> Result<Vec<u8>, String> {
    let head = format!(
        "Metadata-Version: 2.4\nName: msccl\nVersion: {VERSION}\nSummary: Collective algorithms \
         for GPUs: write, prove, run behind NCCL's interface\nLicense-Expression: MIT OR \
         Apache-2.0\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\nRequires-Python: \
         >=3.10\nDescription-Content-Type: text/markdown\nClassifier: Operating System :: POSIX \
         :: Linux\nClassifier: Programming Language :: Python :: 3\nClassifier: Programming \
         Language :: Rust\nClassifier: Typing :: Typed\n\n"
    );
    let page = read(&root().join("docs/PYTHON.md"))?;
    Ok([head.into_bytes(), page].concat())
}

/// The line of a file in the record.
fn line(entry: &Entry) -> String {
    let Entry { path, bytes, mode: _ } = entry;
    format!("{path},sha256={},{}\n", base64(&Sha256::digest(bytes)), bytes.len())
}

/// Base 64 with the letters of addresses, without padding.
fn base64(bytes: &[u8]) -> String {
    crate::playground::base64(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_records() {
        for (bytes, text) in [(&b""[..], ""), (b"f", "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v")] {
            assert_eq!(base64(bytes), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn the_package_has_the_version_of_the_workspace() {
        let text = read(&root().join("crates/python/msccl/_version.py")).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(&format!("__version__ = \"{VERSION}\"\n")), "{text}");
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let entries = || vec![Entry::file("msccl/a.py", b"x = 1\n".repeat(100))];
        let packed = || pack(entries(), "manylinux_2_28_x86_64", Compression::best()).unwrap();
        let one = packed();
        assert_eq!(one, packed());
        assert!(one.starts_with(b"PK"));
    }
}

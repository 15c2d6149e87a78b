//! Every program of this repository, in files and in documents, is in the canonical layout, but for
//! files of cases (`tests/files`). With `MSCCL_BLESS=1` this test lays them out.

use std::fs;
use std::path::{Path, PathBuf};

use msccl_syntax::format;

use crate::tree::parsed;

/// Folders that are not looked into: what is built, and cases for tests.
const NOT_CANONICAL: [&str; 2] = ["target", "files"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files with the extension below a folder.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_hidden = name.to_string_lossy().starts_with('.');
        if path.is_dir() && !is_hidden && !NOT_CANONICAL.iter().any(|it| name == *it) {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

/// A program in the canonical layout, which must say the same.
fn laid_out(program: &str) -> String {
    let formatted = format(program).expect(program);
    assert_eq!(parsed(program), parsed(&formatted), "the layout changes the program");
    assert_eq!(format(&formatted).as_ref(), Ok(&formatted), "the layout is not stable");
    formatted
}

/// A Markdown text with all its programs laid out, and how many they are.
fn with_programs_laid_out(markdown: &str) -> (String, usize) {
    const FENCE: &str = "```msccl\n";
    let mut parts = markdown.split(FENCE);
    let mut text = parts.next().unwrap_or_default().to_string();
    let mut programs = 0;
    for part in parts {
        let (program, rest) = part.split_once("```").expect("an open code block");
        text += &format!("{FENCE}{}```{rest}", laid_out(program));
        programs += 1;
    }
    (text, programs)
}

/// Holds a file against what it should be.
fn check(path: &Path, text: &str, expected: &str) {
    let mends = text != expected && std::env::var_os("MSCCL_BLESS").is_some();
    if mends && fs::write(path, expected).is_ok() {
        return;
    }
    assert_eq!(text, expected, "{} is not canonical; MSCCL_BLESS=1 mends it", path.display());
}

#[test]
fn programs_are_canonical() {
    let programs = files(&root(), "msccl");
    assert!(programs.len() > 50);
    for path in programs {
        let text = fs::read_to_string(&path).unwrap();
        check(&path, &text, &laid_out(&text));
    }
}

#[test]
fn programs_in_documents_are_canonical() {
    let mut all = 0;
    for path in files(&root(), "md") {
        let text = fs::read_to_string(&path).unwrap();
        let (expected, programs) = with_programs_laid_out(&text);
        check(&path, &text, &expected);
        all += programs;
    }
    assert!(all > 10);
}

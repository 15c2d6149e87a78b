//! Every program that this repository holds, in files and in the language's own document.

use std::fs;
use std::path::{Path, PathBuf};

use msccl_syntax::format;

use crate::tree::parsed;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All `.msccl` files below a folder.
fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if path.is_dir() && !is_hidden && entry.file_name() != "target" {
            programs(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "msccl") {
            found.push(path);
        }
    }
}

/// The examples of a Markdown text.
fn examples(markdown: &str) -> Vec<&str> {
    let blocks = markdown.split("```msccl\n").skip(1);
    blocks.filter_map(|block| block.split("```").next()).collect()
}

fn check(text: &str) {
    let formatted = format(text).expect(text);
    assert_eq!(parsed(text), parsed(&formatted), "the layout changes the program:\n{formatted}");
    assert_eq!(format(&formatted).expect(&formatted), formatted, "the layout is not stable");
}

#[test]
fn programs_parse_and_keep_their_meaning() {
    let mut found = Vec::new();
    programs(&root(), &mut found);
    for path in found {
        println!("{}", path.display());
        check(&fs::read_to_string(path).unwrap());
    }
}

#[test]
fn examples_of_the_language_document() {
    let document = fs::read_to_string(root().join("docs/LANGUAGE.md")).unwrap();
    let examples = examples(&document);
    assert!(examples.len() >= 2);
    examples.into_iter().for_each(check);
}

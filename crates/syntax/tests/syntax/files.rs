//! The files of cases: malformed texts and what is said of them, texts and their trees.

use std::path::Path;

use msccl_syntax::{FileId, SourceMap, parse};
use msccl_testkit::case_files::{Outcome, check};

use crate::tree;

#[test]
fn files_of_cases_are_parsed_as_they_expect() {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files"), |case| {
        let mut sources = SourceMap::new();
        sources.add("test.msccl", case.text.clone());
        let made = parse(&sources, FileId(0)).map(|file| tree::show(&file));
        Outcome::new(&sources, made)
    });
}

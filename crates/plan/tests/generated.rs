//! The C header and the tables of `docs/PLAN.md` are what `layout.rs` says.
//!
//! `MSCCL_BLESS=1 cargo test -p msccl-plan` rewrites them.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

use std::fs;
use std::path::{Path, PathBuf};

use msccl_plan::abi;

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The file at `path` is `expected(what it holds)`; rewrites it on request.
fn check(path: &str, expected: impl Fn(String) -> String) {
    let file = in_repository(path);
    let found = fs::read_to_string(&file).unwrap_or_default();
    let expected = expected(found.clone());
    if found == expected {
        return;
    }
    assert!(
        std::env::var_os("MSCCL_BLESS").is_some(),
        "{path} is not what crates/plan/src/layout.rs gives; run MSCCL_BLESS=1 cargo test -p \
         msccl-plan"
    );
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, expected).unwrap();
}

#[test]
fn the_c_header_is_fresh() {
    check("kernels/include/msccl_plan.h", |_| abi::c_header());
}

#[test]
fn the_c_header_for_combining_is_fresh() {
    check("kernels/include/msccl_combine.h", |_| abi::combine_header());
}

#[test]
fn the_tables_of_the_document_are_fresh() {
    check("docs/PLAN.md", |document| abi::tables().into_iter().fold(document, replace));
}

/// Puts `table` between its markers.
fn replace(document: String, (name, table): (&str, String)) -> String {
    let (start, end) = (format!("<!-- {name} -->\n"), "<!-- end -->");
    let (before, rest) = document.split_once(&start).unwrap_or_else(|| panic!("no {start}"));
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("no end of {name}"));
    format!("{before}{start}\n{table}\n{end}{after}")
}

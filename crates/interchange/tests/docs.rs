//! The examples of the documents are one algorithm in three forms.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Also in the tests' own functions.

use msccl_interchange::json;
use msccl_interchange::xml::{self, Dialect};
use msccl_ir::text;

const IR: &str = include_str!("../../../docs/IR.md");
const XML: &str = include_str!("../../../docs/XML.md");

/// The first code block in `document` that is marked as `language`.
fn example<'a>(document: &'a str, language: &str) -> &'a str {
    let start = format!("```{language}\n");
    let (_, after) = document.split_once(&start).unwrap();
    after.split_once("```").unwrap().0
}

#[test]
fn the_examples_agree() {
    let printed = example(IR, "algorithm");
    let algorithm = text::parse(printed).unwrap();
    assert_eq!(text::print(&algorithm), printed);
    assert_eq!(json::read(example(IR, "json")).unwrap(), algorithm);
    assert_eq!(xml::write(&algorithm, Dialect::Msccl).unwrap(), example(XML, "xml"));
}

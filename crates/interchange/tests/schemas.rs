//! The committed schemas are those that the code makes, and hold what they promise.
//!
//! `MSCCL_BLESS=1 cargo test -p msccl-interchange --test schemas` rewrites the committed files.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout)] // Also in the tests' own functions.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use msccl_interchange::json;
use msccl_interchange::xml::{self, Dialect};
use msccl_testkit::malformed;
use msccl_testkit::random::tapes::{anything, expressible, tapes};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn committed(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../ir-schemas").join(name)
}

fn check_fresh(name: &str, made: &str) {
    let path = committed(name);
    if std::env::var_os("MSCCL_BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "{name} is stale; rewrite it with MSCCL_BLESS=1");
}

fn xsd_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Msccl => "msccl.xsd",
        Dialect::Executor => "msccl-executor.xsd",
    }
}

#[test]
fn committed_schemas_are_fresh() {
    check_fresh("msccl-ir.schema.json", &json::schema());
    for dialect in Dialect::ALL {
        check_fresh(xsd_name(dialect), &xml::schema(dialect));
    }
}

fn validator() -> jsonschema::Validator {
    let schema = serde_json::from_str(&json::schema()).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

#[test]
fn written_json_is_valid() {
    let validator = validator();
    let check = |mut tape| {
        let written = serde_json::from_str(&json::write(&anything(&mut tape))).unwrap();
        prop_assert!(validator.is_valid(&written), "{:?}", validator.validate(&written));
        Ok(())
    };
    TestRunner::default().run(&tapes(), check).unwrap();
}

#[test]
fn malformed_json_is_invalid() {
    let validator = validator();
    for case in malformed::json() {
        let Ok(value) = serde_json::from_str(&case.text) else { continue };
        assert_eq!(validator.is_valid(&value), !case.schema_refuses, "{}", case.text);
    }
}

/// Whether `xmllint` takes the document, or nothing where there is no `xmllint`.
fn xmllint(dialect: Dialect, document: &str) -> Option<bool> {
    let mut child = Command::new("xmllint")
        .args(["--nonet", "--noout", "--schema"])
        .arg(committed(xsd_name(dialect)))
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(document.as_bytes()).ok();
    Some(child.wait().ok()?.success())
}

fn skip_without_xmllint() -> bool {
    let missing = Command::new("xmllint").arg("--version").stderr(Stdio::null()).status().is_err();
    if missing {
        // Written past the test harness, which keeps back what tests print.
        let said = b"SKIPPED: xmllint is not installed, so the XSD was not tried on documents\n";
        std::io::stderr().write_all(said).unwrap();
    }
    missing
}

#[test]
fn written_xml_is_valid() {
    if skip_without_xmllint() {
        return;
    }
    let mut runner = TestRunner::deterministic();
    for dialect in Dialect::ALL {
        for _ in 0..24 {
            let mut tape = tapes().new_tree(&mut runner).unwrap().current();
            let written = xml::write(&expressible(&mut tape, dialect), dialect).unwrap();
            assert_eq!(xmllint(dialect, &written), Some(true), "{written}");
        }
    }
}

#[test]
fn malformed_xml_is_invalid() {
    if skip_without_xmllint() {
        return;
    }
    for case in malformed::xml() {
        let valid = xmllint(Dialect::Msccl, &case.text) == Some(true);
        assert_eq!(valid, !case.schema_refuses, "{}", case.text);
    }
}

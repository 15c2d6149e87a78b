//! What is not an algorithm in JSON is refused with its place, and without harm.

#![deny(unsafe_code)]

use msccl_interchange::json;
use msccl_testkit::malformed;
use msccl_testkit::random::tapes;
use proptest::prelude::*;

#[test]
fn every_malformed_file_is_located() {
    for malformed::MalformedFile { text, error, schema_refuses: _ } in malformed::json() {
        let found = json::read(&text).expect_err(&text);
        assert_eq!(found.to_string(), error, "{text}");
    }
}

#[test]
fn the_unchanged_file_is_read() {
    json::read(include_str!("malformed/good.json")).unwrap();
}

#[test]
fn deep_nesting_is_refused() {
    let good = include_str!("malformed/good.json");
    let deep =
        good.replacen("\"name\": \"next\"", &format!("\"name\": {}", "[".repeat(100_000)), 1);
    json::read(&deep).unwrap_err();
    let deep = good.replacen("\"version\": 1", &format!("\"x\": {}", "[".repeat(100_000)), 1);
    json::read(&deep).unwrap_err();
}

#[test]
fn other_encodings_are_refused() {
    assert!(json::read_bytes(b"\xff\xfe{\0}\0").is_err());
    assert!(json::read_bytes(b"{\"name\": \"caf\xe9\"}").is_err());
    let marked = format!("\u{feff}{}", include_str!("malformed/good.json"));
    json::read_bytes(marked.as_bytes()).unwrap();
}

#[test]
fn every_cut_of_a_good_file_is_refused() {
    let good = include_str!("malformed/good.json").trim_end();
    for end in 0..good.len() {
        assert!(json::read(&good[..end]).is_err(), "{}", &good[..end]);
    }
}

proptest! {
    #![proptest_config(tapes::config())]

    /// The reader ends, and does not panic, on files with random damage.
    #[test]
    fn damage_is_survived(
        mut tape in tapes::tapes(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = json::write(&tapes::anything(&mut tape)).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(algorithm) = json::read_bytes(&bytes) {
            prop_assert_eq!(json::read(&json::write(&algorithm)), Ok(algorithm));
        }
    }
}

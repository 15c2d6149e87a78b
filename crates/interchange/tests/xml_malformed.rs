//! What is not MSCCL XML is refused with its place, and without harm.

#![deny(unsafe_code)]

use msccl_interchange::xml::{self, Dialect};
use msccl_testkit::malformed;
use msccl_testkit::random::tapes;
use proptest::prelude::*;

#[test]
fn every_malformed_file_is_located() {
    let cases = malformed::xml();
    assert!(cases.len() >= 40);
    for malformed::MalformedFile { text, error, schema_refuses: _ } in cases {
        let found = xml::read(&text).expect_err(&text);
        assert_eq!(found.to_string(), error, "{text}");
    }
}

#[test]
fn the_unchanged_file_is_read() {
    let read = xml::read(include_str!("malformed/good.xml")).unwrap();
    assert_eq!((read.contradictions.len(), read.warnings.len()), (0, 0));
}

fn check_bytes(bytes: &[u8], expected: &str) {
    let error = xml::read_bytes(bytes).map_or_else(|error| error.to_string(), |_| "read".into());
    assert!(error.contains(expected), "{error}");
}

#[test]
fn other_encodings_are_named() {
    let utf_16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    check_bytes(&[b"\xff\xfe", &*utf_16("<algo/>")].concat(), "found UTF-16");
    check_bytes(b"\xfe\xff\0<\0a", "found UTF-16");
    check_bytes(b"<algo name=\"caf\xe9\"/>", "line 1, column 16 (algo): expected UTF-8");
    check_bytes(b"\x7fELF\x02\x01\x01\0\0", "this is not an MSCCL algorithm");
    check_bytes(b"", "expected <algo>, found the end of the file");
    check_bytes("{\"format\": \"msccl-ir\"}".as_bytes(), "expected <algo>, found text");
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let marked = format!("\u{feff}{}", include_str!("malformed/good.xml"));
    assert!(xml::read_bytes(marked.as_bytes()).unwrap().contradictions.is_empty());
}

#[test]
fn deep_nesting_is_refused() {
    let good = include_str!("malformed/good.xml");
    let deep = good.replacen("<gpu", &format!("{}<gpu", "<x>".repeat(100_000)), 1);
    let error = xml::read(&deep).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 3 + 3 * 15));
    assert!(error.to_string().contains("at most 16 elements inside one another"), "{error}");
}

#[test]
fn crowds_of_attributes_are_refused() {
    let good = include_str!("malformed/good.xml");
    let many: String = (0..100_000).map(|number| format!(" a{number}=\"\"")).collect();
    let crowded = good.replacen(" name", &format!("{many} name"), 1);
    let error = xml::read(&crowded).unwrap_err().to_string();
    assert!(error.contains("at most 64 attributes"), "{error}");
}

#[test]
fn complaints_of_one_kind_are_counted_not_repeated() {
    let steps = "<step s=\"0\" type=\"cpy\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"x\" colour=\"1\"/>";
    let good = include_str!("malformed/good.xml");
    let nops = "<step s=\"7\" type=\"nop\" colour=\"1\"/>".repeat(10_000);
    let read = xml::read(&good.replacen("</tb>", &format!("{nops}</tb>"), 1)).unwrap();
    assert!(read.contradictions.len() <= 64, "{}", read.contradictions.len());
    assert!(read.warnings.len() <= 8, "{:?}", read.warnings);
    assert!(
        read.warnings.iter().any(|warning| warning.contains("`colour` is ignored (10000 times)"))
    );
    assert!(xml::read(&good.replacen("<step", &format!("{steps}<step"), 1)).is_err());
}

#[test]
fn every_cut_of_a_good_file_is_refused() {
    let good = include_str!("malformed/good.xml").trim_end();
    for end in 0..good.len() {
        assert!(xml::read(&good[..end]).is_err(), "{}", &good[..end]);
    }
}

proptest! {
    #![proptest_config(tapes::config())]

    /// The reader ends, and does not panic, on files with random damage.
    #[test]
    fn damage_is_survived(
        mut tape in tapes::tapes(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let algorithm = tapes::expressible(&mut tape, Dialect::Msccl);
        let mut bytes = xml::write(&algorithm, Dialect::Msccl).unwrap().into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(read) = xml::read_bytes(&bytes) {
            prop_assert_eq!(read.algorithm.ranks.len(), read.algorithm.collective.ranks as usize);
        }
    }
}

//! Every malformed file ends with exit code 2 and the reader's message, whatever its form.

use msccl_testkit::malformed as cases;

use super::msccl_reading;

/// Malformed programs: text, and what the diagnostics must hold.
const PROGRAMS: [(&str, &str); 12] = [
    ("", "no algorithm"),
    ("algorithm", "expected"),
    ("algorithm a(ranks N = 2) implements allreduce(chunks N) {", "}"),
    ("algorithm a(N = 2) implements allreduce(chunks N) { }", "ranks"),
    ("algorithm a(ranks N = 2) implements allreduse(chunks N) { }", "allreduse"),
    ("algorithm a(ranks N = 2) implements allreduce(chunks N) { x = }", "expected"),
    ("algorithm a(ranks N = 2) implements allreduce(chunks N) { let x = 1 / 0 }", "zero"),
    ("algorithm a(ranks N = 2) implements allreduce(chunks N) { input@5[0] = input@0[0] }", "5"),
    ("algorithm a(ranks N = 2) implements allreduce(chunks N) { input@0[9] = input@1[0] }", "9"),
    ("algorithm a(ranks N = 2) implements allreduce(chunks N) { for i in 0..9 ** 12 { } }", "loop"),
    ("import nowhere\nalgorithm a(ranks N = 2) implements allreduce(chunks N) { }", "nowhere"),
    ("fn f(n) = f(n + 1)\nalgorithm a(ranks N = 2) implements allreduce(chunks f(1)) { }", "f("),
];

/// `msccl verify -` on `text` must exit with 2 and say `expected` on standard error.
fn check(text: &str, expected: &str) {
    let ran = msccl_reading(&["verify", "-"], text.as_bytes());
    assert_eq!(ran.code, 2, "{text}\n{ran}");
    assert!(ran.stderr.contains(expected), "expected {expected:?} of\n{text}\n{ran}");
}

/// The same for the cases that still look like their format; `line 3, column 5 …` is said as
/// `<stdin>:3:5: …`.
fn check_all(cases: Vec<cases::MalformedFile>, start: &str, at_least: usize) {
    let alike: Vec<_> = cases.into_iter().filter(|case| case.text.starts_with(start)).collect();
    assert!(alike.len() >= at_least, "{} cases", alike.len());
    for case in alike {
        let (place, message) = case.error.split_once(['(', ':']).unwrap();
        check(&case.text, message);
        if let Some((line, column)) = place.trim().split_once(", column ") {
            let line = line.trim_start_matches("line ");
            check(&case.text, &format!("<stdin>:{line}:{column}:"));
        }
    }
}

#[test]
fn xml() {
    check_all(cases::xml(), "<algo ", 50);
}

#[test]
fn json() {
    check_all(cases::json(), "{\n", 25);
}

/// The parser's own words are never shown, whatever is wrong.
#[test]
fn json_is_refused_in_our_words() {
    let plan = r#"{ "name": "x", "collective": "allreduce", "protocol": "Simple", "inplace": true, "gpus": [] }"#;
    check(
        plan,
        "expected a field `format` that is \"msccl-ir\", found none, but `gpus`, as execution \
         plans of MSCCL++",
    );
    for case in cases::json() {
        let ran = msccl_reading(&["verify", "-"], case.text.as_bytes());
        for word in [
            "EOF",
            "invalid type",
            "invalid value",
            "unknown variant",
            "struct ",
            "sequence",
            "trailing",
        ] {
            assert!(!ran.stderr.contains(word), "{word:?} of\n{}\n{ran}", case.text);
        }
    }
}

#[test]
fn programs() {
    for (text, expected) in PROGRAMS {
        check(text, expected);
    }
}

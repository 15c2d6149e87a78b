//! Every form of the parser's complaints, in our words.

use serde::Deserialize;

use super::super::parse;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct All {
    small: Option<u8>,
    signed: Option<i16>,
    large: Option<i64>,
    part: Option<f64>,
    text: Option<String>,
    yes: Option<bool>,
    list: Option<Vec<u32>>,
    pair: Option<(u32, u32)>,
    kind: Option<TestKind>,
    nothing: Option<Empty>,
    table: Option<std::collections::BTreeMap<String, u32>>,
    own: Option<Own>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum TestKind {
    Word,
    Other,
    Value(u32),
    Fields { root: u32 },
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Empty {}

#[derive(Deserialize, Debug)]
#[serde(try_from = "String")]
struct Own;

impl TryFrom<String> for Own {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Err(format!("expected something of ours, found `{text}`"))
    }
}

fn said(text: &str) -> String {
    parse::<All>(text).expect_err(text)
}

fn check(text: &str, expected: &str) {
    let said = said(text);
    assert!(said.ends_with(&format!(": {expected}")), "{text}: {said}");
}

#[test]
fn wrong_values_are_reported_in_plain_words() {
    check(r#"{"small": 256}"#, "expected a whole number from 0 to 255, found 256");
    check(r#"{"small": "1"}"#, "expected a whole number from 0 to 255, found the text \"1\"");
    check(r#"{"small": 1.5}"#, "expected a whole number from 0 to 255, found 1.5");
    check(r#"{"small": {}}"#, "expected a whole number from 0 to 255, found an object");
    check(r#"{"signed": 99999}"#, "expected a whole number from -32768 to 32767, found 99999");
    check(
        r#"{"large": 1e99}"#,
        "expected a whole number from -9223372036854775808 to 9223372036854775807, found 1e+99",
    );
    check(r#"{"part": true}"#, "expected a number, found true");
    check(r#"{"text": []}"#, "expected a text in double quotes, found a list");
    check(r#"{"yes": "true"}"#, "expected true or false, found the text \"true\"");
    check(r#"{"list": 7}"#, "expected a list, `[`, found 7");
    check(r#"{"pair": [1]}"#, "expected a list of 2 elements, found 1");
    check(r#"{"table": 1}"#, "expected an object, `{`, found 1");
    check(r#"{"nothing": 1}"#, "expected an object, `{`, found 1");
    check(
        r#"{"kind": 1}"#,
        "expected a word in double quotes, or an object with one field, found `1`",
    );
    check(
        r#"{"kind": {"fields": {"root": 1}, "value": 2}}"#,
        "expected a word in double quotes, or an object with one field, found `}`",
    );
    check(r#"{"kind": {"word": 1}}"#, "expected null, found 1");
    check(
        r#"{"kind": "value"}"#,
        "expected an object with one field and its value, found the word alone",
    );
    check(
        r#"{"kind": "wort"}"#,
        "expected one of `word`, `other`, `value`, `fields`, found `wort`",
    );
    check(r#"{"own": "x"}"#, "expected something of ours, found `x`");
    let long = format!(r#"{{"small": "{}"}}"#, "x".repeat(500));
    assert!(said(&long).len() < 200, "{}", said(&long));
}

#[test]
fn fields_are_reported_in_plain_words() {
    check(r#"{"kind": {"fields": {}}}"#, "expected a field `root`, found none; add it");
    check(
        r#"{"small": 1, "small": 1}"#,
        "expected one field `small`, found a second one; remove one of them",
    );
    check(
        r#"{"nothing": {"a": 1}}"#,
        "expected a field out of no field, found `a`; correct its name, or remove it",
    );
    assert!(said(r#"{"smal": 1}"#).contains("expected a field out of `small`, `signed`, `large`"));
}

#[test]
fn syntax_is_reported_in_plain_words() {
    check("", "expected a value, found the end of the file; the file is empty or cut short");
    check(
        "{",
        "expected the end of an object, `}`, found the end of the file; the file is empty or cut \
         short",
    );
    check(
        r#"{"list": [1"#,
        "expected the end of a list, `]`, found the end of the file; the file is empty or cut \
         short",
    );
    check(
        r#"{"te"#,
        "expected the end of a text, `\"`, found the end of the file; the file is empty or cut \
         short",
    );
    check(r#"{"text" 1}"#, "expected `:` after the name of a field, found `1`");
    check(r#"{"list": [1 2]}"#, "expected `,` or `]`, found `2`");
    check(r#"{"small": 1 "text": 2}"#, "expected `,` or `}`, found `\"`");
    check(r#"{"yes": trve}"#, "expected true, false or null, found `v`");
    check("{small: 1}", "expected the name of a field in double quotes, found `s`");
    check(r#"{"list": [1,]}"#, "expected a value after the comma, found `]`; remove the comma");
    check(
        "{} {}",
        "expected the end of the file, found `{`; a file holds one value; remove the rest",
    );
    check(r#"{"small": 01}"#, "expected a number as JSON has it, such as 7 or -0.5, found `1`");
    check(r#"{"part": 1e999}"#, "expected a number that 64 bits hold, found `9`");
    check(
        r#"{"text": "\x"}"#,
        "expected an escape such as \\n, \\\" or \\u00e9, found `x`; write \\\\ for a backslash",
    );
    let half = said(r#"{"text": "\ud800\u0041"}"#);
    assert!(half.contains("the second half of a character in \\u escapes"), "{half}");
    check(
        "{\"text\": \"a\tb\"}",
        "expected no line end, tab or other control character in a text, found the character \
         U+0009; write \\n or \\t",
    );
    check(
        r#"{"small": 'a'}"#,
        "expected a value: a text in double quotes, a number, true, false, null, `[` or `{`, found \
         `'`",
    );
    let deep = format!("{{\"x\": {}", "[".repeat(1000));
    let said = parse::<serde_json::Value>(&deep).unwrap_err();
    assert!(
        said.ends_with("expected at most 128 lists and objects inside one another, found `[`"),
        "{said}"
    );
}

/// No text of the parser's own reaches people.
#[test]
fn the_parsers_words_are_not_ours() {
    let bad = [
        "",
        "{",
        "[",
        "nul",
        "{\"a\"}",
        "{\"small\":",
        "{\"small\": -}",
        "{\"kind\": {}}",
        "{\"kind\": []}",
        "{\"kind\": {\"word\": null, \"other\": null}}",
        "{\"kind\": {\"value\": []}}",
        "{\"kind\": \"fields\"}",
        "{\"kind\": null, \"x\": 1}",
        "{\"pair\": [1,2,3]}",
        "{\"pair\": {}}",
        "\u{1}",
        "{\"text\": \"\\u12\"}",
        "7",
        "\"a\"",
    ];
    for text in bad {
        let said = said(text);
        for word in
            ["EOF", "variant", "struct", "invalid", "sequence", "map", "ident", "trailing", "unit"]
        {
            assert!(!said.contains(word), "{text}: {said}");
        }
        assert!(said.contains("expected ") && said.contains(", found "), "{text}: {said}");
    }
}

//! Diagnostics as people see them.

use insta::assert_snapshot;
use msccl_syntax::{Diagnostic, FileId, Severity, SourceMap, Span, parse};

fn sources(text: &str) -> SourceMap {
    let mut sources = SourceMap::new();
    sources.add("ring.msccl", text);
    sources
}

fn span(start: u32, end: u32) -> Span {
    Span { file: FileId(0), start, end }
}

/// What a malformed text is answered.
fn answer(text: &str) -> String {
    let sources = sources(text);
    sources.render_all(&parse(&sources, FileId(0)).expect_err(text))
}

/// A diagnostic that points at the first occurrence of a word.
fn pointing(text: &str, word: &str) -> String {
    let start = text.find(word).expect(word) as u32;
    let diagnostic =
        Diagnostic::error(span(start, start + word.len() as u32), "look").saying("here");
    sources(text).render(&diagnostic)
}

#[test]
fn messages_hints_and_labels() {
    assert_snapshot!(answer("fn f() {\n    for i of 0..4 { }\n    let x = a < b < c\n}\n"), @r#"
    error: expected `in` after the loop variable, found `of`
     --> ring.msccl:2:11
      |
    2 |     for i of 0..4 { }
      |           ^^

    error: comparisons do not chain
     --> ring.msccl:3:19
      |
    3 |     let x = a < b < c
      |                   ^
      |               - the first is here
      |
      = hint: write `a < b and b < c`
    "#);
}

#[test]
fn several_labels_and_lines() {
    let text = "one\ntwo three\nfour\nfive\nsix\n";
    let diagnostic = Diagnostic::error(span(8, 13), "three is wrong")
        .saying("this one")
        .label(span(4, 7), "against this")
        .label(span(19, 23), "and this")
        .label(span(0, 3), "")
        .hint("first do this,\nthen that")
        .hint("or nothing");
    assert_snapshot!(sources(text).render(&diagnostic), @r#"
    error: three is wrong
     --> ring.msccl:2:5
      |
    1 | one
      | ---
    2 | two three
      |     ^^^^^ this one
      | --- against this
    ...
    4 | five
      | ---- and this
      |
      = hint: first do this,
              then that
      = hint: or nothing
    "#);
}

#[test]
fn several_files_and_a_warning() {
    let mut sources = sources("import other\n");
    let other = sources.add("other.msccl", "\n\n\n\n\n\n\n\n\nfn f() = 1\n");
    let mut diagnostic = Diagnostic::error(span(7, 12), "`f` is never used")
        .label(Span { file: other, start: 12, end: 13 }, "it is defined here");
    diagnostic.severity = Severity::Warning;
    assert_snapshot!(sources.render(&diagnostic), @r#"
    warning: `f` is never used
      --> ring.msccl:1:8
       |
     1 | import other
       |        ^^^^^
      ::: other.msccl:10:4
       |
    10 | fn f() = 1
       |    - it is defined here
    "#);
}

#[test]
fn tabs_and_wide_characters() {
    assert_snapshot!(pointing("\tlet\tx = 1", "x"), @r#"
    error: look
     --> ring.msccl:1:6
      |
    1 |     let    x = 1
      |            ^ here
    "#);
    assert_snapshot!(pointing("// 環状 é e\u{301} x", "x"), @r#"
    error: look
     --> ring.msccl:1:12
      |
    1 | // 環状 é é x
      |             ^ here
    "#);
    assert_snapshot!(pointing("// \u{1b}[31m \u{202e} x\r\n", "x"), @r#"
    error: look
     --> ring.msccl:1:12
      |
    1 | // �[31m � x
      |            ^ here
    "#);
}

#[test]
fn ends_and_outsides() {
    let at = |text: &str, start, end| {
        sources(text).render(&Diagnostic::error(span(start, end), "look").saying("here"))
    };
    assert_snapshot!(at("", 0, 0), @r#"
    error: look
     --> ring.msccl:1:1
      |
    1 |
      | ^ here
    "#);
    assert_snapshot!(at("one", 3, 3), @r#"
    error: look
     --> ring.msccl:1:4
      |
    1 | one
      |    ^ here
    "#);
    assert_snapshot!(at("one\n", 4, 4), @r#"
    error: look
     --> ring.msccl:2:1
      |
    2 |
      | ^ here
    "#);
    assert_snapshot!(at("one\ntwo", 2, 6), @r#"
    error: look
     --> ring.msccl:1:3
      |
    1 | one
      |   ^ here
    "#);
    assert_snapshot!(at("one", 70, 90), @r#"
    error: look
     --> ring.msccl:1:4
      |
    1 | one
      |    ^ here
    "#);
    assert_snapshot!(at("éé", 1, 3), @r#"
    error: look
     --> ring.msccl:1:1
      |
    1 | éé
      | ^^ here
    "#);
}

#[test]
fn long_lines_show_the_part_that_matters() {
    let text = format!("let x = {} here {}", "a + ".repeat(100), "b + ".repeat(100));
    assert_snapshot!(pointing(&text, "here"), @r#"
    error: look
     --> ring.msccl:1:410
      |
    1 | … + a + a + a + a + a + a + a + a + a +  here b + b + b + b + b + b + b + b + b + b + b + b + b + b + b + b + b + b + b +…
      |                                          ^^^^ here
    "#);
}

#[test]
fn no_place() {
    let diagnostic = Diagnostic {
        severity: Severity::Error,
        message: "nothing to show".to_string(),
        labels: Vec::new(),
        hints: vec!["but a hint".to_string()],
    };
    assert_snapshot!(sources("").render(&diagnostic), @r#"
    error: nothing to show
      = hint: but a hint
    "#);
}

//! Reading and rendering of files of cases.

use msccl_syntax::{Diagnostic, FileId, SourceMap, Span};

use super::{Case, Outcome, read, render};

/// Complains about every `x`, and dumps programs without one.
fn run(case: &Case<'_>) -> Outcome {
    let mut sources = SourceMap::new();
    sources.add("test", case.text.clone());
    let places = case.text.match_indices('x').map(|(at, _)| at as u32);
    let found: Vec<_> = places
        .map(|start| {
            let span = Span { file: FileId(0), start, end: start + 1 };
            Diagnostic::error(span, case.setting("message").unwrap_or("no x")).hint("write y")
        })
        .collect();
    let made = if found.is_empty() { Ok("fine\n".to_owned()) } else { Err(found) };
    Outcome::new(&sources, made)
}

fn rendered(text: &str) -> String {
    render::file(&read::file(text).unwrap(), run)
}

#[test]
fn expectations_that_are_missing_wrong_or_out_of_place_are_replaced() {
    let expected = "\
// Head.

let x = 1
//~ ^ error: no x
//~ hint: write y

xy
//~ 1:1 error: no x
//~ hint: write y

y
//> fine
";
    assert_eq!(rendered("// Head.\n\nlet x = 1\n\nxy\n\ny\n"), expected);
    assert_eq!(rendered(expected), expected);
    let wrong = expected.replace("fine", "bad").replace("//~ ^", "//~     ^");
    assert_eq!(rendered(&wrong), expected);
}

#[test]
fn lines_are_those_of_the_case_when_another_text_is_around_it() {
    let text = "//! around: fn f() { … }\n\n    a x\n";
    let expected =
        "//! around: fn f() { … }\n\n    a x\n//~   ^ error: no x\n//~   hint: write y\n";
    assert_eq!(rendered(text), expected);
}

#[test]
fn long_messages_are_wrapped() {
    let message = "word ".repeat(40);
    let text = rendered(&format!("//! message: {}\n\n    x\n", message.trim()));
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 100), "{text}");
    assert_eq!(text.matches("word").count(), 80, "{text}");
}

#[test]
fn files_without_cases_or_without_a_head_are_refused() {
    let refused = |text: &str| read::file(text).err().unwrap();
    assert_eq!(refused("// Head.\n"), "no case follows the head");
    assert_eq!(refused("x\n\ny\n"), "the first paragraph must be comments, found `x`");
    assert_eq!(refused("//! stage\n\ny\n"), "expected `//! name: value`, found `//! stage`");
}

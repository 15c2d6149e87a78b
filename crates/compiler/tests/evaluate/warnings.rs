//! What is allowed, but hardly meant.

use msccl_compiler::evaluate::Launch;
use msccl_syntax::Severity;

use super::{evaluate_text, lines, show, two_ranks};

/// Holds the warnings of a right program against `line:column message` lines.
#[track_caller]
fn check(text: &str, expected: &str) {
    let (sources, result) = evaluate_text(text, &Launch::default());
    let dag = result.unwrap_or_else(|errors| panic!("{}", show(&sources, &errors).join("\n")));
    assert!(dag.warnings.iter().all(|warning| warning.severity == Severity::Warning));
    assert_eq!(show(&sources, &dag.warnings), lines(expected), "{text}");
}

#[test]
fn ranges_that_end_before_they_begin() {
    let check = |body, at_and_range| {
        let expected = format!("2:{at_and_range} has no elements: it ends before it begins");
        check(&two_ranks(body), &expected);
    };
    check("for i in 5..2 { output@0 = input@0 }", "10 5..2");
    check("for i in 5..2 by 2 { output@0 = input@0 }", "10 5..2");
    check("let down = 1..0  for i in down { output@0 = input@0 }", "27 1..0");
    check("let none = [i in 3..1: i]  require len(none) == 0", "18 3..1");
    check("require sum(i in 0..-1: i) == 0", "18 0..-1");
}

#[test]
fn empty_ranges_that_end_where_they_begin() {
    for body in [
        "for i in 2..2 { output@0 = input@0 }",
        "for i in 1..1 by 3 { output@0 = input@0 }",
        "for i in reverse(2..5) { output@0 = input@0[0..2] }",
        "for i in [] { output@0 = input@0 }",
        "require len(5..2) == 0",
    ] {
        check(&two_ranks(body), "");
    }
}

#[test]
fn a_place_is_shown_once_with_the_call_that_led_there() {
    let text = "fn walk(from) {
            for i in from..1 { output@0[0] = input@0[0] }
        }
        algorithm a(ranks N = 2) implements broadcast() {
            for r in 0..N { output@r[0] = input@0[0] }
            for k in 1..4 { walk(k) }
        }";
    check(text, "2:22 2..1 has no elements: it ends before it begins");
    let (sources, result) = evaluate_text(text, &Launch::default());
    let labels = &result.unwrap().warnings[0].labels;
    let callers: Vec<_> =
        labels.iter().skip(1).map(|label| sources.line_column(label.span).line).collect();
    assert_eq!(callers, [6]);
}

#[test]
fn warnings_stand_behind_the_errors_that_they_may_explain() {
    let text = two_ranks("for r in 1..0 { output@r = input@r }  output@0 += input@0");
    let (sources, result) = evaluate_text(&text, &Launch::default());
    let found = result.unwrap_err();
    let severities: Vec<_> = found.iter().map(|one| one.severity).collect();
    assert_eq!(severities.first(), Some(&Severity::Error), "{:?}", show(&sources, &found));
    assert_eq!(severities.last(), Some(&Severity::Warning), "{:?}", show(&sources, &found));
}

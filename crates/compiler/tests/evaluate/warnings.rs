//! What is allowed, but hardly meant: which calls led there, and the order among errors. Other
//! cases are in `tests/files/evaluate/warnings.msccl`.

use msccl_compiler::evaluate::Launch;
use msccl_syntax::Severity;

use super::{evaluate_text, show, two_ranks};

#[test]
fn a_place_is_shown_once_with_the_call_that_led_there() {
    let text = "fn walk(from) {
            for i in from..1 { output@0[0] = input@0[0] }
        }
        algorithm a(ranks N = 2) implements broadcast() {
            for r in 0..N { output@r[0] = input@0[0] }
            for k in 1..4 { walk(k) }
        }";
    let (sources, result) = evaluate_text(text, &Launch::default());
    let warnings = result.unwrap().warnings;
    let shown = ["2:22 2..1 has no elements: it ends before it begins"];
    assert_eq!(show(&sources, &warnings), shown);
    let labels = &warnings[0].labels;
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

//! The collective's promise, on the author's own lines.

use msccl_collective::Placement;
use msccl_compiler::chunk::{ChunkDag, check_promise};
use msccl_compiler::evaluate::Launch;
use msccl_syntax::SourceMap;

use super::{dag_for, evaluate_text, lines, show};

/// Holds what is wrong with a program against `line:column message` lines; none if it is right.
fn check(text: &str, launch: &Launch, expected: &str) {
    let (sources, dag) = evaluate_text(text, launch);
    let dag = dag.unwrap_or_else(|errors| panic!("{:?}", show(&sources, &errors)));
    assert_eq!(faults(&sources, &dag), lines(expected), "{text}");
}

fn faults(sources: &SourceMap, dag: &ChunkDag) -> Vec<String> {
    check_promise(dag).map_or_else(|errors| show(sources, &errors), |()| Vec::new())
}

const RING: &str = "algorithm ring(ranks N = 8) implements allreduce(chunks N) in place {
    for step in 0..N-1, c in 0..N { input@((c + step + 1) % N)[c] += input@((c + step) % N)[c] }
    for step in N-1..2*N-2, c in 0..N { input@((c + step + 1) % N)[c] = input@((c + step) % N)[c] }
}";

#[test]
fn right_programs_are_left_alone() {
    for placement in [Placement::InPlace, Placement::OutOfPlace] {
        for ranks in [1, 2, 3, 7] {
            for instances in [1, 3] {
                let launch = Launch {
                    ranks: Some(ranks),
                    placement: Some(placement),
                    instances: Some(instances),
                    ..Launch::default()
                };
                check(RING, &launch, "");
            }
        }
    }
}

#[test]
fn what_is_missing_is_named_where_it_was_written_last() {
    let short = RING.replace("0..N-1,", "0..N-2,");
    let launch = Launch { ranks: Some(3), ..Launch::default() };
    let (sources, dag) = evaluate_text(&short, &launch);
    let faults = faults(&sources, &dag.unwrap());
    assert_eq!(
        faults,
        [
            "3:41 output@0[0] lacks input@0[0], input@1[0]",
            "1:11 output@0[1] lacks input@1[1], input@2[1]"
        ]
    );
    let errors = check_promise(&dag_for(&short, &launch)).unwrap_err();
    let labels: Vec<_> = errors.iter().map(|error| error.labels[0].text.as_str()).collect();
    assert_eq!(labels, ["this wrote it last", "no statement writes it"]);
}

/// Bodies over three ranks, all-reduce out of place, and what is wrong with each.
const BODIES: &[(&str, &str)] = &[
    ("", "1:11 output@0[0] is never given a value"),
    (
        "for r in 0..N { output@r = sum(q in 0..N if q != r: input@q) }",
        "2:17 output@0[0] lacks input@0[0]",
    ),
    (
        "for r in 0..N { output@r = sum(q in 0..N: input@q) + input@1 }",
        "2:17 output@0[0] counts input@1[0] more than once",
    ),
    (
        "for r in 0..N { output@r = sum(q in 0..2: input@q) + input@0 }",
        "2:17 output@0[0] lacks input@2[0] and counts input@0[0] more than once",
    ),
    (
        "output@0 = input@0 + input@1 + input@2\noutput@1 = output@0\noutput@2 = input@0",
        "4:1 output@2[0] lacks input@1[0], input@2[0]",
    ),
];

#[test]
fn faults_of_all_kinds() {
    for (body, fault) in BODIES {
        let text = format!("algorithm a(ranks N = 3) implements allreduce() {{\n{body}\n}}");
        check(&text, &Launch::default(), fault);
        check(&text, &Launch { instances: Some(2), ..Launch::default() }, fault);
    }
}

#[test]
fn values_that_do_not_belong() {
    let text = "algorithm a(ranks N = 2) implements alltoall() {
        for r in 0..N, q in 0..N { output@r[q] = input@q[q] }
    }";
    check(
        text,
        &Launch::default(),
        "2:36 output@0[1] lacks input@1[0] and holds input@1[1], which does not belong there",
    );
}

#[test]
fn several_values_that_do_not_belong() {
    let text = "algorithm a(ranks N = 3) implements alltoall() {
        for r in 0..N, q in 0..N { output@r[q] = input@q[r] }
        output@0[0] = input@1[1] + input@2[2]
    }";
    check(
        text,
        &Launch::default(),
        "3:9 output@0[0] lacks input@0[0] and holds input@1[1], input@2[2], which do not belong \
         there",
    );
}

#[test]
fn untouched_output_of_an_in_place_program_is_the_heads_fault() {
    let text = "algorithm a(ranks N = 2) implements allreduce() in place {}";
    for placement in [Placement::InPlace, Placement::OutOfPlace] {
        let launch = Launch { placement: Some(placement), ..Launch::default() };
        check(text, &launch, "1:11 output@0[0] lacks input@1[0]");
    }
}

#[test]
fn doubling_without_end_is_still_fast() {
    let text = "algorithm a(ranks N = 2) implements allreduce() {
        output@0 = input@0
        scratch t[1]
        for i in 0..200 { t@0 = output@0  output@0 += t@0 }
        output@1 = input@0 + input@1
    }";
    check(
        text,
        &Launch::default(),
        "4:43 output@0[0] lacks input@1[0] and counts input@0[0] more than once",
    );
}

#[test]
fn a_wrong_chunk_counts_its_companions() {
    let text = "algorithm a(ranks N = 4) implements broadcast() {
        for r in 0..N { output@r = input@0 }
        for r in 1..N { output@r = output@0 + input@0 }
    }";
    let dag = dag_for(text, &Launch::default());
    let errors = check_promise(&dag).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].hints, ["2 more chunks are wrong, too: output@2[0], output@3[0]"]);
}

/// Two rings side by side exchange their sums in place, one after the other, and then hand on what
/// they have.
#[test]
fn what_came_in_twice_is_the_fault_of_who_added_it_and_not_of_copies() {
    let text = "algorithm a(ranks N = 4) implements allreduce() in place {
        input@0 += input@1
        input@2 += input@3
        input@2 += input@0
        input@0 += input@2
        input@1 = input@0
        input@3 = input@2
    }";
    let (sources, dag) = evaluate_text(text, &Launch::default());
    let errors = check_promise(&dag.unwrap()).unwrap_err();
    assert_eq!(
        show(&sources, &errors),
        ["5:9 output@0[0] counts input@0[0], input@1[0] more than once"]
    );
    let labels: Vec<_> = errors[0].labels.iter().map(|label| label.text.as_str()).collect();
    assert_eq!(labels, ["this adds them again"]);
    assert_eq!(errors[0].hints[1], "1 more chunk is wrong, too: output@1[0]");
}

#[test]
fn a_copy_of_what_came_in_twice_points_at_both() {
    let text = "algorithm a(ranks N = 2) implements allreduce() {
        scratch t[1]
        t@0 = input@0 + input@1 + input@1
        output@0 = t@0
        output@1 = input@0 + input@1
    }";
    let (sources, dag) = evaluate_text(text, &Launch::default());
    let errors = check_promise(&dag.unwrap()).unwrap_err();
    assert_eq!(show(&sources, &errors), ["3:9 output@0[0] counts input@1[0] more than once"]);
    let labels = errors[0].labels.iter();
    let labels: Vec<_> =
        labels.map(|label| (sources.line_column(label.span).line, label.text.as_str())).collect();
    assert_eq!(labels, [(3, "this adds it again"), (4, "this wrote it last")]);
}

#[test]
fn chunks_that_nothing_writes_are_named() {
    let text = "algorithm a(ranks N = 6) implements broadcast() {}";
    let errors = check_promise(&dag_for(text, &Launch::default())).unwrap_err();
    assert_eq!(errors[0].message, "output@0[0] is never given a value");
    assert_eq!(
        errors[0].hints,
        ["5 more chunks are wrong, too: output@1[0], output@2[0], output@3[0] and 2 others"]
    );
}

//! The collective's promise, on the author's own lines, for several launches of one program. Other
//! cases are in `tests/files/promise`.

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

#[test]
fn untouched_output_of_an_in_place_program_is_the_heads_fault() {
    let text = "algorithm a(ranks N = 2) implements allreduce() in place {}";
    for placement in [Placement::InPlace, Placement::OutOfPlace] {
        let launch = Launch { placement: Some(placement), ..Launch::default() };
        check(text, &launch, "1:11 output@0[0] lacks input@1[0]");
    }
}

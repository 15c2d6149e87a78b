//! What is refused, and where: several errors at once, and launches that do not fit. Other cases
//! are in `tests/files/evaluate`.

use super::{check_errors, check_errors_for, two_ranks};
use msccl_collective::Placement;
use msccl_compiler::evaluate::Launch;

#[test]
fn a_file_without_an_algorithm_is_refused() {
    check_errors("", "1:1 this file defines no algorithm");
}

#[test]
fn several_errors_at_once_each_place_once() {
    check_errors(
        &two_ranks(
            "for i in 0..4 { output@0[i] = input@0[i] }
             let x = 1 / 0
             output@0[x] = input@0[0]
             output@9[0] = input@0[0]",
        ),
        "2:26 `output` of rank 0 has no chunk 2
         3:22 this divides by zero
         5:21 there is no rank 9",
    );
}

#[test]
fn an_unwritten_read_is_reported_once_and_does_not_hide_the_next() {
    check_errors(
        &two_ranks(
            "output@0[0] += input@0[0]
             output@1[0] = output@0[0]
             output@1[1] += input@0[0]",
        ),
        "2:1 nothing has been stored in output@0[0] yet
         4:14 nothing has been stored in output@1[1] yet",
    );
}

#[test]
fn launches_that_do_not_fit_the_program_are_refused() {
    let text = "algorithm a(ranks N = 2, C = 1) implements allreduce() {}";
    let param = |name: &str, value| vec![(name.to_owned(), value)];
    let launches = [
        (Launch { params: param("D", 1), ..Launch::default() }, "1:11 `a` has no parameter `D`"),
        (
            Launch { ranks: Some(4), params: param("N", 3), ..Launch::default() },
            "1:13 `N` cannot be 4 and 3 at once",
        ),
        (Launch { ranks: Some(0), ..Launch::default() }, "1:13 expected 1 to 65536 ranks, found 0"),
        (
            Launch { ranks: Some(4), per_node: Some(3), ..Launch::default() },
            "1:11 4 ranks do not fill nodes of 3",
        ),
        (Launch { per_node: Some(0), ..Launch::default() }, "1:11 2 ranks do not fill nodes of 0"),
        (
            Launch { placement: Some(Placement::Both), ..Launch::default() },
            "1:11 a program is compiled for calls in place or out of place, not for both",
        ),
        (
            Launch { instances: Some(0), ..Launch::default() },
            "1:11 expected 1 to 1024 instances, found 0",
        ),
        (
            Launch { algorithm: Some("b".to_owned()), ..Launch::default() },
            "1:11 there is no algorithm `b` here",
        ),
    ];
    for (launch, error) in launches {
        check_errors_for(text, &launch, error);
    }
}

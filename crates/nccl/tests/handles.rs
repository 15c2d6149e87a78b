//! What a handle, a place for a result, and a rendezvous promise to C programs.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod programs;

use programs::{Written, run_all};

/// Runs `name`; it succeeds and says nothing but so.
fn check(name: &str, arguments: &[&str], environment: &[(&str, &str)]) {
    let Some(Written { output, errors }) = run_all(name, arguments, environment) else { return };
    assert_eq!((output, errors), (format!("{name}: ok\n"), String::new()));
}

#[test]
fn places_of_results_are_set_on_every_path() {
    check("results", &[], &[]);
}

#[test]
fn a_fork_cannot_use_what_its_parent_made() {
    check("forks", &[], &[]);
}

/// The absent one is the hub of the group, or another rank.
#[test]
fn ranks_that_never_come_are_named_within_the_limit() {
    for absent in ["0", "2"] {
        for what in ["split", "polled", "shrink", "window"] {
            check("rendezvous", &[what, absent], &[("MSCCL_JOIN_TIMEOUT_S", "1")]);
        }
    }
}

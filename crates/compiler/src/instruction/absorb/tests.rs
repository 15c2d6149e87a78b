//! What is absorbed and, above all, what must not be. Programs are written as in
//! `instruction::tests`.

use msccl_ir::{Packing, Target};

use crate::instruction::tests::check;

/// What `text` becomes for the native target.
fn native(text: &str, expected: &str) {
    check(Target::native(), text, expected);
}

#[test]
fn a_sum_takes_what_was_received_for_it() {
    let exchange = "
        r0.s[0] = r1.o[0]
        r0.s[1] = r2.o[0]
        r1.s[0] = r0.o[0]
        r0.o[0] = r0.s[0] + r0.o[0] + r0.s[1]
        r1.o[0] = r1.o[0] + r1.s[0]";
    native(
        exchange,
        "w0  r0  o[0] → r1
         w0  r1  o[0] → r0
         w0  r2  o[0] → r0
         w1  r0  r1 + o[0] + r2 → o[0]
         w1  r1  o[0] + r0 → o[0]",
    );
}

#[test]
fn msccl_has_no_step_for_it() {
    check(
        Target::msccl(),
        "r0.s[0] = r1.o[0]
         r0.o[0] = r0.o[0] + r0.s[0]",
        "w0  r1  o[0] → r0
         w0  r0  r1 → s[0]
         w1  r0  o[0] + s[0] → o[0]",
    );
}

#[test]
fn a_sum_that_absorbs_goes_on_passing_on() {
    native(
        "r1.s[0] = r0.o[0]
         r0.s[0] = r1.o[0]
         r0.o[0] = r0.o[0] + r0.s[0]
         r1.o[0] = r1.o[0] + r1.s[0]
         r2.s[1] = r0.o[0]
         r2.o[0] = r2.o[0] + r2.s[1]",
        "w0  r0  o[0] → r1
         w0  r1  o[0] → r0
         w1  r1  o[0] + r0 → o[0]
         w1  r0  o[0] + r1 → o[0], r2
         w3  r2  o[0] + r0 → o[0]",
    );
}

#[test]
fn a_sum_that_receives_absorbs_as_well() {
    native(
        "r1.s[0] = r0.o[0]
         r1.o[0] = r1.o[0] + r1.s[0] + r2.o[0]",
        "w0  r0  o[0] → r1
         w1  r2  o[0] → r1
         w1  r1  o[0] + r0 + r2 → o[0]",
    );
}

#[test]
fn a_sum_that_absorbs_stands_among_the_receives_of_its_wave() {
    native(
        "r1.s[0] = r0.o[0]
         r1.o[0] = r1.o[0] + r1.s[0]
         r0.o[1] = r3.o[1]
         r0.o[2] = r3.o[2]",
        "w0  r0  o[0] → r1
         w0  r3  o[1] → r0
         w0  r0  r3 → o[1]
         w1  r3  o[2] → r0
         w1  r0  r3 → o[2]
         w1  r1  o[0] + r0 → o[0]",
    );
}

#[test]
fn a_copy_takes_what_was_received_for_it() {
    native(
        "r1.s[0] = r0.o[0] x2
         r0.s[2] = r1.o[2] x2
         r1.o[2] = r1.s[0] x2
         r0.o[0] = r0.s[2] x2",
        "w0  r0  o[0..2] → r1
         w0  r1  o[2..4] → r0
         w1  r0  r1 → o[0..2]
         w1  r1  r0 → o[2..4]",
    );
}

#[test]
fn a_stage_may_be_output_that_is_overwritten() {
    native(
        "r1.o[1] = r0.o[0]
         r1.o[0] = r1.o[0] + r1.o[1]
         r1.o[1] = r2.o[1]",
        "w0  r0  o[0] → r1
         w1  r1  o[0] + r0 → o[0]
         w2  r2  o[1] → r1
         w2  r1  r2 → o[1]",
    );
}

#[test]
fn what_the_collective_promises_stays_where_it_is() {
    native(
        "r1.o[1] = r0.o[0]
         r1.o[0] = r1.o[0] + r1.o[1]",
        "w0  r0  o[0] → r1
         w0  r1  r0 → o[1]
         w1  r1  o[0] + o[1] → o[0]",
    );
}

#[test]
fn a_part_of_a_stage_is_not_absorbed() {
    native(
        "r1.s[0] = r0.o[0] x2
         r1.o[0] = r1.o[0] + r1.s[0]",
        "w0  r0  o[0..2] → r1
         w0  r1  r0 → s[0..2]
         w1  r1  o[0] + s[0] → o[0]",
    );
    native(
        "r1.s[0] = r0.o[0] x2
         r1.o[0] = r1.s[1] x2",
        "w0  r0  o[0..2] → r1
         w0  r1  r0 → s[0..2]
         w1  r1  s[1..3] → o[0..2]",
    );
    // As many slots are read as were received, but in two steps.
    native(
        "r1.s[0] = r0.o[0] x2
         r1.o[0] = r1.o[0] + r1.s[0]
         r1.o[1] = r1.o[1] + r1.s[1]",
        "w0  r0  o[0..2] → r1
         w0  r1  r0 → s[0..2]
         w1  r1  o[0] + s[0] → o[0]
         w1  r1  o[1] + s[1] → o[1]",
    );
}

#[test]
fn a_stage_of_two_messages_is_not_absorbed() {
    let joined = "
        r1.s[0] = r0.o[0]
        r1.s[1] = r2.o[1]
        r1.o[0] = r1.s[0] x2";
    native(
        joined,
        "w0  r0  o[0] → r1
         w0  r2  o[1] → r1
         w0  r1  r0 → s[0]
         w0  r1  r2 → s[1]
         w1  r1  s[0..2] → o[0..2]",
    );
    // As many slots are read as were received from r0, since one of them is read twice.
    let partly_newer = "
        r1.s[0] = r0.o[0] x2
        r1.s[1] = r2.o[1]
        r1.o[2] = r1.s[0]
        r1.o[0] = r1.s[0] x2";
    native(
        partly_newer,
        "w0  r0  o[0..2] → r1
         w0  r1  r0 → s[0..2]
         w1  r2  o[1] → r1
         w1  r1  s[0] → o[2]
         w1  r1  r2 → s[1]
         w2  r1  s[0..2] → o[0..2]",
    );
}

#[test]
fn a_stage_that_is_read_twice_is_not_absorbed() {
    native(
        "r1.s[0] = r0.o[0]
         r1.o[0] = r1.o[0] + r1.s[0]
         r1.o[1] = r1.o[1] + r1.s[0]",
        "w0  r0  o[0] → r1
         w0  r1  r0 → s[0]
         w1  r1  o[0] + s[0] → o[0]
         w1  r1  o[1] + s[0] → o[1]",
    );
    native(
        "r1.s[0] = r0.o[0]
         r1.o[0] = r1.s[0] + r1.s[0]",
        "w0  r0  o[0] → r1
         w0  r1  r0 → s[0]
         w1  r1  s[0] + s[0] → o[0]",
    );
}

#[test]
fn a_stage_that_is_sent_or_passed_on_is_not_absorbed() {
    native(
        "r1.s[0] = r0.o[0]
         r2.o[0] = r1.s[0]
         r1.o[0] = r1.o[0] + r1.s[0]",
        "w0  r0  o[0] → r1
         w0  r1  r0 → s[0], r2
         w1  r1  o[0] + s[0] → o[0]
         w1  r2  r1 → o[0]",
    );
    native(
        "r1.s[0] = r0.o[0]
         r2.o[0] = r1.s[0] ch1
         r1.o[0] = r1.o[0] + r1.s[0]",
        "w0  r0  o[0] → r1
         w0  r1  r0 → s[0]
         w1  r1  s[0] → r2
         w1  r1  o[0] + s[0] → o[0]
         w1  r2  r1 → o[0]",
    );
}

#[test]
fn a_stage_that_holds_a_sum_is_not_absorbed() {
    native(
        "r1.s[0] = r1.o[1] + r0.o[0]
         r1.o[0] = r1.o[0] + r1.s[0]",
        "w0  r0  o[0] → r1
         w0  r1  r0 + o[1] → s[0]
         w1  r1  o[0] + s[0] → o[0]",
    );
}

#[test]
fn a_link_that_is_needed_meanwhile_is_not_kept_waiting() {
    // The second message is sent in the wave of the sum: only it may wait in the link.
    native(
        "r1.s[0] = r0.o[0]
         r1.o[1] = r0.o[1]
         r1.o[0] = r1.o[0] + r1.s[0]",
        "w0  r0  o[0] → r1
         w0  r1  r0 → s[0]
         w1  r0  o[1] → r1
         w1  r1  o[0] + s[0] → o[0]
         w1  r1  r0 → o[1]",
    );
    native(
        "r1.s[0] = r0.o[0]
         r1.s[1] = r0.o[1]
         r1.o[0] = r1.o[0] + r1.s[0] + r1.s[1]",
        "w0  r0  o[0] → r1
         w0  r1  r0 → s[0]
         w1  r0  o[1] → r1
         w2  r1  o[0] + s[0] + r0 → o[0]",
    );
}

#[test]
fn a_link_that_is_needed_afterwards_may_wait() {
    native(
        "r1.s[0] = r0.o[0]
         r1.o[0] = r1.o[0] + r1.s[0]
         r1.o[0] = r0.o[1]",
        "w0  r0  o[0] → r1
         w1  r1  o[0] + r0 → o[0]
         w2  r0  o[1] → r1
         w2  r1  r0 → o[0]",
    );
}

#[test]
fn what_does_not_fit_the_link_is_not_kept_in_it() {
    let mut target = Target::native();
    target.simple.packing = Packing::Fitting;
    let stage = "
        r1.s[0] = r0.o[0] x2
        r1.o[0] = r1.o[0] + r1.s[0] x2";
    target.simple.depth = 1;
    check(
        target.clone(),
        stage,
        "w0  r0  o[0..2] → r1
         w0  r1  r0 → s[0..2]
         w1  r1  o[0..2] + s[0..2] → o[0..2]",
    );
    target.simple.depth = 2;
    check(
        target,
        stage,
        "w0  r0  o[0..2] → r1
         w1  r1  o[0..2] + r0 → o[0..2]",
    );
}

#[test]
fn other_channels_and_blocks_do_not_absorb() {
    let staged = "
        w0  r0  o[0] → r1
        w0  r1  r0 → s[0]
        w1  r1  o[0] + s[0] → o[0]";
    let absorbed = "
        w0  r0  o[0] → r1
        w1  r1  o[0] + r0 → o[0]";
    for (receive, sum, expected) in [
        ("ch0", "ch1", staged),
        ("ch0", "", staged),
        ("", "ch0", staged),
        ("ch1", "ch1", absorbed),
        ("tb0", "tb1", staged),
        ("tb1", "tb1", absorbed),
    ] {
        let program = format!("r1.s[0] = r0.o[0] {receive}\nr1.o[0] = r1.o[0] + r1.s[0] {sum}");
        native(&program, expected);
    }
}

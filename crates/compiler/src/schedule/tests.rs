//! Schedules of small programs, in the text form of the waist. Programs are written as in
//! `instruction::tests`.

use msccl_collective::{Rank, StepIndex, TbIndex};
use msccl_ir::{StepRef, Target, text};

use super::{Schedule, interleave, schedule};
use crate::instruction::{lower, program};

/// The ranks of the schedule, without the head.
fn dump(target: &Target, ops: &str) -> Result<String, Vec<String>> {
    let program = program(ops);
    let instructions = lower(&program, target);
    match schedule(&program, &instructions, target) {
        Ok(schedule) => Ok(text::print(&schedule.algorithm)),
        Err(diagnostics) => Err(diagnostics.into_iter().map(|one| one.message).collect()),
    }
}

fn check(target: &Target, ops: &str, expected: &str) {
    let text = dump(target, ops).unwrap();
    let blocks = text.split("\n\n").skip(1).collect::<Vec<_>>().join("\n");
    let trimmed = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.filter(|line| !line.contains(" scratch ")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(trimmed(&blocks), trimmed(expected), "\n{text}");
}

/// The scratch chunks of every rank.
fn scratch(target: &Target, ops: &str, expected: [u32; 4]) {
    let text = dump(target, ops).unwrap();
    let chunks = text.lines().filter_map(|line| line.split_once(" scratch "));
    let chunks: Vec<u32> = chunks.map(|(_, chunks)| chunks.parse().unwrap()).collect();
    assert_eq!(chunks, expected, "\n{text}");
}

fn refused(target: &Target, ops: &str, expected: &str) {
    let messages = dump(target, ops).unwrap_err();
    assert!(messages.iter().any(|message| message.contains(expected)), "{messages:?}");
}

#[test]
fn sends_and_receives_get_thread_blocks_of_their_own() {
    check(
        &Target::msccl(),
        "r1.o[0] = r0.o[0]
         r0.o[1] = r1.o[1]",
        "tb0 ch0 send r1
           s0: o[0] -> r1
         tb1 ch0 receive r1
           s0: r1 -> o[1]
         tb0 ch0 send r0
           s0: o[1] -> r0
         tb1 ch0 receive r0
           s0: r0 -> o[0]",
    );
}

#[test]
fn parts_are_handled_by_turns() {
    // Scratch between two thread blocks, and a message of two chunks.
    let program = program("r1.s[0] = r0.o[0]\n r1.o[2] = r1.s[0] tb7\n r2.o[0] = r3.o[0] x2");
    let target = Target::native();
    let whole = schedule(&program, &lower(&program, &target), &target).unwrap();
    let cut = interleave(whole.clone(), 2);
    let of = |schedule: &Schedule| text::print(&schedule.algorithm);
    assert_eq!(of(&interleave(whole.clone(), 1)), of(&whole));
    assert_eq!(cut.algorithm.collective.chunks, 2 * whole.algorithm.collective.chunks);
    let text = of(&cut);
    for expected in [
        "s0: o[0] -> r1\n    s1: o[1] -> r1\n",
        "s0: r0 -> s[0]\n    s1: r0 -> s[1]\n",
        "s0 after tb1 s0: s[0] -> o[4]\n    s1 after tb1 s1: s[1] -> o[5]\n",
        "s0: o[0] -> r2\n    s1: o[2] -> r2\n    s2: o[1] -> r2\n    s3: o[3] -> r2\n",
        "r1 scratch 2\n",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let at = |rank, step| StepRef { rank: Rank(rank), tb: TbIndex(0), step: StepIndex(step) };
    for (part, step) in [(0, 0), (1, 0)] {
        let (found, expected) = (cut.origins.of(at(0, part)), whole.origins.of(at(0, step)));
        assert_eq!(found.map(|of| of.span), expected.map(|of| of.span));
    }
    assert!(cut.origins.of(at(3, 3)).is_some() && cut.origins.of(at(3, 4)).is_none());
}

#[test]
fn hints_are_honoured() {
    check(
        &Target::msccl(),
        "r1.o[0] = r0.o[0] ch3 tb5
         r0.o[1] = r1.o[1] ch3 tb5",
        "tb0 ch3 send r1 receive r1
           s0: o[0] -> r1
           s1: r1 -> o[1]
         tb0 ch3 send r0 receive r0
           s0: o[1] -> r0
           s1: r0 -> o[0]",
    );
}

#[test]
fn hints_that_contradict_are_refused() {
    refused(
        &Target::msccl(),
        "r1.o[0] = r0.o[0] ch0 tb0
         r1.o[1] = r0.o[1] ch1 tb0",
        "asks for ch1, but its thread block is already on ch0",
    );
    refused(
        &Target::msccl(),
        "r1.o[0] = r0.o[0] ch0 tb0
         r1.o[1] = r0.o[1] ch0 tb1",
        "already belongs to another thread block",
    );
}

#[test]
fn waits_are_split_for_msccl_only() {
    let both = "
        r1.s[0] = r0.o[0]
        r1.s[1] = r2.o[0]
        r3.s[0] = r1.s[0] x2";
    check(
        &Target::native(),
        both,
        "tb0 ch0 send r1
           s0: o[0] -> r1
         tb0 ch0 receive r0
           s0: r0 -> s[0]
         tb1 ch0 receive r2
           s0: r2 -> s[1]
         tb2 ch0 send r3
           s0 after tb0 s0, tb1 s0: s[0] -> r3 x2
         tb0 ch0 send r1
           s0: o[0] -> r1
         tb0 ch0 receive r1
           s0: r1 -> s[0] x2",
    );
    check(
        &Target::msccl(),
        both,
        "tb0 ch0 send r1
           s0: o[0] -> r1
         tb0 ch0 receive r0
           s0: r0 -> s[0]
         tb1 ch0 receive r2
           s0: r2 -> s[1]
         tb2 ch0 send r3
           s0 after tb0 s0: nop
           s1 after tb1 s0: s[0] -> r3 x2
         tb0 ch0 send r1
           s0: o[0] -> r1
         tb0 ch0 receive r1
           s0: r1 -> s[0] x2",
    );
}

#[test]
fn a_sum_of_what_has_arrived_needs_no_scratch() {
    let swap = "
        r1.s[0] = r0.o[0]
        r0.s[0] = r1.o[0]
        r0.o[0] = r0.o[0] + r0.s[0]
        r1.o[0] = r1.o[0] + r1.s[0]";
    check(
        &Target::native(),
        swap,
        "tb0 ch0 send r1
           s0: o[0] -> r1
         tb1 ch0 receive r1
           s0 after tb0 s0: o[0] + r1 -> o[0]
         tb0 ch0 send r0
           s0: o[0] -> r0
         tb1 ch0 receive r0
           s0 after tb0 s0: o[0] + r0 -> o[0]",
    );
    scratch(&Target::native(), swap, [0, 0, 0, 0]);
    scratch(&Target::msccl(), swap, [1, 1, 0, 0]);
}

#[test]
fn scratch_ends_with_the_last_slot_in_use() {
    let staged_above_and_below = "
        r1.s[0] = r0.o[0]
        r1.s[2] = r2.o[0]
        r1.s[1] = r3.o[0] x2
        r1.o[0] = r1.s[0]
        r2.o[0] = r1.s[1]
        r3.o[0] = r1.s[1]
        r1.s[3] = r2.o[1]
        r1.o[1] = r1.s[3]";
    scratch(&Target::native(), staged_above_and_below, [0, 3, 0, 0]);
}

#[test]
fn a_full_thread_block_sends_work_to_the_next_channel() {
    let mut target = Target::msccl();
    target.limits.steps_per_tb = 4;
    check(
        &target,
        "r1.o[0] = r0.o[0]
         r1.o[1] = r0.o[1]
         r1.o[2] = r0.o[2]
         r1.o[3] = r0.o[3]",
        "tb0 ch0 send r1
           s0: o[0] -> r1
           s1: o[1] -> r1
           s2: o[2] -> r1
         tb1 ch1 send r1
           s0: o[3] -> r1
         tb0 ch0 receive r0
           s0: r0 -> o[0]
           s1: r0 -> o[1]
           s2: r0 -> o[2]
         tb1 ch1 receive r0
           s0: r0 -> o[3]",
    );
}

#[test]
fn a_program_that_needs_more_channels_than_there_are_is_refused() {
    let mut target = Target::msccl();
    target.limits.channels = 1;
    refused(
        &target,
        "r1.o[0] = r0.o[0]
         r2.o[0] = r1.o[0]
         r1.o[1] = r0.o[1]
         r3.o[1] = r1.o[1]",
        "needs another channel, but the msccl target has only 1",
    );
}

#[test]
fn pairs_of_peers_get_channels_of_their_own() {
    check(
        &Target::msccl(),
        "r1.o[0] = r0.o[0]
         r2.o[0] = r1.o[0]
         r1.o[1] = r0.o[1]
         r3.o[1] = r1.o[1]",
        "tb0 ch0 send r1
           s0: o[0] -> r1
         tb1 ch1 send r1
           s0: o[1] -> r1
         tb0 ch0 send r2 receive r0
           s0: r0 -> o[0], r2
         tb1 ch1 send r3 receive r0
           s0: r0 -> o[1], r3
         tb0 ch0 receive r1
           s0: r1 -> o[0]
         tb0 ch1 receive r1
           s0: r1 -> o[1]",
    );
}

//! What fuses and, above all, what must not. Programs are written as ops, one a line:
//! `r1.i[0] = r0.i[0] + r1.i[0] x2 ch0 tb3`.

use msccl_collective::{Buffer, Collective, Kind, Placement, Protocol, Rank, SizeRange, Slot};
use msccl_ir::Target;
use msccl_syntax::{FileId, Span};

use super::lower;
use crate::chunk::{At, ChunkDag, Hints, HintsId, Op, Origin, StatementId};

fn at(text: &str) -> At {
    let (rank, slot) = text[1..].split_once('.').unwrap();
    let (buffer, index) = slot.trim_end_matches(']').split_once('[').unwrap();
    let buffer = Buffer::ALL.into_iter().find(|b| buffer.starts_with(b.letter())).unwrap();
    At { rank: Rank(rank.parse().unwrap()), slot: Slot::new(buffer, index.parse().unwrap()) }
}

/// An in-place all-reduce of four ranks over four chunks, with four chunks of scratch; `i` and `o`
/// are one memory, called `o`.
pub(crate) fn program(text: &str) -> ChunkDag {
    let mut dag = ChunkDag {
        name: "test".into(),
        collective: Collective { kind: Kind::AllReduce, ranks: 4, chunks: 4 },
        per_node: 4,
        placement: Placement::InPlace,
        protocol: Protocol::Simple,
        sizes: SizeRange::ALL,
        threads: None,
        scratch_chunks: vec![4; 4],
        instances: 1,
        engine_instances: 1,
        interleaved: 1,
        order_claim: None,
        ops: Vec::new(),
        hints: vec![Hints::default()],
        statements: Vec::new(),
        warnings: Vec::new(),
    };
    for (line, text) in text.trim().lines().enumerate() {
        let span = Span { file: FileId(0), start: line as u32, end: line as u32 + 1 };
        dag.statements.push(Origin { span, called_from: Vec::new() });
        let op = op(text.trim(), StatementId(line as u32), &mut dag.hints);
        dag.ops.push(op);
    }
    dag
}

fn op(text: &str, statement: StatementId, hints: &mut Vec<Hints>) -> Op {
    let (to, value) = text.split_once(" = ").unwrap();
    let mut sources = smallvec::SmallVec::new();
    let mut count = 1;
    let mut requested = Hints::default();
    for word in value.split_whitespace().filter(|word| *word != "+") {
        let number = |prefix: &str| word.strip_prefix(prefix).and_then(|n| n.parse().ok());
        if let Some(chunks) = number("x") {
            count = chunks;
        } else if let Some(channel) = number("ch") {
            requested.channel = Some(channel);
        } else if let Some(tb) = number("tb") {
            (requested.send_tb, requested.receive_tb) = (Some(tb), Some(tb));
        } else {
            sources.push(at(word));
        }
    }
    hints.push(requested);
    let hints = HintsId(hints.len() as u32 - 1);
    Op { to: at(to), sources, count, hints, statement }
}

/// The instructions that `text` becomes for `target`, as [`super::InstructionDag::dump`] prints
/// them.
pub(super) fn check(target: Target, text: &str, expected: &str) {
    let dump = lower(&program(text), &target).dump();
    let trimmed = |text: &str| {
        let lines = text.trim().lines().map(str::trim);
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(trimmed(&dump), trimmed(expected), "\n{dump}");
}

#[test]
fn a_chunk_received_and_sent_on_is_one_step() {
    let forward = "
        r1.o[0] = r0.o[0]
        r2.o[0] = r1.o[0]";
    let expected = "
        w0  r0  o[0] → r1
        w0  r1  r0 → o[0], r2
        w1  r2  r1 → o[0]";
    check(Target::msccl(), forward, expected);
    check(Target::native(), forward, expected);
}

#[test]
fn a_sum_sent_on_and_kept_is_rrcs() {
    check(
        Target::msccl(),
        "r1.o[0] = r1.o[0] + r0.o[0]
         r2.o[0] = r2.o[0] + r1.o[0]",
        "w0  r0  o[0] → r1
         w0  r1  r0 + o[0] → o[0], r2
         w1  r2  r1 + o[0] → o[0]",
    );
}

#[test]
fn a_sum_sent_on_and_overwritten_is_rrs() {
    check(
        Target::msccl(),
        "r1.o[0] = r1.o[0] + r0.o[0]
         r2.o[0] = r2.o[0] + r1.o[0]
         r1.o[0] = r2.o[0]",
        "w0  r0  o[0] → r1
         w0  r1  r0 + o[0] → r2
         w1  r2  r1 + o[0] → o[0], r1
         w2  r1  r2 → o[0]",
    );
}

#[test]
fn a_sum_of_which_half_is_overwritten_is_kept() {
    check(
        Target::native(),
        "r1.o[0] = r1.o[0] + r0.o[0] x2
         r2.o[0] = r2.o[0] + r1.o[0] x2
         r1.o[0] = r2.o[0]",
        "w0  r0  o[0..2] → r1
         w0  r1  r0 + o[0..2] → o[0..2], r2
         w1  r2  r1 + o[0..2] → o[0..2]
         w2  r2  o[0] → r1
         w2  r1  r2 → o[0]",
    );
}

#[test]
fn a_sum_that_something_else_reads_is_kept() {
    check(
        Target::msccl(),
        "r1.o[0] = r1.o[0] + r0.o[0]
         r2.o[0] = r2.o[0] + r1.o[0]
         r1.s[0] = r1.o[0]
         r1.o[0] = r2.o[0]",
        "w0  r0  o[0] → r1
         w0  r1  r0 + o[0] → o[0], r2
         w1  r1  o[0] → s[0]
         w1  r2  r1 + o[0] → o[0], r1
         w2  r1  r2 → o[0]",
    );
}

#[test]
fn a_write_to_scratch_that_is_only_passed_on_is_dropped() {
    let forward = "
        r1.s[0] = r1.o[0] + r0.o[0]
        r2.o[0] = r1.s[0]";
    let expected = "
        w0  r0  o[0] → r1
        w0  r1  r0 + o[0] → r2
        w1  r2  r1 → o[0]";
    check(Target::msccl(), forward, expected);
}

#[test]
fn msccl_has_no_step_that_only_forwards() {
    let forward = "
        r1.s[0] = r0.o[0]
        r2.o[0] = r1.s[0]";
    let kept = "
        w0  r0  o[0] → r1
        w0  r1  r0 → s[0], r2
        w1  r2  r1 → o[0]";
    let dropped = "
        w0  r0  o[0] → r1
        w0  r1  r0 → r2
        w1  r2  r1 → o[0]";
    check(Target::msccl(), forward, kept);
    check(Target::native(), forward, dropped);
}

#[test]
fn a_shifted_range_is_not_passed_on() {
    check(
        Target::msccl(),
        "r1.o[0] = r0.o[0] x2
         r2.o[1] = r1.o[1] x2",
        "w0  r0  o[0..2] → r1
         w0  r1  r0 → o[0..2]
         w1  r1  o[1..3] → r2
         w1  r2  r1 → o[1..3]",
    );
}

#[test]
fn a_part_of_a_range_is_not_passed_on() {
    check(
        Target::native(),
        "r1.o[0] = r0.o[0] x2
         r2.o[0] = r1.o[0]",
        "w0  r0  o[0..2] → r1
         w0  r1  r0 → o[0..2]
         w1  r1  o[0] → r2
         w1  r2  r1 → o[0]",
    );
}

#[test]
fn a_range_of_which_a_part_is_newer_is_not_passed_on() {
    check(
        Target::native(),
        "r1.o[0] = r0.o[0] x2
         r1.o[1] = r3.o[1]
         r2.o[0] = r1.o[0] x2",
        "w0  r0  o[0..2] → r1
         w0  r1  r0 → o[0..2]
         w1  r3  o[1] → r1
         w1  r1  r3 → o[1]
         w2  r1  o[0..2] → r2
         w2  r2  r1 → o[0..2]",
    );
}

#[test]
fn nothing_is_passed_on_to_a_receiver_that_is_not_ready() {
    // r2.o[0] is still to be read in wave 1, so that r1 may send into it in wave 2 only.
    check(
        Target::msccl(),
        "r2.s[0] = r3.o[0]
         r3.s[0] = r2.o[0]
         r3.s[1] = r2.o[0]
         r1.o[0] = r0.o[0]
         r2.o[0] = r1.o[0]",
        "w0  r0  o[0] → r1
         w0  r2  o[0] → r3
         w0  r3  o[0] → r2
         w0  r1  r0 → o[0]
         w0  r2  r3 → s[0]
         w0  r3  r2 → s[0]
         w1  r2  o[0] → r3
         w1  r3  r2 → s[1]
         w2  r1  o[0] → r2
         w2  r2  r1 → o[0]",
    );
}

#[test]
fn other_channels_and_blocks_are_not_passed_on_to() {
    let expected = "
        w0  r0  o[0] → r1
        w0  r1  r0 → o[0]
        w1  r1  o[0] → r2
        w1  r2  r1 → o[0]";
    let channels = "
        r1.o[0] = r0.o[0] ch0
        r2.o[0] = r1.o[0] ch1";
    check(Target::msccl(), channels, expected);
    let blocks = "
        r1.o[0] = r0.o[0] tb0
        r2.o[0] = r1.o[0] tb1";
    check(Target::native(), blocks, expected);
}

#[test]
fn what_does_not_fit_the_link_is_not_passed_on() {
    let forward = "
        r1.o[0] = r0.o[0] x2
        r2.o[0] = r1.o[0] x2";
    let fused = "
        w0  r0  o[0..2] → r1
        w0  r1  r0 → o[0..2], r2
        w1  r2  r1 → o[0..2]";
    let plain = "
        w0  r0  o[0..2] → r1
        w0  r1  r0 → o[0..2]
        w1  r1  o[0..2] → r2
        w1  r2  r1 → o[0..2]";
    check(Target::msccl(), forward, plain);
    check(Target::native(), forward, fused);
}

#[test]
fn msccl_passes_on_to_one_receiver_only() {
    let fan_out = "
        r1.o[0] = r0.o[0]
        r2.o[0] = r1.o[0]
        r3.o[0] = r1.o[0]";
    let one = "
        w0  r0  o[0] → r1
        w0  r1  r0 → o[0], r2
        w1  r1  o[0] → r3
        w1  r2  r1 → o[0]
        w1  r3  r1 → o[0]";
    let both = "
        w0  r0  o[0] → r1
        w0  r1  r0 → o[0], r2, r3
        w1  r2  r1 → o[0]
        w1  r3  r1 → o[0]";
    check(Target::msccl(), fan_out, one);
    check(Target::native(), fan_out, both);
}

#[test]
fn a_peer_on_a_requested_channel_has_one_partner() {
    // The second chunk would need a thread block that takes from r0 and sends to r3 on the channel
    // on which another takes from r0 and sends to r2.
    let crossing = "
        r1.o[0] = r0.o[0] ch0
        r2.o[0] = r1.o[0] ch0
        r1.o[1] = r0.o[1] ch0
        r3.o[1] = r1.o[1] ch0";
    check(
        Target::msccl(),
        crossing,
        "w0  r0  o[0] → r1
         w0  r1  r0 → o[0], r2
         w1  r0  o[1] → r1
         w1  r1  r0 → o[1]
         w1  r2  r1 → o[0]
         w2  r1  o[1] → r3
         w2  r3  r1 → o[1]",
    );
}

#[test]
fn a_chain_that_comes_by_twice_keeps_its_partners() {
    // r1 takes from r0 and sends to r2; later in the same chain it takes from r3 and would send to
    // r2.
    check(
        Target::msccl(),
        "r1.o[0] = r0.o[0]
         r2.o[0] = r1.o[0]
         r3.o[0] = r2.o[0]
         r1.o[1] = r3.o[0]
         r2.o[1] = r1.o[1]",
        "w0  r0  o[0] → r1
         w0  r1  r0 → o[0], r2
         w1  r2  r1 → o[0], r3
         w2  r3  r2 → o[0], r1
         w3  r1  r3 → o[1]
         w4  r1  o[1] → r2
         w4  r2  r1 → o[1]",
    );
}

#[test]
fn sums_and_fan_outs_are_single_steps_on_the_native_target() {
    check(
        Target::native(),
        "r0.o[0] = r0.o[0] + r1.o[0] + r2.o[0]
         r1.o[0] = r0.o[0]
         r2.o[0] = r0.o[0]
         r1.s[0] = r3.o[1]
         r2.s[0] = r3.o[1]",
        "w0  r1  o[0] → r0
         w0  r2  o[0] → r0
         w0  r3  o[1] → r1, r2
         w0  r1  r3 → s[0]
         w0  r2  r3 → s[0]
         w0  r0  o[0] + r1 + r2 → o[0], r1, r2
         w1  r1  r0 → o[0]
         w1  r2  r0 → o[0]",
    );
}

#[test]
fn a_link_carries_one_message_per_wave() {
    check(
        Target::native(),
        "r1.o[0] = r0.o[0]
         r1.o[1] = r0.o[1]
         r1.o[2] = r0.o[2]",
        "w0  r0  o[0] → r1
         w0  r1  r0 → o[0]
         w1  r0  o[1] → r1
         w1  r1  r0 → o[1]
         w2  r0  o[2] → r1
         w2  r1  r0 → o[2]",
    );
}

//! What a dialect cannot say is refused, by the step that says it, and nothing is written.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Also in the tests' own functions.

use std::sync::Arc;

use msccl_collective::{
    Buffer, Channel, Collective, Custom, Kind, Placement, Protocol, Rank, SizeRange, Slot,
    StepIndex, TbIndex,
};
use msccl_interchange::xml::{self, Dialect};
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock, Wait};

fn local(index: u32) -> Place {
    Place::Local(Slot::new(Buffer::Input, index))
}

fn link(peer: u32) -> Place {
    Place::Link(Rank(peer))
}

fn wait(tb: u32, step: u32) -> Wait {
    Wait { tb: TbIndex(tb), step: StepIndex(step) }
}

fn step(sources: &[Place], destinations: &[Place]) -> Step {
    Step {
        waits: Default::default(),
        sources: sources.iter().copied().collect(),
        destinations: destinations.iter().copied().collect(),
        count: 1,
    }
}

/// One thread block that sends to rank 1, and one that copies.
fn plain() -> Algorithm {
    let block = |sends: &[u32], step| ThreadBlock {
        channel: Channel(0),
        sends: sends.iter().copied().map(Rank).collect(),
        receives: vec![],
        steps: vec![step],
    };
    let sender = block(&[1], step(&[local(0)], &[link(1)]));
    let copier = block(&[], step(&[local(0)], &[local(1)]));
    let first = RankProgram { scratch_chunks: 0, thread_blocks: vec![sender, copier] };
    Algorithm {
        name: "plain".to_owned(),
        collective: Collective { kind: Kind::AllReduce, ranks: 2, chunks: 4 },
        placement: Placement::InPlace,
        protocol: Protocol::Simple,
        sizes: SizeRange { min_bytes: 0, max_bytes: Some(1 << 20) },
        threads: None,
        ranks: vec![first, RankProgram::default()],
    }
}

fn check(dialect: Dialect, change: impl FnOnce(&mut Algorithm), expected: &str) {
    let mut algorithm = plain();
    change(&mut algorithm);
    let mut out = Vec::new();
    let error = xml::write_to(&algorithm, dialect, &mut out).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
    assert!(out.is_empty());
}

/// Changes the only step of the first thread block.
fn check_step(change: impl FnOnce(&mut Step), expected: &str) {
    let change = |a: &mut Algorithm| change(&mut a.ranks[0].thread_blocks[0].steps[0]);
    check(Dialect::Msccl, change, expected);
}

#[test]
fn the_plain_algorithm_is_written() {
    for dialect in Dialect::ALL {
        xml::write(&plain(), dialect).unwrap();
    }
}

#[test]
fn steps_of_other_shapes() {
    let many = "r0 tb0 s0: MSCCL XML has no step type with these sources and destinations";
    check_step(|step| step.sources.push(local(1)), many);
    check_step(|step| step.destinations.insert(0, link(1)), many);
    // The order of a sum is part of its meaning: the destination must come first.
    check_step(|step| step.clone_from(&self::step(&[local(1), local(0)], &[local(0)])), many);
    check_step(|step| step.count = 0, "r0 tb0 s0: its count is 0");
    check_step(|step| step.count = 1 << 25, "r0 tb0 s0: its count or one of its slots is beyond");
    check_step(|step| step.destinations[0] = link(7), "r0 tb0 s0: sends to r7, but");
    check_step(|step| step.clone_from(&self::step(&[link(1)], &[local(0)])), "r0 tb0 s0: receives");
}

#[test]
fn waits_that_cannot_be_said() {
    let two = [wait(1, 0), wait(1, 0)];
    check_step(|step| step.waits.extend(two), "r0 tb0 s0: a step of MSCCL XML waits for one step");
    check_step(|step| step.waits.push(wait(1, 5)), "r0 tb0 s0: waits for tb1 s5, which does not");
    let nop = |waits: &[Wait]| Step { waits: waits.iter().copied().collect(), ..Step::default() };
    let lonely = "r0 tb0 s0: no-ops must be followed by a step that waits too";
    check_step(|step| *step = nop(&[wait(1, 0)]), lonely);
    let signals = |a: &mut Algorithm| {
        a.ranks[0].thread_blocks[1].steps.insert(0, nop(&[wait(0, 0)]));
        a.ranks[0].thread_blocks[0].steps[0].waits.push(wait(1, 0));
    };
    check(Dialect::Msccl, signals, "r0 tb0 s0: waits for tb1 s0, a no-op, which cannot signal");
}

#[test]
fn merged_reductions() {
    let reduce = |count| Step { count, ..step(&[local(0), local(2)], &[local(0)]) };
    let change = |a: &mut Algorithm| a.ranks[0].thread_blocks[1].steps = vec![reduce(1), reduce(2)];
    let first = "r0 tb1 s1: the first MSCCL runtime merges this `re` with the one before it, and \
                 the merged step uses the last count for all";
    check(Dialect::Msccl, change, first);
    check(Dialect::Executor, change, "r0 tb1 s1: the MSCCL executor merges this `re` with");
}

#[test]
fn thread_blocks_with_several_links() {
    let change = |a: &mut Algorithm| a.ranks[0].thread_blocks[0].sends.push(Rank(2));
    check(Dialect::Msccl, change, "r0 tb0 has 2 links out and 0 in");
}

#[test]
fn names_that_interpreters_cut() {
    for name in ["a\"b", "a'b", "a<b", "a&b", "a\nb", &"x".repeat(64)] {
        let expected = format!("the name {name:?} cannot stand in MSCCL XML");
        check(Dialect::Msccl, |a| a.name = name.to_owned(), &expected);
    }
}

#[test]
fn collectives_that_a_dialect_lacks() {
    let root = Rank(0);
    let gather = "the msccl dialect has no collective `gather`; write the dialect `executor`";
    check(Dialect::Msccl, |a| a.collective.kind = Kind::Gather { root }, gather);
    let custom = |input_chunks, output_chunks| {
        let name = "next".to_owned();
        Kind::Custom(Arc::new(Custom { name, input_chunks, output_chunks, contract: None }))
    };
    let none = "the executor dialect has no collective `next`";
    check(Dialect::Executor, |a| a.collective.kind = custom(4, 4), none);
    let uneven = "4 input and 2 output chunks: the first runtime takes equal numbers";
    check(Dialect::Msccl, |a| a.collective.kind = custom(4, 2), uneven);
    check(Dialect::Msccl, |a| a.collective.kind = custom(0, 0), "0 chunks in a loop");
    check(Dialect::Msccl, |a| a.collective.ranks = 3, "2 rank programs, but 3 ranks");
}

#[test]
fn placements_sizes_and_threads() {
    let both = "a file of the msccl dialect serves calls in place or out of place, not both";
    check(Dialect::Msccl, |a| a.placement = Placement::Both, both);
    let sizes = |min_bytes, max_bytes| {
        move |a: &mut Algorithm| a.sizes = SizeRange { min_bytes, max_bytes }
    };
    let first = "the msccl dialect cannot say the size range";
    check(Dialect::Msccl, sizes(0, Some(i64::MAX as u64)), first);
    check(Dialect::Msccl, sizes(0, Some(u64::MAX)), first);
    check(Dialect::Msccl, sizes(u64::MAX, None), first);
    let second = "the executor dialect cannot say the size range";
    check(Dialect::Executor, sizes(0, Some(0)), second);
    check(Dialect::Executor, sizes(0, Some(u64::MAX)), second);
    let scratch = |a: &mut Algorithm| {
        a.sizes = SizeRange::ALL;
        a.ranks[1].scratch_chunks = 1;
    };
    check(Dialect::Msccl, scratch, "no upper limit of its message size, but scratch chunks");
    check(
        Dialect::Msccl,
        |a| a.threads = Some(33),
        "33 threads: the first runtime takes a multiple",
    );
    check(Dialect::Executor, |a| a.threads = Some(64), "64 threads: the executor takes no number");
}

#[test]
fn no_limit_is_written_and_read_in_both_dialects() {
    for dialect in Dialect::ALL {
        let algorithm = Algorithm { sizes: SizeRange::ALL, ..plain() };
        let written = xml::write(&algorithm, dialect).unwrap();
        assert_eq!(xml::read(&written).unwrap().algorithm.sizes, SizeRange::ALL);
    }
}

#[test]
fn a_failing_output_is_reported() {
    let error = xml::write_to(&plain(), Dialect::Msccl, &mut &mut [0; 8][..]).unwrap_err();
    assert!(error.to_string().starts_with("cannot write the XML: "), "{error}");
}

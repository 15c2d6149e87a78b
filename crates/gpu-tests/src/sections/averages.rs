//! Averages of the largest and the least numbers, of every type: every built-in algorithm that
//! sums, pinned, under every protocol and over every kind of link, and a loaded one that says of no
//! step where averages could be formed. The oracle of that very algorithm must give the same bits.

use std::collections::BTreeSet;

use msccl_collective::{
    Buffer, Channel, Collective, CollectiveKind, DataType, Kind, Placement, Protocol, Rank,
    Reduction, SizeRange, Slot,
};
use msccl_interchange::json;
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock};
use msccl_registry::File;
use msccl_runtime::{Choice, Settings};

use super::{Bench, Section, combines, every_collective};
use crate::case::{Case, Numbers};
use crate::runner::Runner;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "averages",
    about: "averages of the largest and least numbers: every type, protocol and built-in algorithm",
    run,
};

fn run(bench: &Bench, tally: &mut Tally) {
    let mut runner = bench.runner(settings(), "averages");
    for kind in every_collective(bench.ranks).into_iter().filter(|kind| combines(*kind)) {
        for in_place in [false, true] {
            let Some(world) = runner.world(tally) else { return };
            let choices = world.choices(&Case { in_place, ..Case::of(kind) });
            // Few instances come first.
            let mut seen = BTreeSet::new();
            let way = |of: &Choice| {
                format!("{} {} {}", of.algorithm, of.variant.protocol, of.variant.links)
            };
            for choice in choices.into_iter().filter(|choice| seen.insert(way(choice))) {
                let name = choice.algorithm.clone();
                runner.pin(choice);
                runner.run(cases(bench, kind, in_place), &name, tally);
            }
        }
    }
    run_mixed(bench, tally);
}

/// Of every type: few elements and more, aligned and not.
fn cases(bench: &Bench, kind: CollectiveKind, in_place: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in DataType::ALL {
        for &(count, shift) in bench.some(&[(1003, [0, 0]), (100, [3, 1]), (70_000, [0, 0])], 1) {
            let (reduction, numbers) = (Reduction::Avg, Numbers::Extreme);
            let seed = bench.seed + cases.len() as u64;
            let case = Case { data_type, reduction, count, in_place, ..Case::of(kind) };
            cases.push(Case { numbers, shift, seed, ..case });
        }
    }
    cases
}

/// By an algorithm for at least three ranks.
fn run_mixed(bench: &Bench, tally: &mut Tally) {
    let ranks = bench.ranks.max(3);
    let name = "mixed.json".to_owned();
    let file = File { name: name.clone(), content: Ok(json::write(&mixed(ranks)).into_bytes()) };
    let settings = Settings { files: vec![file], ..settings() };
    let mut runner = Runner::new(&bench.machine, ranks, settings, "averages by a loaded algorithm");
    for in_place in [false, true] {
        runner.run(cases(bench, CollectiveKind::AllReduce, in_place), &name, tally);
    }
    runner.check_served_by(&name, tally);
}

/// An all-reduce by way of the last rank, whose first step adds a contribution in chunk 1 and a sum
/// in chunk 0.
fn mixed(ranks: u32) -> Algorithm {
    let last = ranks - 1;
    let chunk = |buffer, index| Place::Local(Slot::new(buffer, index));
    let (input, output) = (|at| chunk(Buffer::Input, at), |at| chunk(Buffer::Output, at));
    let scratch = |at| chunk(Buffer::Scratch, at);
    let link = |rank| Place::Link(Rank(rank));
    let collect = || {
        let mut steps = vec![
            step(&[link(1), input(0)], &[output(0)], 2),
            step(&[link(1), output(1)], &[output(1)], 1),
        ];
        steps.extend((2..last).map(|rank| step(&[link(rank), output(0)], &[output(0)], 2)));
        let all: Vec<_> = (0..last).map(link).collect();
        steps.push(step(&[output(0)], &all, 2));
        steps
    };
    let take = || step(&[link(last)], &[output(0)], 2);
    let program = |rank| match rank {
        0 => vec![step(&[input(0)], &[link(1)], 2), take()],
        1 => vec![
            step(&[link(0)], &[scratch(0)], 2),
            step(&[scratch(0), input(0)], &[scratch(0)], 1),
            step(&[scratch(0)], &[link(last)], 2),
            step(&[input(1)], &[link(last)], 1),
            take(),
        ],
        rank if rank == last => collect(),
        _ => vec![step(&[input(0)], &[link(last)], 2), take()],
    };
    Algorithm {
        name: "mixed".to_owned(),
        collective: Collective { kind: Kind::AllReduce, ranks, chunks: 2 },
        placement: Placement::Both,
        protocol: Protocol::Simple,
        sizes: SizeRange::ALL,
        threads: None,
        ranks: (0..ranks).map(|rank| rank_program(program(rank))).collect(),
    }
}

fn step(sources: &[Place], destinations: &[Place], count: u32) -> Step {
    let (sources, destinations) = (sources.iter().copied(), destinations.iter().copied());
    let (sources, destinations) = (sources.collect(), destinations.collect());
    Step { sources, destinations, count, ..Step::default() }
}

/// One thread block that has all `steps`.
fn rank_program(steps: Vec<Step>) -> RankProgram {
    let peers = |of: &dyn Fn(&Step) -> Vec<Rank>| {
        let mut peers: Vec<_> = steps.iter().flat_map(of).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    };
    let sends = peers(&|step| step.sends().collect());
    let receives = peers(&|step| step.receives().collect());
    let block = ThreadBlock { channel: Channel(0), sends, receives, steps };
    RankProgram { scratch_chunks: 2, thread_blocks: vec![block] }
}

//! Averages of the largest and the least numbers, of every type: every built-in algorithm that sums, under
//! every protocol, and a loaded one that says of no step where averages could be formed. The host executor
//! of that very algorithm must give the same bits.

use msccl_collective::{
    Buffer, Channel, Collective, DataType, Kind, Placement, Protocol, Rank, Reduction, SizeRange,
    Slot,
};
use msccl_interchange::json;
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock};
use msccl_registry::{File, Wanted};
use msccl_runtime::{Settings, Wish};

use super::{Bench, Section, built_ins, combines, every_collective};
use crate::case::{Case, Numbers};
use crate::oracle::Oracle;
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
    let oracle = Oracle::new(bench.ranks, &[]);
    let names = built_ins::names(&oracle, bench.ranks);
    for protocol in Protocol::ALL {
        for name in &names {
            let wanted = every_collective(bench.ranks);
            let wanted = wanted.into_iter().filter(|wanted| combines(*wanted));
            let calls = wanted.flat_map(|wanted| [false, true].map(|in_place| (wanted, in_place)));
            let served = |(wanted, in_place)| oracle.entry(name, wanted, in_place).is_some();
            let calls: Vec<_> = calls.filter(|call| served(*call)).collect();
            if calls.is_empty() {
                continue;
            }
            let (algorithm, protocol) = (Some(name.clone()), Some(protocol));
            let wish = Wish { algorithm, protocol, ..Wish::default() };
            let setting = format!("averages, {name} {}", protocol.map_or("", Protocol::name));
            let mut runner = bench.runner(Settings { wish, ..settings() }, setting);
            let cases = |(wanted, in_place)| cases(bench, wanted, in_place);
            runner.run(calls.into_iter().flat_map(cases), name, tally);
            runner.check_served_by(name, tally);
        }
    }
    run_mixed(bench, tally);
}

/// Of every type: few elements and more, aligned and not.
fn cases(bench: &Bench, wanted: Wanted, in_place: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in DataType::ALL {
        for &(count, shift) in bench.some(&[(1003, [0, 0]), (100, [3, 1]), (70_000, [0, 0])], 1) {
            let (reduction, numbers) = (Reduction::Avg, Numbers::Extreme);
            let seed = bench.seed + cases.len() as u64;
            let case = Case { data_type, reduction, count, in_place, ..Case::of(wanted) };
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
        runner.run(cases(bench, Wanted::AllReduce, in_place), &name, tally);
    }
    runner.check_served_by(&name, tally);
}

/// An all-reduce by way of the last rank, whose first step adds a contribution in chunk 1 and a sum in chunk 0.
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

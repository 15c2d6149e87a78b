//! Ranks of which some call in place and others do not.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;

use std::sync::Arc;

use msccl_collective::{DataType, Rank, Reduction};
use msccl_registry::{File, built_in_programs};
use msccl_runtime::{Event, EventLog, Operation, Overrides, Settings, Tuning};

use world::{Elements, Hosts, Placements, call, check_placed, run, sum, world};

const MIXED: [&Placements; 4] =
    [&|rank| rank == Rank(0), &|rank| rank != Rank(0), &|rank| rank.0 % 2 == 1, &|rank| rank.0 < 2];

fn check(ranks: u32, host: &Hosts, settings: &Settings, counts: &[usize]) {
    check_only(ranks, host, settings, counts, &|_| true);
}

/// Those collectives alone whose name is `chosen`.
fn check_only(
    ranks: u32,
    host: &Hosts,
    settings: &Settings,
    counts: &[usize],
    chosen: &dyn Fn(&str) -> bool,
) {
    for &count in counts {
        for reduction in [Reduction::Sum, Reduction::Avg] {
            let elements = Elements { data_type: DataType::I32, reduction, count };
            check_placed(ranks, host, settings, elements, &MIXED, chosen);
        }
    }
    let elements = Elements { data_type: DataType::F32, reduction: Reduction::Avg, count: 13 };
    check_placed(ranks, host, settings, elements, &MIXED, chosen);
}

#[test]
fn what_serves_usually_serves_a_mixture() {
    for ranks in [2, 3, 4, 8] {
        check(ranks, &|_| None, &Settings::default(), &[0, 13, 30_001]);
    }
}

#[test]
fn a_mixture_on_several_hosts_is_served() {
    for (ranks, per_host) in [(4, 2), (6, 2), (3, 1)] {
        let host = move |rank: u32| Some(format!("host{}", rank / per_host));
        check(ranks, &host, &Settings::default(), &[1, 13, 30_001]);
    }
}

/// Every built-in algorithm is asked for, also those that serve one placement alone.
#[test]
fn every_built_in_algorithm_serves_a_mixture() {
    for name in built_in_programs().into_keys() {
        let overrides = Overrides { algorithm: Some(name.to_owned()), ..Overrides::default() };
        let settings = Settings { overrides, ..Settings::default() };
        let its_own = |collective: &str| name.split('/').next() == Some(collective);
        for ranks in [2, 3, 4] {
            check_only(ranks, &|_| None, &settings, &[13, 30_001], &its_own);
        }
        let host = |rank: u32| Some(format!("host{}", rank / 2));
        check_only(4, &host, &settings, &[13], &its_own);
    }
}

/// Sums of numbers that do not add up exactly, of which every rank must have the same.
#[test]
fn ranks_of_a_mixture_round_alike() {
    let names = built_in_programs().into_keys().filter(|name| name.starts_with("allreduce/"));
    for (name, ranks) in names.flat_map(|name| [3, 4].map(|ranks| (name, ranks))) {
        let overrides = Overrides { algorithm: Some(name.to_owned()), ..Overrides::default() };
        let settings = Settings { overrides, ..Settings::default() };
        let outputs = world(ranks, &settings, |communicator| {
            let rank = communicator.rank().0;
            let mut input: Vec<f32> =
                (0..1000).map(|index| 1.0 / (index * ranks + rank + 1) as f32).collect();
            let mut output = input.clone();
            let from = input.as_mut_ptr();
            let to = if rank % 2 == 0 { from } else { output.as_mut_ptr() };
            let operation = Operation::AllReduce(sum());
            let call = call(operation, DataType::F32, 1000, from.cast(), to.cast());
            run(&communicator, &[call]).unwrap();
            if rank % 2 == 0 { input } else { output }
        });
        let bits: Vec<Vec<u32>> =
            outputs.iter().map(|of| of.iter().map(|sum| sum.to_bits()).collect()).collect();
        assert!(bits.iter().all(|of| *of == bits[0]), "{name} of {ranks} ranks");
    }
}

/// Each placement has the first row that serves it, and those are different.
#[test]
fn a_table_with_rows_for_one_placement_serves_a_mixture() {
    let rows = "msccl-tuning 2\nmachine m
allreduce in any any Simple staged 1 512 allreduce/two_shot
allreduce out any any Simple staged 2 512 allreduce/one_shot
allgather in any any Simple staged 2 512 allgather/ring
allgather out any any Simple staged 1 512 allgather/allpairs
reducescatter in any any Simple staged 1 512 reducescatter/ring
reducescatter out any any Simple staged 2 512 reducescatter/direct
";
    let tuning = Some(Tuning::parse("t", rows.as_bytes()).unwrap());
    for ranks in [2, 4] {
        let settings = Settings { tuning: tuning.clone(), ..Settings::default() };
        check(ranks, &|_| None, &settings, &[13, 30_001]);
    }
}

/// Programs of two ranks that serve one placement alone, for each collective without a root.
const ONE_PLACEMENT: [(&str, &str); 7] = [
    (
        "allreduce",
        "in place {
            scratch inbox[1]
            for r in 0..2 { inbox@r[0] = input@(1 - r)[0] }
            for r in 0..2 { input@r[0] += inbox@r[0] }
        }",
    ),
    ("allreduce", "{ for r in 0..2 { output@r[0] = sum(q in 0..2: input@q[0]) } }"),
    ("allgather", "in place { for r in 0..2 { output@(1 - r)[r] = output@r[r] } }"),
    ("allgather", "{ for r in 0..2, q in 0..2 { output@r[q] = input@q[0] } }"),
    ("reducescatter", "in place { for r in 0..2 { input@r[r] += input@(1 - r)[r] } }"),
    ("reducescatter", "{ for r in 0..2 { output@r[0] = sum(q in 0..2: input@q[r]) } }"),
    ("alltoall", "{ for r in 0..2, q in 0..2 { output@r[q] = input@q[r] } }"),
];

#[test]
fn loaded_algorithms_that_serve_one_placement_serve_a_mixture() {
    for (number, (collective, body)) in (0..).zip(ONE_PLACEMENT) {
        let text = format!("algorithm mine(ranks N = 2) implements {collective}(chunks 1) {body}");
        let name = format!("mine{number}.msccl");
        let file = File { name: name.clone(), content: Ok(text.into_bytes()) };
        let event_log = Arc::new(EventLog::default());
        let settings =
            Settings { files: vec![file], log: event_log.clone(), ..Settings::default() };
        check(2, &|_| None, &settings, &[1, 13, 30_001]);
        let refused = event_log.collect(|event| match event {
            Event::Unmet(text) => Some(text.clone()),
            _ => None,
        });
        assert_eq!(refused, [""; 0]);
        // Both placements are served by it.
        let served = event_log.collect(|event| match event {
            Event::Serves { call, by } if by.starts_with(&name) => {
                Some(call.contains("out of place"))
            }
            _ => None,
        });
        assert!(served.contains(&true) && served.contains(&false), "{name}: {served:?}");
    }
}

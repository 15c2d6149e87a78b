//! Loaded algorithms, several ranks, and some of them in place: no call hangs, and all results are
//! right.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "figures are loud")]

mod world;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use msccl_collective::{DataType, Rank, Reduction};
use msccl_registry::File;
use msccl_runtime::{Event, EventLog, Settings};

use world::{Elements, Hosts, Placements, check_placed};

const MIXED: [&Placements; 4] =
    [&|rank| rank == Rank(0), &|rank| rank != Rank(0), &|rank| rank.0 % 2 == 1, &|rank| rank.0 < 2];

/// A call that stands still for so long fails, and with it the test.
const HANGS: Duration = Duration::from_secs(20);

/// Collectives of the examples; custom ones have no call.
const COLLECTIVES: [&str; 8] = [
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "gather",
    "reduce",
    "reducescatter",
    "scatter",
];

/// The programs of `dsl-examples` for `collective`.
fn examples(collective: &str) -> Vec<File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl-examples").join(collective);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let file = |path: &std::path::PathBuf| File {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        content: Ok(fs::read(path).unwrap()),
    };
    paths.iter().map(file).collect()
}

/// Every mixture of placements gives what `collective` promises; the names of what served it.
fn check(ranks: u32, host: &Hosts, files: Vec<File>, collective: &str) -> BTreeSet<String> {
    let event_log = Arc::new(EventLog::default());
    let timeout = Some(HANGS);
    let settings = Settings { files, timeout, log: event_log.clone(), ..Settings::default() };
    for count in [13, 30_001] {
        let elements = Elements { data_type: DataType::I32, reduction: Reduction::Sum, count };
        check_placed(ranks, host, &settings, elements, &MIXED, &|name| name == collective);
    }
    let served = event_log.collect(|event| match event {
        Event::Serves { by, .. } => Some(by.split([':', ',', ' ']).next().unwrap().to_owned()),
        _ => None,
    });
    served.into_iter().collect()
}

/// Each by itself, on one host and on two.
#[test]
fn every_example_serves_a_mixture() {
    let (mut serving, mut cases) = (0, 0);
    let runs = [(3, 3), (8, 8), (4, 2)];
    for (collective, (ranks, per_host)) in
        COLLECTIVES.iter().flat_map(|of| runs.map(|run| (of, run)))
    {
        for file in examples(collective) {
            let name = file.name.clone();
            let host =
                move |rank: u32| (per_host < ranks).then(|| format!("host{}", rank / per_host));
            let served = check(ranks, &host, vec![file], collective);
            serving += usize::from(served.contains(&name));
            cases += 1;
        }
    }
    eprintln!("{serving} of {cases} communicators are served by the file");
    assert!(serving > cases / 2, "hardly a file serves: {serving} of {cases}");
}

/// All of a collective together: the first that serves a placement need not serve the other.
#[test]
fn all_examples_together_serve_a_mixture() {
    for (collective, ranks) in COLLECTIVES.iter().flat_map(|of| [3, 4].map(|ranks| (of, ranks))) {
        let files = examples(collective);
        check(ranks, &|_| None, files.iter().rev().cloned().collect(), collective);
        check(ranks, &|_| None, files, collective);
    }
}

/// For each collective a program that runs in place alone, and one that runs out of place alone.
const APART: [(&str, &str, &str); 3] = [
    (
        "allreduce",
        "in place {
            scratch inbox[N]
            for r in 0..N, q in 0..N if q != r { inbox@r[q] = input@q[0] }
            for r in 0..N, q in 0..N if q != r { input@r[0] += inbox@r[q] }
        }",
        "{ for r in 0..N { output@r[0] = sum(q in 0..N: input@q[0]) } }",
    ),
    (
        "allgather",
        "in place { for r in 0..N, q in 0..N if q != r { output@r[q] = output@q[q] } }",
        "{ for k in 0..N, r in 0..N { output@r[(r + k) % N] = input@((r + k) % N)[0] } }",
    ),
    (
        "reducescatter",
        "in place { for r in 0..N, q in 0..N if q != r { input@r[r] += input@q[r] } }",
        "{ for r in 0..N { output@r[0] = sum(q in 0..N: input@q[r]) } }",
    ),
];

/// Either is loaded first.
#[test]
fn two_programs_of_one_placement_each_serve_a_mixture() {
    for (collective, within, apart) in APART {
        let file = |name: &str, body: &str| {
            let head = "algorithm mine(ranks N) implements";
            let text = format!("{head} {collective}(chunks 1) {body}");
            File { name: name.to_owned(), content: Ok(text.into_bytes()) }
        };
        let files = [file("within.msccl", within), file("apart.msccl", apart)];
        let [one, other] = files.clone();
        for (ranks, files) in [2, 3, 4, 8].into_iter().flat_map(|ranks| {
            [(ranks, vec![one.clone(), other.clone()]), (ranks, vec![other.clone(), one.clone()])]
        }) {
            let first = files[0].name.clone();
            let served = check(ranks, &|_| None, files.clone(), collective);
            assert!(
                served.contains(&first),
                "{collective}, {ranks} ranks, {first} first: {served:?}"
            );
            let host = move |rank: u32| Some(format!("host{}", rank / ranks.div_ceil(2)));
            check(ranks, &host, files, collective);
        }
    }
}

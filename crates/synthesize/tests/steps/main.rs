//! Programs of the fewest steps are compiled and proved, and their certificates hold. Spoilt
//! certificates do not.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

mod brute_force;
mod machines;
mod proved;

use std::time::{Duration, Instant};

use msccl_collective::{CollectiveKind, Rank};
use msccl_synthesize::least_steps::{
    StepBound, StepCertificate, StepFault, StepOptions, StepReason, fewest_steps,
};
use msccl_synthesize::{CertificateError, Ending};

use machines::{graph, machine};
use proved::{PATIENT, Proved};

const ALL: [CollectiveKind; 5] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::Broadcast(Rank(1)),
    CollectiveKind::Reduce(Rank(0)),
    CollectiveKind::AllReduce,
];

/// What issue and documents promise of each search, compiler, proof and check included.
const LIMIT: Duration = Duration::from_secs(60);

/// Proves all collectives on the machine, and that so many steps are the least for each.
fn expect_steps(name: &str, expected: [u32; 5]) {
    let cluster = machine(name);
    for (kind, expected) in ALL.into_iter().zip(expected) {
        let start = Instant::now();
        let proved = Proved::of(&cluster, kind, &PATIENT);
        let took = start.elapsed();
        assert!(proved.plan.is_least(), "{kind} on {name}");
        assert_eq!(proved.plan.steps(), expected, "{kind} on {name}");
        assert!(took <= LIMIT, "{kind} on {name}: {took:?}");
    }
}

#[test]
fn rings_meshes_and_cubes_take_as_many_steps_as_they_are_wide() {
    for n in 4..=8 {
        expect_steps(&format!("ring {n}"), [n / 2; 5]);
        expect_steps(&format!("mesh {n}"), [1; 5]);
    }
    expect_steps("cube 4", [2; 5]);
    expect_steps("cube 8", [3; 5]);
}

#[test]
fn real_machines_take_the_least_number_of_steps() {
    expect_steps("dgx1-v100 nvlink", [2; 5]);
    expect_steps("dgx1-v100", [2; 5]);
    expect_steps("hgx-h100-8", [7, 7, 3, 3, 3]);
    expect_steps("mi300x-8", [1; 5]);
    expect_steps("pcie-4", [3, 3, 2, 2, 3]);
    expect_steps("pcie-pairs-4*2", [7, 7, 3, 3, 4]);
}

/// Links that carry more at once leave the number of hops.
#[test]
fn wide_links_make_one_step_of_a_switch() {
    for kind in ALL {
        let wide = StepOptions { link_chunks: 7, ..PATIENT };
        let proved = Proved::of(&machine("star 8"), kind, &wide);
        assert_eq!((proved.plan.steps(), proved.plan.is_least()), (1, true), "{kind}");
        let narrow = StepOptions { link_chunks: 2, ..PATIENT };
        let proved = Proved::of(&machine("star 6"), kind, &narrow);
        let expected =
            if kind.root().is_some() || kind == CollectiveKind::AllReduce { 2 } else { 3 };
        assert_eq!((proved.plan.steps(), proved.plan.is_least()), (expected, true), "{kind}");
    }
}

/// Graphs of few GPUs, against a search of all states.
#[test]
fn random_graphs_take_as_many_steps_as_brute_force_finds() {
    for (gpus, percent, seed) in [(3, 40, 1), (4, 20, 2), (4, 50, 3), (4, 30, 4), (4, 60, 5)] {
        let joined = brute_force::random_edges(gpus, percent, seed);
        let cluster = graph("a random graph", gpus, |one, other| joined[one][other]);
        let proved = Proved::of(&cluster, CollectiveKind::AllGather, &PATIENT);
        assert!(proved.plan.is_least(), "seed {seed}");
        assert_eq!(proved.plan.steps(), brute_force::gather_steps(&joined), "seed {seed}");
    }
}

/// All of the 8 and more ranks of graphs that nobody has looked at.
#[test]
fn programs_for_random_graphs_are_proved() {
    for seed in 1..=12 {
        let gpus = 5 + seed as usize % 4;
        let joined = brute_force::random_edges(gpus, 25, 100 + seed);
        let cluster = graph("a random graph", gpus, |one, other| joined[one][other]);
        for kind in ALL {
            let proved = Proved::of(&cluster, kind, &PATIENT);
            assert!(proved.plan.is_least(), "{kind}, seed {seed}");
        }
    }
}

/// The bound of a machine whose certificate is a proof.
fn proof() -> Proved {
    let proved = Proved::of(&machine("pcie-pairs-4"), CollectiveKind::AllGather, &PATIENT);
    assert!(matches!(proved.certificate.bound.reason, StepReason::Proof(_)));
    proved
}

#[test]
fn a_spoilt_proof_is_refused() {
    let proved = proof();
    let cluster = machine("pcie-pairs-4");
    let check = |reason: StepReason, least: u32| {
        let mut spoilt = proved.certificate.clone();
        spoilt.bound = StepBound { least, reason };
        spoilt.check(&proved.algorithm, &cluster)
    };
    let StepReason::Proof(lemmas) = &proved.certificate.bound.reason else { unreachable!() };
    let least = proved.certificate.bound.least;
    assert_eq!(check(StepReason::Proof(lemmas.clone()), least), Ok(()));
    for at in 0..lemmas.len() {
        let mut without = lemmas.clone();
        without.remove(at);
        assert!(check(StepReason::Proof(without), least).is_err(), "without lemma {at}");
        let mut fewer = lemmas.clone();
        fewer[at].hints.pop();
        assert!(check(StepReason::Proof(fewer), least).is_err(), "a hint of lemma {at}");
        let mut strange = lemmas.clone();
        strange[at].hints[0] = u32::MAX;
        assert!(check(StepReason::Proof(strange), least).is_err(), "a strange hint of lemma {at}");
    }
    // Clauses for another number of steps are others.
    assert!(check(StepReason::Proof(lemmas.clone()), least + 1).is_err());
    for reason in [StepReason::NoStep, StepReason::Growth] {
        assert!(check(reason, least).is_err());
    }
}

#[test]
fn a_spoilt_schedule_is_refused() {
    let cluster = machine("ring 4");
    let proved = Proved::of(&cluster, CollectiveKind::AllGather, &PATIENT);
    let text = proved.certificate.lines().claims.join("\n");
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        let spoilt = StepCertificate::read(&text.replacen(from, to, 1)).unwrap().unwrap();
        match spoilt.check(&proved.algorithm, &cluster).unwrap_err() {
            CertificateError::Steps(fault) => fault,
            other => panic!("{other}"),
        }
    };
    // Who sends a block in step 1 cannot have got it in step 1.
    let line = text.lines().find(|line| line.contains("1 2")).unwrap();
    let swapped = line.replacen("1 2", "2 1", 1);
    assert!(matches!(
        refused(line, &swapped),
        StepFault::TooEarly { .. } | StepFault::HeldUp { .. }
    ));
    let twice = line.replacen("1 2", "1 1", 1);
    assert!(matches!(refused(line, &twice), StepFault::Twice { step: 1, .. }));
    let late = line.replacen("1 2", "1 3", 1);
    assert!(matches!(refused(line, &late), StepFault::OtherSteps { claimed: 2, found: 3 }));
    let fewer = line.replacen("1 2", "1", 1);
    assert!(matches!(refused(line, &fewer), StepFault::OtherMessages { claimed: 1, found: 2, .. }));
    assert!(matches!(refused("takes 2", "takes 1"), StepFault::OtherSteps { .. }));
    assert!(matches!(
        refused("takes 2", "takes 3\n// steps: from 0 to 2 in 1"),
        StepFault::NoRoute { .. }
    ));
    assert!(matches!(refused("at least 2", "at least 3"), StepFault::OtherSteps { .. }));
}

#[test]
fn lines_that_say_nothing_are_located() {
    let whole = proof().certificate.lines();
    let whole = [whole.claims, whole.proof].concat();
    let read = |at: usize, line: &str| {
        let mut lines = whole.clone();
        lines[at] = format!("// steps: {line}");
        StepCertificate::read(&format!("\n{}", lines.join("\n"))).unwrap_err()
    };
    let last = whole.len() - 1;
    for (at, line) in [
        (0, "allgather over 4 ranks"),
        (0, "allgather over 4 ranks, at most 0 chunks on a link"),
        (1, "takes long"),
        (2, "from 0 in 1"),
        (2, "from 0 to 1 at 1"),
        (2, "from x to 1 in 1"),
        (last, "proof 1 0 x 0"),
        (last, "proof 1 0 -3 0"),
        (last, "proof 1 0 3"),
    ] {
        assert_eq!(read(at, line).line(), Some(at + 2), "{line}");
    }
    assert_eq!(StepCertificate::read("// nothing\n"), Ok(None));
    let short = StepCertificate::read(&whole[..2].join("\n")).unwrap_err();
    assert_eq!(short.line(), Some(2));
}

#[test]
fn a_time_limit_gives_the_best_so_far() {
    let none = StepOptions { time: Duration::ZERO, ..PATIENT };
    let cluster = machine("star 8");
    let proved = Proved::of(&cluster, CollectiveKind::AllReduce, &none);
    assert_eq!(proved.plan.ending, Ending::TimeOver);
    assert!(!proved.plan.is_least());
    assert_eq!(proved.plan.bound.least, 3);
    let text = proved.text;
    assert!(text.contains("// The best that was found before the search was given up."), "{text}");
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let refused =
        |name: &str, kind| fewest_steps(&machine(name), kind, &PATIENT).unwrap_err().to_string();
    let few = "expected 2 to 16 GPUs for the fewest steps, found 1;";
    assert!(refused("mesh 1", CollectiveKind::AllGather).starts_with(few));
    assert!(refused("mesh 17", CollectiveKind::AllReduce).contains("found 17;"));
    let error = refused("ring 4", CollectiveKind::Reduce(Rank(4)));
    assert_eq!(error, "expected a root below 4, the number of GPUs, found 4");
    assert!(refused("ring 4", CollectiveKind::AllToAll).contains("found alltoall"));
    let apart = graph("two islands", 4, |one, other| one / 2 == other / 2);
    for (kind, from, to) in [
        (CollectiveKind::AllGather, 0, 2),
        (CollectiveKind::ReduceScatter, 2, 0),
        (CollectiveKind::AllReduce, 0, 2),
    ] {
        let error = fewest_steps(&apart, kind, &PATIENT).unwrap_err().to_string();
        let expected = format!("expected messages that lead from rank {from} to rank {to}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

/// The search takes long here: `cargo test -p msccl-synthesize --test steps -- --ignored`.
#[test]
#[ignore = "minutes"]
fn large_machines_take_the_least_number_of_steps() {
    expect_steps("cube 16", [4; 5]);
    expect_steps("hgx-h100-8*2", [8, 8, 3, 3, 3]);
    expect_steps("mi300x-8*2", [2; 5]);
    expect_steps("dgx1-v100*2", [4, 4, 2, 2, 3]);
}

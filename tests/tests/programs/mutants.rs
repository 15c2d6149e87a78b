//! The judge judged: thousands of good schedules with one thing wrong. What the verifier refuses
//! for its result must fail in every run of the second witness; what it proves must end right in
//! all.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::Protocol;
use msccl_compiler::evaluate::Launch;
use msccl_ir::{Algorithm, Target, text};
use msccl_simulate::{Ending, Setting, random_run};
use msccl_testkit::Numbers;
use msccl_tests::example::examples;
use msccl_tests::mutant::{Mutant, Mutation};
use msccl_verify::{FaultKind, Refusal, Verified, verify};

/// Good schedules to start from: example and ranks.
const GOOD: &[(&str, u32)] = &[
    ("allreduce/ring", 4),
    ("allreduce/allpairs", 4),
    ("allreduce/one_step", 3),
    ("allreduce/two_shot", 4),
    ("allreduce/halving_doubling", 8),
    ("allreduce/double_binary_tree", 5),
    ("allreduce/recursive_doubling", 4),
    ("allgather/recursive_doubling", 8),
    ("allgather/bruck", 5),
    ("reducescatter/ring", 4),
    ("alltoall/allpairs", 4),
    ("alltoall/bruck", 4),
    ("gather/tree", 5),
    ("scatter/tree", 5),
];

/// Tries for each schedule, target and mutation; some find nothing to change.
const TRIES: u64 = 40;

fn good() -> Vec<(String, Verified)> {
    let examples = examples();
    let mut good = Vec::new();
    for target in [Target::native(), Target::msccl()] {
        for (name, ranks) in GOOD {
            let example = examples.iter().find(|example| example.name == *name).unwrap();
            let launch = Launch { ranks: Some(*ranks), ..Launch::default() };
            let algorithm = example.compile(&launch, &target).unwrap().schedule.algorithm;
            let verified = verify(algorithm, &target).unwrap();
            good.push((format!("{name} {ranks} {target}"), verified));
        }
    }
    good
}

fn mutants() -> Vec<(String, Mutation, Mutant)> {
    let mut mutants = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, verified) in good() {
        for (mutation, seed) in
            Mutation::ALL.into_iter().flat_map(|one| (0..TRIES).map(move |seed| (one, seed)))
        {
            let mut numbers = Numbers(seed * 7919 + mutation as u64);
            let Some(mutant) =
                mutation.apply(verified.algorithm(), verified.target(), &mut numbers)
            else {
                continue;
            };
            let depth = mutant.target.link(Protocol::Simple).depth;
            if seen.insert((name.clone(), depth, text::print(&mutant.algorithm))) {
                mutants.push((format!("{name}: {}", mutant.what), mutation, mutant));
            }
        }
    }
    mutants
}

/// How runs end under the finest and the coarsest messages of the target, in the placements served.
fn endings(algorithm: &Algorithm, target: &Target, seeds: u64) -> Vec<Ending> {
    let depth = target.link(algorithm.protocol).depth;
    let mut endings = Vec::new();
    let limit = target.limits.count;
    let smallest = target.link(algorithm.protocol).chunks_per_message(u64::MAX, limit);
    for in_place in [true, false] {
        let served = match in_place {
            true => algorithm.placement.serves_in_place(),
            false => algorithm.placement.serves_out_of_place(),
        };
        for chunks_per_message in BTreeSet::from([smallest, limit]) {
            let setting = Setting { depth, chunks_per_message, in_place, rounds: 1 };
            for seed in (0..seeds).filter(|_| served) {
                endings.push(random_run(algorithm, setting, seed).unwrap());
            }
        }
    }
    endings
}

#[test]
fn every_mutant_is_refused_or_runs_right() {
    let mutants = mutants();
    let mut verdicts = BTreeMap::new();
    for (name, mutation, Mutant { what: _, algorithm, target }) in &mutants {
        let verdict = match verify(algorithm.clone(), target) {
            Ok(_) => {
                all_right(name, algorithm, target);
                "equivalent"
            }
            Err(refusal) => {
                confirm(name, &refusal, target);
                refusal.faults[0].kind.name()
            }
        };
        *verdicts.entry((*mutation, verdict)).or_insert(0) += 1;
    }
    println!("{} mutants: {verdicts:#?}", mutants.len());
    assert!(mutants.len() >= 2000, "only {} mutants", mutants.len());
}

/// What is proved must end right in every run.
fn all_right(name: &str, algorithm: &Algorithm, target: &Target) {
    for ending in endings(algorithm, target, 12) {
        assert_eq!(ending, Ending::Right, "proved, but {name}:\n{}", text::print(algorithm));
    }
}

/// What is refused for its result or its end must go wrong in some run. A race need not show in any
/// run, and what has no meaning cannot run.
fn confirm(name: &str, refusal: &Refusal, target: &Target) {
    match refusal.faults[0].kind {
        FaultKind::Structure | FaultKind::Limits | FaultKind::Race | FaultKind::Order => {}
        FaultKind::WrongResult
        | FaultKind::Deadlock
        | FaultKind::Uninitialised
        | FaultKind::Leftover => {
            let endings = endings(&refusal.algorithm, target, 4);
            let wrong = endings.iter().any(|ending| *ending != Ending::Right);
            assert!(wrong, "refused, but {name} runs right:\n{refusal}");
        }
    }
}

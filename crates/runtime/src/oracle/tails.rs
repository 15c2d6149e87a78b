//! Counts that the chunks of a block do not divide, held against what the proof says of them.
//!
//! Detours of values through other slots make mutants that are right where all chunks are equally
//! long. What is said to serve any count must be right for every count tried; what is not must go
//! wrong for one of them once nobody refuses it, and be refused otherwise.

#[path = "../../tests/algorithms/mod.rs"]
mod algorithms;

use std::time::Duration;

use algorithms::{algorithm, block, input, link, output, scratch, step};
use msccl_collective::{Buffer, DataType, Kind, Placement, Reduction};
use msccl_ir::{Algorithm, Place, Step, Target};
use msccl_verify::{Verified, verify};

use super::{CheckedCall, Executor, Fault, OracleFailure, Workers, check};

/// Mutants of every algorithm and placement.
const MUTANTS: u64 = 600;

/// A small generator of numbers; the tests must not depend on luck.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % bound.max(1)
    }

    /// A slot of `rank`. Never an input that the caller keeps: nobody would see what became of it.
    fn slot(&mut self, algorithm: &Algorithm, rank: usize) -> Place {
        let kept = algorithm.placement.serves_out_of_place();
        let chunks = |buffer| algorithm.collective.buffer_chunks(rank.into(), buffer);
        let (inputs, outputs) = (chunks(Buffer::Input), chunks(Buffer::Output));
        match self.below(5) {
            0 | 1 if inputs > 0 && !kept => input(self.below(inputs)),
            2 | 3 if outputs > 0 => output(self.below(outputs)),
            _ => scratch(self.below(algorithm.ranks[rank].scratch_chunks)),
        }
    }
}

/// Lets a value of some rank stay in another slot for a while.
fn detour(algorithm: &mut Algorithm, numbers: &mut Numbers) {
    let rank = numbers.below(algorithm.ranks.len() as u32) as usize;
    let (from, to) = (numbers.slot(algorithm, rank), numbers.slot(algorithm, rank));
    let there_and_back = [step(1, &[from], &[to]), step(1, &[to], &[from])];
    let steps = &mut algorithm.ranks[rank].thread_blocks[0].steps;
    let chosen = numbers.below(steps.len() as u32) as usize;
    if steps[chosen].count == 1 && numbers.below(2) == 0 {
        redirect(steps, chosen, to);
        return;
    }
    let later = chosen + numbers.below((steps.len() - chosen) as u32 + 1) as usize;
    let [there, back] = there_and_back;
    steps.insert(later, back);
    steps.insert(chosen, there);
}

/// Lets a step write elsewhere first.
fn redirect(steps: &mut Vec<Step>, chosen: usize, to: Place) {
    let destinations = &mut steps[chosen].destinations;
    let local = destinations.iter_mut().find(|place| matches!(place, Place::Local(_)));
    if let Some(place) = local {
        let from = std::mem::replace(place, to);
        steps.insert(chosen + 1, step(1, &[to], &[from]));
    }
}

fn call(count: usize, in_place: bool) -> CheckedCall {
    let (data_type, reduction) = (DataType::I32, Reduction::Sum);
    let (workers, timeout) = (Workers::Exactly(1), Some(Duration::from_secs(60)));
    CheckedCall { data_type, reduction, count, in_place, seed: 1, workers, timeout }
}

/// The counts at which `verified` goes wrong if nothing is refused.
fn wrong_counts(verified: &Verified) -> Vec<usize> {
    let (algorithm, chunks) = (verified.algorithm(), verified.algorithm().collective.chunks);
    let executor = Executor::new(verified).unwrap();
    let unguarded = Executor::new(verified).unwrap().without_count_guard();
    let mut wrong = Vec::new();
    for count in 1..=2 * chunks as usize + 1 {
        for in_place in [true, false] {
            let served = match in_place {
                true => algorithm.placement.serves_in_place(),
                false => algorithm.placement.serves_out_of_place(),
            };
            if !served {
                continue;
            }
            match check(&unguarded, &call(count, in_place)) {
                Ok(_) => {}
                Err(Fault::Wrong(_)) => wrong.push(count),
                Err(failed) => panic!("{failed}: {algorithm:#?}"),
            }
            let serves = verified.facts().serves_any_count || count.is_multiple_of(chunks as usize);
            let refused = matches!(
                check(&executor, &call(count, in_place)),
                Err(Fault::Failed(OracleFailure::Refused(_)))
            );
            assert_eq!(refused, !serves, "{count}: {algorithm:#?}");
        }
    }
    wrong
}

/// Compares the proof's word with what happens; returns the word.
fn judge(verified: &Verified) -> bool {
    let any = verified.facts().serves_any_count;
    let wrong = wrong_counts(verified);
    let chunks = verified.algorithm().collective.chunks as usize;
    assert!(wrong.iter().all(|count| !count.is_multiple_of(chunks)), "{wrong:?}");
    assert_eq!(wrong.is_empty(), any, "{wrong:?}: {:#?}", verified.algorithm());
    any
}

fn proved(algorithm: Algorithm) -> Option<Verified> {
    verify(algorithm, &Target::native()).ok()
}

/// Two ranks, two chunks: the sums change places through the output and back.
fn swapped_sums() -> Algorithm {
    algorithm(Kind::AllReduce, 2, 2, 1, |rank| {
        let peer = link(1 - rank);
        let steps = vec![
            step(2, &[input(0)], &[peer]),
            // Chunk 0's sum arrives in slot 1 of the output, chunk 1's in slot 0.
            step(2, &[peer, input(0)], &[output(0)]),
            step(1, &[output(0)], &[scratch(0)]),
            step(1, &[output(1)], &[output(0)]),
            step(1, &[scratch(0)], &[output(1)]),
            step(1, &[output(0)], &[scratch(0)]),
            step(1, &[output(1)], &[output(0)]),
            step(1, &[scratch(0)], &[output(1)]),
        ];
        vec![block(0, steps)]
    })
}

#[test]
fn sums_swapped_through_the_output_serve_even_counts_only() {
    let verified = proved(swapped_sums()).unwrap();
    assert!(!judge(&verified));
    assert_eq!(wrong_counts(&verified), [1, 1, 3, 3, 5, 5]);
    let executor = Executor::new(&verified).unwrap();
    let refusal = check(&executor, &call(3, true)).unwrap_err().to_string();
    let expected = "3 elements: the algorithm serves only counts that 2 divides, because some \
                    value passes through a later chunk of a block than the one it is for, and \
                    later chunks are shorter where they do not divide a block";
    assert_eq!(refusal, expected);
}

#[test]
fn algorithms_without_detours_serve_any_count() {
    for algorithm in algorithms::all() {
        assert!(judge(&proved(algorithm).unwrap()));
    }
}

#[test]
fn what_the_proof_says_of_counts_is_what_happens() {
    let mut tally = [0, 0];
    let single = |algorithm: &Algorithm| algorithm.ranks[0].thread_blocks.len() == 1;
    for original in algorithms::all().into_iter().filter(single) {
        for placement in [Placement::Both, Placement::InPlace, Placement::OutOfPlace] {
            for seed in 0..MUTANTS {
                let mut mutant = Algorithm { placement, ..original.clone() };
                mutant.ranks.iter_mut().for_each(|rank| rank.scratch_chunks += 1);
                let mut numbers = Numbers(seed);
                for _ in 0..=seed % 3 {
                    detour(&mut mutant, &mut numbers);
                }
                if let Some(verified) = proved(mutant) {
                    tally[usize::from(judge(&verified))] += 1;
                }
            }
        }
    }
    assert!(tally.iter().all(|&mutants| mutants >= 50), "{tally:?}");
}

//! What is proved for the MSCCL runtimes is what their interpreters do: random algorithms are
//! proved and written, and interpreters that follow the runtimes' sources run the files, in random
//! order and at sizes where something changes.
//!
//! `MSCCL_INTERPRETER_RUNS` says how many runs each interpreter makes; the default is a part for
//! every test run. Every rule of the targets is also left out, and then a run must go wrong:
//! otherwise nobody would notice.

use std::collections::HashMap;

use msccl_collective::{Buffer, Promise, SizeRange, Slot};
use msccl_interchange::xml::{self, Dialect};
use msccl_ir::{Algorithm, MessageOrder, Proxies, Target};
use msccl_testkit::Numbers;
use msccl_testkit::random::msccl_steps::random;
use msccl_tests::interpreter::Interpreter;
use msccl_tests::interpreter::parse::{Program, parse};
use msccl_tests::interpreter::run::{Call, Outcome, Run, Value};
use msccl_verify::{Verified, verify};

const ELEMENT_BYTES: u64 = 4;

fn runs() -> u32 {
    let wanted = std::env::var("MSCCL_INTERPRETER_RUNS").ok();
    wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(2500)
}

fn contribution(rank: u32, index: u32, round: u64, sample: u64) -> Value {
    Value::one((u64::from(rank) << 40) + (u64::from(index) << 24) + (round << 8) + sample)
}

/// Runs the file of a proved algorithm at one size; what went otherwise than proved.
fn run(
    interpreter: Interpreter,
    verified: &Verified,
    programs: &[Program],
    chunk_elements: u64,
    numbers: &mut Numbers,
) -> Result<(), String> {
    let algorithm = verified.algorithm();
    let in_place = algorithm.placement.serves_in_place();
    let ranks_per_node = verified.target().ranks_per_node.unwrap_or(algorithm.collective.ranks);
    let call = Call { chunk_elements, in_place, ranks_per_node };
    let mut run = Run::new(interpreter, &algorithm.collective, programs, call);
    run.fill(contribution);
    let memory = match run.run(numbers) {
        Outcome::Ended(memory) => memory,
        Outcome::Stuck => return Err("stuck".to_owned()),
        Outcome::Overrun => return Err("an array is overrun".to_owned()),
    };
    let mut trees: HashMap<(String, u64, u64), u64> = HashMap::new();
    for rank in algorithm.collective.all_ranks() {
        for round in 0..run.rounds() {
            for sample in 0..run.samples(round) {
                for index in 0..algorithm.collective.output_chunks(rank) {
                    let Some(promise) = algorithm.collective.promised(rank, index) else {
                        continue;
                    };
                    let slot = Slot::new(Buffer::Output, index);
                    let held = memory.get(&run.cell(rank.0, slot, round, sample));
                    let held = held.ok_or("an output is not written")?;
                    let terms = terms(&promise, algorithm.collective.ranks);
                    let value =
                        |(rank, index): &(u32, u32)| contribution(*rank, *index, round, sample);
                    let sum =
                        terms.iter().map(value).fold(0u64, |sum, one| sum.wrapping_add(one.sum));
                    if held.sum != sum {
                        return Err(format!("output {index} of {rank} is wrong"));
                    }
                    let tree =
                        *trees.entry((format!("{promise:?}"), round, sample)).or_insert(held.tree);
                    if verified.facts().same_on_every_rank && tree != held.tree {
                        return Err(format!(
                            "output {index} of {rank} is added up in another order"
                        ));
                    }
                }
                for index in 0..algorithm.collective.input_chunks(rank) {
                    let cell = run.cell(rank.0, Slot::new(Buffer::Input, index), round, sample);
                    let first = contribution(rank.0, index, round, sample);
                    if !in_place && memory.get(&cell) != Some(&first) {
                        return Err(format!("input {index} of {rank} is changed"));
                    }
                }
            }
        }
    }
    Ok(())
}

fn terms(promise: &Promise, ranks: u32) -> Vec<(u32, u32)> {
    match promise {
        Promise::One(one) => vec![(one.rank.0, one.index)],
        Promise::EveryRank { index } => (0..ranks).map(|rank| (rank, *index)).collect(),
        Promise::Sum(list) => list.iter().map(|one| (one.rank.0, one.index)).collect(),
    }
}

/// Elements of a chunk at which something changes, as far as the algorithm serves them.
fn sizes(algorithm: &Algorithm) -> Vec<u64> {
    let slice = msccl_tests::interpreter::slice_bytes(algorithm.protocol) / ELEMENT_BYTES;
    let chunks = u64::from(algorithm.collective.loop_chunks());
    let most = algorithm.sizes.max_bytes.unwrap_or(u64::MAX) / ELEMENT_BYTES / chunks;
    let parts = [1, 2, 3, 4, 8, 9].map(|part| slice / part);
    let mut all = vec![1, 2, 200, 700, 5000, slice + 1, 2 * slice + 5, most];
    all.extend(parts.iter().flat_map(|&part| [part, part + 1]));
    all.retain(|&elements| elements > 0 && elements <= most.min(3 * slice));
    all
}

fn programs(
    interpreter: Interpreter,
    algorithm: &Algorithm,
) -> Option<Result<Vec<Program>, String>> {
    let text = xml::write(algorithm, Dialect::Msccl).ok()?;
    let ranks = 0..i64::from(algorithm.collective.ranks);
    Some(ranks.map(|rank| parse(interpreter, &text, rank)).collect())
}

/// Proves and runs algorithm number `seed`, every third with a node for each rank; how many runs
/// there were, or what went wrong.
fn check(interpreter: Interpreter, target: &Target, seed: u64) -> Result<u32, String> {
    let mut algorithm = random(seed);
    let ranks = if seed.is_multiple_of(3) { 1 } else { algorithm.collective.ranks };
    let target = &target.clone().on_nodes(ranks);
    let Ok(verified) = verify(algorithm.clone(), target).or_else(|refusal| {
        // What is sound up to a size is proved up to that.
        let bytes = refusal.faults[0].sound_up_to_bytes.filter(|&bytes| bytes > 0);
        algorithm.sizes = SizeRange { min_bytes: 0, max_bytes: bytes };
        if bytes.is_some() { verify(algorithm.clone(), target) } else { Err(refusal) }
    }) else {
        return Ok(0);
    };
    let Some(programs) = programs(interpreter, &algorithm) else { return Ok(0) };
    let text = || msccl_ir::text::print(&algorithm);
    let programs = programs.map_err(|why| format!("not loaded: {why}\n{}", text()))?;
    let mut numbers = Numbers(seed ^ 0x1234);
    let mut runs = 0;
    for elements in sizes(&algorithm) {
        run(interpreter, &verified, &programs, elements, &mut numbers)
            .map_err(|why| format!("{seed}, {elements} elements a chunk: {why}\n{}", text()))?;
        runs += 1;
    }
    Ok(runs)
}

fn holds(interpreter: Interpreter, target: &Target) {
    let (mut made, mut proved, mut seed) = (0, 0, 0);
    while made < runs() {
        seed += 1;
        match check(interpreter, target, seed) {
            Ok(runs) => {
                made += runs;
                proved += u32::from(runs > 0);
            }
            Err(why) => panic!("{why}"),
        }
    }
    println!("{interpreter:?}: {made} runs of {proved} proved algorithms of {seed}");
    assert!(proved * 20 > seed as u32, "{proved} of {seed} are proved");
}

#[test]
fn what_is_proved_is_what_the_first_interpreter_does() {
    holds(Interpreter::First, &Target::msccl());
}

#[test]
fn what_is_proved_is_what_the_executor_does() {
    holds(Interpreter::Executor, &Target::executor());
}

/// Something must go wrong if a target lacks a rule.
#[track_caller]
fn is_missed(interpreter: Interpreter, mut target: Target, leave_out: impl Fn(&mut Target)) {
    leave_out(&mut target);
    let found = (1..40_000).find_map(|seed| check(interpreter, &target, seed).err());
    let found = found.expect("a run that goes wrong");
    println!("{}", found.lines().next().unwrap_or_default());
}

#[test]
fn every_rule_that_is_left_out_is_missed() {
    let of_first = |leave_out: fn(&mut Target)| {
        is_missed(Interpreter::First, Target::msccl(), leave_out);
    };
    // Messages of LL and LL128 order loads alone.
    of_first(|target| target.rules.message_order = [MessageOrder::Memory; 3]);
    // Broadcast and reduce have messages of a quarter.
    of_first(|target| target.rules.smaller_messages = None);
    // Proxies reckon with other slices of those.
    of_first(|target| target.rules.proxies = Proxies::CountAsKernels);
    is_missed(Interpreter::Executor, Target::executor(), |target| {
        target.rules.proxies = Proxies::CountAsKernels;
    });
    // Sixteen sources lose the destination under Simple.
    of_first(|target| {
        target.rules.merging.iter_mut().for_each(|merging| merging.sources_max = [16; 3]);
    });
    // The destination is added last under Simple.
    of_first(|target| {
        target.rules.merging.iter_mut().for_each(|merging| merging.destination_last = [false; 3]);
    });
    // What is merged reads all sources before it stores.
    of_first(|target| target.rules.merging = None);
    is_missed(Interpreter::Executor, Target::executor(), |target| {
        target.rules.message_order = [MessageOrder::Memory; 3];
    });
    is_missed(Interpreter::Executor, Target::executor(), |target| {
        target.rules.smaller_messages = None;
    });
}

/// Rounds, waits and elements of files, each by the algorithm that is just too large, in the text
/// form.
fn written(text: &str) -> Algorithm {
    msccl_ir::text::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_round_too_many_never_ends() {
    let text = "algorithm \"relay\"
collective custom \"copy\" ranks 1 chunks 1 input 1 output 1
contract
  given r0.i[0]
  promise r0.o[0] = r0.i[0]
placement out of place
protocol LL
bytes 0..

r0 scratch 1
  tb0 ch0
    s0: i[0] -> s[0]
  tb1 ch0
    s0 after tb0 s0: s[0] -> o[0]
";
    let mut algorithm = written(text);
    let refusal = verify(algorithm.clone(), &Target::msccl()).expect_err("no bound");
    let bytes = refusal.faults[0].sound_up_to_bytes.expect("a size");
    algorithm.sizes = SizeRange { min_bytes: 0, max_bytes: Some(bytes) };
    let verified = verify(algorithm.clone(), &Target::msccl()).expect("proved up to there");
    let programs = programs(Interpreter::First, &algorithm).unwrap().unwrap();
    let elements = bytes / ELEMENT_BYTES;
    let run = |elements| run(Interpreter::First, &verified, &programs, elements, &mut Numbers(1));
    assert_eq!(run(elements), Ok(()));
    assert_eq!(run(elements + 1), Err("stuck".to_owned()));
}

#[test]
fn a_wait_too_many_is_not_waited_for() {
    let waiting = |waits: usize| {
        let mut text = "algorithm \"waits\"
collective custom \"sum\" ranks 1 chunks 1 input 40 output 40
placement out of place
protocol LL
bytes 0..=4096
threads 32

r0 scratch 40
"
        .to_owned();
        for tb in 0..waits {
            text += &format!("  tb{tb} ch0\n    s0: i[{tb}] -> s[{tb}]\n");
        }
        text += &format!("  tb{waits} ch0\n");
        for tb in 0..waits - 1 {
            text += &format!("    s{tb} after tb{tb} s0: nop\n");
        }
        let last = waits - 1;
        text += &format!("    s{last} after tb{last} s0: s[{last}] -> o[{last}]\n");
        written(&text)
    };
    assert!(verify(waiting(32), &Target::msccl()).is_ok());
    let refusal = verify(waiting(33), &Target::msccl()).expect_err("more waits than threads");
    assert!(refusal.faults[0].message.contains("32 threads that wait"), "{refusal}");
    // Without the rule it is proved, and the interpreter copies what is not there yet.
    let mut lenient = Target::msccl();
    lenient.rules.threads = None;
    let verified = verify(waiting(33), &lenient).expect("proved without the rule");
    let programs = programs(Interpreter::First, verified.algorithm()).unwrap().unwrap();
    let goes_wrong = |seed| {
        let call = Call { chunk_elements: 2, in_place: false, ranks_per_node: 1 };
        let mut run =
            Run::new(Interpreter::First, &verified.algorithm().collective, &programs, call);
        run.fill(contribution);
        let Outcome::Ended(memory) = run.run(&mut Numbers(seed)) else { return false };
        let cell = run.cell(0, Slot::new(Buffer::Output, 32), 0, 0);
        memory[&cell] != contribution(0, 32, 0, 0)
    };
    assert!((1..20_000).any(goes_wrong));
}

#[test]
fn an_element_too_many_is_not_loaded() {
    // Steps of one rank in blocks of up to 200, so that nothing else is too many.
    let long = |steps: usize| {
        let mut text = "algorithm \"long\"
collective custom \"copies\" ranks 1 chunks 1 input 1 output 1
placement out of place
protocol LL
bytes 0..=4096

r0 scratch 0
"
        .to_owned();
        for (tb, first) in (0..steps).step_by(200).enumerate() {
            text += &format!("  tb{tb} ch0\n");
            for step in 0..200.min(steps - first) {
                let wait = if step == 0 && tb > 0 {
                    format!(" after tb{} s199", tb - 1)
                } else {
                    String::new()
                };
                text += &format!("    s{step}{wait}: i[0] -> o[0]\n");
            }
        }
        written(&text)
    };
    let blocks = 21;
    let most = 4095 - 2 - blocks;
    for (steps, fits) in [(most, true), (most + 1, false)] {
        let algorithm = long(steps);
        assert_eq!(algorithm.ranks[0].thread_blocks.len(), blocks);
        assert_eq!(verify(algorithm.clone(), &Target::msccl()).is_ok(), fits, "{steps}");
        let loaded = programs(Interpreter::First, &algorithm).unwrap();
        assert_eq!(loaded.is_ok(), fits, "{loaded:?}");
    }
}

//! Traces are read back by a decoder of their own and run.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod decoder;
mod execution;

use std::collections::{BTreeMap, HashMap};
use std::fs;

use msccl_chakra::{CREDIT_BYTES, Call, Traces, Untraceable, file_name};
use msccl_collective::{Kind, Rank};
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_ir::{Algorithm, Target};
use msccl_syntax::SourceMap;
use msccl_testkit::by_hand;

use decoder::{COMP, Node, RECV, SEND, decode};
use execution::{is_credit, key, run};

const MIB: u64 = 1 << 20;

/// An example, compiled for so many ranks on nodes of four.
fn example(name: &str, ranks: u32, target: &Target) -> Algorithm {
    let path = format!("{}/../../dsl-examples/{name}.msccl", env!("CARGO_MANIFEST_DIR"));
    let mut sources = SourceMap::new();
    let file = sources.add(name, fs::read_to_string(path).unwrap());
    let launch = Launch { ranks: Some(ranks), per_node: Some(4), ..Launch::default() };
    let compiled = compile(&mut sources, file, &NoFiles, &launch, target);
    let compiled = compiled.unwrap_or_else(|found| panic!("{}", sources.render_all(&found)));
    compiled.schedule.algorithm
}

fn call(bytes: u64) -> Call {
    Call { bytes, tb_bytes_per_us: None }
}

/// The nodes of all ranks.
fn traced(algorithm: &Algorithm, target: &Target, call: Call) -> Vec<Vec<Node>> {
    let traces = Traces::new(algorithm, target, call).unwrap();
    let trace = |rank| {
        let mut file = Vec::new();
        traces.write_to(rank, &mut file).unwrap();
        let (head, nodes) = decode(&file);
        assert_eq!(head["collective"], algorithm.collective.name());
        assert_eq!(head["bytes"], call.bytes.to_string());
        nodes
    };
    traces.ranks().map(trace).collect()
}

/// The algorithms and calls of the tests: with and without credits, of one round and of many.
fn cases() -> Vec<(Algorithm, Target, u64)> {
    let (native, msccl) = (Target::native(), Target::msccl());
    let names = ["allreduce/ring", "allreduce/two_shot", "allreduce/hierarchical"];
    let mut cases = Vec::new();
    for name in names {
        for bytes in [8, MIB, 20 * MIB + 4096] {
            cases.push((example(name, 8, &native), native.clone(), bytes));
        }
        cases.push((example(name, 8, &msccl), msccl.clone(), 70 * MIB));
    }
    cases.push((example("broadcast/chain", 4, &native), native.clone(), 64 * MIB));
    cases
}

#[test]
fn every_send_has_one_receive_of_the_same_length() {
    for (algorithm, target, bytes) in cases() {
        let traces = traced(&algorithm, &target, call(bytes));
        let mut ends: HashMap<_, Vec<(u64, i64)>> = HashMap::new();
        for (rank, nodes) in traces.iter().enumerate() {
            for node in nodes.iter().filter(|node| node.node_type != COMP) {
                let end = (node.node_type, node.attributes["comm_size"]);
                ends.entry(key(rank, node)).or_default().push(end);
            }
        }
        for (key, mut ends) in ends {
            ends.sort();
            let bytes = ends[0].1;
            assert_eq!(ends, [(SEND, bytes), (RECV, bytes)], "{} {key:?}", algorithm.name);
        }
    }
}

#[test]
fn what_is_sent_is_what_the_algorithm_sends() {
    for (algorithm, target, bytes) in cases() {
        let chunk_bytes = bytes.div_ceil(u64::from(algorithm.collective.loop_chunks()));
        let mut expected: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (rank, _, block) in algorithm.thread_blocks() {
            for step in &block.steps {
                for to in step.sends() {
                    let sent = expected.entry((rank.0, to.0)).or_default();
                    *sent += u64::from(step.count) * chunk_bytes;
                }
            }
        }
        let mut found: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (rank, nodes) in traced(&algorithm, &target, call(bytes)).iter().enumerate() {
            for node in nodes.iter().filter(|node| node.node_type == SEND) {
                let (from, to, tag) = key(rank, node);
                let bytes = node.attributes["comm_size"] as u64;
                if is_credit(tag) {
                    assert_eq!(bytes, CREDIT_BYTES);
                } else {
                    *found.entry((from, to)).or_default() += bytes;
                }
            }
        }
        assert_eq!(found, expected, "{}", algorithm.name);
    }
}

#[test]
fn numbers_follow_the_file_and_dependencies_have_no_circle() {
    for (algorithm, target, bytes) in cases() {
        for nodes in traced(&algorithm, &target, call(bytes)) {
            let ids = nodes.iter().map(|node| node.id);
            assert!(ids.eq(0..nodes.len() as u64), "{}", algorithm.name);
            let mut missing: Vec<usize> =
                nodes.iter().map(|node| node.ctrl_deps.len() + node.data_deps.len()).collect();
            let mut followers = vec![Vec::new(); nodes.len()];
            for node in &nodes {
                let needed = node.ctrl_deps.iter().chain(&node.data_deps);
                needed.for_each(|id| followers[*id as usize].push(node.id as usize));
            }
            let mut free: Vec<_> = (0..nodes.len()).filter(|at| missing[*at] == 0).collect();
            let mut done = 0;
            while let Some(at) = free.pop() {
                done += 1;
                for &follower in &followers[at] {
                    missing[follower] -= 1;
                    if missing[follower] == 0 {
                        free.push(follower);
                    }
                }
            }
            assert_eq!(done, nodes.len(), "{}", algorithm.name);
        }
    }
}

#[test]
fn traces_run_to_their_end_and_links_hold_no_more_than_they_have_room_for() {
    let mut fullest = 0;
    for (algorithm, target, bytes) in cases() {
        let traces = traced(&algorithm, &target, call(bytes));
        let all: usize = traces.iter().map(Vec::len).sum();
        let depth = u64::from(target.link(algorithm.protocol).depth);
        for seed in 0..4 {
            let run = run(&traces, i64::from(algorithm.channel_count()), seed);
            assert_eq!(run.order.len(), all, "{} comes to a standstill", algorithm.name);
            assert!(run.most_in_flight <= depth, "{}: {}", algorithm.name, run.most_in_flight);
            fullest = fullest.max(run.most_in_flight);
        }
    }
    assert_eq!(fullest, 4, "no link was ever full, so nothing was tried");
}

#[test]
fn without_credits_links_would_overflow() {
    let target = Target::native();
    let algorithm = example("broadcast/chain", 4, &target);
    let mut traces = traced(&algorithm, &target, call(64 * MIB));
    for nodes in &mut traces {
        let of_credits: Vec<u64> = nodes
            .iter()
            .filter(|node| node.attributes.get("comm_tag").is_some_and(|tag| is_credit(*tag)))
            .map(|node| node.id)
            .collect();
        assert!(!of_credits.is_empty());
        nodes.iter_mut().for_each(|node| node.ctrl_deps.retain(|id| !of_credits.contains(id)));
    }
    assert!(run(&traces, i64::from(algorithm.channel_count()), 1).most_in_flight > 4);
}

/// Thread block, step and round, of a name such as `r1 tb0 s2 round 3: rrs`.
fn parts(name: &str) -> (usize, usize, usize) {
    let at = name.split(':').next().unwrap();
    let words: Vec<_> = at.split(' ').collect();
    let number = |word: &str| word.trim_start_matches(|it: char| it.is_alphabetic()).parse();
    let round = words.get(4).map_or(0, |round| round.parse().unwrap());
    (number(words[1]).unwrap(), number(words[2]).unwrap(), round)
}

#[test]
fn steps_keep_their_order_and_wait_for_one_another() {
    let mut waits = 0;
    for (algorithm, target, bytes) in cases() {
        let traces = traced(&algorithm, &target, call(bytes));
        let run = run(&traces, i64::from(algorithm.channel_count()), 7);
        // By rank, thread block, round and step: when its last node that works ran.
        let mut ended: HashMap<(usize, usize, usize, usize), usize> = HashMap::new();
        let mut last: HashMap<(usize, usize), (usize, usize)> = HashMap::new();
        let works = |(rank, position): (usize, usize)| traces[rank][position].node_type == COMP;
        let order = run.order.iter().copied().enumerate().filter(|(_, at)| works(*at));
        for (time, (rank, position)) in order {
            let (tb, step, round) = parts(&traces[rank][position].name);
            let before = last.insert((rank, tb), (round, step));
            assert!(before <= Some((round, step)), "r{rank} tb{tb}: {before:?} before {step}");
            for wait in &algorithm.ranks[rank].thread_blocks[tb].steps[step].waits {
                let ended = ended.get(&(rank, wait.tb.index(), round, wait.step.index()));
                assert!(ended.is_some_and(|ended| *ended < time));
                waits += 1;
            }
            ended.insert((rank, tb, round, step), time);
        }
    }
    assert!(waits > 0, "no step waits, so nothing was tried");
}

#[test]
fn work_takes_time_where_a_rate_is_given() {
    let target = Target::native();
    let algorithm = example("allreduce/ring", 4, &target);
    let rate = |rate| Call { bytes: 4 * MIB, tb_bytes_per_us: rate };
    let durations = |call| -> Vec<u64> {
        let traces = traced(&algorithm, &target, call);
        let works = traces[0].iter().filter(|node| node.node_type == COMP);
        works.map(|node| node.duration_micros).take(2).collect()
    };
    assert_eq!(durations(rate(None)), [0, 0]);
    // A slice of 512 KiB at 100 GB/s: 5.24 µs for a send, twice that for a sum of two.
    assert_eq!(durations(rate(Some(100_000.0))), [5, 10]);
}

#[test]
fn a_rank_without_steps_has_a_node() {
    let mut algorithm = example("broadcast/chain", 4, &Target::native());
    algorithm.ranks.iter_mut().for_each(|rank| rank.thread_blocks.clear());
    let traces = traced(&algorithm, &Target::native(), call(64));
    assert!(traces.iter().all(|nodes| nodes.len() == 1 && nodes[0].node_type == COMP));
}

#[test]
fn what_cannot_be_traced_is_said() {
    let target = Target::native();
    let algorithm = example("allreduce/ring", 4, &target);
    let refused = |call| Traces::new(&algorithm, &target, call).err().unwrap();
    assert_eq!(refused(call(0)), Untraceable::Empty);
    assert_eq!(refused(call(1 << 50)), Untraceable::TooManyNodes { rank: Rank(0) });
    let huge = refused(call(u64::MAX));
    assert!(matches!(huge, Untraceable::TooManyNodes { .. } | Untraceable::TooLarge { .. }));
    for rate in [0.0, -1.0, f64::NAN] {
        let call = Call { bytes: 64, tb_bytes_per_us: Some(rate) };
        assert_eq!(refused(call), Untraceable::Rate);
    }
    let unpaired = by_hand::algorithm(
        Kind::AllReduce,
        1,
        vec![vec![by_hand::tb(0, vec![by_hand::step(&[by_hand::i(0)], &[by_hand::r(1)])])], vec![]],
    );
    let error = Traces::new(&unpaired, &target, call(64)).err().unwrap();
    assert!(matches!(error, Untraceable::Invalid(_)), "{error}");
    assert!(error.to_string().starts_with("the algorithm is not valid: "), "{error}");
    assert!(refused(call(1 << 50)).to_string().contains("trace a smaller call"));
}

#[test]
fn names_of_files_are_those_that_simulators_look_for() {
    assert_eq!(file_name("out/ring", Rank(12)), "out/ring.12.et");
}

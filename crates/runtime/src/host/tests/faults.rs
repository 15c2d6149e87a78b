//! Waits that are published, that end, and that leave nothing behind.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{CallPlacement, CollectiveKind, DataType, Reduction};
use msccl_plan::Direction;
use msccl_registry::{Registry, Shape as Ranks};
use msccl_select::Prepared;

use super::world::{RankBuffers, Shape, TestRank, collective, prepare, run, transfer};
use crate::engine::{Engine, Waiting};
use crate::error::{Error, ErrorKind};

/// The first built-in all-reduce of `ranks` ranks.
fn all_reduce(ranks: u32) -> Vec<Arc<Prepared>> {
    let registry = Registry::new(Ranks { ranks, per_node: ranks }, &[]);
    let entries = registry.built_in(CollectiveKind::AllReduce, CallPlacement::InPlace);
    prepare(entries.first().unwrap())
}

/// Calls it on `count` zeros.
fn call(place: &TestRank, all: &[Arc<Prepared>], count: usize, number: u64) -> Result<(), Error> {
    let prepared = &all[place.me.index()];
    let (data_type, reduction, instances) = (DataType::F32, Reduction::Sum, 1);
    let shape = Shape { data_type, reduction, count, instances, number };
    let memory = RankBuffers::new(prepared.plan.program(), &vec![0; 4 * count], 4 * count, true);
    collective(place, prepared, shape, &memory)
}

/// What a rank waits for, as soon as it does.
fn await_waits(place: &TestRank) -> Vec<Waiting> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        let waits = place.rank.waits();
        if !waits.is_empty() {
            return waits;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{} does not wait", place.me)
}

/// While `stuck` runs, waits until it shows what it waits for and does `then`; its error, how long
/// that took to come, and the waits.
fn interrupt(
    place: &TestRank,
    stuck: impl FnOnce() -> Result<(), Error> + Send,
    then: impl FnOnce(),
) -> (Error, Duration, Vec<Waiting>) {
    thread::scope(|scope| {
        let stuck = scope.spawn(stuck);
        let waits = await_waits(place);
        let start = Instant::now();
        then();
        let error = stuck.join().unwrap().unwrap_err();
        (error, start.elapsed(), waits)
    })
}

#[test]
fn an_abort_ends_the_waits_of_all_ranks_at_once() {
    let all = all_reduce(3);
    let outcomes = run(3, |place| {
        // Rank 2 never comes; once both others wait, rank 1 aborts.
        let meet = || place.group.barrier().unwrap();
        let stuck = || call(&place, &all, 1000, 1);
        let outcome = match place.me.0 {
            0 => Some(interrupt(&place, stuck, meet)),
            1 => {
                let then = || {
                    meet();
                    place.rank.release();
                };
                Some(interrupt(&place, stuck, then))
            }
            _ => {
                meet();
                None
            }
        };
        place.group.barrier().unwrap();
        if place.me.0 < 2 {
            let again = call(&place, &all, 1000, 2).unwrap_err();
            let first = &outcome.as_ref().unwrap().0;
            assert_eq!(again, *first, "the first failure is kept");
            assert!(!place.rank.has_finished(1) && place.rank.waits().is_empty());
            place.rank.quiesce().unwrap();
        }
        outcome
    });
    let [Some((remote, later, _)), Some((own, took, waits)), None] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert!(*took.max(later) < Duration::from_millis(100), "{took:?} {later:?}");
    assert_eq!((own.kind(), remote.kind()), (ErrorKind::Aborted, ErrorKind::Remote));
    // Rank 0 may have sent more between the first wait and the abort.
    let error = own.to_string();
    let begin = "allreduce/ring (call 1) on r1: aborted (the communicator was aborted) while tb0 s";
    assert!(error.starts_with(begin) && error.ends_with(" from r0 on ch0 (round 0)"), "{error}");
    assert!(waits[0].text.starts_with("tb0 s"), "{waits:?}");
    let text = remote.to_string();
    assert!(
        text.starts_with("allreduce/ring (call 1) on r0: r1 failed or aborted while "),
        "{text}"
    );
    assert!(text.contains("waits for message 0 from r2 on ch0 (round 0)"), "{text}");
}

/// Rank 0 has done its part of a broadcast when it parts; the last rank comes later, and misses
/// nothing but the next call.
#[test]
fn who_has_done_its_part_is_not_missed() {
    let registry = Registry::new(Ranks { ranks: 3, per_node: 3 }, &[]);
    let kind = CollectiveKind::Broadcast(msccl_collective::Rank(0));
    let entries = registry.built_in(kind, CallPlacement::InPlace);
    let all = prepare(entries.first().unwrap());
    run(3, |place| {
        if place.me.0 == 2 {
            thread::sleep(Duration::from_millis(300));
        }
        call(&place, &all, 1000, 1).unwrap();
        if place.me.0 == 0 {
            place.rank.part();
            assert!(call(&place, &all, 1000, 2).is_err(), "it is over here");
            return;
        }
        let next = call(&place, &all, 1000, 2).unwrap_err().to_string();
        assert!(next.contains("failed or aborted while tb0 s0 waits for message "), "{next}");
    });
}

#[test]
fn a_raised_flag_ends_a_wait() {
    let outcomes = run(2, |place| {
        if place.me.0 == 1 {
            return None;
        }
        let mut bytes = vec![0; 100];
        let receive = [transfer(1, Direction::In, &mut bytes)];
        let stuck = || place.rank.transfers(&receive, 0, 1);
        Some(interrupt(&place, stuck, || place.abort.raise("enough")))
    });
    let (error, took, waits) = outcomes[0].as_ref().unwrap();
    assert!(*took < Duration::from_millis(100), "{took:?}");
    let expected = "transfers (call 1) on r0: aborted (enough) while a receive waits for 100 bytes \
                    from r1";
    assert_eq!(error.to_string(), expected);
    let [Waiting { call: 1, peer: Some(peer), text }] = &waits[..] else { panic!("{waits:?}") };
    assert_eq!((peer.0, text.as_str()), (1, "a receive waits for 100 bytes from r1"));
}

#[test]
fn waits_name_thread_block_step_message_and_peer() {
    let all = all_reduce(2);
    run(2, |place| {
        call(&place, &all, 1000, 1).unwrap();
        if place.me.0 == 0 {
            let stuck = || call(&place, &all, 1000, 2);
            let (_, _, waits) = interrupt(&place, stuck, || place.rank.release());
            assert!(waits.iter().all(|waiting| waiting.call == 2), "{waits:?}");
            let named = |waiting: &&Waiting| waiting.peer.is_some_and(|peer| peer.0 == 1);
            let text = &waits.iter().find(named).unwrap().text;
            // The first call took its messages.
            assert!(text.starts_with("tb0 s1 waits for message 2 from r1 on ch0"), "{text}");
        }
        place.group.barrier().unwrap();
    });
}

/// A step that needs messages of two ranks first misses one of them, then the other.
#[test]
fn waits_name_whoever_is_missing_now() {
    let registry = Registry::new(Ranks { ranks: 3, per_node: 3 }, &[]);
    let entries = registry.built_in(CollectiveKind::AllReduce, CallPlacement::OutOfPlace);
    let all = prepare(entries.iter().find(|entry| entry.name == "allreduce/one_shot").unwrap());
    run(3, |place| {
        match place.me.0 {
            0 => {
                let stuck = || call(&place, &all, 10, 1);
                let names = |waits: &[Waiting], rank| {
                    waits.iter().any(|waiting| waiting.peer.is_some_and(|peer| peer.0 == rank))
                };
                let then = || {
                    let since = Instant::now();
                    while !names(&place.rank.waits(), 2) {
                        assert!(since.elapsed() < Duration::from_secs(20));
                        thread::sleep(Duration::from_millis(1));
                    }
                    place.rank.release();
                };
                let (_, _, first) = interrupt(&place, stuck, then);
                assert!(names(&first, 1), "{first:?}");
            }
            1 => {
                thread::sleep(Duration::from_millis(300));
                assert!(call(&place, &all, 10, 1).is_err());
            }
            _ => {}
        }
        place.group.barrier().unwrap();
    });
}

#[test]
fn transfers_of_different_sizes_are_errors() {
    for (sent, received, said) in [(10, 20, "10"), (20, 10, "20"), (70_000, 65_000, "more")] {
        let errors = run(2, |place| {
            let (way, length) =
                if place.me.0 == 0 { (Direction::Out, sent) } else { (Direction::In, received) };
            let mut bytes = vec![0; length];
            let outcome = place.rank.transfers(&[transfer(1 - place.me.0, way, &mut bytes)], 0, 1);
            place.group.barrier().unwrap();
            outcome.err()
        });
        let error = errors[1].as_ref().unwrap();
        let expected = format!(
            "transfers (call 1) on r1: expected {received} bytes from r0, which sent {said}: both \
             sides of a transfer must have the same count and type"
        );
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Remote, expected));
    }
}

#[test]
fn collectives_of_different_counts_are_errors() {
    let all = all_reduce(2);
    let errors = run(2, |place| {
        let outcome = call(&place, &all, 1000 + place.me.index() * 512, 1);
        place.group.barrier().unwrap();
        outcome.unwrap_err()
    });
    let texts: Vec<_> = errors.iter().map(Error::to_string).collect();
    let telling = |text: &String| text.contains("expected a message of ");
    assert!(texts.iter().any(telling), "{texts:?}");
}

#[test]
fn memory_that_does_not_exist_is_refused_and_harms_nobody() {
    let all = all_reduce(2);
    run(2, |place| {
        let prepared = &all[place.me.index()];
        let (data_type, reduction, instances) = (DataType::F32, Reduction::Sum, 1);
        let shape = Shape { data_type, reduction, count: 100, instances, number: 1 };
        let mut memory = RankBuffers::new(prepared.plan.program(), &[0; 400], 400, true);
        memory.send = 0;
        let error = collective(&place, prepared, shape, &memory).unwrap_err();
        let expected =
            format!("the input of allreduce/ring on {}: 400 bytes at 0x0 do not exist", place.me);
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidArgument, expected));
        call(&place, &all, 100, 2).unwrap();
    });
}

#[test]
fn nothing_grows_from_call_to_call() {
    let all = all_reduce(2);
    run(2, |place| {
        let round = |number| {
            call(&place, &all, 1000, number).unwrap();
            let (mut there, mut back) = (vec![1; 5000], vec![0; 5000]);
            let peer = 1 - place.me.0;
            let transfers = [
                transfer(peer, Direction::Out, &mut there),
                transfer(peer, Direction::In, &mut back),
            ];
            place.rank.transfers(&transfers, 0, number + 1).unwrap();
        };
        round(1);
        place.group.barrier().unwrap();
        let (files, scratch) = (open_files(), place.rank.scratch(1 << 16).unwrap());
        (1..200).for_each(|at| round(1 + 2 * at));
        assert!(place.rank.has_finished(400) && !place.rank.has_finished(401));
        // Other tests open and close files meanwhile, but not hundreds.
        assert!(open_files() < files + 150);
        assert_eq!(place.rank.scratch(1 << 16).unwrap(), scratch);
        place.rank.quiesce().unwrap();
    });
}

fn open_files() -> usize {
    Path::new("/proc/self/fd").read_dir().unwrap().count()
}

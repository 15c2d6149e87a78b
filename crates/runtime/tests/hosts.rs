//! Communicators whose ranks live on several pretended hosts of this process.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;

use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{DataType, Rank, Reduction};
use msccl_proxy as proxy;
use msccl_registry::File;
use msccl_runtime::{ErrorKind, Event, Log, Operation, Settings};

use world::{Hosts, all_reduce, call, check_on, run, world_on};

/// Hosts of `per_node` ranks each, in order.
fn runs(per_node: u32) -> impl Fn(u32) -> Option<String> + Sync {
    move |rank| Some(format!("host{}", rank / per_node))
}

#[test]
fn an_all_reduce_of_two_hosts() {
    let sums = world_on(2, &runs(1), &Settings::default(), |communicator| {
        all_reduce(&communicator, 1000).unwrap()[999]
    });
    assert_eq!(sums, [3, 3]);
}

#[test]
fn collectives_keep_their_promises_on_any_placement() {
    let uneven = |rank: u32| Some(format!("host{}", rank / 2));
    let scattered = |rank: u32| Some(format!("host{}", rank % 2));
    let places: [(u32, &Hosts); 5] =
        [(4, &runs(2)), (8, &runs(4)), (3, &uneven), (8, &runs(1)), (4, &scattered)];
    for (ranks, host) in places {
        for count in [0, 1, 1000] {
            check_on(ranks, host, DataType::F32, Reduction::Sum, count);
        }
    }
    check_on(4, &runs(2), DataType::I8, Reduction::Max, 70_001);
}

/// Keeps what was logged.
#[derive(Default)]
struct Kept(Mutex<Vec<String>>);

impl Log for Kept {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.to_string());
    }
}

impl proxy::Log for Kept {
    fn event(&self, event: &proxy::Event) {
        self.0.lock().unwrap().push(event.to_string());
    }
}

impl Kept {
    /// How many lines contain `part`.
    fn count(&self, part: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }
}

#[test]
fn sends_and_receives_meet_across_hosts() {
    let found = world_on(3, &runs(2), &Settings::default(), |communicator| {
        let me = communicator.rank().0;
        let mut received = vec![[-1_i32; 2]; 3];
        let sent: Vec<_> = (0..3).map(|to| [me as i32, to]).collect();
        let mut calls = Vec::new();
        for peer in 0..3_u32 {
            let send = sent[peer as usize].as_ptr().cast();
            let receive = received[peer as usize].as_mut_ptr().cast();
            // Rank 0 sends rank 2 nothing.
            let count = if (me, peer) == (0, 2) || (me, peer) == (2, 0) { 0 } else { 2 };
            let make = |operation| call(operation, DataType::I32, count, send, receive);
            calls.push(make(Operation::Receive(Rank(peer))));
            calls.push(make(Operation::Send(Rank(peer))));
        }
        run(&communicator, &calls).unwrap();
        received
    });
    let nothing = [-1, -1];
    assert_eq!(found[0], [[0, 0], [1, 0], nothing]);
    assert_eq!(found[1], [[0, 1], [1, 1], [2, 1]]);
    assert_eq!(found[2], [nothing, [1, 2], [2, 2]]);
}

/// Only those who talk to one another are connected: a ring of four hosts has four connections, not
/// six.
#[test]
fn links_are_made_for_those_who_need_them() {
    let kept = Arc::new(Kept::default());
    let mut settings = Settings { log: kept.clone(), ..Settings::default() };
    settings.proxy.log = kept.clone();
    settings.overrides.algorithm = Some("allreduce/ring".to_owned());
    world_on(4, &runs(1), &settings, |communicator| {
        all_reduce(&communicator, 10).unwrap();
        all_reduce(&communicator, 10).unwrap();
        // All have said so before one of them leaves.
        communicator.split(Some(0), 0, None).unwrap();
    });
    assert_eq!(kept.count("links to r"), 8, "{:#?}", kept.0);
    assert_eq!(kept.count("4 nodes: r0 on host0, r1 on host1, r2 on host2, r3 on host3"), 8);
}

#[test]
fn communicators_split_and_shrink_across_hosts() {
    world_on(6, &runs(3), &Settings::default(), |communicator| {
        let rank = communicator.rank().0;
        assert_eq!(all_reduce(&communicator, 1).unwrap(), [21]);
        let part = communicator.split(Some(rank % 2), -(rank as i32), None).unwrap().unwrap();
        assert_eq!(all_reduce(&part, 4).unwrap(), [6; 4]);
        let own = communicator.split(Some(rank / 3), 0, None).unwrap().unwrap();
        assert_eq!(all_reduce(&own, 4).unwrap(), [6; 4]);
        // Without the rank that speaks for the second host.
        if rank != 3 {
            let rest = communicator.shrink(&[Rank(3)], false, None).unwrap();
            assert_eq!(all_reduce(&rest, 1).unwrap(), [15]);
        }
    });
}

#[test]
fn loaded_schedules_serve_across_hosts() {
    let program = "algorithm mine(ranks N = 4) implements allreduce(chunks 1) {
        for r in 0..N { output@r = sum(q in 0..N: input@q) }
    }";
    let kept = Arc::new(Kept::default());
    let content = Ok(program.as_bytes().to_vec());
    let files = vec![File { name: "mine.msccl".to_owned(), content }];
    let settings = Settings { files, log: kept.clone(), ..Settings::default() };
    world_on(4, &runs(2), &settings, |communicator| {
        assert_eq!(all_reduce(&communicator, 5000).unwrap(), [10; 5000]);
    });
    assert_eq!(kept.count("served by mine.msccl"), 4);
}

#[test]
fn an_abort_on_one_host_ends_calls_on_the_others() {
    let done = Barrier::new(4);
    let outcomes = world_on(4, &runs(2), &Settings::default(), |communicator| {
        let rank = communicator.rank().0;
        assert_eq!(all_reduce(&communicator, 1).unwrap(), [10]);
        let outcome = match rank {
            0 => {
                thread::sleep(Duration::from_millis(200));
                communicator.abort("enough");
                None
            }
            _ => {
                let started = Instant::now();
                Some((all_reduce(&communicator, 100).unwrap_err(), started.elapsed()))
            }
        };
        done.wait();
        outcome
    });
    for (error, took) in outcomes.iter().flatten() {
        assert_eq!(error.kind(), ErrorKind::Remote, "{error}");
        assert!(*took < Duration::from_millis(1700), "{took:?} {error}");
    }
}

#[test]
fn different_arguments_are_reported_on_all_hosts() {
    let settings = Settings { check: true, ..Settings::default() };
    let errors = world_on(5, &runs(2), &settings, |communicator| {
        for _ in 0..20 {
            assert_eq!(all_reduce(&communicator, 10).unwrap(), [15; 10]);
        }
        let count = if communicator.rank() == Rank(3) { 11 } else { 10 };
        let error = all_reduce(&communicator, count).unwrap_err();
        assert_eq!(all_reduce(&communicator, 1).unwrap(), [15]);
        error
    });
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidUsage);
        let text = "allreduce of 10 i32 sum on r0-r2, r4, allreduce of 11 i32 sum on r3";
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_rank_on_another_host_that_never_calls_is_named() {
    let kept = Arc::new(Kept::default());
    let timeout = Some(Duration::from_millis(500));
    let settings = Settings { timeout, log: kept.clone(), ..Settings::default() };
    let done = Barrier::new(4);
    world_on(4, &runs(2), &settings, |communicator| {
        assert_eq!(all_reduce(&communicator, 1).unwrap(), [10]);
        if communicator.rank() != Rank(3) {
            let error = all_reduce(&communicator, 10).unwrap_err().to_string();
            assert!(error.contains("r3"), "{error}");
        }
        done.wait();
    });
    assert_eq!(kept.count("=> r3 holds up "), 1, "{:#?}", kept.0);
    assert_eq!(kept.count("r3: idle after call 1, allreduce of 1 i32 sum"), 1, "{:#?}", kept.0);
}

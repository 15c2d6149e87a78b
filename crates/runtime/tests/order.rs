//! What a required order of additions refuses, and that it does so on all ranks with the reason;
//! and that what is served has the same bits whatever the size of the call.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;

use std::thread;

use msccl_collective::{DataType, Rank};
use msccl_fabric::{Abort, UniqueId};
use msccl_registry::File;
use msccl_runtime::{
    Communicator, Error, ErrorKind, Operation, Overrides, RequiredOrder, Settings,
};

use world::{call, run, sum, world};

const RANKS: u32 = 4;

fn ordered(order: RequiredOrder) -> Settings {
    Settings { overrides: Overrides { order, ..Overrides::default() }, ..Settings::default() }
}

fn file(name: &str, text: &str) -> File {
    File { name: name.to_owned(), content: Ok(text.as_bytes().to_vec()) }
}

/// Why ranks with these settings do not become a communicator, by rank.
fn refusals(settings: [&Settings; RANKS as usize]) -> Vec<Error> {
    let id = UniqueId::create(&settings[0].fabric).unwrap();
    thread::scope(|scope| {
        let start = |(rank, settings): (u32, &Settings)| {
            let mut settings = settings.clone();
            settings.fabric.abort = Abort::new();
            let id = &id;
            scope.spawn(move || {
                let ids = std::slice::from_ref(id);
                Communicator::join(ids, Rank(rank), RANKS, &settings).unwrap_err()
            })
        };
        let threads: Vec<_> = (0..).zip(settings).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[track_caller]
fn check_refusals(settings: [&Settings; RANKS as usize], expected: &[&str]) {
    for error in refusals(settings) {
        assert_eq!(error.kind(), ErrorKind::InvalidUsage);
        let text = error.to_string();
        for part in expected {
            assert!(text.contains(part), "expected `{part}` in: {text}");
        }
    }
}

#[test]
fn a_loaded_ring_is_refused_on_every_rank() {
    let ring = "algorithm my_ring(ranks N = 4) implements allreduce(chunks N) in place {
        for step in 1..N, c in 0..N {
            input@((c + step + 1) % N)[c] += input@((c + step) % N)[c]
        }
        for step in 0..N-1, c in 0..N {
            input@((c + step + 1) % N)[c] = input@((c + step) % N)[c]
        }
    }";
    for order in [RequiredOrder::Flat, RequiredOrder::Tree] {
        let files = vec![file("my_ring.msccl", ring)];
        let settings = Settings { files, ..ordered(order) };
        let expected = format!("the order must be {order}");
        let expected =
            ["my_ring.msccl cannot be used: it adds in", &expected, "or set MSCCL_ORDER=any"];
        check_refusals([&settings; 4], &expected);
    }
}

#[test]
fn ranks_that_differ_in_the_order_are_refused() {
    let (any, flat) = (Settings::default(), ordered(RequiredOrder::Flat));
    let expected = ["order of additions any", "order of additions flat", "on all ranks"];
    check_refusals([&any, &any, &flat, &any], &expected);
    check_refusals([&flat, &flat, &flat, &any], &expected);
    let tree = ordered(RequiredOrder::Tree);
    let expected = ["order of additions tree", "order of additions flat", "on all ranks"];
    check_refusals([&flat, &tree, &tree, &tree], &expected);
}

/// What an all-reduce of that many numbers gives: the bits of all elements.
fn all_reduce(communicator: &Communicator, input: &[f32]) -> Result<Vec<u32>, Error> {
    let mut output = vec![0_f32; input.len()];
    let (send, receive) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
    let operation = Operation::AllReduce(sum());
    run(communicator, &[call(operation, DataType::F32, input.len(), send, receive)])?;
    Ok(output.iter().map(|number| number.to_bits()).collect())
}

/// Numbers of a rank whose sum depends on the order.
fn numbers(rank: Rank, count: usize) -> Vec<f32> {
    let number = |at: usize| ((at * 7919 + rank.index() * 104_729) % 10_007) as f32 / 97.0;
    (0..count).map(number).collect()
}

#[test]
fn an_order_wins_over_the_name_of_an_algorithm() {
    let sums = |overrides: Overrides| {
        let settings = Settings { overrides, ..Settings::default() };
        let all = world(RANKS, &settings, |communicator| {
            all_reduce(&communicator, &numbers(communicator.rank(), 5000)).unwrap()
        });
        assert!(all.iter().all(|of| *of == all[0]));
        all[0].clone()
    };
    let algorithm = || Some("allreduce/ring".to_owned());
    let ordered = Overrides { order: RequiredOrder::Flat, ..Overrides::default() };
    let named = Overrides { algorithm: algorithm(), ..ordered.clone() };
    assert_eq!(sums(named), sums(ordered.clone()));
    // Without the order the ring serves, and has other bits.
    let ring = Overrides { algorithm: algorithm(), ..Overrides::default() };
    assert_ne!(sums(ring), sums(ordered));
}

/// The sum of four numbers in some order.
type Add = fn([f32; 4]) -> f32;

#[test]
fn sums_have_the_bits_of_the_order_for_all_sizes() {
    let orders: [(RequiredOrder, Add); 2] = [
        (RequiredOrder::Flat, |[a, b, c, d]| a + b + c + d),
        (RequiredOrder::Tree, |[a, b, c, d]| (a + b) + (c + d)),
    ];
    for (order, add) in orders {
        let inputs = [0, 1, 2, 3].map(|rank| numbers(Rank(rank), 70_000));
        let expected: Vec<u32> = (0..70_000)
            .map(|at| add([0, 1, 2, 3].map(|rank: usize| inputs[rank][at])).to_bits())
            .collect();
        world(RANKS, &ordered(order), |communicator| {
            let input = &inputs[communicator.rank().index()];
            for (start, count) in [(0, 1), (3, 257), (1, 9_001), (77, 69_000), (0, 70_000)] {
                let found = all_reduce(&communicator, &input[start..start + count]).unwrap();
                assert!(found == expected[start..start + count], "{order}: {count} from {start}");
            }
        });
    }
}

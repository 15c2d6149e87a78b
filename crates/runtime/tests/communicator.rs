//! Communicators on one host.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{DataType, Protocol, Rank, Reduction};
use msccl_fabric::UniqueId;
use msccl_registry::File;
use msccl_runtime::{
    Allowed, Batch, Combine, Communicator, Error, ErrorKind, EventLog, Family, Links, Operation,
    Overrides, Scalar, Settings, Tuning, submit,
};

use world::{all_reduce, call, check_on, run, sum, world};

/// Every collective with `count` elements a block gives what it promises.
fn check(ranks: u32, data_type: DataType, reduction: Reduction, count: usize) {
    check_on(ranks, &|_| None, data_type, reduction, count);
}

#[test]
fn collectives_keep_their_promises() {
    for ranks in [1, 2, 3, 5, 8] {
        for count in [0, 1, 13, 1000] {
            check(ranks, DataType::F32, Reduction::Sum, count);
        }
    }
    check(4, DataType::F16, Reduction::Avg, 33);
    check(3, DataType::I8, Reduction::Max, 70_001);
    check(16, DataType::U64, Reduction::Min, 5);
}

#[test]
fn scaled_sums_are_scaled() {
    let outputs = world(3, &Settings::default(), |communicator| {
        let input = [1.5_f32; 5];
        let mut output = [0_f32; 5];
        let scalar = Scalar::Immediate(u64::from((communicator.rank().0 as f32).to_bits()));
        let (send, receive) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
        let operation = Operation::AllReduce(Combine::Scaled(scalar));
        run(&communicator, &[call(operation, DataType::F32, 5, send, receive)]).unwrap();
        let mut in_place = input;
        let buffer = in_place.as_mut_ptr().cast();
        run(&communicator, &[call(operation, DataType::F32, 5, buffer, buffer)]).unwrap();
        [output, in_place]
    });
    assert_eq!(outputs, vec![[[4.5; 5]; 2]; 3]);
}

#[test]
fn point_to_point_calls_of_a_group_meet() {
    let ranks = 4;
    let found = world(ranks, &Settings::default(), |communicator| {
        let me = communicator.rank().0;
        let sent: Vec<Vec<i64>> =
            (0..ranks).map(|to| vec![i64::from(me * 10 + to); 3000]).collect();
        let mut received = vec![vec![-1_i64; 3000]; ranks as usize];
        let mut calls = Vec::new();
        for peer in 0..ranks {
            // Some messages are empty, and each rank sends to itself.
            let count = if (peer + me) % 3 == 1 { 0 } else { 3000 };
            let send = sent[peer as usize].as_ptr().cast();
            let receive = received[peer as usize].as_mut_ptr().cast();
            let make = |operation| call(operation, DataType::I64, count, send, receive);
            calls.push(make(Operation::Send(Rank(peer))));
            calls.push(make(Operation::Receive(Rank(peer))));
        }
        run(&communicator, &calls).unwrap();
        received.iter().map(|of| of[2999]).collect::<Vec<_>>()
    });
    for (me, found) in (0..).zip(found) {
        for (peer, found) in (0..).zip(found) {
            let expected = if (peer + me) % 3 == 1 { -1 } else { peer * 10 + me };
            assert_eq!(found, expected, "r{me} from r{peer}");
        }
    }
}

#[test]
fn groups_span_communicators() {
    let settings = Settings::default();
    let communicators = world(3, &settings, |communicator| communicator);
    let inputs = [1_i32, 2, 4];
    let mut outputs = [0_i32; 3];
    let batches: Vec<_> = communicators
        .iter()
        .zip(&inputs)
        .zip(&mut outputs)
        .map(|((communicator, input), output)| {
            let (send, receive) =
                (std::ptr::from_ref(input).cast(), std::ptr::from_mut(output).cast());
            let operation = Operation::AllReduce(sum());
            let calls = vec![call(operation, DataType::I32, 1, send, receive)];
            Batch::new(communicator.clone(), &calls).unwrap()
        })
        .collect();
    submit(&batches).unwrap();
    assert_eq!(outputs, [7; 3]);
}

#[test]
fn communicators_split_and_shrink() {
    world(6, &Settings::default(), |communicator| {
        let rank = communicator.rank().0;
        let color = (rank != 5).then_some(rank % 2);
        let part = communicator.split(color, -(rank as i32), None).unwrap();
        assert_eq!(part.is_some(), rank != 5);
        if let Some(part) = part {
            let members = if rank % 2 == 0 { 3 } else { 2 };
            assert_eq!(part.ranks(), members);
            // The highest rank of the color comes first.
            assert_eq!(part.rank().0, (4 + rank % 2 - rank) / 2 - u32::from(rank % 2 == 1));
            let sum = members * (members + 1) / 2;
            assert_eq!(all_reduce(&part, 4).unwrap(), vec![sum as i32; 4]);
        }
        if rank != 2 {
            let rest = communicator.shrink(&[Rank(2)], false, None).unwrap();
            assert_eq!(all_reduce(&rest, 1).unwrap(), [15]);
        }
    });
}

#[test]
fn an_abort_ends_calls_under_way() {
    let outcomes = world(2, &Settings::default(), |communicator| {
        if communicator.rank() == Rank(1) {
            thread::sleep(Duration::from_millis(300));
            return None;
        }
        let aborter = communicator.clone();
        let started = Instant::now();
        let outcome = thread::scope(|scope| {
            let waiting = scope.spawn(|| all_reduce(&communicator, 100).unwrap_err());
            thread::sleep(Duration::from_millis(50));
            aborter.abort("enough");
            waiting.join().unwrap()
        });
        assert!(started.elapsed() < Duration::from_secs(1));
        assert!(all_reduce(&aborter, 1).is_err());
        Some(outcome)
    });
    let error = outcomes[0].as_ref().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Aborted), "{error:?}");
}

#[test]
fn a_rank_that_never_calls_is_named() {
    let settings = Settings { timeout: Some(Duration::from_millis(400)), ..Settings::default() };
    let outcomes = world(3, &settings, |communicator| match communicator.rank() {
        Rank(2) => {
            thread::sleep(Duration::from_millis(1500));
            None
        }
        _ => Some(all_reduce(&communicator, 10).unwrap_err()),
    });
    let errors: Vec<_> = outcomes.into_iter().flatten().map(|error| error.to_string()).collect();
    assert_eq!(errors.len(), 2);
    assert!(errors.iter().any(|error| error.contains("r2")), "{errors:?}");
}

#[test]
fn different_arguments_are_reported_on_every_rank() {
    let settings = Settings { check: true, ..Settings::default() };
    let errors = world(3, &settings, |communicator| {
        assert_eq!(all_reduce(&communicator, 10).unwrap(), [6; 10]);
        let count = if communicator.rank() == Rank(1) { 11 } else { 10 };
        all_reduce(&communicator, count).unwrap_err()
    });
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidUsage);
        let text = error.to_string();
        assert!(text.contains("11") && text.contains("r1"), "{text}");
    }
}

/// Why two ranks of which the second has `settings` do not become a communicator.
fn disagreement(settings: &Settings) -> Vec<Error> {
    let usual = Settings::default();
    let id = UniqueId::create(&usual.fabric).unwrap();
    thread::scope(|scope| {
        let start = |rank: u32| {
            let (id, usual) = (&id, &usual);
            scope.spawn(move || {
                let settings = if rank == 1 { settings } else { usual };
                Communicator::join(std::slice::from_ref(id), Rank(rank), 2, settings).unwrap_err()
            })
        };
        let threads: Vec<_> = (0..2).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn only<T: PartialEq>(this: T) -> Allowed<T> {
    let mut allowed = Allowed::default();
    allowed.only(None, vec![this]);
    allowed
}

#[test]
fn ranks_with_different_settings_do_not_start() {
    let any = Overrides::default;
    let forced = [
        (Overrides { algorithm: Some("ring".to_owned()), ..any() }, "algorithm ring"),
        (Overrides { protocol: Some(Protocol::Ll), ..any() }, "protocol LL"),
        (Overrides { links: Some(Links::Direct), ..any() }, "links direct"),
        (Overrides { instances: Some(2), ..any() }, "instances 2"),
        (Overrides { threads: Some(64), ..any() }, "threads 64"),
        (Overrides { threads_max: Some(96), ..any() }, "threads at most 96"),
        (Overrides { blocks_max: Some(3), ..any() }, "thread blocks 3"),
        (Overrides { families: only(Family::Tree), ..any() }, "families tree"),
        (Overrides { protocols: only(Protocol::Ll), ..any() }, "protocols LL"),
    ];
    let forced =
        forced.map(|(overrides, said)| (Settings { overrides, ..Settings::default() }, said));
    let content = b"algorithm mine(ranks N = 2) implements allreduce(chunks 1) {
        for r in 0..N { output@r = sum(q in 0..N: input@q) }
    }";
    let file = File { name: "mine.msccl".to_owned(), content: Ok(content.to_vec()) };
    let loaded = Settings { files: vec![file], ..Settings::default() };
    for (settings, said) in forced.into_iter().chain([(loaded, "loaded algorithms")]) {
        for error in disagreement(&settings) {
            assert_eq!(error.kind(), ErrorKind::InvalidUsage);
            assert!(error.to_string().contains(said), "{said}: {error}");
        }
    }
}

/// A table for host threads.
fn tuning(rows: &str) -> Option<Tuning> {
    let text = format!("msccl-tuning 1\nmachine host threads\n{rows}\n");
    Some(Tuning::parse("site.tuning", text.as_bytes()).unwrap())
}

#[test]
fn ranks_with_different_tables_do_not_start() {
    let tuning = tuning("allreduce any any any Simple 2 64 allreduce/two_shot");
    for error in disagreement(&Settings { tuning, ..Settings::default() }) {
        assert_eq!(error.kind(), ErrorKind::InvalidUsage);
        let text = error.to_string();
        assert!(text.contains("r0: ") && text.contains("tuning table shipped"), "{text}");
        assert!(text.contains("the same tuning table"), "{text}");
    }
}

#[test]
fn a_table_decides_what_serves() {
    let kept = Arc::new(EventLog::default());
    let tuning = tuning("allreduce any 3 ..64 Simple 2 64 allreduce/two_shot");
    let settings = Settings { tuning, log: kept.clone(), ..Settings::default() };
    world(3, &settings, |communicator| {
        assert_eq!(all_reduce(&communicator, 16).unwrap(), [6; 16]);
        assert_eq!(all_reduce(&communicator, 17).unwrap(), [6; 17]);
    });
    let events: Vec<_> = kept.collect(|event| Some(event.to_string()));
    let said = |call: &str, by: &str| {
        events.iter().filter(|event| event.contains(call) && event.contains(by)).count()
    };
    assert_eq!(said("allreduce of 16", "served by allreduce/two_shot"), 3, "{events:#?}");
    assert_eq!(said("allreduce of 17", "served by allreduce/ring"), 3, "{events:#?}");
}

#[test]
fn loaded_algorithms_come_first_where_they_serve() {
    let text = "algorithm mine(ranks N = 3) implements allreduce(chunks 1) bytes 0..65 {
        for r in 0..N { output@r = sum(q in 0..N: input@q) }
    }";
    let file = |name: &str, text: &str| File {
        name: name.to_owned(),
        content: Ok(text.as_bytes().to_vec()),
    };
    let kept = Arc::new(EventLog::default());
    let settings = Settings {
        files: vec![file("broken.msccl", "algorithm"), file("mine.msccl", text)],
        log: kept.clone(),
        ..Settings::default()
    };
    world(3, &settings, |communicator| {
        assert_eq!(all_reduce(&communicator, 16).unwrap(), [6; 16]);
        assert_eq!(all_reduce(&communicator, 17).unwrap(), [6; 17]);
    });
    let events: Vec<_> = kept.collect(|event| Some(event.to_string()));
    let said = |what: &[&str]| {
        events.iter().filter(|event| what.iter().all(|word| event.contains(word))).count()
    };
    assert_eq!(said(&["broken.msccl is not used"]), 1, "{events:#?}");
    let serves =
        "mine.msccl: allreduce, out of place, and in place after a copy of the input, 0..=64 bytes";
    assert_eq!(said(&["verified and loaded: ", serves]), 1, "{events:#?}");
    assert_eq!(said(&["allreduce of 16", "served by mine.msccl"]), 3, "{events:#?}");
    assert_eq!(said(&["allreduce of 17", "served by allreduce/"]), 3, "{events:#?}");
    assert_eq!(said(&["mine.msccl does not serve"]), 3, "{events:#?}");
}

#[test]
fn wrong_arguments_change_nothing() {
    world(2, &Settings::default(), |communicator| {
        let (null, some) = (std::ptr::null_mut(), [0_u8; 4].as_mut_ptr());
        let wrong = [
            call(Operation::AllReduce(sum()), DataType::F32, 1, null, some),
            call(Operation::Broadcast(Rank(2)), DataType::F32, 1, some, some),
            call(Operation::AllGather, DataType::F64, usize::MAX, some, some),
        ];
        for call in wrong {
            let error = run(&communicator, &[call]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        let lonely = call(Operation::Send(communicator.rank()), DataType::I8, 1, some, some);
        assert_eq!(run(&communicator, &[lonely]).unwrap_err().kind(), ErrorKind::InvalidUsage);
        assert_eq!(all_reduce(&communicator, 1).unwrap(), [3]);
    });
}

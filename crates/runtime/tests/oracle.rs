//! The host executor against the reference: every kind of collective, type, reduction and count.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

mod algorithms;

use std::time::{Duration, Instant};

use algorithms::ring;
use msccl_collective::{DataType, Placement, Reduction, SizeRange};
use msccl_ir::{Algorithm, LinkShape, Packing, Target};
use msccl_runtime::oracle::{
    self, CheckedCall, Executor, Fault, OracleCall, OracleFailure, Workers,
};
use msccl_verify::verify;

const COUNTS: [usize; 6] = [0, 1, 7, 8, 9, 1000];

fn executor(algorithm: Algorithm, target: &Target) -> Executor {
    let name = algorithm.collective.to_string();
    let verified = verify(algorithm, target).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    Executor::new(&verified).unwrap()
}

/// A target whose links hold `depth` messages of `message_bytes` bytes.
fn narrow(depth: u32, message_bytes: u64, packing: Packing) -> Target {
    Target { simple: LinkShape { depth, message_bytes, packing }, ..Target::native() }
}

fn checked_call(
    data_type: DataType,
    reduction: Reduction,
    count: usize,
    in_place: bool,
) -> CheckedCall {
    let (workers, timeout) = (Workers::Exactly(2), Some(Duration::from_secs(60)));
    CheckedCall { data_type, reduction, count, in_place, seed: count as u64, workers, timeout }
}

fn check(executor: &Executor, call: CheckedCall) {
    let name = executor.collective();
    match oracle::check(executor, &call) {
        Ok(checked) if call.count > 0 => assert!(checked.compared > 0, "{name}: {call:?}"),
        Ok(checked) => assert_eq!(checked.report.messages, 0, "{name}: {call:?}"),
        Err(fault) => panic!("{name}: {call:?}: {fault}"),
    }
}

#[test]
fn every_type_reduction_and_count() {
    for algorithm in algorithms::all() {
        let executor = executor(algorithm, &Target::native());
        for data_type in DataType::ALL {
            for reduction in Reduction::ALL {
                for count in COUNTS {
                    check(&executor, checked_call(data_type, reduction, count, false));
                    check(&executor, checked_call(data_type, reduction, count, true));
                }
            }
        }
    }
}

#[test]
fn small_messages_mean_rounds_and_split_steps() {
    // Where steps are one message, the least message holds four slices of 16 bytes.
    let fitting = [(8, 16), (8, 24), (8, 100), (16, 64)];
    let whole = [(8, 64), (8, 72), (8, 100), (16, 128)];
    for (packing, links) in [(Packing::Fitting, fitting), (Packing::Whole, whole)] {
        for (depth, message_bytes) in links {
            for algorithm in algorithms::all() {
                let executor = executor(algorithm, &narrow(depth, message_bytes, packing));
                for data_type in [DataType::I8, DataType::F16, DataType::U64] {
                    for count in COUNTS {
                        check(&executor, checked_call(data_type, Reduction::Sum, count, false));
                        check(&executor, checked_call(data_type, Reduction::Avg, count, true));
                    }
                }
            }
        }
    }
}

#[test]
fn thread_counts_do_not_matter() {
    for algorithm in algorithms::all() {
        let executor = executor(algorithm, &narrow(8, 64, Packing::Whole));
        for workers in [Workers::Available, Workers::Exactly(1), Workers::OnePerBlock] {
            let call = checked_call(DataType::Bf16, Reduction::Sum, 1000, true);
            check(&executor, CheckedCall { workers, ..call });
        }
    }
}

#[test]
fn a_ring_sends_what_its_steps_say() {
    let executor = executor(ring(4, 2), &narrow(4, 64, Packing::Whole));
    let checked = oracle::check(&executor, &checked_call(DataType::F32, Reduction::Sum, 256, true));
    let report = checked.unwrap().report;
    // Chunks of 32 elements, 128 bytes, in slices of 32 bytes: two chunks share a message of 64.
    assert_eq!(report.rounds, 4);
    assert_eq!(report.messages, 4 * 4 * 6);
    assert_eq!(report.message_bytes, 4 * 4 * 6 * 64);
}

#[test]
fn calls_that_are_not_served_are_refused() {
    let mut algorithm = ring(4, 1);
    algorithm.placement = Placement::InPlace;
    algorithm.sizes = SizeRange { min_bytes: 0, max_bytes: Some(64) };
    let executor = executor(algorithm, &Target::native());
    let refusal = |call: CheckedCall| match oracle::check(&executor, &call) {
        Err(Fault::Failed(OracleFailure::Refused(reason))) => reason,
        other => panic!("{other:?}"),
    };
    let small = checked_call(DataType::F32, Reduction::Sum, 16, true);
    check(&executor, small);
    assert!(refusal(CheckedCall { in_place: false, ..small }).contains("in place"));
    assert!(refusal(CheckedCall { count: 17, ..small }).contains("68 bytes"));
    assert!(refusal(CheckedCall { count: usize::MAX / 4, ..small }).contains("exceed the memory"));
    let CheckedCall { data_type, reduction, count, in_place, seed: _, workers, timeout } = small;
    let inputs = vec![vec![0; 64], vec![0; 64], vec![0; 60], vec![0; 64]];
    let call = OracleCall { data_type, reduction, count, in_place, inputs, workers, timeout };
    let refused = executor.run(&call).unwrap_err().to_string();
    assert_eq!(refused, "input of r2: expected 64 bytes, found 60");
}

#[test]
fn a_mebibyte_over_eight_ranks_is_quick() {
    let executor = executor(ring(8, 1), &Target::native());
    let call = checked_call(DataType::F32, Reduction::Sum, 1 << 18, true);
    let start = Instant::now();
    check(&executor, call);
    // A generous bound: the point is that no thread sleeps or spins its time away.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

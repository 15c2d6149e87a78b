//! Averages, against those of the host.

use msccl_collective::{DataType, Placement, Protocol, Reduction};
use msccl_plan::Plan;
use msccl_testkit::Numbers;

use crate::cases::{SEQUENCE, cases, named};
use crate::emulator::{Elements, Kernels, compile_for, emulator, type_name};
use crate::scenario::{LARGE_SLOT_BYTES, Offers, SIMPLE, SLOT_BYTES, Scenario};

const FLOATS: [DataType; 6] = [
    DataType::F16,
    DataType::Bf16,
    DataType::F32,
    DataType::F64,
    DataType::F8E4M3,
    DataType::F8E5M2,
];

/// Averages under `protocol`: of every example, of every type of floats, in turn; and of what lies
/// anywhere.
fn check_averages(protocol: Protocol, kernels: &Kernels) {
    let name = format!("averages {}", type_name(protocol));
    let Some(emulator) = compile_for(&name, kernels, Elements::Floats) else { return };
    let numbers = &mut Numbers(9);
    let (mut runs, mut raw) = (0, 0);
    for (at, case) in cases(protocol).enumerate() {
        let algorithms = std::slice::from_ref(&case.verified);
        let plans = Plan::all(&case.verified).unwrap();
        let averages = plans.iter().all(|plan| plan.program().average.is_some());
        if !averages || !case.verified.algorithm().collective.reduces() {
            continue;
        }
        // A line of LL128 holds less than half of the chunks of some.
        let few = if protocol == Protocol::Ll128 { LARGE_SLOT_BYTES } else { SLOT_BYTES };
        // Large calls take several rounds, and crews.
        let count = [case.count(61, 48), case.count(1205, 1200)][at / 6 % 2];
        let scenario = Scenario {
            algorithms,
            protocol,
            data_type: FLOATS[at % FLOATS.len()],
            reduction: Reduction::Avg,
            slot_bytes: if at % 2 == 0 { few } else { LARGE_SLOT_BYTES },
            count,
            instances: 1 + numbers.below(2) as u32,
            in_place: case.in_place,
            offset: [None, Some(0)][at % 5 % 2],
            offers: if protocol == SIMPLE { &SEQUENCE } else { &[Offers::Off; 3] },
            failure: 0,
        };
        let used = scenario.check(&emulator, numbers);
        assert!(used.is_ok(), "{} of {}: {used:?}", case.what, scenario.data_type);
        runs += 1;
        raw += usize::from(plans.iter().all(|plan| plan.program().averages(DataType::F32)));
    }
    assert!(runs > 20 && raw == runs, "{raw} of {runs} know where contributions are raw");
}

#[test]
fn averages_of_floats_are_those_of_the_host() {
    check_averages(Protocol::Simple, &Kernels::Plain);
}

#[test]
fn averages_of_floats_are_those_of_the_host_in_small_packets() {
    check_averages(Protocol::Ll, &Kernels::Packets(Protocol::Ll));
}

#[test]
fn averages_of_floats_are_those_of_the_host_in_large_packets() {
    check_averages(Protocol::Ll128, &Kernels::Packets(Protocol::Ll128));
}

#[test]
fn averages_of_integers_are_those_of_the_host() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(10);
    for ranks in [2, 3, 4] {
        for data_type in [DataType::I8, DataType::U8, DataType::I32, DataType::U64] {
            let algorithms = ["allreduce/ring", "reducescatter/direct", "allreduce/one_step"]
                .map(|name| named(name, ranks, Placement::OutOfPlace));
            let (algorithms, reduction) = (&algorithms, Reduction::Avg);
            let usual = Scenario { algorithms, reduction, data_type, ..Scenario::USUAL };
            let scenario = Scenario { offers: &[Offers::Off; 3], ..usual };
            let used = scenario.check(emulator, numbers);
            assert!(used.is_ok(), "{data_type} on {ranks} ranks: {used:?}");
        }
    }
}

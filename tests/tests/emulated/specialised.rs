//! Specialised kernels, against interpreters in the same memory.

use msccl_collective::{DataType, Placement, Protocol, Reduction};
use msccl_kernels::specialised::{self, Known};
use msccl_plan::Plan;
use msccl_testkit::Numbers;

use crate::cases::named;
use crate::emulator::{Kernels, compile};
use crate::scenario::{Offers, Scenario, THREADS};

/// Specialised kernels and interpreters take turns, on every rank at different times.
fn check_specialised(
    (name, placement): (&str, Placement),
    protocol: Protocol,
    (data_type, reduction): (DataType, Reduction),
    known: Known,
    (ranks, count, instances, offset): (u32, usize, u32, Option<usize>),
) {
    let verified = named(name, ranks, placement);
    let algorithms = std::slice::from_ref(&verified);
    let (in_place, offers) = (placement == Placement::InPlace, &[Offers::Off; 5]);
    let usual = Scenario::USUAL;
    let scenario = Scenario {
        algorithms,
        protocol,
        data_type,
        reduction,
        count,
        instances,
        in_place,
        offset,
        offers,
        ..usual
    };
    let plans = Plan::all(&verified).unwrap();
    let of_ranks: Vec<_> =
        plans.iter().map(|plan| (plan, scenario.launched(plan, ranks))).collect();
    let mut text = specialised::source(protocol, data_type, known, &of_ranks);
    let kernels: Vec<_> = (0..plans.len()).map(specialised::kernel).collect();
    text += &format!("void (*const SPECIAL[])(msccl_launch) = {{{}}};\n", kernels.join(", "));
    let call = format!("{reduction} of {count} {data_type}");
    let what = format!("{name} {placement:?} {protocol}, {ranks} ranks, {call}");
    let folder = format!("{name} {protocol} {ranks} {call}").replace(['/', ' '], "_");
    let kernels = Kernels::Special { protocol, data_type, text };
    let Some(emulator) = compile(&folder, &kernels) else { return };
    for seed in 0..5 {
        let used = scenario.check(&emulator, &mut Numbers(seed));
        assert!(used.as_ref().is_ok_and(|used| *used > 0), "{what}: {used:?}");
    }
}

#[test]
fn specialised_kernels_do_what_interpreters_do() {
    use Placement::{InPlace, OutOfPlace};
    use Protocol::{Ll, Ll128, Simple};
    const SUM: (DataType, Reduction) = (DataType::I32, Reduction::Sum);
    let call = Known::Call { threads: THREADS as u32 };
    check_specialised(("allreduce/one_step", InPlace), Ll, SUM, call, (3, 205, 2, None));
    check_specialised(("allreduce/one_block", InPlace), Ll, SUM, Known::Plan, (2, 300, 1, None));
    check_specialised(("allreduce/two_shot", InPlace), Simple, SUM, call, (3, 1003, 2, None));
    // Their steps run as one.
    check_specialised(
        ("allreduce/two_shot_block", InPlace),
        Ll,
        SUM,
        Known::Plan,
        (4, 611, 2, None),
    );
    check_specialised(
        ("allreduce/two_shot_block", InPlace),
        Simple,
        SUM,
        call,
        (4, 1204, 2, Some(4)),
    );
    check_specialised(("alltoall/bruck", OutOfPlace), Ll, SUM, Known::Plan, (4, 96, 2, None));
    check_specialised(("allgather/bruck", OutOfPlace), Simple, SUM, Known::Plan, (3, 33, 1, None));
    check_specialised(("allreduce/two_shot", InPlace), Ll128, SUM, call, (2, 401, 1, None));
    // Aligned, with ends that are not.
    check_specialised(
        ("allreduce/one_shot", OutOfPlace),
        Ll,
        SUM,
        Known::Plan,
        (2, 403, 3, Some(0)),
    );
    check_specialised(
        ("allgather/bruck", OutOfPlace),
        Simple,
        SUM,
        Known::Plan,
        (3, 1003, 1, Some(0)),
    );
}

#[test]
fn specialised_kernels_average_as_interpreters_do() {
    use Placement::{InPlace, OutOfPlace};
    use Protocol::{Ll, Ll128, Simple};
    let call = Known::Call { threads: THREADS as u32 };
    let mean = |data_type| (data_type, Reduction::Avg);
    let (f16, f32) = (mean(DataType::F16), mean(DataType::F32));
    check_specialised(("allreduce/one_step", InPlace), Ll, f16, call, (3, 205, 2, None));
    check_specialised(("allreduce/two_shot", InPlace), Simple, f32, call, (3, 1003, 2, None));
    check_specialised(("allreduce/ring", OutOfPlace), Simple, f16, Known::Plan, (3, 999, 1, None));
    check_specialised(("allreduce/two_shot", InPlace), Ll128, f32, Known::Plan, (2, 401, 1, None));
    let integers = mean(DataType::I32);
    check_specialised(("allreduce/ring", OutOfPlace), Ll, integers, Known::Plan, (3, 333, 1, None));
}

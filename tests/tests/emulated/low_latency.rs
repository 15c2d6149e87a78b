//! Low-latency kernels, which find all operands at once.

use msccl_collective::{Placement, Protocol};
use msccl_plan::Plan;
use msccl_plan::cut::Cut;
use msccl_plan::launch;
use msccl_plan::layout::{header, tb};
use msccl_testkit::Numbers;

use crate::cases::{cases, named};
use crate::emulator::{Kernels, compile, type_name};
use crate::scenario::{LARGE_SLOT_BYTES, Offers, Scenario, small};

/// Whether every thread block of `plan` finds all of its operands at once when a call is cut so.
fn finds_at_once(plan: &Plan, cut: &Cut, depth: u32) -> bool {
    let launch = launch::Launch::default().with_plan(plan).with_cut(cut);
    let word = |at: usize| plan.words()[at];
    let entries = (0..launch.tb_count as usize).map(|tb| header::LENGTH + tb * tb::LENGTH);
    let mut blocks =
        entries.map(|at| (word(at + tb::OPERANDS as usize), word(at + tb::STEPS as usize)));
    launch.rounds == 1
        && launch.chunks_per_message >= launch.longest_step
        && depth >= launch.most_messages
        && blocks.all(|(operands, steps)| operands > 0 || steps == 0)
}

/// Under `protocol`: small calls of every example, launch after launch.
fn check_low_latency(protocol: Protocol) {
    let Some(emulator) =
        compile(&format!("small {}", type_name(protocol)), &Kernels::Packets(protocol))
    else {
        return;
    };
    let numbers = &mut Numbers(6);
    let (mut runs, mut at_once, mut own, mut counted, mut waiting) = (0, 0, 0, 0, 0);
    for case in cases(protocol) {
        let verified = &case.verified;
        let scenario = Scenario {
            algorithms: std::slice::from_ref(verified),
            protocol,
            slot_bytes: LARGE_SLOT_BYTES,
            count: case.count(61, 48),
            instances: 1 + numbers.below(2) as u32,
            in_place: case.in_place,
            offers: &[Offers::Off; 3],
            ..Scenario::USUAL
        };
        let used = scenario.check(&emulator, numbers);
        assert!(used.is_ok(), "{}: {used:?}", case.what);
        let depth = verified.target().link(protocol).depth;
        let plans = Plan::all(verified).unwrap();
        let finds = |plan: &Plan| finds_at_once(plan, &scenario.cut(plan).unwrap(), depth);
        let steps = || {
            let programs = plans.iter().filter(|plan| finds(plan)).map(Plan::program);
            programs.flat_map(|it| &it.thread_blocks).flat_map(|block| &block.steps)
        };
        runs += 1;
        at_once += usize::from(plans.iter().all(finds));
        let is_small = |plan: &Plan| {
            small((plan, &scenario.cut(plan).unwrap()), (protocol, depth), (0, 0)).is_some()
        };
        own += usize::from(plans.iter().all(is_small));
        counted += usize::from(steps().any(|step| step.count > 1));
        waiting += usize::from(steps().any(|step| !step.waits.is_empty()));
    }
    let what = format!(
        "{at_once} of {runs} at once, {own} of them small, {counted} with counts, {waiting} with waits"
    );
    assert!(at_once > 150 && own > 80 && counted > 40 && waiting > 60, "{what}");
}

#[test]
fn low_latency_calls_find_all_operands_at_once_in_small_packets() {
    check_low_latency(Protocol::Ll);
}

#[test]
fn low_latency_calls_find_all_operands_at_once_in_large_packets() {
    check_low_latency(Protocol::Ll128);
}

/// One call finds all operands at once, the next does not; over the same wires.
#[test]
fn calls_that_find_at_once_and_others_take_turns() {
    let protocol = Protocol::Ll;
    let Some(emulator) = compile("turns", &Kernels::Packets(protocol)) else { return };
    for ranks in [2, 3, 4] {
        let names =
            ["allreduce/two_shot", "allreduce/one_block", "alltoall/allpairs", "allreduce/ring"];
        let algorithms = names.map(|name| named(name, ranks, Placement::OutOfPlace));
        let offers = &[Offers::Off; 23];
        // A slot holds 1024 elements of a chunk: a quarter of the call, but not the whole of it.
        let usual = Scenario { protocol, slot_bytes: LARGE_SLOT_BYTES, offers, ..Scenario::USUAL };
        let scenario = Scenario { algorithms: &algorithms, count: 1003, ..usual };
        let found = algorithms.each_ref().map(|verified| {
            let depth = verified.target().link(protocol).depth;
            let plans = Plan::all(verified).unwrap();
            plans.iter().all(|plan| finds_at_once(plan, &scenario.cut(plan).unwrap(), depth))
        });
        assert!(found.contains(&true) && found.contains(&false), "{ranks} ranks: {found:?}");
        let used = scenario.check(&emulator, &mut Numbers(7));
        assert!(used.as_ref().is_ok_and(|used| *used > 0), "{ranks} ranks: {used:?}");
    }
}

#[test]
fn with_more_messages_than_slots_operands_are_found_step_by_step() {
    let protocol = Protocol::Ll;
    let Some(emulator) = compile("many", &Kernels::Packets(protocol)) else { return };
    let verified = named("allreduce/ring", 6, Placement::InPlace);
    let (algorithms, offers) = (std::slice::from_ref(&verified), &[Offers::Off; 2]);
    let usual = Scenario { protocol, slot_bytes: LARGE_SLOT_BYTES, offers, ..Scenario::USUAL };
    let scenario = Scenario { algorithms, count: 60, in_place: true, ..usual };
    let (plans, depth) = (Plan::all(&verified).unwrap(), verified.target().link(protocol).depth);
    let found = |plan: &Plan| finds_at_once(plan, &scenario.cut(plan).unwrap(), depth);
    assert!(!plans.iter().any(found));
    assert!(plans.iter().all(|plan| finds_at_once(plan, &scenario.cut(plan).unwrap(), 10)));
    let used = scenario.check(&emulator, &mut Numbers(8));
    assert!(used.as_ref().is_ok_and(|used| *used > 0), "{used:?}");
}

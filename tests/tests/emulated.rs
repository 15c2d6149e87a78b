//! The kernels' own interpreter, compiled for the host: links that deliver directly and links that go
//! through slots give the same, whatever ranks offer, launch after launch in the same memory.

#[path = "emulated/emulator.rs"]
mod emulator;
#[path = "emulated/scenario.rs"]
mod scenario;

use msccl_collective::{DataType, Placement, Protocol};
use msccl_compiler::evaluate::Launch;
use msccl_ir::Target;
use msccl_kernels::special::{self, Known};
use msccl_plan::{Delivery, Plan, launch};
use msccl_tests::example::{Example, examples};
use msccl_verify::{Verified, verify};

use emulator::{Kernels, compile, emulator, packing_emulator};
use scenario::{Numbers, Offers, Scenario, THREADS};

const SIMPLE: Protocol = Protocol::Simple;

fn proved(example: &Example, launch: &Launch, placement: Placement) -> Option<Verified> {
    let launch = Launch { placement: Some(placement), ..launch.clone() };
    let compiled = example.compile(&launch, &Target::native()).ok()?;
    verify(compiled.schedule.algorithm, &Target::native()).ok()
}

/// The example of that name for `ranks` ranks.
fn named(name: &str, ranks: u32, placement: Placement) -> Verified {
    let examples = examples();
    let example = examples.iter().find(|example| example.name == name).unwrap();
    let launch = Launch { ranks: Some(ranks), ..Launch::default() };
    proved(example, &launch, placement).unwrap()
}

fn deliveries(verified: &Verified) -> Vec<Delivery> {
    let plans = Plan::all(verified).unwrap();
    let blocks = plans.iter().flat_map(|plan| &plan.program().thread_blocks);
    blocks.flat_map(|block| block.deliveries.clone()).collect()
}

const SEQUENCE: [Offers; 6] =
    [Offers::All, Offers::None, Offers::Off, Offers::Some, Offers::All, Offers::Some];

#[test]
fn what_users_pass_never_goes_through_slots() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(1);
    for (name, placement) in [
        ("allreduce/two_shot", Placement::InPlace),
        ("allreduce/two_shot", Placement::OutOfPlace),
        ("allgather/allpairs", Placement::InPlace),
        ("allgather/allpairs", Placement::OutOfPlace),
        ("alltoall/allpairs", Placement::OutOfPlace),
        ("reducescatter/direct", Placement::OutOfPlace),
        ("broadcast/direct", Placement::OutOfPlace),
    ] {
        for ranks in [2, 3, 4] {
            let verified = named(name, ranks, placement);
            let all = deliveries(&verified);
            assert!(all.iter().all(|it| *it != Delivery::Staged), "{name} {placement:?}: {all:?}");
            let in_place = placement == Placement::InPlace;
            for (count, instances) in [(1, 1), (13, 2), (256, 1), (1003, 3)] {
                let offers = &[Offers::All; 4];
                let algorithms = std::slice::from_ref(&verified);
                let protocol = SIMPLE;
                let scenario =
                    Scenario { algorithms, protocol, count, instances, in_place, offers };
                let used = scenario.check(emulator, numbers);
                assert_eq!(used, Ok(0), "{name} {placement:?}, {ranks} ranks, {count} elements");
                let scenario = Scenario { offers: &SEQUENCE, ..scenario };
                let used = scenario.check(emulator, numbers);
                assert!(used.is_ok_and(|used| used > 0), "{name}, {ranks} ranks, {count} elements");
            }
        }
    }
}

#[test]
fn algorithms_that_push_and_that_pull_take_turns_on_the_same_wires() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(3);
    for ranks in [2, 3, 4] {
        let names = [
            "reducescatter/direct",
            "alltoall/allpairs",
            "allreduce/two_shot",
            "broadcast/chain",
            "allreduce/ring",
        ];
        let algorithms = names.map(|name| named(name, ranks, Placement::OutOfPlace));
        let kinds: Vec<_> = algorithms.iter().flat_map(deliveries).collect();
        let all = [Delivery::Push, Delivery::Pull { receipt: true }, Delivery::Staged];
        // Between two ranks nothing must be staged.
        for kind in &all[..if ranks == 2 { 2 } else { 3 }] {
            assert!(kinds.contains(kind), "{kind:?} among {ranks} ranks");
        }
        // Numbers that have nothing in common, so that all algorithms meet all offers.
        let offers: Vec<_> = SEQUENCE.into_iter().cycle().take(36).collect();
        let (algorithms, offers) = (&algorithms, &offers);
        let (protocol, count, instances, in_place) = (SIMPLE, 205, 2, false);
        let scenario = Scenario { algorithms, protocol, count, instances, in_place, offers };
        let used = scenario.check(emulator, numbers);
        assert!(used.is_ok_and(|used| used > 0), "{ranks} ranks");
    }
}

#[test]
fn every_example_gives_the_same_whatever_is_offered() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(2);
    let (mut runs, mut direct) = (0, 0);
    for example in examples() {
        for launch in
            example.launches.iter().filter(|it| it.ranks.is_some_and(|it| (3..=4).contains(&it)))
        {
            for placement in [Placement::InPlace, Placement::OutOfPlace] {
                let Some(verified) = proved(&example, launch, placement) else { continue };
                let all = deliveries(&verified);
                if verified.target().simple.depth < verified.facts().least_link_depth {
                    continue;
                }
                let count = if verified.facts().serves_any_count { 205 } else { 192 };
                let scenario = Scenario {
                    algorithms: std::slice::from_ref(&verified),
                    protocol: SIMPLE,
                    count,
                    instances: 1 + numbers.below(2) as u32,
                    in_place: placement == Placement::InPlace,
                    offers: &SEQUENCE,
                };
                runs += 1;
                direct += usize::from(all.iter().any(|it| *it != Delivery::Staged));
                let used = scenario.check(emulator, numbers);
                assert!(used.is_ok(), "{} {launch:?} {placement:?}: {used:?}", example.name);
            }
        }
    }
    assert!(runs > 80 && direct > 40, "{direct} of {runs} deliver directly");
}

#[test]
fn packed_thread_blocks_do_what_others_do() {
    let Some(emulator) = packing_emulator() else { return };
    let numbers = &mut Numbers(4);
    for (name, placement) in [
        ("allreduce/two_shot", Placement::InPlace),
        ("allreduce/ring", Placement::InPlace),
        ("allgather/allpairs", Placement::OutOfPlace),
        ("reducescatter/direct", Placement::OutOfPlace),
        ("broadcast/chain", Placement::OutOfPlace),
        ("allreduce/double_binary_tree", Placement::OutOfPlace),
        // Its thread blocks wait for one another.
        ("allgather/bruck", Placement::InPlace),
    ] {
        for ranks in [2, 3] {
            let verified = named(name, ranks, placement);
            let in_place = placement == Placement::InPlace;
            // Packs of four: one that is not full, a full one, and both.
            for (count, instances) in [(13, 1), (1003, 3), (256, 4), (2005, 6)] {
                let (algorithms, protocol) = (std::slice::from_ref(&verified), SIMPLE);
                let offers = &SEQUENCE;
                let scenario =
                    Scenario { algorithms, protocol, count, instances, in_place, offers };
                let used = scenario.check(emulator, numbers);
                let what = format!("{name} {placement:?}, {ranks} ranks, {count} × {instances}");
                assert!(used.as_ref().is_ok_and(|used| *used > 0), "{what}: {used:?}");
            }
        }
    }
}

/// Special kernels and interpreters take turns, on every rank at different times.
fn check_special(
    (name, placement): (&str, Placement),
    protocol: Protocol,
    known: Known,
    (ranks, count, instances): (u32, usize, u32),
) {
    let verified = named(name, ranks, placement);
    let algorithms = std::slice::from_ref(&verified);
    let (in_place, offers) = (placement == Placement::InPlace, &[Offers::Off; 5]);
    let scenario = Scenario { algorithms, protocol, count, instances, in_place, offers };
    let plans = Plan::all(&verified).unwrap();
    let launched = |plan| {
        let launch = launch::Launch { ranks, ..launch::Launch::default().with_plan(plan) };
        (plan, launch.with_cut(&scenario.cut(plan).unwrap()))
    };
    let of_ranks: Vec<_> = plans.iter().map(launched).collect();
    let mut text = special::source(protocol, DataType::I32, known, &of_ranks);
    let kernels: Vec<_> = (0..plans.len()).map(special::kernel).collect();
    text += &format!("void (*const SPECIAL[])(msccl_launch) = {{{}}};\n", kernels.join(", "));
    let what = format!("{name} {placement:?} {protocol}, {ranks} ranks, {count} elements");
    let folder = format!("{name} {protocol} {ranks} {count}").replace(['/', ' '], "_");
    let Some(emulator) = compile(&folder, &Kernels::Special(protocol, text)) else { return };
    for seed in 0..5 {
        let used = scenario.check(&emulator, &mut Numbers(seed));
        assert!(used.as_ref().is_ok_and(|used| *used > 0), "{what}: {used:?}");
    }
}

#[test]
fn special_kernels_do_what_interpreters_do() {
    use Placement::{InPlace, OutOfPlace};
    use Protocol::{Ll, Simple};
    let call = Known::Call { threads: THREADS as u32 };
    check_special(("allreduce/one_step", InPlace), Ll, call, (3, 205, 2));
    check_special(("allreduce/one_block", InPlace), Ll, Known::Plan, (2, 300, 1));
    check_special(("allreduce/two_shot", InPlace), Simple, call, (3, 1003, 2));
    check_special(("alltoall/bruck", OutOfPlace), Ll, Known::Plan, (4, 96, 2));
    check_special(("allgather/bruck", OutOfPlace), Simple, Known::Plan, (3, 33, 1));
}

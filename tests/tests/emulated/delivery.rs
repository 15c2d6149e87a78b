//! Messages that go through slots, and messages that are delivered directly.

use msccl_collective::Placement;
use msccl_plan::Delivery;
use msccl_testkit::Numbers;

use crate::cases::{SEQUENCE, cases, deliveries, named};
use crate::emulator::emulator;
use crate::scenario::{Offers, SIMPLE, Scenario};

#[test]
fn what_users_pass_never_goes_through_slots() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(1);
    for (name, placement) in [
        ("allreduce/two_shot", Placement::InPlace),
        ("allreduce/two_shot", Placement::OutOfPlace),
        ("allreduce/two_shot_block", Placement::InPlace),
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
                let usual = Scenario::USUAL;
                let scenario = Scenario { algorithms, count, instances, in_place, offers, ..usual };
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
        let all = [Delivery::Push, Delivery::Pull { acknowledgement: true }, Delivery::Staged];
        // Between two ranks nothing must be staged.
        for kind in &all[..if ranks == 2 { 2 } else { 3 }] {
            assert!(kinds.contains(kind), "{kind:?} among {ranks} ranks");
        }
        // Numbers that have nothing in common, so that all algorithms meet all offers.
        let offers: Vec<_> = SEQUENCE.into_iter().cycle().take(36).collect();
        let (algorithms, offers) = (&algorithms, &offers);
        let scenario = Scenario { algorithms, instances: 2, offers, ..Scenario::USUAL };
        let used = scenario.check(emulator, numbers);
        assert!(used.is_ok_and(|used| used > 0), "{ranks} ranks");
    }
}

#[test]
fn every_example_gives_the_same_whatever_is_offered() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(2);
    let (mut runs, mut direct) = (0, 0);
    for case in cases(SIMPLE) {
        let scenario = Scenario {
            algorithms: std::slice::from_ref(&case.verified),
            count: case.count(205, 192),
            instances: 1 + numbers.below(2) as u32,
            in_place: case.in_place,
            offers: &SEQUENCE,
            ..Scenario::USUAL
        };
        let used = scenario.check(emulator, numbers);
        assert!(used.is_ok(), "{}: {used:?}", case.what);
        runs += 1;
        let all = deliveries(&case.verified);
        direct += usize::from(all.iter().any(|it| *it != Delivery::Staged));
    }
    assert!(runs > 80 && direct > 40, "{direct} of {runs} deliver directly");
}

//! Every rule of structural validation, by an algorithm that breaks only it.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use msccl_collective::{
    Channel, Contract, Contribution, Custom, Kind, Placement, Protocol, Rank, SizeRange,
};
use msccl_ir::{
    Algorithm, Limits, LinkShape, Packing, Step, StepForm, Target, ViolationClass,
    validate::{self, validate},
};
use msccl_testkit::by_hand::{StepExt, algorithm, i, nop, o, r, step, t, tb};

/// Two ranks exchange their input chunk and add it: right on every target.
fn exchange() -> Algorithm {
    let rank = |peer| {
        let send = tb(0, vec![step(&[i(0)], &[r(peer)]), step(&[r(peer)], &[t(0)])]);
        let sum = tb(1, vec![step(&[o(0), t(0)], &[o(0)]).after(0, 1)]);
        vec![send, sum]
    };
    algorithm(Kind::AllReduce, 1, vec![rank(1), rank(0)])
}

fn step_of(algorithm: &mut Algorithm, rank: usize, block: usize, step: usize) -> &mut Step {
    &mut algorithm.ranks[rank].thread_blocks[block].steps[step]
}

/// Validates a changed [`exchange`]; the first violation must be of `class` and say `expected`.
#[track_caller]
fn check(
    class: ViolationClass,
    target: &Target,
    expected: &str,
    change: impl FnOnce(&mut Algorithm),
) {
    let mut algorithm = exchange();
    change(&mut algorithm);
    let violations = validate(&algorithm, target).expect_err("a violation");
    let first = &violations[0];
    assert_eq!(first.class, class, "{first}");
    assert!(first.to_string().contains(expected), "expected {expected:?} in {first}");
}

#[track_caller]
fn structure(expected: &str, change: impl FnOnce(&mut Algorithm)) {
    check(ViolationClass::Structure, &Target::native(), expected, change);
}

#[track_caller]
fn msccl_structure(expected: &str, change: impl FnOnce(&mut Algorithm)) {
    let mut native = exchange();
    change(&mut native);
    assert_eq!(validate(&native, &Target::native()), Ok(()), "only the msccl form forbids it");
    check(ViolationClass::Structure, &Target::msccl(), expected, |algorithm| *algorithm = native);
}

#[track_caller]
fn limits(expected: &str, limits: Limits) {
    let target = Target { limits, ..Target::native() };
    check(ViolationClass::Limits, &target, expected, |_| {});
}

#[test]
fn proxies_carry_no_broadcast_between_nodes_under_simple() {
    let send = vec![tb(0, vec![step(&[i(0)], &[r(1)])])];
    let take = vec![tb(0, vec![step(&[r(0)], &[o(0)])])];
    let mut broadcast = algorithm(Kind::Broadcast { root: Rank(0) }, 1, vec![send, take]);
    let expected =
        "r0 tb0 s0: sends to r1 on another node: under Simple the proxies of the MSCCL executor";
    let apart = |target: Target| target.on_nodes(1);
    check(ViolationClass::Limits, &apart(Target::executor()), expected, |a| *a = broadcast.clone());
    assert_eq!(validate(&exchange(), &apart(Target::msccl())), Ok(()));
    assert_eq!(validate(&broadcast, &Target::msccl().on_nodes(2)), Ok(()));
    assert_eq!(validate(&broadcast, &apart(Target::native())), Ok(()));
    broadcast.protocol = Protocol::Ll;
    assert_eq!(validate(&broadcast, &apart(Target::msccl())), Ok(()));
}

#[test]
fn the_unchanged_exchange_is_well_formed() {
    for target in [Target::msccl(), Target::executor(), Target::native()] {
        assert_eq!(validate(&exchange(), &target), Ok(()));
    }
}

#[test]
fn sizes_are_sane() {
    structure("over 3 ranks, but there are programs for 2", |a| a.collective.ranks = 3);
    structure("at least one rank", |a| {
        a.ranks.clear();
        a.collective.ranks = 0;
    });
    structure("at least one chunk", |a| a.collective.chunks = 0);
    structure("more than can be numbered", |a| a.collective.chunks = u32::MAX);
    structure("the root is r2", |a| a.collective.kind = Kind::Broadcast { root: Rank(2) });
    structure("the byte range is empty", |a| {
        a.sizes = SizeRange { min_bytes: 2, max_bytes: Some(1) };
    });
}

#[test]
fn sizes_are_bounded() {
    let native = Target::native();
    check(ViolationClass::Limits, &native, "chunks in all", |a| {
        a.ranks[0].scratch_chunks = u32::MAX;
    });
    check(ViolationClass::Limits, &native, "the steps move", |a| {
        step_of(a, 0, 0, 0).count = u32::MAX;
    });
}

#[test]
fn contracts_name_what_exists() {
    let one = |rank, index| Contribution { rank: Rank(rank), index };
    let custom = |given: &[Contribution], promised: BTreeMap<(Rank, u32), Vec<Contribution>>| {
        let contract = Some(Contract { given: given.iter().copied().collect(), promised });
        let name = "custom".to_owned();
        Kind::Custom(Arc::new(Custom { name, input_chunks: 1, output_chunks: 1, contract }))
    };
    let promise =
        |rank, index, sum: &[Contribution]| BTreeMap::from([((Rank(rank), index), sum.to_vec())]);
    let both = [one(0, 0), one(1, 0)];
    structure("the contract gives r2.i[0]", |a| {
        a.collective.kind = custom(&[one(2, 0)], BTreeMap::new());
    });
    structure("the contract gives r0.i[1]", |a| {
        a.collective.kind = custom(&[one(0, 1)], BTreeMap::new());
    });
    structure("promises r0.o[7], which does not exist", |a| {
        a.collective.kind = custom(&both, promise(0, 7, &both));
    });
    structure("is empty or not ascending", |a| {
        a.collective.kind = custom(&both, promise(0, 0, &[both[1], both[0]]));
    });
    structure("but it is not given", |a| {
        a.collective.kind = custom(&both[..1], promise(0, 0, &both));
    });
    structure("is empty or not ascending", |a| {
        a.collective.kind = custom(&[], promise(0, 0, &[]));
    });
}

#[test]
fn peers_exist_and_are_ascending() {
    structure("r0 tb0 sends to r9, but there are only 2 ranks", |a| {
        a.ranks[0].thread_blocks[0].sends = vec![Rank(9)];
    });
    structure("r0 tb0 receives from its own rank", |a| {
        a.ranks[0].thread_blocks[0].receives = vec![Rank(0)];
    });
    structure("sends to r1 and then r1; peers must be ascending and unique", |a| {
        a.ranks[0].thread_blocks[0].sends = vec![Rank(1), Rank(1)];
    });
}

#[test]
fn a_link_end_has_one_owner_and_a_partner() {
    structure("r0 tb0 and r0 tb1 both own the sending end of the link from r0 to r1 on ch0", |a| {
        a.ranks[0].thread_blocks[1].channel = Channel(0);
        a.ranks[0].thread_blocks[1].sends = vec![Rank(1)];
    });
    structure("r1 tb0 and r1 tb1 both own the receiving end", |a| {
        a.ranks[1].thread_blocks[1].channel = Channel(0);
        a.ranks[1].thread_blocks[1].receives = vec![Rank(0)];
    });
    structure("but r1 lacks the other: no thread block of it receives on ch1", |a| {
        a.ranks[0].thread_blocks[1].sends = vec![Rank(1)];
    });
    structure("but r1 lacks the other: no thread block of it sends on ch1", |a| {
        a.ranks[0].thread_blocks[1].receives = vec![Rank(1)];
    });
}

#[test]
fn operands_are_owned_once_and_complete() {
    structure("r0 tb1 s0: tb1 does not receive from r1 on ch1", |a| {
        step_of(a, 0, 1, 0).sources[1] = r(1);
    });
    structure("a step can send to r1 once, not twice", |a| {
        *step_of(a, 0, 0, 0) = step(&[i(0)], &[r(1), r(1)]);
    });
    structure("needs at least one destination", |a| *step_of(a, 0, 0, 0) = step(&[i(0)], &[]));
    structure("needs at least one source", |a| *step_of(a, 0, 0, 0) = step(&[], &[r(1)]));
    structure("a count of at least 1", |a| step_of(a, 0, 0, 0).count = 0);
    structure("a step that only waits has count 0, not 3", |a| {
        *step_of(a, 0, 1, 0) = nop(0, 1).times(3);
    });
}

#[test]
fn regions_lie_in_their_buffers() {
    structure("r0 tb0 s0: touches i[1], but the input of r0 has 1 chunks", |a| {
        step_of(a, 0, 0, 0).sources[0] = i(1);
    });
    structure("touches i[0..2]", |a| step_of(a, 0, 0, 0).count = 2);
    structure("touches s[4294967295]", |a| step_of(a, 0, 0, 1).destinations[0] = t(u32::MAX));
    structure("touches s[0], but r0 has no scratch buffer", |a| a.ranks[0].scratch_chunks = 0);
}

#[test]
fn regions_of_a_step_are_equal_or_apart() {
    let four = |a: &mut Algorithm, placement, step| {
        a.collective.chunks = 4;
        a.ranks[0].scratch_chunks = 2;
        a.placement = placement;
        *step_of(a, 0, 1, 0) = step;
    };
    structure("reads i[0..2] and writes i[1..3]", |a| {
        four(a, Placement::OutOfPlace, step(&[i(0)], &[i(1)]).times(2));
    });
    structure("reads i[1..3] and writes i[0..2]", |a| {
        four(a, Placement::OutOfPlace, step(&[i(1)], &[i(0)]).times(2));
    });
    structure("reads i[0..2] and writes o[1..3]", |a| {
        four(a, Placement::InPlace, step(&[i(0)], &[o(1)]).times(2));
    });
    structure("two destinations overlap: o[0] and o[0]", |a| {
        four(a, Placement::Both, step(&[i(1)], &[i(0), o(0)]));
    });
    structure("two destinations overlap: o[0..2] and o[1..3]", |a| {
        four(a, Placement::OutOfPlace, step(&[i(0)], &[o(1), o(0)]).times(2));
    });
    for (placement, apart) in [
        (Placement::OutOfPlace, step(&[i(0)], &[o(1)]).times(2)),
        (Placement::InPlace, step(&[i(0)], &[o(0)]).times(2)),
        (Placement::InPlace, step(&[i(0), i(1)], &[t(0)]).times(2)),
        (Placement::InPlace, step(&[i(0)], &[i(2), t(0)])),
    ] {
        let mut algorithm = exchange();
        four(&mut algorithm, placement, apart);
        assert_eq!(validate(&algorithm, &Target::native()), Ok(()));
    }
}

#[test]
fn waits_name_steps_that_exist() {
    // Also of the step's own block: whether such a wait ends is no question of structure.
    for step in 0..2 {
        let mut own = exchange();
        step_of(&mut own, 0, 0, 1).waits = nop(0, step).waits;
        assert_eq!(validate(&own, &Target::native()), Ok(()));
        assert_eq!(validate(&own, &Target::msccl()), Ok(()));
    }
    structure("waits for tb7 s0, but r0 has only 2 thread blocks", |a| {
        *step_of(a, 0, 1, 0) = nop(7, 0);
    });
    structure("waits for tb0 s2, but r0 tb0 has only 2 steps", |a| {
        *step_of(a, 0, 1, 0) = nop(0, 2);
    });
}

#[test]
fn the_msccl_form_has_nine_kinds_and_one_peer() {
    msccl_structure("no step that combines these sources", |a| {
        *step_of(a, 0, 1, 0) = step(&[t(0), o(0)], &[o(0)]).after(0, 1);
    });
    msccl_structure("waits for 2 steps", |a| {
        *step_of(a, 0, 1, 0) = step(&[o(0), t(0)], &[o(0)]).after(0, 1).after(0, 0);
    });
    let mut three = exchange();
    three.ranks.push(three.ranks[1].clone());
    three.collective.ranks = 3;
    three.ranks[0].thread_blocks[0].sends.push(Rank(2));
    three.ranks[0].thread_blocks[0].receives.push(Rank(2));
    assert_eq!(validate(&three, &Target::native()), Ok(()));
    let violations = validate(&three, &Target::msccl()).expect_err("two peers");
    assert!(violations[0].message.contains("r0 tb0 sends to 2 ranks and receives from 2"));
}

#[test]
fn a_nop_of_the_msccl_form_lends_its_wait_to_a_step_that_waits() {
    let block = |a: &mut Algorithm, steps| a.ranks[0].thread_blocks[1].steps = steps;
    let sum = || step(&[o(0), t(0)], &[o(0)]);
    msccl_structure("this one is the last", |a| block(a, vec![nop(0, 1)]));
    msccl_structure("must wait for a step itself", |a| block(a, vec![nop(0, 1), sum()]));
    msccl_structure("this one waits for nothing", |a| {
        block(a, vec![Step::default(), sum().after(0, 1)]);
    });
    msccl_structure("which is a nop and never signals", |a| {
        block(a, vec![nop(0, 0), sum().after(0, 1)]);
        step_of(a, 0, 0, 0).waits = nop(1, 0).waits;
    });
    let mut algorithm = exchange();
    block(&mut algorithm, vec![nop(0, 0), nop(0, 1), sum().after(0, 1)]);
    assert_eq!(validate(&algorithm, &Target::msccl()), Ok(()));
}

#[test]
fn every_limit_is_checked() {
    let enough = Target::native().limits;
    limits(
        "r0 tb0 has too many steps: 2, but target native allows 1",
        Limits { steps_per_tb: 1, ..enough },
    );
    limits("r0 has too many thread blocks: 2", Limits { tbs_per_rank: 1, ..enough });
    limits("r0 tb1 is on ch1; too many channels: 2", Limits { channels: 1, ..enough });
    limits(
        "too many thread blocks of r0 send on ch0: 1",
        Limits { peers_per_channel: 0, ..enough },
    );
    limits("too many chunks in one step: 1", Limits { count: 0, ..enough });
    limits(
        "r0 tb1 s0: waits for tb0, whose number is too high",
        Limits { waitable_tbs: 0, ..enough },
    );
    limits("r0 tb0 s0: i[0] lies too far", Limits { slots: 0, ..enough });
    assert_eq!(Target::native().form, StepForm::Native);
}

#[test]
fn a_step_sent_whole_fits_a_message() {
    let target = |message_bytes, packing| {
        let simple = LinkShape { depth: 2, message_bytes, packing };
        Target { simple, ..Target::native() }
    };
    let expected = "too many chunks in one step: 1 slices of 16 bytes do not fit a message, which \
                    holds 15 bytes on target native under Simple";
    check(ViolationClass::Limits, &target(15, Packing::Whole), expected, |_| {});
    for fits in [target(16, Packing::Whole), target(15, Packing::Fitting)] {
        assert_eq!(validate(&exchange(), &fits), Ok(()));
    }
}

#[test]
fn violations_are_bounded_and_in_order() {
    let mut algorithm = exchange();
    let bad = step(&[i(9)], &[o(9)]);
    algorithm.ranks[0].thread_blocks[1].steps = vec![bad; 1000];
    let violations = validate(&algorithm, &Target::native()).expect_err("a violation");
    assert_eq!(violations.len(), msccl_ir::validate::MOST_VIOLATIONS);
    assert!(violations.is_sorted_by_key(|violation| violation.at));
}

#[test]
fn what_is_checked_is_bounded_by_the_steps_that_a_file_holds() {
    let mut vast = exchange();
    vast.collective.chunks = 1 << 24;
    let found = validate(&vast, &Target::native()).expect_err("few steps, many chunks");
    let steps = vast.step_count() as u64;
    let most = validate::FREE_SLOTS + validate::CHUNKS_PER_STEP * steps;
    assert!(found[0].message.contains(&format!("with {steps} steps at most {most}")), "{found:?}");
    assert_eq!(found[0].class, ViolationClass::Limits);
}

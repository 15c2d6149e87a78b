//! Failures in the middle of launches.

use msccl_collective::{Placement, Protocol};
use msccl_testkit::Numbers;

use crate::cases::named;
use crate::emulator::{Kernels, compile};
use crate::scenario::{LARGE_SLOT_BYTES, Offers, SIMPLE, Scenario};

/// Whatever befalls a communicator in the middle of its launches: every launch that is done has its
/// result, though ranks are released while others have not heard of it, and launch on.
fn check_failures(protocol: Protocol, kernels: &Kernels) {
    let Some(emulator) = compile(&format!("failures-{protocol}"), kernels) else { return };
    let numbers = &mut Numbers(31);
    let names = ["allreduce/ring", "allreduce/two_shot", "allgather/allpairs", "broadcast/chain"];
    let (mut all, mut done) = (0, 0);
    for (name, ranks) in names.into_iter().flat_map(|name| [(name, 2), (name, 3)]) {
        let verified = named(name, ranks, Placement::OutOfPlace);
        for count in [13, 1003] {
            let direct = [Offers::All, Offers::Off].repeat(10);
            let offers = if protocol == SIMPLE { &direct[..] } else { &[Offers::Off; 20] };
            let scenario = Scenario {
                algorithms: std::slice::from_ref(&verified),
                protocol,
                slot_bytes: LARGE_SLOT_BYTES,
                count,
                instances: 2,
                offers,
                failure: numbers.next() | 1,
                ..Scenario::USUAL
            };
            let outcome = scenario.play(&emulator, numbers);
            assert!(outcome.is_ok(), "{name}, {ranks} ranks, {count} elements: {outcome:?}");
            all += offers.len() * ranks as usize;
            done += outcome.unwrap().done;
        }
    }
    println!("{protocol}: {done} of {all} launches were done");
    assert!(done > 0 && done < all, "{done} of {all} launches were done");
}

#[test]
fn launches_that_are_done_have_their_results_after_a_failure() {
    check_failures(SIMPLE, &Kernels::Plain);
}

#[test]
fn launches_that_are_done_have_their_results_after_a_failure_in_small_packets() {
    check_failures(Protocol::Ll, &Kernels::Packets(Protocol::Ll));
}

#[test]
fn launches_that_are_done_have_their_results_after_a_failure_in_large_packets() {
    check_failures(Protocol::Ll128, &Kernels::Packets(Protocol::Ll128));
}

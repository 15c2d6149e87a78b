//! Libraries that are wrong, refuse, hang, die, or are not there.

use super::{bench, fake, rows};

#[test]
fn wrong_results_are_counted_and_fail() {
    let Some(fake) = fake() else { return };
    let ran = bench(fake, &["allgather", "-b", "64", "-e", "64", "--env", "FAKE_WRONG=1"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("# Out of bounds values : 2 FAILED"), "{ran}");
    assert!(ran.stderr.contains("output of r1, element 15: expected the bits"), "{ran}");
}

#[test]
fn a_library_that_hangs_or_dies_is_out_and_the_other_goes_on() {
    let Some(fake) = fake() else { return };
    let other = format!("other={fake}");
    let trouble = |variable: &str| {
        let env = format!("other:{variable}=1");
        let sizes =
            ["allreduce", "-b", "8", "-e", "64", "-T", "2", "--env", "other:FAKE_SAY=hello"];
        bench(fake, &[&sizes[..], &["--against", &other, "--env", &env]].concat())
    };
    let hung = trouble("FAKE_HANG");
    assert_eq!(hung.code, 1, "{hung}");
    assert!(hung.stderr.contains("error: other is out: no answer from r0, r1 in 2 s"), "{hung}");
    assert!(hung.stderr.contains("other r1: hello"), "{hung}");
    let died = trouble("FAKE_DIE");
    assert!(died.stderr.contains("other r1: alas"), "{died}");
    assert!(died.stderr.contains("is out: r1: its process ended (signal: 6"), "{died}");
    for ran in [&hung, &died] {
        let rows = rows(ran);
        assert_eq!(rows.len(), 4, "{ran}");
        assert!(rows.iter().all(|row| row[8] == "0" && row[13] == "-"), "{ran}");
    }
}

#[test]
fn what_a_library_refuses_is_reported_and_the_next_call_is_made() {
    let Some(fake) = fake() else { return };
    // The library has no sends and receives.
    let ran = bench(fake, &["sendrecv", "-b", "8", "-e", "16"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("r0, r1: the library has no ncclSend"), "{ran}");
    assert!(ran.stdout.contains("# msccl: FAILED in 4 measurements"), "{ran}");
    assert_eq!(rows(&ran).len(), 2, "{ran}");
}

#[test]
fn a_missing_library_fails_at_once() {
    let ran = bench("/no/such/library.so", &["allreduce"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("cannot open /no/such/library.so"), "{ran}");
}

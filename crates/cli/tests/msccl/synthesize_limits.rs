//! `msccl synthesize` on bad input and with little time: a reason, or the best so far, at once.

use std::fs;
use std::time::{Duration, Instant};

use crate::{Ran, arg, check_refusal, file, msccl};

/// What may be asked of a debug build on a busy machine; a search without end takes longer.
const AT_ONCE: Duration = Duration::from_secs(60);

fn synthesize(args: &[&str]) -> Ran {
    msccl(&[&["synthesize"], args].concat())
}

/// Collectives on the machine `name`, which `lines` describe, are refused at once.
fn check_machine(name: &str, lines: &str, expected: &str) {
    let name = format!("synthesize_limits/{name}.cluster");
    let path = file(&name, format!("cluster \"odd\"\n{lines}"));
    let start = Instant::now();
    for collective in ["allgather", "alltoall", "broadcast"] {
        check_refusal(&["synthesize", collective, "--topo", arg(&path)], 2, expected);
    }
    assert!(start.elapsed() < AT_ONCE, "{lines}: {:?}", start.elapsed());
}

#[test]
fn machines_on_which_nothing_can_be_done_are_refused() {
    check_machine("one", "gpu gpu0\n", "on odd: expected a cluster of at least 2 GPUs, found 1");
    check_machine("none", "switch s\n", "on odd: expected a cluster of at least 2 GPUs, found 0");
    let apart = "gpu * 4\ngpu0 - gpu1 nvlink 5 GB/s 1 us\ngpu2 - gpu3 nvlink 5 GB/s 1 us\n";
    check_machine("apart", apart, "found none; add links with a rate above 0 that lead there");
    let one_way = "gpu * 3\ngpu1 > gpu0 nvlink 5 GB/s 1 us\ngpu2 > gpu1 nvlink 5 GB/s 1 us\n";
    check_machine("one_way", one_way, "expected a path from `gpu");
}

#[test]
fn machines_that_cannot_be_are_located() {
    let slow = "gpu * 2\ngpu0 - gpu1 nvlink 0 GB/s 1 us\n";
    let rate = "expected a rate of whole MB/s, from 1 MB/s to 4294967 GB/s, found";
    check_machine("slow", slow, &format!("slow.cluster:3:20: {rate} `0`"));
    let fast = slow.replace("0 GB/s", "99999999 GB/s");
    check_machine("fast", &fast, &format!("fast.cluster:3:20: {rate} `99999999`"));
    let stranger = "gpu * 2\ngpu0 - gpu7 nvlink 5 GB/s 1 us\n";
    check_machine("stranger", stranger, "stranger.cluster:3:8: expected the name of a vertex");
    check_machine("huge", "gpu * 4294967295\n", "huge.cluster:2:7: expected how many vertices");
    let mesh = "gpu * 5000\ngpu* - gpu* nvlink 5 GB/s 1 us\n";
    check_machine("mesh", mesh, "mesh.cluster:3:1: expected at most 262144 links");
}

/// Refused before anything is made that grows with the square of the number of ranks.
#[test]
fn machines_with_thousands_of_gpus_are_refused_at_once() {
    let many = "gpu * 5000\nswitch s\ngpu* - s nvlink 5 GB/s 1 us\n";
    check_machine(
        "many",
        many,
        "found 5000; name a smaller machine, or write it by hand over groups",
    );
    let check = |args: &[&str], expected: &str| {
        check_refusal(&[&["synthesize"], args].concat(), 2, expected);
    };
    let nodes = "expected a number of nodes from 1 to 910, found 4294967295";
    check(&["allgather", "--topo", "hgx-h100-8*4294967295"], nodes);
    check(&["allgather", "--topo", "hgx-h100-8", "--nodes", "4294967295"], nodes);
    let too_many = "expected at most 1024 ranks for allreduce, found 7280";
    check(&["allreduce", "--topo", "hgx-h100-8*910"], too_many);
    check(&["alltoall", "--topo", "hgx-h100-8*17"], "at most 128 ranks for alltoall, found 136");
}

#[test]
fn absurd_numbers_are_refused() {
    for (option, value, expected) in [
        ("--size", "0", "expected a size of 1 byte or more, found `0`"),
        ("--size", "0KiB", "expected a size of 1 byte or more, found `0KiB`"),
        ("--size", "16E", "`16E` is no size; write a number of bytes, KiB"),
        ("--size", "99999999999999999999", "is no size"),
        ("--chunks", "0", "expected a whole number from 1 to 4294967295"),
        ("--chunks", "4294967296", "expected a whole number from 1 to 4294967295"),
        ("--time-limit", "0", "`0` is no time span; write seconds, such as 10 or 0.5"),
        ("--time-limit", "1e300", "`1e300` is no time span"),
        ("--time-limit", "inf", "`inf` is no time span"),
        ("--time-limit", "NaN", "`NaN` is no time span"),
        ("--ranks", "0", "expected a whole number from 1 to 65536"),
        ("--ranks", "4294967295", "expected a whole number from 1 to 65536"),
        ("--ranks", "3", "--ranks 3: expected the 4 GPUs of "),
        ("--ranks", "5", "name a machine with 5 GPUs, or repeat one by --nodes"),
        ("--nodes", "0", "expected a whole number from 1"),
        ("--root", "4", "expected a root below 4, the number of GPUs, found 4"),
        ("--root", "4294967295", "expected a root below 4, the number of GPUs, found 4294967295"),
        ("--root", "4294967296", "--root"),
        ("--slow", "gpu0-gpu1=0", "--slow"),
    ] {
        let args = ["synthesize", "broadcast", "--topo", "hgx-h100-4", option, value];
        check_refusal(&args, 2, expected);
    }
}

/// More than there are to be had, and no harm in it.
#[test]
fn numbers_that_are_only_large_are_served() {
    for more in [
        ["dgx1-v100", "--chunks", "4294967295"],
        ["dgx1-v100", "--time-limit", "1e18"],
        ["hgx-h100-2", "--size", "1TB"],
        ["hgx-h100-2", "--size", "1"],
    ] {
        let ran = synthesize(&[&["allgather", "--topo"], &more[..]].concat());
        assert_eq!(ran.code, 0, "{more:?}: {ran}");
    }
}

/// So little time that only the first trees are there: they are written, and proved, and both the
/// report and the program say so.
#[test]
fn without_time_the_best_so_far_is_written() {
    let path = file("synthesize_limits/first.msccl", "");
    for topo in ["dgx1-v100", "ndv2*3", "hgx-h100-8*4"] {
        for collective in ["allgather", "reducescatter", "allreduce", "broadcast", "reduce"] {
            let args = [collective, "--topo", topo, "--time-limit", "0.000001", "-o", arg(&path)];
            let ran = synthesize(&args);
            assert_eq!(ran.code, 0, "{collective} on {topo}: {ran}");
            let over = "the time was over; this is the best that was found";
            assert!(ran.stderr.contains(over), "{collective} on {topo}: {ran}");
            assert!(ran.stdout.contains("\ncertified "), "{collective} on {topo}: {ran}");
            let written = fs::read_to_string(&path).unwrap();
            assert!(written.contains("The time for the search was over"), "{written}");
        }
    }
}

//! Options: those of nccl-tests, and combinations that are refused.

use super::{bench, fake, rows};
use crate::{arg, file, msccl};

#[test]
fn contradictory_options_exit_with_2() {
    let check = |args: &[&str], expected: &str| {
        let ran = bench("/no/such/library.so", args);
        assert_eq!(ran.code, 2, "{args:?}: {ran}");
        assert!(ran.stderr.contains(expected), "{args:?}: {ran}");
    };
    check(&["allpeace"], "unknown collective `allpeace`");
    check(&["allreduce", "-d", "f17"], "unknown data type `f17`");
    check(&["allreduce", "-b", "2K", "-e", "1K"], "the smallest size, 2 KiB, is more");
    check(&["reduce", "-r", "2"], "there is no rank 2");
    check(&["allreduce", "-f", "two"], "a factor such as 2, 1.4 or 7/5, found `two`");
    check(&["allreduce", "--offset", "2"], "a multiple of the 4 bytes of a float, found 2");
    check(&["allreduce", "--at-most", "1.1"], "--next-power");
    check(&["allreduce", "--at-least", "1"], "--against");
    check(&["allreduce", "--next-power", "--at-most", "0"], "`0` is no ratio");
    check(&["allreduce", "--env", "x:A=1"], "no library is called `x`");
    check(&["allreduce", "-R", "x:2"], "no library is called `x`");
    check(&["allreduce", "-R", "3"], "expected 0 (plain), 1 (registered) or 2");
    check(&["allreduce", "--against", "msccl=a"], "two libraries are called `msccl`");
    check(&["allreduce", "-f", "1"], "such steps never get from 8 B to 1 MiB");
    check(&["allreduce", "-i", "0"], "such steps never get from 8 B to 1 MiB");
    check(
        &["allreduce", "-b", "0", "-e", "4K"],
        "expected a smallest size (-b) above 0 with a factor",
    );
    check(&["allreduce", "-b", "0"], "such steps never get from 0 B to 1 MiB");
    check(&["allreduce", "-b", "1", "-e", "9", "-f", "1.4"], "give a larger -f, or a -b of 3");
    check(&["allreduce", "-f", "1", "-i", "0"], "such steps never get from 8 B to 1 MiB");
    check(
        &["allreduce", "-e", "64MX"],
        "`64MX` is no size; write a number of bytes, KiB, MiB or GiB",
    );
    check(&["allreduce", "-d", "float8"], "f8e4m3, f8e5m2");
    check(&["allreduce", "-z", "4"], "or 3 (as 1, wait for others not counted), found 4");
    check(&["allreduce", "-u", "1", "--offset", "4"], "cannot be used with");
    check(&["allreduce", "-J", "a.json", "--json", "b.json"], "cannot be used with");
    check(&["hypercube", "-m", "2"], "calls of hypercube cannot be made at once");
    check(&["allreduce", "--json", "no/such/a.json"], "there is no folder no/such; make it first");
    let cube = ["bench", "hypercube", "--device", "host", "--ranks", "3", "--library", "x"];
    assert!(msccl(&cube).stderr.contains("power of two"));
}

/// Every option of nccl-tests, by its letter, its long name, and a value.
const OPTIONS: [(&str, &str, &str); 31] = [
    ("-t", "--nthreads", "2"),
    ("-g", "--ngpus", "1"),
    ("-b", "--minbytes", "1KB"),
    ("-e", "--maxbytes", "2KB"),
    ("-i", "--stepbytes", "1K"),
    ("-f", "--stepfactor", "2"),
    ("-n", "--iters", "3"),
    ("-m", "--agg_iters", "2"),
    ("-w", "--warmup_iters", "1"),
    ("-N", "--run_cycles", "1"),
    ("-p", "--parallel_init", "1"),
    ("-c", "--check", "1"),
    ("-o", "--op", "sum"),
    ("-d", "--datatype", "float"),
    ("-r", "--root", "0"),
    ("-z", "--blocking", "1"),
    ("-y", "--stream_null", "1"),
    ("-T", "--timeout", "60"),
    ("-G", "--cudagraph", "10"),
    ("-C", "--report_cputime", "1"),
    ("-S", "--report_timestamps", "1"),
    ("-J", "--output_file", "JSON"),
    ("-a", "--average", "1"),
    ("-R", "--local_register", "0"),
    ("-x", "--cta_policy", "1"),
    ("-D", "--device_implementation", "1"),
    ("-V", "--device_cta_count", "16"),
    ("-M", "--memory", "1"),
    ("-u", "--unalign", "1"),
    ("-I", "--per_iter_timing", "1"),
    ("-K", "--per_iter_skip", "1"),
];

/// Those that do not do here what they do in nccl-tests, or not as it does, and so have a remark.
const REMARKED: [&str; 13] =
    ["-g", "-i", "-G", "-p", "-y", "-C", "-J", "-x", "-D", "-V", "-M", "-I", "-K"];

#[test]
fn every_option_of_nccl_tests_is_taken() {
    let Some(fake) = fake() else { return };
    let json = file("bench/nccl_tests.json", "");
    let usual =
        ["bench", "./build/all_reduce_perf", "--library", fake, "--device", "host", "--ranks", "2"];
    let value = |value: &'static str| if value == "JSON" { arg(&json) } else { value };
    for long in [false, true] {
        let named = OPTIONS
            .iter()
            .map(|(letter, name, of)| [if long { *name } else { *letter }, value(of)]);
        let args = [&usual[..], &named.flatten().collect::<Vec<_>>()].concat();
        let ran = msccl(&args);
        assert_eq!(ran.code, 0, "{ran}");
        let remarked: Vec<_> =
            ran.stderr.lines().filter_map(|line| line.strip_prefix("note: ")).collect();
        let remarked: Vec<_> = remarked.iter().filter_map(|line| line.split(' ').next()).collect();
        let missing: Vec<_> = REMARKED.iter().filter(|letter| !remarked.contains(letter)).collect();
        assert!(
            missing.is_empty() && remarked.len() == REMARKED.len(),
            "{missing:?}, {remarked:?}: {ran}"
        );
        assert_eq!(rows(&ran).len(), 2, "{ran}");
        assert!(ran.stdout.contains(" agg iters: 2 "), "{ran}");
        let report = std::fs::read_to_string(&json).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["rows"][0]["offset_bytes"], 4);
        assert_eq!(report["method"]["waiting"], "each_and_ranks");
    }
}

#[test]
fn options_that_ask_for_the_default_have_no_remark() {
    let Some(fake) = fake() else { return };
    let off = [
        "-p", "0", "-z", "0", "-C", "0", "-S", "0", "-M", "0", "-y", "0", "-D", "0", "-I", "0",
        "-u", "0",
    ];
    let ran = bench(fake, &[&["allreduce", "-b", "8", "-e", "8", "-T", "0"], &off[..]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
    assert_eq!(rows(&ran)[0].len(), 13, "{ran}");
}

#[test]
fn the_worker_subcommand_is_refused_and_not_in_the_help() {
    let ran = msccl(&["bench-worker"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(!msccl(&["--help"]).stdout.contains("bench-worker"));
}

//! `msccl bench`, on host memory: with a small library made for the purpose, and with ours if it
//! has been built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{Ran, arg, file, msccl};

/// A library that works on host memory and goes wrong where a variable says so; `None` without a
/// compiler.
pub fn fake() -> Option<&'static str> {
    static FAKE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let path = FAKE.get_or_init(|| {
        let library = file("bench/libfake.so", "");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/msccl/fake_nccl.c");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        let made = cc.status().is_ok_and(|status| status.success());
        if !made {
            eprintln!("skipped: there is no C compiler `cc` to build the library with");
        }
        made.then_some(library)
    });
    path.as_deref().map(arg)
}

/// Runs a benchmark of two ranks on the host.
fn bench(library: &str, args: &[&str]) -> Ran {
    let usual = ["bench", args[0], "--library", library, "--device", "host", "--ranks", "2"];
    msccl(&[&usual, &args[1..]].concat())
}

/// The rows of the table.
fn rows(ran: &Ran) -> Vec<Vec<&str>> {
    let rows = ran.stdout.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn a_right_library_passes() {
    let Some(fake) = fake() else { return };
    let args =
        ["allreduce", "-b", "8", "-e", "1K", "-d", "float,int32", "-o", "sum,max", "-n", "2"];
    let ran = bench(fake, &args);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(
        ran.stdout.contains("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : "),
        "{ran}"
    );
    let rows = rows(&ran);
    assert_eq!(rows.len(), 2 * 2 * 8, "{ran}");
    assert_eq!(rows[8][..5], ["8", "2", "float", "max", "-1"], "{ran}");
    assert!(rows.iter().all(|row| row.len() == 13 && row[8] == "0" && row[12] == "0"), "{ran}");
}

#[test]
fn collectives_have_their_own_counts_roots_and_placements() {
    let Some(fake) = fake() else { return };
    for collective in ["all_gather", "reduce_scatter", "broadcast", "alltoall"] {
        let ran =
            bench(fake, &[collective, "-b", "64", "-e", "1K", "-n", "1", "-r", "all", "--odd"]);
        assert_eq!(ran.code, 0, "{collective}: {ran}");
        let rows = rows(&ran);
        assert!(rows.iter().all(|row| row[3] == "none" || row[3] == "sum"), "{ran}");
        let counts: Vec<u64> = rows.iter().map(|row| row[1].parse().unwrap()).collect();
        assert!(counts.iter().all(|count| count % 2 == 1), "{collective}: {ran}");
        let unchecked = rows.iter().all(|row| row[12] == "N/A");
        assert_eq!(unchecked, collective == "alltoall", "{ran}");
        let last = rows.last().unwrap()[4];
        assert_eq!(last, if collective == "broadcast" { "1" } else { "-1" }, "{ran}");
    }
}

#[test]
fn libraries_are_compared_in_one_run() {
    let Some(fake) = fake() else { return };
    let json = file("bench/compared.json", "");
    let picture = file("bench/compared.svg", "");
    let other = format!("other={fake}");
    let args = ["allreduce", "-b", "4K", "-e", "4K", "--latency", "-n", "30", "--host-time"];
    let files = ["--against", &other, "--json", arg(&json), "--svg", arg(&picture)];
    let ran = bench(fake, &[&args[..], &files].concat());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("# other: avg bus bandwidth "), "{ran}");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["good"], true);
    let results = report["rows"][0]["results"].as_array().unwrap();
    let names: Vec<_> = results.iter().map(|result| result["library"].as_str().unwrap()).collect();
    assert_eq!(names, ["msccl", "other", "msccl", "other"]);
    for result in results {
        assert!(result["ratio"].as_f64().unwrap() > 0.0, "{result}");
        assert_eq!(result["one_shot_us"]["p99"]["per_rank"].as_array().unwrap().len(), 2);
        assert!(result["host_us"]["p50"]["mean"].as_f64().unwrap() > 0.0, "{result}");
    }
    assert!(std::fs::read_to_string(picture).unwrap().contains("other in-place"));
}

/// The remarks below the table that have `word`.
fn remarks<'a>(ran: &'a Ran, word: &str) -> Vec<&'a str> {
    let foot = ran.stdout.lines().skip_while(|line| !line.starts_with("# Out of bounds"));
    foot.filter(|line| line.contains(word)).collect()
}

#[test]
fn sizes_are_compared_with_the_next_power_of_two() {
    let Some(fake) = fake() else { return };
    let usual = ["allreduce", "-b", "1K", "-f", "7/5", "-n", "2", "--next-power", "-e"];
    let run = |more: &[&str]| bench(fake, &[&usual[..], more].concat());
    // Whoever is interrupted may take a thousand times as long.
    let plain = run(&["4K", "--at-most", "1000000"]);
    assert_eq!(plain.code, 0, "{plain}");
    let sizes: Vec<_> = rows(&plain).iter().map(|row| row[0].to_owned()).collect();
    assert_eq!(sizes, ["1024", "1432", "2004", "2048", "2808", "3928", "4096"], "{plain}");
    for placement in ["out-of-place", "in-place"] {
        let lines = remarks(&plain, &format!("allreduce of 1432 B, float sum, {placement}: "));
        assert!(lines.len() == 1 && lines[0].contains("; 2048 B: "), "{plain}");
    }
    let worst = remarks(&plain, "# msccl: at worst ");
    assert!(worst[0].ends_with("; at most 1000000.00 OK"), "{plain}");
    let slow = run(&["4K", "--at-most", "0.000001"]);
    assert_eq!(slow.code, 1, "{slow}");
    assert!(remarks(&slow, "TOO SLOW").len() == 8, "{slow}");
    assert!(remarks(&slow, "at worst ")[0].ends_with("; at most 0.00 FAILED"), "{slow}");
    let odd = run(&["1500", "--odd", "--offset", "4", "--repeat", "2"]);
    assert_eq!(odd.code, 0, "{odd}");
    assert!(odd.stdout.contains("graph: 0 median of: 2\n"), "{odd}");
    let call = "allreduce of 1028 B, float sum, 4 B behind aligned addresses, out-of-place: ";
    assert_eq!(remarks(&odd, call).len(), 1, "{odd}");
    assert!(rows(&odd).iter().all(|row| row[8] == "0" && row[12] == "0"), "{odd}");
}

#[test]
fn several_collectives_stand_against_several_libraries() {
    let Some(fake) = fake() else { return };
    let libraries = ["one", "two"].map(|name| format!("{name}={fake}"));
    let usual = ["allreduce,allgather", "-b", "1K", "-e", "2K", "-n", "2", "--repeat", "3"];
    let against = ["--against", &libraries[0], "--against", &libraries[1]];
    let run = |least: &str| bench(fake, &[&usual[..], &against, &["--at-least", least]].concat());
    let good = run("0.001");
    assert_eq!(good.code, 0, "{good}");
    assert!(good.stdout.contains("# Collective test starting: allreduce, allgather\n"), "{good}");
    assert_eq!(rows(&good).len(), 2 * 2, "{good}");
    for name in ["allreduce", "allgather"] {
        assert!(good.stdout.contains(&format!("\n# {name}\n")), "{good}");
        let comparisons = remarks(&good, &format!("# {name} out-of-place, "));
        assert_eq!(comparisons.len(), 2, "{good}");
        assert!(comparisons[1].contains(", two: "), "{good}");
        let whole = " in the geometric mean of 2 sizes, at least ";
        assert!(comparisons.iter().all(|line| line.contains(whole)), "{good}");
        assert!(comparisons[0].ends_with("; below 0.00: none; at least 0.00 OK"), "{good}");
    }
    let bad = run("1000");
    assert_eq!(bad.code, 1, "{bad}");
    assert_eq!(remarks(&bad, "; at least 1000.00 FAILED").len(), 2 * 2 * 2, "{bad}");
    assert!(remarks(&bad, "below 1000.00: 1024 B ").len() == 2 * 2 * 2, "{bad}");
}

#[test]
fn buffers_are_registered_as_requested() {
    let Some(fake) = fake() else { return };
    let bench_with = |register: &[&str], needs: &str| {
        let other = format!("other={fake}");
        let json = file("bench/registered.json", "");
        let needs = format!("other:FAKE_NEEDS={needs}");
        let sizes = ["allgather", "-b", "64", "-e", "1K", "-n", "2", "--against", &other];
        let ran =
            bench(fake, &[&sizes[..], &["--env", &needs, "--json", arg(&json)], register].concat());
        let report = std::fs::read_to_string(json).unwrap_or_default();
        (ran, serde_json::from_str::<serde_json::Value>(&report).unwrap_or_default())
    };
    for (how, name, words) in
        [("1", "local", "registered buffers"), ("2", "symmetric", "symmetric windows")]
    {
        let scoped = format!("other:{how}");
        let (ran, report) = bench_with(&["-R", &scoped], how);
        assert_eq!(ran.code, 0, "{ran}");
        assert!(ran.stdout.contains("# Library other: 2.28.9, joined in "), "{ran}");
        assert_eq!(ran.stdout.matches(words).count(), 1, "{ran}");
        let registration = |library: usize| report["libraries"][library]["registration"].clone();
        assert_eq!((registration(0), registration(1)), ("none".into(), name.into()));
    }
    // The last one for a library counts; what is not registered is refused by one that needs it.
    assert_eq!(bench_with(&["-R", "2", "-R", "other:1"], "1").0.code, 0);
    let (plain, _) = bench_with(&[], "2");
    assert_eq!(plain.code, 1, "{plain}");
    assert!(plain.stderr.contains("ncclAllGather failed: invalid argument"), "{plain}");
}

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
fn what_makes_no_sense_exits_with_2() {
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
fn what_does_nothing_by_nature_has_no_remark() {
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
fn calls_are_grouped_waited_for_and_repeated_as_requested() {
    let Some(fake) = fake() else { return };
    for how in ["0", "1", "2", "3"] {
        let ran =
            bench(fake, &["allgather", "-b", "64", "-e", "128", "-n", "4", "-m", "3", "-z", how]);
        assert_eq!(ran.code, 0, "{how}: {ran}");
        assert_eq!(rows(&ran).len(), 2, "{ran}");
    }
    let ran = bench(fake, &["allreduce,broadcast", "-b", "8", "-e", "16", "-N", "3", "-S", "1"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(rows(&ran).len(), 3 * 2 * 2, "{ran}");
    for line in ["# cycle 1\n# allreduce\n", "# cycle 3\n# allreduce\n"] {
        assert!(ran.stdout.contains(line), "{ran}");
    }
    assert!(
        rows(&ran).iter().all(|row| row.len() == 15 && row[13].len() == 10 && row[14].len() == 8)
    );
}

#[test]
fn ranks_on_the_host_may_be_counted_as_gpus_are() {
    let Some(fake) = fake() else { return };
    let usual = ["bench", "allreduce", "--library", fake, "--device", "host", "-b", "8", "-e", "8"];
    let run = |more: &[&str]| msccl(&[&usual[..], more].concat());
    let ran = run(&["-g", "3"]);
    assert!(ran.code == 0 && ran.stdout.contains("# nRanks 3 "), "{ran}");
    assert!(ran.stderr.contains("note: -g counts ranks: they are on the host"), "{ran}");
    let ran = run(&["-t", "2", "-g", "2"]);
    assert!(ran.code == 0 && ran.stdout.contains("# nRanks 4 "), "{ran}");
    let ran = run(&["-g", "1", "--ranks", "2"]);
    assert!(ran.code == 0 && ran.stdout.contains("# nRanks 2 "), "{ran}");
    assert!(ran.stderr.contains("note: -g has no effect: ranks are on the host"), "{ran}");
}

/// The row says what served; what was requested and did not serve is a failure, however right
/// results are.
#[test]
fn what_serves_is_shown_and_held_against_what_was_requested() {
    let Some(fake) = fake() else { return };
    let json = file("bench/served.json", "");
    let run = |env: &[&str]| {
        let env = env.iter().flat_map(|variable| ["--env", variable]);
        let sizes = ["allreduce", "-b", "8", "-e", "16", "-n", "1", "--json", arg(&json)];
        let ran = bench(fake, &sizes.into_iter().chain(env).collect::<Vec<_>>());
        let report = std::fs::read_to_string(&json).unwrap();
        (ran, serde_json::from_str::<serde_json::Value>(&report).unwrap())
    };
    let ring = "FAKE_CHOICES=ring,tree";
    let (ran, report) = run(&[ring]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(rows(&ran).iter().all(|row| row.len() == 14 && row[13] == "ring"), "{ran}");
    let first = &report["rows"][0]["results"][0];
    assert_eq!(
        (&first["served_by"], &first["served_way"]),
        (&"ring".into(), &"Simple staged 1 512".into())
    );
    assert!(first.get("served_as_asked").is_none() && report["good"] == true, "{report}");
    let (ran, report) = run(&[ring, "MSCCL_ALGO=ring"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(report["rows"][1]["results"][1]["served_as_asked"], true);
    for (requested, words) in [
        ("MSCCL_ALGO=tree", "an algorithm whose name contains `tree`"),
        ("MSCCL_XML_FILES=/no/such.xml", "the file /no/such.xml"),
        ("MSCCL_ALGO_DIR=/no", "the files of /no"),
    ] {
        let (ran, report) = run(&[ring, requested]);
        assert_eq!(ran.code, 1, "{ran}");
        let line =
            format!("# msccl: requested {words}, which served none of 4 measurements: FAILED\n");
        assert!(ran.stdout.contains(&line), "{ran}");
        assert!(ran.stdout.contains("  ring (not as requested)\n"), "{ran}");
        assert_eq!(report["rows"][0]["results"][0]["served_as_asked"], false);
        assert_eq!(report["good"], false);
    }
    // A file among several, and one that a row has and another has not.
    let (ran, _) = run(&["FAKE_CHOICES=/a/b.xml", "MSCCL_XML_FILES=/a/b.xml:/a/c.xml"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(
        !ran.stdout.contains("/a/b.xml, which")
            && ran.stdout.contains("file /a/c.xml, which served none"),
        "{ran}"
    );
    assert!(rows(&ran).iter().all(|row| row[13] == "b.xml"), "{ran}");
    // Who cannot say what serves is not judged.
    let (ran, _) = run(&["MSCCL_ALGO=tree"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(
        ran.stdout.contains("and nothing that was measured is served by an algorithm"),
        "{ran}"
    );
}

#[test]
fn our_library_says_what_serves() {
    let Some(ours) = ours() else { return };
    let sizes = ["allreduce", "-b", "1K", "-e", "1K", "-n", "1", "-T", "60"];
    let plain = bench(arg(&ours), &sizes);
    assert!(plain.code == 0 && rows(&plain)[0][13].starts_with("allreduce/"), "{plain}");
    let requested = bench(arg(&ours), &[&sizes[..], &["--env", "MSCCL_ALGO=two_shot"]].concat());
    assert!(requested.code == 0 && rows(&requested)[0][13] == "allreduce/two_shot", "{requested}");
    let missing =
        bench(arg(&ours), &[&sizes[..], &["--env", "MSCCL_XML_FILES=/no/such.xml"]].concat());
    assert!(
        missing.code == 1
            && missing.stdout.contains("the file /no/such.xml, which served none of 2"),
        "{missing}"
    );
    let grouped = bench(arg(&ours), &[&sizes[..], &["-m", "4", "-z", "1", "-N", "2"]].concat());
    assert_eq!((grouped.code, rows(&grouped).len()), (0, 2), "{grouped}");
}

#[test]
fn a_library_that_is_not_there_is_out_at_once() {
    let ran = bench("/no/such/library.so", &["allreduce"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("cannot open /no/such/library.so"), "{ran}");
}

#[test]
fn workers_are_not_for_people() {
    let ran = msccl(&["bench-worker"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(!msccl(&["--help"]).stdout.contains("bench-worker"));
}

/// Our own library, if it has been built beside the command: as it was last, since tests alone
/// leave the copy beside the command as it is.
pub fn ours() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_BIN_EXE_msccl")).parent()?;
    let places = [folder.join("libnccl.so"), folder.join("deps/libnccl.so")];
    let built = |place: &PathBuf| fs::metadata(place).ok()?.modified().ok();
    let found = places.into_iter().filter(|place| place.is_file()).max_by_key(built);
    if found.is_none() {
        eprintln!("skipped: {} has not been built", folder.join("libnccl.so").display());
    }
    found
}

#[test]
fn our_library_is_right_on_the_host() {
    let Some(ours) = ours() else { return };
    let collectives = [
        "allreduce",
        "allgather",
        "reducescatter",
        "broadcast",
        "reduce",
        "alltoall",
        "sendrecv",
        "gather",
        "scatter",
        "hypercube",
    ];
    for collective in collectives {
        let sizes = ["-b", "8", "-f", "50", "-e", "100K", "-n", "2", "-r", "1", "--odd"];
        let kinds = ["-d", "float,bfloat16,int8", "-o", "sum,avg,mulsum", "-T", "60"];
        let ran = bench(arg(&ours), &[&[collective][..], &sizes, &kinds].concat());
        assert_eq!(ran.code, 0, "{collective}: {ran}");
    }
}

#[test]
fn our_library_takes_registered_buffers() {
    let Some(ours) = ours() else { return };
    for how in ["1", "2"] {
        let ran = bench(arg(&ours), &["allreduce", "-b", "8", "-e", "4K", "-n", "2", "-R", how]);
        assert_eq!(ran.code, 0, "{how}: {ran}");
    }
}

#[test]
fn ranks_can_share_a_process() {
    let Some(ours) = ours() else { return };
    let sizes = ["-b", "8", "-f", "50", "-e", "100K", "-n", "2", "-d", "float,int64", "-T", "60"];
    for collective in ["allreduce", "alltoall", "hypercube"] {
        let usual = ["bench", collective, "--device", "host", "--ranks", "4", "-t", "2"];
        let ran = msccl(&[&usual[..], &sizes, &["--library", arg(&ours)]].concat());
        assert_eq!(ran.code, 0, "{collective}: {ran}");
    }
}

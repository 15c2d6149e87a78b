//! What is called and measured: counts, roots, placements, groups, registered buffers.

use super::{bench, fake, rows};
use crate::{arg, file, msccl};

#[test]
fn a_correct_library_passes() {
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

//! `msccl tune` on the host: with a small library made for the purpose, and with ours if it has
//! been built.

use std::path::Path;

use serde_json::Value;

use crate::bench::{fake, ours};
use crate::{Ran, arg, check_refusal, file, msccl, msccl_with};

/// Tunes an all-reduce of two ranks on the host.
fn tune(library: &str, variables: &[(&str, &str)], args: &[&str]) -> Ran {
    let usual = ["tune", "allreduce", "--library", library, "--ranks", "2", "-b", "1K", "-f", "8"];
    let variables = [&[("MSCCL_DEVICE", "host")], variables].concat();
    msccl_with(&variables, &[&usual[..], args].concat(), b"")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The rows of a table, blanks alike.
fn rows(table: &str) -> Vec<String> {
    let is_row = |line: &&str| !line.starts_with('#') && !line.starts_with("slower");
    let lines = table.lines().filter(is_row).skip(2);
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn what_is_measured_becomes_a_table_that_decides() {
    let Some(ours) = ours() else { return };
    let [table, data, svg] =
        ["site.tuning", "all.json", "all.svg"].map(|name| file(&format!("tune/{name}"), ""));
    let files = ["-o", arg(&table), "--data", arg(&data), "--svg", arg(&svg), "--floor", "1,10"];
    let baseline = format!("other={}", arg(&ours));
    let more = ["-e", "64K", "--time", "4", "--against", &baseline];
    let ran = tune(arg(&ours), &[], &[&files[..], &more].concat());
    assert_eq!(ran.code, 0, "{ran}");
    for text in [
        "allreduce, float sum, 2 ranks, out-of-place, calls, host threads",
        "baseline us",
        "us/floor",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {ran}");
    }
    let text = read(&table);
    assert!(text.starts_with("# Measured on 20"), "{text}");
    assert!(text.contains("msccl tune allreduce --library"), "{text}");
    let measured: Value = serde_json::from_str(&read(&data)).unwrap();
    assert_eq!(measured["points"].as_array().unwrap().len(), 2 * 3);
    for point in measured["points"].as_array().unwrap() {
        assert!(!point["rival_us"].as_array().unwrap().is_empty(), "{point}");
    }
    // At the smallest size everything is tried while there is time, and every algorithm first of
    // all.
    let tried = measured["points"][0]["trials"].as_array().unwrap();
    let is = |choice: &str| tried.iter().any(|trial| trial["choice"] == choice);
    assert!(
        is("Simple staged 1 512 allreduce/two_shot") && is("Simple staged 1 512 allreduce/ring"),
        "{tried:?}"
    );
    assert!(read(&svg).contains("class=\"chosen\""));
    check_decisions(&table);
    // Every candidate is listed with its thread blocks, and why one is chosen.
    assert!(tried.iter().all(|trial| trial["blocks"].as_u64().unwrap() > 0), "{tried:?}");
    for text in ["Within 3.0% of the fastest", "  blocks  ", "chosen", "baseline", "floor"] {
        assert!(ran.stdout.contains(text), "{text}: {ran}");
    }
    check_limits(&data);
    check_repetition(&data, &table);
}

/// Every size is decided by a row of the table, as the row says, in the placement that all-reduces
/// usually have: the other one follows it.
fn check_decisions(table: &Path) {
    let text = read(table);
    for size in ["1K", "8K", "64K"] {
        let explained = [
            "explain",
            "allreduce",
            size,
            "--in-place",
            "--ranks",
            "2",
            "--device",
            "host",
            "--format",
            "json",
        ];
        let explained = msccl(&[&explained[..], &["--tuning", arg(table)]].concat()).json();
        let first = &explained["alternatives"][0];
        let line =
            first["decided_by"].as_str().unwrap().strip_prefix(&format!("{} line ", arg(table)));
        let line: usize = line.unwrap_or_else(|| panic!("{explained}")).parse().unwrap();
        let row: Vec<_> = text.lines().nth(line - 1).unwrap().split_whitespace().collect();
        assert_eq!(first["algorithm"], row[8], "{explained}");
        assert_eq!(first["instances"].to_string(), row[6], "{explained}");
        assert_eq!(explained["served_by"], row[8]);
    }
}

/// Of the candidates that a limit leaves, the best serve.
fn check_limits(data: &Path) {
    let least = msccl(&["tune", "--from", arg(data), "--margin", "100", "--blocks-at-most", "1"]);
    let explained = "with the fewest thread blocks and at most 1 of them";
    assert!(least.stdout.contains(explained) || least.code == 1, "{least}");
    let frugal = msccl(&["tune", "--from", arg(data), "--margin", "100"]);
    assert_eq!(frugal.code, 0, "{frugal}");
    assert!(frugal.stdout.contains("# Within 100.0% of the fastest, that with"), "{frugal}");
}

/// The same measurements give the same table, and what a table has for other calls stays.
fn check_repetition(data: &Path, table: &Path) {
    let text = read(table);
    let again = msccl(&["tune", "--from", arg(data)]);
    assert_eq!(again.code, 0, "{again}");
    // Standard output is the table and nothing else, to be sent into a file.
    assert_eq!(again.stdout, text, "{again}");
    assert!(again.stderr.contains("Within 3.0% of the fastest"), "{again}");
    let kept = "msccl-tuning 1\nmachine old\nallreduce any 2 any LL 1 32 gone\nallgather any 2 any \
                LL 1 32 kept\n";
    let kept = file("tune/kept.tuning", kept);
    let merged = msccl(&["tune", "--from", arg(data), "--keep", arg(&kept), "-o", arg(table)]);
    assert_eq!(merged.code, 0, "{merged}");
    let merged = rows(&read(table));
    assert_eq!(merged[..merged.len() - 1], rows(&text));
    assert_eq!(merged.last().unwrap(), "allgather any 2 any LL staged 1 32 kept");
}

#[test]
fn a_wrong_result_is_out_and_reported() {
    let Some(fake) = fake() else { return };
    let table = file("tune/wrong.tuning", "");
    let args = ["-e", "8K", "--placement", "out", "--time", "1", "-o", arg(&table)];
    let right = tune(fake, &[("FAKE_CHOICES", "good,slow")], &args);
    assert_eq!(right.code, 0, "{right}");
    assert_eq!(rows(&read(&table)), ["allreduce out 2 ..8KiB Simple staged 1 512 good"]);
    let wrong = tune(fake, &[("FAKE_CHOICES", "wrong,slow")], &args);
    assert_eq!(wrong.code, 1, "{wrong}");
    let expected =
        "Simple staged 1 512 wrong is out: allreduce of 1024 B, out-of-place: 2 elements are wrong";
    assert!(wrong.stderr.contains(expected), "{wrong}");
    assert!(wrong.stdout.contains("OUT     Simple staged 1 512 wrong: "), "{wrong}");
    let text = read(&table);
    assert_eq!(rows(&text), ["allreduce out 2 ..8KiB Simple staged 1 512 slow"]);
    assert!(text.contains("# Out: Simple staged 1 512 wrong: "), "{text}");
}

#[test]
fn what_breaks_the_library_does_not_harm_the_others() {
    let Some(fake) = fake() else { return };
    let table = file("tune/broken.tuning", "");
    let args = ["-e", "8K", "--placement", "in", "--time", "1", "-o", arg(&table)];
    let ran = tune(fake, &[("FAKE_CHOICES", "broken,dying,good,slow")], &args);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("Simple staged 1 512 broken is out: "), "{ran}");
    assert!(ran.stderr.contains("Simple staged 1 512 dying is out: "), "{ran}");
    assert!(ran.stderr.contains(": its process ended"), "{ran}");
    assert_eq!(ran.stderr.matches(" is out: ").count(), 3, "{ran}");
    assert_eq!(rows(&read(&table)), ["allreduce in 2 ..8KiB Simple staged 1 512 good"]);
}

#[test]
fn a_library_that_cannot_be_tuned_is_reported() {
    let Some(fake) = fake() else { return };
    let table = file("tune/untouched.tuning", "as it was");
    // Of a choice that the library does not know.
    let unknown = tune(fake, &[("FAKE_CHOICES", "strange")], &["-e", "1K", "-o", arg(&table)]);
    assert_eq!(unknown.code, 1, "{unknown}");
    assert!(unknown.stderr.contains("Simple staged 1 512 strange is out: "), "{unknown}");
    assert!(unknown.stderr.contains("there is no table"), "{unknown}");
    let missing = tune("/no/such/library.so", &[], &["-e", "1K", "-o", arg(&table)]);
    assert_eq!(missing.code, 1, "{missing}");
    assert!(missing.stderr.contains("cannot open /no/such/library.so"), "{missing}");
    assert_eq!(read(&table), "as it was");
}

#[test]
fn estimates_become_a_table_of_guesses() {
    let table = file("tune/guess.tuning", "");
    let sizes = ["-b", "4K", "-e", "1M", "-f", "16", "-o", arg(&table)];
    let nodes = ["tune", "allreduce", "--estimate", "--ranks", "8", "--per-node", "4"];
    let ran = msccl(&[&nodes[..], &sizes].concat());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("8 ranks, out-of-place, graphs, 2 nodes like HGX"), "{ran}");
    let text = read(&table);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("# Estimated on 20") && first.contains("measured nowhere"), "{text}");
    assert!(first.contains("assumes 2 nodes like HGX H200 with 4 GPUs"), "{text}");
    let rows = rows(&text);
    let is_guess = |row: &String| row.split(' ').nth(2) == Some("8/2?") && row.contains(" Simple ");
    assert!(!rows.is_empty() && rows.iter().all(is_guess), "{text}");
    let call = ["explain", "allreduce", "64K", "--ranks", "8", "--per-node", "4", "--in-place"];
    let all = msccl(&[&call[..], &["--tuning", arg(&table), "--format", "json"]].concat()).json();
    let first = &all["alternatives"][0];
    assert!(first["decided_by"].as_str().unwrap().starts_with(arg(&table)), "{all}");
    assert!(first["guess"].as_str().unwrap().starts_with("nobody measured it"), "{all}");
}

/// On one node, with all protocols; a loaded file is a candidate, and is not passed over.
#[test]
fn files_and_all_protocols_have_estimates() {
    let mine = "algorithm mine(ranks N = 4) implements allreduce(chunks 1) {
        for r in 0..N { output@r = sum(q in 0..N: input@q) }
    }";
    let (mine, data) = (file("tune/mine.msccl", mine), file("tune/guess.json", ""));
    let args = ["tune", "allreduce", "--estimate", "--topo", "hgx-h200-4", "-b", "4K", "-e", "4K"];
    let variables = [("MSCCL_XML_FILES", arg(&mine))];
    let ran = msccl_with(&variables, &[&args[..], &["--data", arg(&data)]].concat(), b"");
    assert!(ran.code == 0 && !ran.stdout.contains("passed-over"), "{ran}");
    let measured: Value = serde_json::from_str(&read(&data)).unwrap();
    let trials = measured["points"][0]["trials"].as_array().unwrap();
    let has = |part: &str| trials.iter().any(|of| of["choice"].as_str().unwrap().contains(part));
    assert!(has("LL staged") && has("Simple staged") && has(arg(&mine)), "{trials:#?}");
    let five = ["tune", "allreduce", "--estimate", "--ranks", "5", "--per-node", "2"];
    check_refusal(&five, 2, "ranks that fill nodes of 2, found 5");
}

#[test]
fn what_makes_no_sense_exits_with_2() {
    check_refusal(&["tune"], 2, "<COLLECTIVE>");
    check_refusal(
        &["tune", "sendrecv", "--device", "host"],
        2,
        "expected a collective with algorithms, found sendrecv",
    );
    check_refusal(
        &["tune", "allreduce", "-b", "2K", "-e", "1K", "--device", "host"],
        2,
        "the smallest size",
    );
    check_refusal(&["tune", "allreduce", "--ranks", "1"], 2, "nothing to tune for one rank");
    check_refusal(&["tune", "reduce", "-r", "4", "--device", "host"], 2, "there is no rank 4");
    check_refusal(
        &["tune", "allreduce", "--keep", "no/such.tuning"],
        2,
        "no/such.tuning: it cannot be read",
    );
    check_refusal(
        &["tune", "allreduce", "-o", "no/such/site.tuning"],
        2,
        "there is no folder no/such",
    );
    check_refusal(&["tune", "gossip"], 2, "expected one of allreduce, allgather");
    check_refusal(&["tune", "--from", "Cargo.toml"], 2, "Cargo.toml: expected measurements");
    let stuck = ["tune", "allreduce", "--device", "host", "-b", "0", "-e", "4K", "--library", "x"];
    check_refusal(&stuck, 2, "expected a smallest size (-b) above 0 with a factor");
    let json = crate::file("tune/data.json", br#"{"schema": "msccl-tune/2", "machine": 7}"#);
    check_refusal(
        &["tune", "--from", crate::arg(&json)],
        2,
        "line 1, column 39: machine: expected a text in double quotes, found 7",
    );
    let in_place = ["tune", "alltoall", "--placement", "in", "--device", "host"];
    check_refusal(&in_place, 2, "alltoall is not tuned in place");
    check_refusal(&["tune", "allreduce", "--floor", "6"], 2, "such as 6,450");
}

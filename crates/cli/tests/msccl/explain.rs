//! `msccl explain`.

use serde_json::Value;

use crate::{Ran, arg, check_refusal, file, msccl, msccl_reading, msccl_with};

/// Serves calls of 4 KiB up to 1 MiB.
const MINE: &str = "\
algorithm mine(ranks N = 4) implements allreduce(chunks 1) bytes 4096..1048577 {
    for r in 0..N { output@r = sum(q in 0..N: input@q) }
}
";

/// Explains on the host, where no measurements decide, what `args` say.
fn explained(args: &[&str]) -> Ran {
    let args = [&["explain", "--device", "host", "--ranks", "4"], args].concat();
    msccl_reading(&args, MINE.as_bytes())
}

#[test]
fn a_call_has_one_answer_and_every_alternative() {
    insta::assert_snapshot!(explained(&["allreduce", "64K", "-"]).stdout, @r"
    loaded   <stdin>: mine, allreduce over 4 ranks, 1 chunk a block
    allreduce of 64 KiB, 16384 elements a block: sum of f32, out of place, 4 ranks on host threads
              algorithm                     decided by  order    how, or why not
      serves  <stdin> (loaded)              loaded      flat     Simple, 1 × 2 thread blocks of 512 threads, rounds: 2
      could   allreduce/ring                fallback    several  Simple, 1 × 1 thread blocks of 512 threads, rounds: 1
      could   allreduce/ring_interleaved    fallback    several  Simple, 1 × 1 thread blocks of 512 threads, rounds: 1
      could   allreduce/double_binary_tree  fallback    several  Simple, 1 × 3 thread blocks of 512 threads, rounds: 1
      could   allreduce/two_shot            fallback    flat     Simple, 1 × 7 thread blocks of 512 threads, rounds: 1
      could   allreduce/two_shot_block      fallback    flat     Simple, 1 × 1 thread blocks of 512 threads, rounds: 1
      could   allreduce/one_shot            fallback    flat     Simple, 1 × 2 thread blocks of 512 threads, rounds: 2
      could   allreduce/one_step            fallback    flat     Simple, 1 × 2 thread blocks of 512 threads, rounds: 2
      could   allreduce/one_block           fallback    flat     Simple, 1 × 1 thread blocks of 512 threads, rounds: 2
    ");
    insta::assert_snapshot!(explained(&["allreduce", "1K", "-"]).stdout, @r"
    loaded   <stdin>: mine, allreduce over 4 ranks, 1 chunk a block
    allreduce of 1 KiB, 256 elements a block: sum of f32, out of place, 4 ranks on host threads
              algorithm                     decided by  order    how, or why not
      cannot  <stdin> (loaded)              loaded      flat     it is for 4096..=1048576 bytes, the call has 1024 bytes
      serves  allreduce/ring                fallback    several  Simple, 1 × 1 thread blocks of 512 threads, rounds: 1
      could   allreduce/ring_interleaved    fallback    several  Simple, 1 × 1 thread blocks of 512 threads, rounds: 1
      could   allreduce/double_binary_tree  fallback    several  Simple, 1 × 3 thread blocks of 512 threads, rounds: 1
      could   allreduce/two_shot            fallback    flat     Simple, 1 × 7 thread blocks of 512 threads, rounds: 1
      could   allreduce/two_shot_block      fallback    flat     Simple, 1 × 1 thread blocks of 512 threads, rounds: 1
      could   allreduce/one_shot            fallback    flat     Simple, 1 × 2 thread blocks of 512 threads, rounds: 1
      could   allreduce/one_step            fallback    flat     Simple, 1 × 2 thread blocks of 512 threads, rounds: 1
      could   allreduce/one_block           fallback    flat     Simple, 1 × 1 thread blocks of 512 threads, rounds: 1
      a guess: no table has a row for such calls; `msccl tune` measures
    ");
}

/// An in-place reduce-scatter of two ranks that leaves sums in a block of the caller's.
const SPILLS: &str = "algorithm \"spills\"
collective reducescatter ranks 2 chunks 1
placement in place
protocol Simple
bytes 0..

r0 scratch 0
  tb0 ch0 send r1 receive r1
    s0: i[1] -> r1
    s1: r1 + i[0] -> i[0]
    s2: i[0] -> i[1]

r1 scratch 0
  tb0 ch0 send r0 receive r0
    s0: i[0] -> r0
    s1: r0 + i[1] -> i[1]
    s2: i[1] -> i[0]
";

#[test]
fn what_the_caller_keeps_is_not_overwritten() {
    let explained = |text: &str| {
        let args = ["explain", "--device", "host", "--ranks", "2", "--in-place"];
        msccl_reading(&[&args[..], &["reducescatter", "64K", "-"]].concat(), text.as_bytes())
    };
    let spills = explained(SPILLS);
    assert_eq!(spills.code, 0, "{spills}");
    let reason = "in place it overwrites blocks of the input that the caller keeps";
    assert!(spills.stdout.contains(reason), "{spills}");
    assert!(spills.stdout.contains("serves  reducescatter/"), "{spills}");
    let keeps: String = SPILLS
        .lines()
        .filter(|line| !line.contains("s2:"))
        .map(|line| format!("{line}\n"))
        .collect();
    let keeps = explained(&keeps);
    assert!(keeps.stdout.contains("serves  <stdin>"), "{keeps}");
}

#[test]
fn what_is_hardly_meant_and_what_is_not_followed_is_noted() {
    let text = MINE.replacen('{', "{ for i in 3..0 { output@0 = input@0 }", 1);
    let args = ["explain", "--device", "host", "--ranks", "4", "allreduce", "64K", "-"];
    let variables = [("NCCL_ALGO", "NVLS"), ("NCCL_MIN_NCHANNELS", "8")];
    let ran = msccl_with(&variables, &args, text.as_bytes());
    for line in [
        "note: NCCL_ALGO is `NVLS`, which is not followed: ",
        "note: NCCL_MIN_NCHANNELS is `8`, which is not followed: ",
        "note: <stdin>, line 1, column ",
    ] {
        assert!(ran.stderr.lines().any(|said| said.starts_with(line)), "{line}: {ran}");
    }
}

#[test]
fn nccl_s_own_variables_choose_where_ours_do_not() {
    let args = ["explain", "--device", "host", "--ranks", "4", "allreduce", "64K"];
    let served = |variables: &[(&str, &str)]| {
        let ran = msccl_with(variables, &args, b"");
        let line = ran.stdout.lines().find(|line| line.starts_with("  serves")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(served(&[]), "allreduce/ring");
    assert_eq!(served(&[("NCCL_ALGO", "^Ring")]), "allreduce/double_binary_tree");
    assert_eq!(served(&[("NCCL_ALGO", "broadcast:tree")]), "allreduce/ring");
    let both = [("NCCL_ALGO", "Tree"), ("MSCCL_ALGO", "one_shot")];
    assert_eq!(served(&both), "allreduce/one_shot");
}

#[test]
fn an_order_that_is_required_is_stated_and_excludes() {
    let args = ["explain", "--device", "host", "--ranks", "4", "allreduce", "64K"];
    let ask = |variables: &[(&str, &str)], more: &[&str]| {
        msccl_with(variables, &[&args[..], more].concat(), MINE.as_bytes())
    };
    let flat = [("MSCCL_ORDER", "flat")];
    let ran = ask(&flat, &["-"]);
    let lines: Vec<_> = ran.stdout.lines().collect();
    let demand =
        "order    flat, 0+1+…+3: what adds otherwise serves no reduction (MSCCL_ORDER is `flat`)";
    assert_eq!(lines[1], demand, "{ran}");
    let row = |name: &str| *lines.iter().find(|line| line.contains(name)).unwrap();
    let why = "it adds in 4 orders or more, and the order must be flat, 0+1+…+3";
    assert!(row("allreduce/ring ").contains("several"), "{ran}");
    assert!(
        row("allreduce/ring ").starts_with("  cannot") && row("/ring ").ends_with(why),
        "{ran}"
    );
    assert!(row("<stdin> (loaded)  ").contains("  flat  "), "{ran}");
    // For who pins NCCL, the first line says how that is understood.
    let pinned = ask(&[("NCCL_ALGO", "allreduce:tree")], &[]);
    assert!(pinned.stdout.starts_with("order    flat, 0+1+…+3: "), "{pinned}");
    assert!(pinned.stdout.contains("MSCCL_ORDER=any undoes it)"), "{pinned}");
    let gathers = ["explain", "--device", "host", "allgather", "64K"];
    let gathers = msccl_with(&flat, &gathers, b"");
    assert!(gathers.stdout.starts_with("allgather"), "{gathers}");
    let report = ask(&flat, &["--format", "json"]).json();
    assert_eq!(report["required_order"], "flat");
    let alternatives = report["alternatives"].as_array().unwrap();
    let of = |name: &str| alternatives.iter().find(|one| one["algorithm"] == name).unwrap();
    assert_eq!(of("allreduce/two_shot")["addition_orders"]["shape"], "flat");
    assert_eq!(of("allreduce/ring")["addition_orders"]["count"], 4);
    let table = msccl_with(&flat, &["explain", "allreduce", "--format", "json"], b"").json();
    assert_eq!(table["decisions"][0]["addition_orders"]["shape"], "flat");
    assert_eq!(explained(&["allgather", "--format", "json"]).json()["required_order"], "any");
}

#[test]
fn the_table_has_a_row_wherever_the_decision_changes() {
    insta::assert_snapshot!(explained(&["allreduce", "-"]).stdout, @r"
    loaded   <stdin>: mine, allreduce over 4 ranks, 1 chunk a block
    powers of two: sum of f32, out of place, 4 ranks on host threads
      collective   from     to  algorithm         decided by  order    how
      allreduce   1 KiB  2 KiB  allreduce/ring    fallback    several  Simple, 1 × 1 thread blocks of 512 threads
      allreduce   4 KiB  1 MiB  <stdin> (loaded)  loaded      flat     Simple, 1 × 2 thread blocks of 512 threads
      allreduce   2 MiB  1 GiB  allreduce/ring    fallback    several  Simple, 1 × 1 thread blocks of 512 threads
      a guess: no table has a row for such calls; `msccl tune` measures
    ");
    insta::assert_snapshot!(explained(&[]).stdout, @r"
    powers of two: sum of f32, root r0, out of place, 4 ranks on host threads
      collective      from     to  algorithm           decided by  order        how
      allreduce      1 KiB  1 GiB  allreduce/ring      fallback    several      Simple, 1 × 1 thread blocks of 512 threads
      allgather      1 KiB  1 GiB  allgather/ring      fallback    -            Simple, 1 × 2 thread blocks of 512 threads
      reducescatter  1 KiB  1 GiB  reducescatter/ring  fallback    several      Simple, 1 × 1 thread blocks of 512 threads
      alltoall       1 KiB  1 GiB  alltoall/allpairs   fallback    -            Simple, 1 × 7 thread blocks of 512 threads
      broadcast      1 KiB  1 GiB  broadcast/chain     fallback    -            Simple, 1 × 2 thread blocks of 512 threads
      reduce         1 KiB  1 GiB  reduce/chain        fallback    0+((1+2)+3)  Simple, 1 × 1 thread blocks of 512 threads
      gather         1 KiB  1 GiB  gather/direct       fallback    -            Simple, 1 × 4 thread blocks of 512 threads
      scatter        1 KiB  1 GiB  scatter/direct      fallback    -            Simple, 1 × 4 thread blocks of 512 threads
      a guess: no table has a row for such calls; `msccl tune` measures
    ");
}

#[test]
fn a_table_decides_and_is_named() {
    let rows = "allreduce any 4 ..64KiB Simple 2 64 allreduce/two_shot\n";
    let table = file("explain/site.tuning", format!("msccl-tuning 1\nmachine ours\n{rows}"));
    let ask = |size: &str, variables: &[(&str, &str)], more: &[&str]| {
        let args = ["explain", "allreduce", size, "--ranks", "4", "--format", "json"];
        msccl_with(variables, &[&args, more].concat(), b"")
    };
    let expected = format!("{} line 3", arg(&table));
    let named = ask("64K", &[], &["--tuning", arg(&table)]).json();
    let set = ask("64K", &[("MSCCL_TUNING", arg(&table))], &[]).json();
    for report in [named, set] {
        assert_eq!(report["served_by"], "allreduce/two_shot");
        assert_eq!(report["alternatives"][0]["decided_by"], *expected);
        assert_eq!(report["alternatives"][0]["guess"], Value::Null);
    }
    let missing = ask("64K", &[("MSCCL_TUNING", "no/such.tuning")], &[]);
    assert!(missing.stderr.contains("MSCCL_TUNING is not used: no/such.tuning: "), "{missing}");
    let decided = missing.json()["alternatives"][0]["decided_by"].as_str().unwrap().to_owned();
    assert!(decided.starts_with("shipped table line "), "{decided}");
    // Rows for any number of ranks, and for eight, which nobody measured.
    for ranks in ["3", "8"] {
        let args =
            ["explain", "allreduce", "64K", "--ranks", ranks, "--in-place", "--format", "json"];
        let guess = msccl(&args).json()["alternatives"][0]["guess"].as_str().unwrap().to_owned();
        let expected = "nobody measured it on as many ranks; shipped table is from 4 ";
        assert!(guess.starts_with(expected), "{guess}");
    }
    assert_eq!(ask("64K", &[], &["--tuning", "no/such.tuning"]).code, 2);
}

#[test]
fn what_a_call_takes_of_a_gpu_is_shown() {
    let shown = |args: &[&str]| msccl(&[&["explain", "allreduce"], args].concat()).stdout;
    let call = shown(&["1K", "--ranks", "8"]);
    let expected = " threads on r0, so at most ";
    assert!(call.lines().any(|line| line.contains(expected)), "{call}");
    let table = shown(&["--ranks", "8"]);
    assert!(table.lines().any(|line| line.ends_with("  SMs")), "{table}");
    // As many as the library would leave it.
    for limit in ["NCCL_MAX_CTAS", "MSCCL_SM_BUDGET"] {
        let args = ["explain", "allreduce", "1M", "--ranks", "2"];
        let limited = msccl_with(&[(limit, "4")], &args, b"").stdout;
        assert!(limited.contains("so at most 4 multiprocessors"), "{limited}");
    }
    let host = shown(&["1K", "--ranks", "8", "--device", "host"]);
    assert!(!host.contains("multiprocessor"), "{host}");
}

#[test]
fn direct_links_are_shown() {
    let rows = "allreduce any 4 ..64KiB Simple direct 2 64 allreduce/two_shot\n";
    let table = file("explain/direct.tuning", format!("msccl-tuning 2\nmachine ours\n{rows}"));
    let ask = |direct: &str, more: &[&str]| {
        let args = ["explain", "allreduce", "64K", "--ranks", "4", "--tuning", arg(&table)];
        msccl_with(&[("MSCCL_DIRECT", direct)], &[&args[..], more].concat(), b"")
    };
    for (direct, links) in [("0", "staged"), ("1", "direct"), ("2", "direct")] {
        let report = ask(direct, &["--format", "json"]).json();
        assert_eq!(report["alternatives"][0]["links"], links, "{report}");
        let shown = ask(direct, &[]).stdout;
        let serves = shown.lines().find(|line| line.contains("serves")).unwrap();
        let is_direct = serves.contains("Simple over direct links, 2 × ");
        assert_eq!(is_direct, links == "direct", "{shown}");
    }
}

#[test]
fn what_copy_engines_carry_is_shown() {
    let ask = |budget: &str, words: &[&str]| {
        let args = [&["explain", "--ranks", "2"], words].concat();
        let shown = msccl_with(&[("MSCCL_SM_BUDGET", budget)], &args, b"").stdout;
        let line = shown.lines().find(|line| line.contains("copy engines")).map(str::to_owned);
        line.map(|line| line.trim_start().to_owned())
    };
    let carried = "where its outputs lie in symmetric windows, copy engines carry it instead: ";
    let line = ask("132", &["allgather", "1G"]);
    assert_eq!(line, Some(format!("{carried}allgather/one_sender")));
    assert_eq!(ask("132", &["allgather", "64M"]), None);
    let line = ask("0", &["alltoall", "64M"]);
    assert!(line.as_ref().is_some_and(|line| line.starts_with(carried)), "{line:?}");
    // A reduce-scatter needs no windows.
    let combined = "make its exchange instead, and 8 thread blocks combine: ";
    let line = ask("8", &["reducescatter", "64M"]).unwrap();
    assert!(line.starts_with(&format!("copy engines {combined}")), "{line}");
    let line = ask("8", &["allreduce", "64M"]).unwrap();
    let windows = "where its outputs lie in symmetric windows, copy engines ";
    assert!(line.starts_with(&format!("{windows}{combined}")), "{line}");
    assert_eq!(ask("8", &["allreduce", "64M", "--device", "host"]), None);
    let json = msccl(&["explain", "--ranks", "2", "allgather", "1G", "--format", "json"]).json();
    let engines = &json["copy_engines"];
    assert_eq!(engines["algorithm"], "allgather/one_sender", "{json}");
    assert_eq!(
        (&engines["needs_windows"], &engines["combining_blocks"]),
        (&true.into(), &Value::Null)
    );
}

/// On GPUs measurements decide, so that only the form of the table stays.
#[test]
fn the_table_covers_all_sizes_of_all_collectives() {
    let ran = msccl(&["explain", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran}");
    let report = ran.json();
    assert_eq!((&report["device"], &report["ranks"]), (&"cuda".into(), &8.into()));
    let decisions = report["decisions"].as_array().unwrap();
    let number = |decision: &Value, name: &str| decision[name].as_u64().unwrap();
    let mut collectives = 0;
    let mut next = 1 << 10;
    for decision in decisions {
        assert_eq!(number(decision, "from_bytes"), next, "{decision}");
        let prefix = format!("{}/", decision["collective"].as_str().unwrap());
        assert!(decision["algorithm"].as_str().unwrap().starts_with(&prefix), "{decision}");
        let blocks = number(decision, "blocks");
        assert_eq!(blocks, number(decision, "instances") * number(decision, "thread_blocks"));
        assert!((1..=blocks).contains(&number(decision, "multiprocessors")), "{decision}");
        next = 2 * number(decision, "to_bytes");
        if next > 1 << 30 {
            collectives += 1;
            next = 1 << 10;
        }
    }
    assert_eq!((collectives, next), (8, 1 << 10));
}

#[test]
fn json_names_what_serves_and_why_the_others_do_not() {
    let mine = file("explain/json.msccl", MINE);
    let ask = |size: &str| {
        explained(&["all_reduce_perf", size, "--op", "avg", "--format", "json", arg(&mine)]).json()
    };
    let report = ask("4095");
    // Rounded up to whole elements.
    assert_eq!((&report["bytes"], &report["count"]), (&4096.into(), &1024.into()));
    assert_eq!(report["served_by"], arg(&mine));
    assert_eq!(report["reduction"], "avg");
    let report = ask("4092");
    assert!(report["served_by"].as_str().unwrap().starts_with("allreduce/"), "{report}");
    let first = &report["alternatives"][0];
    assert_eq!((&first["loaded"], &first["serves"]), (&true.into(), &false.into()));
    assert!(first["reason"].as_str().unwrap().contains("the call has 4092 bytes"), "{first}");
}

#[test]
fn refused_files_are_reported_and_exit_with_1() {
    let broken = file("explain/broken.xml", "<algo/>");
    let good = file("explain/good.msccl", MINE);
    let ran = explained(&["allreduce", "64K", arg(&broken), arg(&good)]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains(&format!("refused  {}: ", arg(&broken))), "{ran}");
    assert!(ran.stdout.contains(&format!("serves  {} (loaded)", arg(&good))), "{ran}");
    let mistaken = file("explain/mistaken.msccl", MINE.replace("for r", "fro r"));
    let ran = explained(&["allreduce", "64K", arg(&mistaken)]);
    let expected = format!("refused  {}: line 2, column ", arg(&mistaken));
    assert!(ran.code == 1 && ran.stdout.contains(&expected), "{ran}");
    let missing = explained(&["allreduce", "64K", "no/such.xml"]);
    assert_eq!(missing.code, 2, "{missing}");
    assert!(missing.stdout.contains("refused  no/such.xml: there is no folder no"), "{missing}");
    assert!(missing.stdout.contains("serves  allreduce/"), "{missing}");
    let of_two = crate::exchange_xml(2);
    let ran = msccl_reading(&["explain", "allreduce", "-"], of_two.as_bytes());
    assert_eq!(ran.code, 1, "{ran}");
    let expected = "refused  <stdin>: it is for 2 ranks, and the communicator has 8";
    assert!(ran.stdout.contains(expected), "{ran}");
}

#[test]
fn variables_are_read_as_the_library_reads_them() {
    let first = file("explain/folder/a.msccl", MINE);
    file("explain/folder/b.txt", "not an algorithm");
    let listed = file("explain/listed.msccl", MINE);
    let folder = first.parent().unwrap();
    let ask = |variables: &[(&str, &str)]| {
        let args = ["explain", "allreduce", "64K", "--ranks", "4", "--format", "json"];
        let ran = msccl_with(variables, &args, b"");
        assert_eq!(ran.code, 0, "{ran}");
        ran
    };
    let both = ask(&[("MSCCL_ALGO_DIR", arg(folder)), ("MSCCL_XML_FILES", arg(&listed))]).json();
    assert_eq!(both["loaded"], serde_json::json!([arg(&listed), arg(&first)]));
    assert_eq!(both["served_by"], arg(&listed));
    let over_loaded = ask(&[("MSCCL_XML_FILES", arg(&listed)), ("MSCCL_ALGO", "tree")]).json();
    assert_eq!(over_loaded["served_by"], "allreduce/double_binary_tree");
    assert_eq!(over_loaded["alternatives"][1]["algorithm"], arg(&listed));
    let overridden = ask(&[("MSCCL_ALGO", "tree"), ("MSCCL_INSTANCES", "2")]).json();
    assert_eq!(overridden["served_by"], "allreduce/double_binary_tree");
    assert_eq!(overridden["alternatives"][0]["instances"], 2);
    let strange = ask(&[("MSCCL_PROTO", "LL256"), ("MSCCL_DEVICE", "host")]);
    let expected = "MSCCL_PROTO is `LL256`, expected `Simple`, `LL` or `LL128`; it is ignored";
    assert!(strange.stderr.contains(expected), "{strange}");
    assert_eq!(strange.json()["device"], "host");
    let set = file("explain/nccl.conf", "# ours\nMSCCL_ALGO=tree\nMSCCL_DEVICE=host\n");
    let set = ("NCCL_CONF_FILE", arg(&set));
    let by_file = ask(&[set, ("MSCCL_DEVICE", "cuda")]).json();
    assert_eq!(by_file["served_by"], "allreduce/double_binary_tree");
    assert_eq!(by_file["device"], "cuda", "the process wins");
    assert_eq!(ask(&[set, ("MSCCL_DEVICE", "")]).json()["device"], "cuda", "empty is not set");
}

#[test]
fn questions_that_make_no_sense_exit_with_2() {
    check_refusal(&["explain", "alreduce"], 2, "expected a collective (allreduce, allgather,");
    check_refusal(&["explain", "1M"], 2, "a size alone says too little");
    check_refusal(&["explain", "allreduce", "reduce"], 2, "more than one collective");
    check_refusal(&["explain", "allreduce", "1M", "2M"], 2, "more than one collective or size");
    check_refusal(&["explain", "reduce", "--root", "8"], 2, "there is no root r8");
    check_refusal(&["explain", "--ranks", "0"], 2, "invalid value '0'");
    let rooted = msccl(&["explain", "broadcast", "1K", "--root", "7", "--in-place"]);
    assert_eq!(rooted.code, 0, "{rooted}");
    assert!(
        rooted
            .stdout
            .starts_with("broadcast of 1 KiB, 256 elements a block: f32, root r7, in place, 8")
    );
}

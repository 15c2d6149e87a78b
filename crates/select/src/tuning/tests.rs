//! What tables say, which ones are refused, and what the shipped one decides.

use std::collections::BTreeSet;

use msccl_collective::{CallPlacement, CollectiveKind, DataType};
use msccl_registry::{File, Registry, Shape};

use super::*;

const HEAD: &str = "msccl-tuning 2\nmachine test\n";

/// Out of place, of `bytes` bytes over four ranks.
fn request(kind: CollectiveKind, bytes: u64) -> CallShape {
    let (data_type, reduction) = (DataType::U8, None);
    CallShape { kind, placement: CallPlacement::OutOfPlace, data_type, reduction, count: bytes }
}

/// The lines of rows that a table of `rows` has for an all-reduce of `bytes` over `ranks` on one
/// node.
#[track_caller]
fn check(rows: &str, bytes: u64, ranks: u32, in_place: bool, expected: &[usize]) {
    check_nodes(rows, bytes, Shape { ranks, per_node: ranks }, in_place, expected);
}

/// The same on nodes of `shape`.
#[track_caller]
fn check_nodes(rows: &str, bytes: u64, shape: Shape, in_place: bool, expected: &[usize]) {
    let table = Tuning::parse("mine", format!("{HEAD}{rows}").as_bytes()).unwrap();
    let placement = CallPlacement::from_in_place(in_place);
    let request = CallShape { placement, ..request(CollectiveKind::AllReduce, bytes) };
    let lines: Vec<_> = table.rows_for(&request, shape).map(|row| row.line).collect();
    assert_eq!(lines, expected, "{bytes} bytes, {shape:?}, in place {in_place}");
}

#[test]
fn rows_are_for_one_node_unless_they_say_otherwise() {
    let rows = "allreduce any any    any Simple staged 1 32 a\n\
                allreduce any any/1  any Simple staged 1 32 b\n\
                allreduce any 16/2   any Simple staged 1 32 c\n\
                allreduce any ..64/2.. any Simple staged 1 32 d\n\
                allreduce any any/any any Simple staged 1 32 e\n";
    let check = |ranks, per_node, expected: &[usize]| {
        check_nodes(rows, 1, Shape { ranks, per_node }, true, expected);
    };
    check(16, 16, &[3, 4, 7]);
    check(16, 8, &[5, 6, 7]);
    check(16, 4, &[6, 7]);
    check(128, 8, &[7]);
}

#[test]
fn rows_are_for_what_they_say() {
    let rows = "# two-shot first\n\
                allreduce in    4    ..2KiB     LL     staged 4  512  a\n\
                allreduce out   2..8 2KiB..1MiB Simple direct 16 256  b c.msccl\n\n\
                allgather any   any  any        LL     staged 1  32   c\n\
                allreduce any   5..  4096       LL128  staged 1  32   d\n";
    check(rows, 2048, 4, true, &[4]);
    check(rows, 2049, 4, true, &[]);
    check(rows, 0, 4, true, &[4]);
    check(rows, 2048, 4, false, &[5]);
    check(rows, 2047, 4, false, &[]);
    check(rows, 1 << 20, 8, false, &[5]);
    check(rows, (1 << 20) + 1, 8, false, &[]);
    check(rows, 4096, 9, false, &[8]);
    check(rows, 4096, 5, false, &[5, 8]);
    check(rows, 4096, 5, true, &[8]);
    let table = Tuning::parse("mine", format!("{HEAD}{rows}").as_bytes()).unwrap();
    assert_eq!((table.name(), table.machine()), ("mine", "test"));
    let row = &table.rows[1];
    assert_eq!(row.choice.algorithm, "b c.msccl");
    let (protocol, links) = (Protocol::Simple, Links::Direct);
    assert_eq!(row.choice.variant, Variant { protocol, links, instances: 16, threads: 256 });
    assert_eq!(table.basis(row).to_string(), "mine line 5");
    assert_eq!(table.basis(row).guess(), None);
    let guess = table.basis(&table.rows[2]).guess().unwrap();
    assert!(!table.rows[2].is_measured() && row.is_measured());
    assert_eq!(guess, "nobody measured it on as many ranks; mine is from test");
    assert!(
        PreferenceReason::Fallback.guess().is_some() && PreferenceReason::Loaded.guess().is_none()
    );
}

#[track_caller]
fn check_refusal(text: &str, expected: &str) {
    let error = Tuning::parse("mine", text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, format!("mine{expected}"));
}

#[test]
fn wrong_heads_are_refused() {
    check_refusal("", ": expected `msccl-tuning 3`, found the end");
    check_refusal("# a\n\n<algo/>\n", " line 3: expected `msccl-tuning 3`, found `<algo/>`");
    let expected = " line 1: expected version 1 to 3 of the format, found `4`";
    check_refusal("msccl-tuning 4\n", expected);
    let expected = ": expected `machine` and what the table is for, found the end";
    check_refusal("msccl-tuning 2\n", expected);
    check_refusal(&"\n".repeat((1 << 20) + 1), ": expected at most 1024 KiB, found more");
    let error = Tuning::parse("mine", b"msccl-tuning \xff").unwrap_err().to_string();
    assert!(error.starts_with("mine: expected UTF-8 text, found 0x"), "{error}");
}

#[test]
fn wrong_rows_are_refused() {
    let check = |row: &str, expected: &str| {
        check_refusal(&format!("{HEAD}{row}\n"), &format!(" line 3: {expected}"));
    };
    check(
        "gossip any any any LL staged 1 32 a",
        "expected a collective (allreduce, allgather, reducescatter, alltoall, broadcast, reduce, \
         gather, scatter), found `gossip`",
    );
    check(
        "reduce both any any LL staged 1 32 a",
        "expected a placement (in, out, any), found `both`",
    );
    check(
        "reduce in any any LL staged 1 32 a",
        "expected placement `any`, found `in`: of a reduce only the root knows whether it is in \
         place",
    );
    let such = "such as 4, 2..8, ..8, 2.. or any, found";
    check("allreduce any four any LL staged 1 32 a", &format!("expected ranks {such} `four`"));
    check(
        "allreduce any 4/ any LL staged 1 32 a",
        "expected nodes such as 4, 2..8, ..8, 2.. or any, found ``",
    );
    check("allreduce any 2KiB any LL staged 1 32 a", &format!("expected ranks {such} `2KiB`"));
    check("allreduce any any .. LL staged 1 32 a", &format!("expected bytes {such} `..`"));
    check("allreduce any any 1..2kB LL staged 1 32 a", &format!("expected bytes {such} `1..2kB`"));
    let huge = "18446744073709551615KiB";
    check(
        &format!("allreduce any any {huge} LL staged 1 32 a"),
        &format!("expected bytes {such} `{huge}`"),
    );
    check(
        "allreduce any any 2..1 LL staged 1 32 a",
        "expected bytes from low to high, found `2..1`",
    );
    check("allreduce any any any LL staged 0 32 a", "expected instances from 1 to 4096, found `0`");
    check(
        "allreduce any any any LL staged 1 2048 a",
        "expected threads from 1 to 1024, found `2048`",
    );
    check("allreduce any any any LL staged 1 33 a", "expected a multiple of 32 threads, found 33");
    check(
        "allreduce any any any LL staged 1 32",
        "expected an algorithm, found the end of the line",
    );
    let names = "staged, direct, copy-engine";
    check("allreduce any any any LL 1 32 a", &format!("expected links ({names}), found `1`"));
    check("allreduce any", "expected ranks, found the end of the line");
    let text = format!("{HEAD}allreduce any any any LL256 staged 1 32 a");
    let error = Tuning::parse("mine", text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("line 3") && error.contains("LL256"), "{error}");
}

#[test]
fn fingerprints_differ_where_choices_do_and_nowhere_else() {
    let text = "algorithm mine(ranks N = 4) implements allreduce(chunks 1) {
        for r in 0..N { output@r = sum(q in 0..N: input@q) }
    }";
    let at = |name: &str| {
        let file = File { name: name.to_owned(), content: Ok(text.as_bytes().to_vec()) };
        Registry::new(Shape { ranks: 4, per_node: 4 }, &[file])
    };
    let print = |text: &str, registry: &Registry| {
        let table = Tuning::parse("mine", format!("{HEAD}{text}").as_bytes()).unwrap();
        table.fingerprint(registry.loaded())
    };
    let (here, there, renamed) = (at("/a/m.msccl"), at("/b/m.msccl"), at("/a/n.msccl"));
    let row = "allreduce any any ..2KiB LL staged 1 32 m.msccl";
    assert_eq!(print(row, &here), print(&format!("# remark\n{row}"), &here));
    assert_eq!(print(row, &here), print(row, &there));
    assert_ne!(print(row, &here), print(row, &renamed));
    assert_ne!(print(row, &here), print(&row.replace("32", "64"), &here));
    assert_ne!(print(row, &here), print(&row.replace("staged", "direct"), &here));
    assert_ne!(print(row, &here), print(&row.replace("..2KiB", "..3KiB"), &here));
    assert_ne!(print(row, &here), print(&row.replacen("any ..2KiB", "any/2 ..2KiB", 1), &here));
    assert_eq!(print(row, &here), print(&row.replacen("any ..2KiB", "any/1 ..2KiB", 1), &here));
    assert_ne!(print(row, &here), print("", &here));
}

#[test]
fn tables_made_before_links_could_be_chosen_are_staged() {
    let rows = "allreduce any 2..8 any Simple 16 256 mine.msccl";
    let old = format!("msccl-tuning 1\nmachine test\n{rows}\n");
    let new = format!("{HEAD}{}\n", rows.replace("Simple", "Simple staged"));
    let read = |text: &str| Tuning::parse("mine", text.as_bytes()).unwrap();
    assert_eq!(read(&old), read(&new));
    assert!(read(&old).to_string().starts_with("msccl-tuning 2\n"));
    check_refusal(
        &old.replace("Simple", "Simple direct"),
        " line 3: expected instances from 1 to 4096, found `direct`",
    );
}

#[test]
fn the_shipped_table_names_built_in_algorithms_of_the_right_collective() {
    let registry = Registry::new(Shape { ranks: 4, per_node: 4 }, &[]);
    let shipped = include_bytes!("../../tuning/h200.tuning");
    assert_eq!(Tuning::parse("shipped table", shipped).as_ref(), Ok(Tuning::shipped()));
    for kind in parse::collectives() {
        let entries = CallPlacement::ALL.map(|placement| registry.built_in(kind, placement));
        let known: BTreeSet<_> =
            entries.iter().flat_map(|of| of.iter()).map(|of| &*of.name).collect();
        let rows = Tuning::shipped().rows.iter().filter(|row| row.collective == kind.name());
        let named: BTreeSet<_> = rows.map(|row| &*row.choice.algorithm).collect();
        assert!(!named.is_empty() && named.is_subset(&known), "{kind:?}: {named:?}, {known:?}");
    }
}

#[test]
fn the_estimated_table_has_rows_for_every_collective_and_size() {
    let text = include_bytes!("../../tuning/nodes.tuning");
    assert_eq!(Tuning::parse("estimated table", text).as_ref(), Ok(Tuning::estimated()));
    for nodes in [2, 3, 4, 6, 8, 12, 16] {
        let shape = Shape { ranks: 8 * nodes, per_node: 8 };
        for kind in parse::collectives() {
            for (placement, power) in CallPlacement::ALL.into_iter().zip([10, 34]) {
                let one = CallShape { placement, count: 1, ..request(kind, 0) };
                let request = CallShape { count: 1 << power, ..one };
                let mut rows = Tuning::estimated().rows_for(&request, shape);
                assert!(rows.next().is_some_and(|row| row.guessed), "{kind:?} {nodes} {placement}");
            }
        }
    }
}

#[test]
fn the_nearest_number_of_nodes_is_found_by_ratio() {
    let near = |ranks, per_node| {
        let nearest = Tuning::estimated().nearest(Shape { ranks, per_node });
        nearest.map(|of| (of.ranks, of.per_node))
    };
    assert_eq!(near(40, 8), Some((48, 8)));
    assert_eq!(near(20, 2), Some((96, 8)));
    assert_eq!(near(1024, 8), Some((128, 8)));
    assert_eq!(near(64, 4), Some((128, 8)));
    assert_eq!(near(8, 8), Some((16, 8)));
    assert_eq!(Tuning::default().nearest(Shape { ranks: 8, per_node: 4 }), None);
}

#[test]
fn tables_print_as_what_reads_back() {
    let rows = "allreduce in 4 ..2KiB LL staged 4 512 a\n\
                allreduce in 8? ..2KiB LL staged 4 512 a\n\
                allreduce out 2..8 1536..1MiB Simple staged 16 256 b c.msccl\n\
                allgather any any any LL128 staged 1 32 c\n\
                allreduce any 5.. 4096.. LL staged 1 32 d\n\
                reduce any ..8 0 Simple direct 1 32 e\n\
                scatter any 3 8GiB.. Simple staged 1 32 f\n";
    let read = Tuning::parse("mine", format!("{HEAD}{rows}").as_bytes()).unwrap();
    let text = read.to_string();
    assert!(
        text.contains(
            "allreduce    out       2..8  1536..1MiB Simple   staged 16        256     b c.msccl\n"
        ),
        "{text}"
    );
    let again = Tuning::parse("mine", text.as_bytes()).unwrap();
    let numbered = Tuning::of("mine", "test", read.rows().to_vec());
    assert_eq!(again, numbered);
    assert_eq!(again.to_string(), text);
    let shipped = Tuning::shipped();
    let again = Tuning::parse("shipped table", shipped.to_string().as_bytes()).unwrap();
    assert_eq!(again, Tuning::of("shipped table", shipped.machine(), shipped.rows().to_vec()));
    assert_eq!(Tuning::of("a", "two\nlines", vec![]).machine(), "two lines");
}

#[test]
fn what_is_slower_is_read_and_written() {
    let text = "msccl-tuning 3\nmachine m\nallreduce any 4/2 any Simple staged 1 512 a\n\
                slower allreduce in 4/2 64KiB 30.2 45 my file.msccl\n";
    let table = Tuning::parse("t", text.as_bytes()).unwrap();
    let [one] = table.slower() else { panic!("{:?}", table.slower()) };
    assert_eq!((one.bytes, one.least_ns, one.ns), (65_536, 30_200, 45_000));
    assert_eq!((&*one.algorithm, &one.nodes), ("my file.msccl", &(2..=2)));
    let written = table.to_string();
    assert!(written.ends_with("\nslower allreduce in 4/2 64KiB 30.200 45.000 my file.msccl\n"));
    assert_eq!(Tuning::parse("t", written.as_bytes()).unwrap().slower(), table.slower());
    // Tables that choose otherwise have other fingerprints.
    let rows = Tuning::parse("t", text.split("slower").next().unwrap().as_bytes()).unwrap();
    assert_ne!(rows.fingerprint(&[]), table.fingerprint(&[]));
    let check = |line: &str, expected: &str| {
        check_refusal(&format!("{HEAD}slower {line}\n"), &format!(" line 3: {expected}"));
    };
    check("allreduce in 4 some 1 2 a", "expected a size in bytes, found `some`");
    let such = "expected a time in us such as 30.2, found";
    check("allreduce in 4 1KiB 1 2.0001 a", &format!("{such} `2.0001`"));
    check("allreduce in 4 1KiB -1 2 a", &format!("{such} `-1`"));
    check("allreduce in 4 1KiB 1 2", "expected a loaded file, found the end of the line");
}

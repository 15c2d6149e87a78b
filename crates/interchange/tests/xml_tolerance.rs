//! How a file is written does not matter to the reader; what an interpreter would stumble over is a
//! warning.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Also in the tests' own functions.

use msccl_collective::{Kind, Placement, Rank, SizeRange, StepIndex, TbIndex};
use msccl_interchange::xml::{self, Dialect, Read};
use msccl_ir::StepRef;

const PLAIN: &str = include_str!("malformed/good.xml");

fn changed(from: &str, to: &str) -> Read {
    assert!(PLAIN.contains(from), "{from}");
    let read = xml::read(&PLAIN.replace(from, to)).unwrap();
    assert_eq!(read.contradictions, [], "{from} → {to}");
    read
}

/// Replaces `from` everywhere, and expects the same algorithm with these warnings.
fn check(from: &str, to: &str, warnings: &[&str]) {
    let read = changed(from, to);
    assert_eq!(read.algorithm, xml::read(PLAIN).unwrap().algorithm, "{from} → {to}");
    assert_eq!(read.warnings, warnings, "{from} → {to}");
}

#[test]
fn writing_does_not_matter() {
    check("cnt=\"1\" depid=\"-1\"", "depid=\"-1\"\n cnt = \" 1 \"", &[]);
    check("<gpu", "<!-- a <gpu> -->\r\n<gpu", &[]);
    check("hasdep=\"0\"/>", "hasdep=\"0\"></step>", &[]);
    check("name=\"hop\"", "name=\"&#104;op\"", &[]);
    check("\n", "", &[]);
    check("\"2\"", "'2'", &["the interpreters know no single quotes; use double ones (4 times)"]);
    check("\n", "\t", &["the interpreters know no tabs; use spaces"]);
    check(
        "<algo",
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<algo",
        &["the interpreters know no <?xml?> prolog; remove it"],
    );
}

#[test]
fn unknown_things_are_passed_over() {
    check("inplace", "redop=\"sum\" inplace", &["<algo> attribute `redop` is ignored"]);
    check("</gpu>", "<note><b/></note></gpu>", &["unknown element <note> is ignored (2 times)"]);
}

#[test]
fn missing_attributes_have_defaults() {
    check(
        " hasdep=\"0\"",
        "",
        &["<step> has no `hasdep`, which the interpreters demand (4 times)"],
    );
    check(" nchannels=\"1\"", "", &["<algo> has no `nchannels`, which the interpreters demand"]);
    check(
        " srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\"",
        " srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\"",
        &[
            "<step> has no `depid`, which the interpreters demand (2 times)",
            "<step> has no `deps`, which the interpreters demand (2 times)",
        ],
    );
}

#[test]
fn gpus_and_thread_blocks_stand_in_any_order() {
    let (head, rest) = PLAIN.split_once("  <gpu id=\"0\"").unwrap();
    let (first, second) = rest.split_once("  <gpu id=\"1\"").unwrap();
    let second = second.strip_suffix("</algo>\n").unwrap();
    let swapped = format!("{head}<gpu id=\"1\"{second}<gpu id=\"0\"{first}</algo>");
    let (read, plain) = (xml::read(&swapped).unwrap(), xml::read(PLAIN).unwrap());
    assert_eq!((read.algorithm, read.warnings), (plain.algorithm, plain.warnings));
    // The places are those of the text, wherever a step stands in it.
    let first = StepRef { rank: Rank(0), tb: TbIndex(0), step: StepIndex(0) };
    let place =
        |text: &str, at: usize| text[..at].rfind("<gpu id=").map(|gpu| text[gpu..].chars().nth(9));
    for (text, places) in [(PLAIN, plain.places), (&swapped, read.places)] {
        let at = places.of(first).unwrap();
        assert!(text[at..].starts_with("<step s=\"0\""), "{}", &text[at..]);
        assert_eq!(place(text, at), Some(Some('0')), "{text}");
        assert_eq!(places.of(StepRef { rank: Rank(7), ..first }), None);
    }
}

#[test]
fn no_ops_that_end_a_thread_block_have_no_effect() {
    let nop = "<step s=\"2\" type=\"nop\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/></tb>";
    check("</tb>", nop, &["no-ops that wait for nothing are ignored (2 times)"]);
    let nop = nop.replace("</tb>", "<step s=\"3\" type=\"nop\" depid=\"1\" deps=\"0\"/></tb>");
    let local = "<tb id=\"1\" send=\"-1\" recv=\"-1\" chan=\"0\"><step s=\"0\" type=\"cpy\" \
                 srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"-1\" \
                 deps=\"-1\" hasdep=\"1\"/></tb>";
    let read = changed("</tb>", &(nop + local));
    let ends = [
        "no-ops at the end of a thread block are ignored (2 times)",
        "no-ops that wait for nothing are ignored (2 times)",
    ];
    assert_eq!(read.warnings, ends);
    assert!(
        read.algorithm.thread_blocks().all(|(_, tb, block)| block.steps.len() == 2 - tb.index())
    );
}

#[test]
fn no_ops_that_do_nothing_are_left_out_wherever_they_stand() {
    let nop = "<step s=\"0\" type=\"nop\" depid=\"-1\" deps=\"-1\" hasdep=\"-1\"/><step s=\"0\" \
               type=\"s\"";
    let ignored = "no-ops that wait for nothing are ignored (2 times)";
    let numbered = "`s` of a step is not its position; the interpreters count positions, and so do \
                    the waits for it: number the steps of a thread block 0, 1, 2, … (4 times)";
    check("<step s=\"0\" type=\"s\"", nop, &[numbered, ignored]);
}

#[test]
fn threads_are_for_the_first_runtime() {
    check("inplace=\"1\"", "inplace=\"1\" nthreads=\"0\"", &[]);
    let read = changed("inplace=\"1\"", "inplace=\"1\" outofplace=\"0\" nthreads=\"100\"");
    let ignored = "`nthreads` is not read by the executor, and no multiple of 32; it is ignored";
    assert!(read.algorithm.threads.is_none() && read.warnings.contains(&ignored.to_owned()));
}

#[test]
fn steps_are_known_by_their_positions() {
    let numbered = "`s` of a step is not its position; the interpreters count positions, and so do \
                    the waits for it: number the steps of a thread block 0, 1, 2, … (2 times)";
    check("<step s=\"1\"", "<step s=\"7\"", &[numbered]);
    check(
        "<step s=\"1\"",
        "<step",
        &["<step> has no `s`, which the interpreters demand (2 times)"],
    );
}

/// Local work beside the two thread blocks: what it says of its channel does not matter.
#[test]
fn thread_blocks_without_links_need_no_channel() {
    let local = |attributes: &str| {
        let step = "<step s=\"0\" type=\"cpy\" srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" \
                    cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>";
        changed("</tb>", &format!("</tb><tb id=\"1\" {attributes}>{step}</tb>"))
    };
    let plain = local("send=\"-1\" recv=\"-1\" chan=\"0\"");
    assert_eq!(plain.warnings, [""; 0]);
    let refused = "`chan` of a thread block without links is -1, which the interpreters of others \
                   refuse; give it a number from 0 on for them (2 times)";
    let demanded =
        |name: &str| format!("<tb> has no `{name}`, which the interpreters demand (2 times)");
    for (attributes, warnings) in [
        ("send=\"-1\" recv=\"-1\" chan=\"-1\"", vec![refused.to_owned()]),
        ("send=\"-1\" recv=\"-1\"", vec![demanded("chan")]),
        ("chan=\"-1\"", vec![demanded("recv"), demanded("send"), refused.to_owned()]),
        ("", vec![demanded("chan"), demanded("recv"), demanded("send")]),
    ] {
        let read = local(attributes);
        assert_eq!((&read.algorithm, read.warnings), (&plain.algorithm, warnings), "{attributes}");
    }
    // No link, no channel to open.
    let beyond = local("send=\"-1\" recv=\"-1\" chan=\"5\"");
    assert_eq!(beyond.warnings, [""; 0]);
}

fn sizes(attributes: &str) -> (Dialect, SizeRange) {
    let Read { algorithm, dialect, .. } = changed("inplace=\"1\"", attributes);
    (dialect, algorithm.sizes)
}

#[test]
fn the_dialects_count_bytes_differently() {
    let range = |min_bytes, max_bytes| SizeRange { min_bytes, max_bytes };
    let first = Dialect::Msccl;
    assert_eq!(sizes("inplace=\"1\""), (first, range(0, Some((1 << 27) - 1))));
    assert_eq!(sizes("inplace=\"1\" minBytes=\"8\" maxBytes=\"64\""), (first, range(8, Some(63))));
    let unlimited = format!("inplace=\"1\" maxBytes=\"{}\"", i64::MAX);
    assert_eq!(sizes(&unlimited), (first, range(0, None)));
    let executor = "inplace=\"1\" outofplace=\"1\" minBytes=\"8\"";
    let second = Dialect::Executor;
    assert_eq!(sizes(&format!("{executor} maxBytes=\"64\"")), (second, range(8, Some(64))));
    assert_eq!(sizes(&format!("{executor} maxBytes=\"0\"")), (second, range(8, None)));
}

#[test]
fn the_flags_say_which_calls_are_served() {
    let placement = |attributes| changed("inplace=\"1\"", attributes).algorithm.placement;
    assert_eq!(placement("inplace=\"1\""), Placement::InPlace);
    assert_eq!(placement("inplace=\"0\""), Placement::OutOfPlace);
    assert_eq!(placement("inplace=\"1\" outofplace=\"0\""), Placement::InPlace);
    assert_eq!(placement("inplace=\"1\" outofplace=\"1\""), Placement::Both);
    assert_eq!(placement("inplace=\"0\" outofplace=\"1\""), Placement::OutOfPlace);
}

/// Reads the plain file's `<algo>` and its two gpus, with other attributes and no thread blocks.
fn collective(coll: &str, loop_chunks: u32, chunks: &str) -> (Dialect, Kind, u32) {
    let text = format!(
        "<algo name='x' proto='LL' nchannels='0' nchunksperloop='{loop_chunks}' ngpus='2' \
         coll={coll} inplace='0'><gpu id='0' {chunks}/><gpu id='1' {chunks}/></algo>"
    );
    let read = xml::read(&text).unwrap();
    assert_eq!(read.contradictions, [], "{text}");
    (read.dialect, read.algorithm.collective.kind, read.algorithm.collective.chunks)
}

#[test]
fn chunks_of_a_block_follow_from_the_loop() {
    let (first, second, sizes) = (Dialect::Msccl, Dialect::Executor, "");
    let root = Rank(0);
    assert_eq!(collective("'allreduce'", 6, sizes), (first, Kind::AllReduce, 6));
    assert_eq!(collective("'allgather'", 6, sizes), (first, Kind::AllGather, 3));
    assert_eq!(collective("'reduce_scatter'", 6, sizes), (first, Kind::ReduceScatter, 3));
    assert_eq!(collective("'reducescatter'", 6, sizes), (second, Kind::ReduceScatter, 3));
    assert_eq!(collective("'alltoall'", 6, sizes), (first, Kind::AllToAll, 3));
    assert_eq!(collective("'broadcast'", 6, sizes), (first, Kind::Broadcast { root }, 6));
    let root = Rank(1);
    assert_eq!(collective("'reduce' root='1'", 6, sizes), (first, Kind::Reduce { root }, 6));
    assert_eq!(collective("'gather' root='1'", 6, sizes), (second, Kind::Gather { root }, 6));
    assert_eq!(collective("'scatter' root='1'", 6, sizes), (second, Kind::Scatter { root }, 6));
}

#[test]
fn other_collectives_are_custom() {
    for coll in ["custom", "alltoallv", "anything"] {
        let sizes = "i_chunks='6' o_chunks='0' s_chunks='1'";
        let (_, kind, chunks) = collective(&format!("'{coll}'"), 6, sizes);
        let Kind::Custom(custom) = kind else { panic!("{kind:?}") };
        assert_eq!((custom.name.as_str(), chunks), (coll, 1));
        assert_eq!((custom.input_chunks, custom.output_chunks), (6, 0));
        assert_eq!(custom.contract, None);
    }
}

//! `msccl show`.

use crate::{RING, SHORT_RING, check_refusal, exchange_xml, msccl, msccl_reading};

fn shown(args: &[&str], program: &str) -> String {
    let args: Vec<_> = ["show", "-"].into_iter().chain(args.iter().copied()).collect();
    let ran = msccl_reading(&args, program.as_bytes());
    assert_eq!(ran.code, 0, "{args:?}: {ran}");
    ran.stdout
}

#[test]
fn stages_as_text() {
    let chunks = shown(&["--stage", "chunk", "--rank", "0"], RING);
    assert_eq!(chunks.lines().count(), 1 + 4, "{chunks}");
    assert!(chunks.contains("\nr1.o[0] = r0.o[0]\n"), "{chunks}");
    let instructions = shown(&["--stage", "instruction", "--rank", "1"], RING);
    assert!(instructions.lines().all(|line| line.contains("  r1  ")), "{instructions}");
    let schedule = shown(&["--stage", "schedule", "--rank", "1"], RING);
    assert!(schedule.contains("\nr1 scratch 0\n"), "{schedule}");
    assert!(!schedule.contains("\nr0 scratch 0\n"), "{schedule}");
}

#[test]
fn every_stage_has_a_picture() {
    for stage in ["chunk", "instruction", "schedule", "timeline"] {
        let svg = shown(&["--stage", stage, "--format", "svg"], RING);
        assert!(svg.starts_with("<svg "), "{stage}");
        assert!(svg.trim_end().ends_with("</svg>"), "{stage}");
        assert!(svg.matches("<rect").count() > 6, "{stage}: {svg}");
        let json: serde_json::Value =
            serde_json::from_str(&shown(&["--stage", stage, "--format", "json"], RING)).unwrap();
        assert!(json.is_object(), "{stage}");
    }
    for stage in ["chunk", "instruction", "schedule"] {
        let dot = shown(&["--stage", stage, "--format", "dot"], RING);
        assert!(dot.starts_with("digraph "), "{stage}");
        assert_eq!(
            dot.matches(" -> ").count(),
            dot.lines().filter(|line| line.contains(" -> ")).count()
        );
    }
    let timeline = shown(&["--stage", "timeline", "--size", "1KiB"], RING);
    assert!(timeline.contains("r2 tb0 |"), "{timeline}");
}

#[test]
fn arrows_go_to_the_right() {
    for stage in ["chunk", "instruction", "schedule"] {
        let text = shown(&["--stage", stage, "--format", "json"], RING);
        let picture: serde_json::Value = serde_json::from_str(&text).unwrap();
        let Some(arrows) = picture["arrows"].as_array() else { continue };
        assert!(!arrows.is_empty());
        let column = |index: &serde_json::Value| {
            picture["boxes"][index.as_u64().unwrap() as usize]["column"].as_u64().unwrap()
        };
        for arrow in arrows {
            assert!(column(&arrow["from"]) < column(&arrow["to"]), "{stage}: {arrow}");
        }
    }
}

#[test]
fn wrong_programs_can_be_looked_at() {
    assert!(shown(&["--stage", "schedule"], SHORT_RING).contains("algorithm \"short\""));
}

#[test]
fn a_stage_that_has_no_such_picture_is_reported() {
    let xml = crate::file("show/two.xml", exchange_xml(2));
    let xml = crate::arg(&xml);
    check_refusal(&["show", xml, "--stage", "chunk"], 2, "holds a finished algorithm");
    check_refusal(&["show", xml, "--rank", "7"], 2, "there is no rank 7, only 0 to 1");
    check_refusal(
        &["show", xml, "--stage", "timeline", "--format", "dot"],
        2,
        "a timeline is no graph",
    );
    assert_eq!(msccl(&["show", xml, "--format", "svg"]).code, 0);
}

#[test]
fn the_extension_decides_the_form() {
    let source = crate::file("show/ring.msccl", crate::RING);
    for (name, sign) in
        [("a.svg", "<svg"), ("a.json", "{"), ("a.dot", "digraph"), ("a.txt", "algorithm \"ring\"")]
    {
        let out = source.with_file_name(name);
        let ran = msccl(&["show", crate::arg(&source), "-o", crate::arg(&out)]);
        assert_eq!(ran.code, 0, "{ran}");
        assert!(std::fs::read_to_string(&out).unwrap().starts_with(sign), "{name}");
    }
    let other = source.with_file_name("b.msccl");
    check_refusal(
        &["show", crate::arg(&source), "-o", crate::arg(&other)],
        2,
        "or say --format svg",
    );
    check_refusal(
        &["show", crate::arg(&source), "-o", crate::arg(&source)],
        2,
        "is the file that is read",
    );
}

#[test]
fn timelines_know_of_nodes() {
    let timeline =
        |options: &[&str]| shown(&[&["--stage", "timeline"], options].concat(), crate::RING);
    let one = timeline(&["--per-node", "3"]);
    assert!(one.starts_with("assumes HGX H200 with 3 GPUs;"), "{one}");
    assert!(one.contains("\nring, 1048576 bytes: "), "{one}");
    let three = timeline(&["--per-node", "1"]);
    assert!(three.starts_with("assumes 3 nodes like HGX H200 with 1 GPUs"), "{three}");
    let xml = crate::file("show/nodes.xml", exchange_xml(2));
    let xml = crate::arg(&xml);
    let ran = msccl(&["show", xml, "--stage", "timeline", "--per-node", "1"]);
    assert!(ran.stdout.contains("\nexchange, 1048576 bytes: "), "{ran}");
    assert!(ran.stdout.starts_with("assumes 2 nodes like HGX H200"), "{ran}");
    check_refusal(&["show", xml, "--per-node", "3"], 2, "2 ranks do not fill nodes of 3");
}

#[test]
fn pictures_spell_their_abbreviations_out() {
    let picture = shown(&["--format", "svg"], crate::RING);
    assert!(picture.contains(">rcs: receive, copy, send</text>"), "{picture}");
    assert!(!picture.contains("receive, reduce"), "{picture}");
}

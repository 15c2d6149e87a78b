//! `msccl synthesize`: a proved program for a machine, and its certificate.

use std::fs;
use std::sync::LazyLock;

use crate::{Ran, arg, check_refusal, file, msccl, msccl_reading};

/// A mesh of four GPUs in a ring, of which two neighbours have a faster link.
fn mesh() -> String {
    static MESH: LazyLock<String> = LazyLock::new(|| {
        let text = "cluster \"a mesh\"\ngpu * 4\n\
                    gpu0 - gpu1 gpu3 nvlink 50 GB/s 0.5 us\n\
                    gpu2 - gpu1 nvlink 50 GB/s 0.5 us\n\
                    gpu2 - gpu3 nvlink 100 GB/s 0.5 us\n";
        arg(&file("synthesize/mesh.cluster", text)).to_owned()
    });
    MESH.clone()
}

fn synthesize(args: &[&str]) -> Ran {
    msccl(&[&["synthesize"], args].concat())
}

/// The program for `collective` on the mesh.
fn program(collective: &str) -> String {
    let ran = synthesize(&[collective, "--topo", &mesh()]);
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout
}

fn verify(text: &str, more: &[&str]) -> Ran {
    let mesh = mesh();
    msccl_reading(&[&["verify", "-", "--topo", &mesh], more].concat(), text.as_bytes())
}

#[test]
fn what_is_written_is_proved_and_certified() {
    for collective in ["allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce"]
    {
        let text = program(collective);
        let ran = verify(&text, &[]);
        assert_eq!(ran.code, 0, "{ran}");
        assert!(ran.stdout.contains(&format!("{collective} over 4 ranks")), "{ran}");
        let certified = match collective {
            // Both phases are at their bounds, and nobody knows of anything better.
            "allreduce" => "\ncertified 1.1250 times the bound: no schedule",
            _ => "\ncertified optimal: no schedule",
        };
        assert!(ran.stdout.contains(certified), "{ran}");
        let formatted = msccl_reading(&["fmt", "-"], text.as_bytes());
        assert_eq!(formatted.stdout, text);
    }
}

#[test]
fn a_root_is_kept() {
    let ran = synthesize(&["broadcast", "--root", "2", "--topo", &mesh()]);
    assert!(ran.stdout.contains("// certificate: broadcast from rank 2 over 4 ranks\n"), "{ran}");
    let ran = verify(&ran.stdout, &[]);
    assert!(ran.stdout.contains("certified optimal"), "{ran}");
}

/// Trees of the mesh, where each GPU sends its block both ways round the ring.
const FOREST: &str = r#"<Algo nchunkspernode="1">
  <tree root="0" index="0" nchunks="1" height="2">
    <send src="0" dst="1" path="0,1"/><send src="0" dst="3" path="0,3"/>
    <send src="1" dst="2" path="1,2"/>
  </tree>
  <tree root="1" index="0" nchunks="1" height="2">
    <send src="1" dst="2" path="1,2"/><send src="1" dst="0" path="1,0"/>
    <send src="2" dst="3" path="2,3"/>
  </tree>
  <tree root="2" index="0" nchunks="1" height="2">
    <send src="2" dst="3" path="2,3"/><send src="2" dst="1" path="2,1"/>
    <send src="3" dst="0" path="3,0"/>
  </tree>
  <tree root="3" index="0" nchunks="1" height="2">
    <send src="3" dst="0" path="3,0"/><send src="3" dst="2" path="3,2"/>
    <send src="0" dst="1" path="0,1"/>
  </tree>
</Algo>
"#;

#[test]
fn trees_of_others_are_taken_and_judged() {
    let forest = file("synthesize/forest.xml", FOREST);
    let from = ["--from", arg(&forest), "--topo", &mesh()];
    for (collective, times) in [("allgather", 1), ("reducescatter", 1), ("allreduce", 1)] {
        let ran = synthesize(&[&[collective], &from[..]].concat());
        assert_eq!(ran.code, 0, "{ran}");
        assert!(
            ran.stderr.contains("read     4 trees of height 2 or less, 1 chunk a block"),
            "{ran}"
        );
        let verified = verify(&ran.stdout, &[]);
        assert_eq!(verified.code, 0, "{verified}");
        assert!(verified.stdout.contains(&format!("\ncertified {times}")), "{verified}");
    }
    let path = file("synthesize/taken.msccl", "");
    let json = [&["allgather"], &from[..], &["--format", "json", "-o", arg(&path)]].concat();
    let json = synthesize(&json).json();
    assert_eq!([&json["trees"], &json["paths"]], [4, 0]);
}

#[test]
fn trees_that_cannot_be_taken_are_located() {
    let mesh = mesh();
    let check = |text: &str, collective: &str, expected: &str| {
        let path = file("synthesize/bad.xml", text);
        let args = ["synthesize", collective, "--from", arg(&path), "--topo", &mesh];
        check_refusal(&args, 2, expected);
    };
    check(
        &FOREST.replace("nchunks=\"1\"", "nchunks=\"0\""),
        "allgather",
        "bad.xml:2:3: expected `nch",
    );
    check(
        &FOREST.replace("<Algo", "<algo"),
        "allgather",
        "bad.xml:1:1: expected <Algo>, found <algo>",
    );
    check("algorithm", "allgather", "bad.xml:1:1: expected elements only, found text");
    check(FOREST, "broadcast", "for trees of all roots, found broadcast");
    check(FOREST, "alltoall", "for trees of all roots, found alltoall");
    let apart = FOREST.replace("src=\"1\" dst=\"2\" path=\"1,2\"", "src=\"1\" dst=\"3\"");
    check(&apart, "allgather", "expected one sender for each receiver");
    let far = FOREST.replace("src=\"1\" dst=\"2\" path=\"1,2\"", "src=\"0\" dst=\"2\"");
    check(
        &far,
        "allgather",
        "r0 sends to r2, and nothing in the cluster leads from one to the other",
    );
    let path = file("synthesize/forest2.xml", FOREST);
    let args = ["synthesize", "allgather", "--from", arg(&path), "--topo", &mesh];
    check_refusal(&[&args[..], &["--exact"]].concat(), 2, "cannot be used with");
    check_refusal(&["verify", arg(&path)], 2, "synthesize COLLECTIVE --from FILE");
}

#[test]
fn an_exchange_without_time_says_so() {
    let path = file("synthesize/exchange.msccl", "");
    let args = ["alltoall", "--topo", "dgx1-v100", "--time-limit", "0.000001", "-o", arg(&path)];
    let ran = synthesize(&args);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("the time was over; this is the best that was found"), "{ran}");
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains("The time for the search was over"), "{written}");
    assert!(ran.stdout.contains("\ncertified "), "{ran}");
}

#[test]
fn files_are_written_and_reports_have_the_rest() {
    let path = file("synthesize/mine.msccl", "");
    let args = ["allgather", "--topo", &mesh(), "-o", arg(&path)];
    let ran = synthesize(&args);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.starts_with("found    "), "{ran}");
    assert!(ran.stdout.contains("\nproved   "), "{ran}");
    // Three of four blocks over 100 GB/s into each GPU with two links.
    assert!(ran.stdout.contains("takes less than 3/400 s/GB (0.0075) (cut {gpu"), "{ran}");
    assert_eq!(fs::read_to_string(&path).unwrap(), program("allgather"));
    let json = synthesize(&[&args[..], &["--format", "json"]].concat()).json();
    assert_eq!(json["verdict"], "proved");
    assert_eq!(json["certificate"]["optimal"], true);
    assert_eq!(json["certificate"]["bound_seconds_per_byte"], "3/400000000000");
    assert_eq!(json["search"], "complete");
}

/// One thread block has no other to wait for; many keep links busy.
#[test]
fn a_layout_is_for_a_size() {
    let us = |size: &str| {
        let args = ["allreduce", "--topo", &mesh(), "--size", size, "--format", "json"];
        let path = file(&format!("synthesize/{size}.msccl"), "");
        let json = synthesize(&[&args[..], &["-o", arg(&path)]].concat()).json();
        (json["us"].as_f64().unwrap(), fs::read_to_string(path).unwrap())
    };
    let (small_us, small) = us("16K");
    let (large_us, large) = us("256M");
    assert!(small.contains("on tb 0") && !large.contains("on tb 0"), "{small}{large}");
    // 256 MiB at 3/200 s/GB.
    assert!(small_us < 20.0 && large_us > 4000.0 && large_us < 4500.0, "{small_us} {large_us}");
}

/// Every program serves from where the one before ends.
#[test]
fn several_sizes_have_a_program_for_each_range() {
    let path = file("synthesize/many.msccl", "");
    let args = ["allreduce", "--topo", &mesh(), "--size", "256M,16K,1M", "-o", arg(&path)];
    let all = synthesize(&[&args[..], &["--format", "json"]].concat()).json();
    let all = all.as_array().unwrap();
    assert!(all.len() > 1, "{all:?}");
    let mut begin = Some(0);
    for (number, of) in (1..).zip(all) {
        let written = of["output"].as_str().unwrap();
        assert!(written.ends_with(&format!("many-{number}.msccl")), "{written}");
        assert_eq!(of["layout"]["min_bytes"].as_u64(), begin);
        begin = of["layout"]["max_bytes"].as_u64().map(|most| most + 1);
        let text = fs::read_to_string(written).unwrap();
        assert!(text.contains(" bytes "), "{text}");
        let ran = verify(&text, &[]);
        assert_eq!(ran.code, 0, "{ran}");
    }
    assert_eq!(begin, None);
    check_refusal(&[&["synthesize"], &args[..5]].concat(), 2, "name a file for them by --output");
}

#[test]
fn a_limit_of_thread_blocks_is_kept_and_its_price_is_said() {
    let path = file("synthesize/frugal.msccl", "");
    let args = ["allreduce", "--topo", &mesh(), "--size", "64M", "-o", arg(&path)];
    let with = |most: &str| synthesize(&[&args[..], &["--thread-blocks", most]].concat());
    let ran = with("4");
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("\nlimited  to 4 thread blocks; "), "{ran}");
    let json = [&args[..], &["--thread-blocks", "4", "--format", "json"]].concat();
    let json = synthesize(&json).json();
    assert!(json["layout"]["thread_blocks"].as_u64().unwrap() <= 4, "{json}");
    assert!(json["layout"]["unlimited_us"].as_f64() < json["us"].as_f64(), "{json}");
    // One thread block can do everything.
    assert_eq!(with("1").code, 0);
    let without_size = ["synthesize", "allreduce", "--topo", &mesh(), "--thread-blocks", "4"];
    check_refusal(&without_size, 2, "--size");
}

/// Levels for each collective that has them, over nodes and over a number of ranks without factors.
#[test]
fn levels_are_proved_for_all_their_collectives() {
    for (machine, levels) in [("hgx-h100-4*2", "4 × 2"), ("hgx-h100-8", "8")] {
        for collective in ["allgather", "reducescatter", "allreduce"] {
            let path = file(&format!("synthesize/levels-{collective}.msccl"), "");
            let args = [collective, "--topo", machine, "--size", "1K", "-o", arg(&path)];
            let json = synthesize(&[&args[..], &["--format", "json"]].concat()).json();
            assert_eq!(json["verdict"], "proved", "{json}");
            let found = json["levels"].as_str();
            assert!(found.is_none_or(|found| found == levels), "{collective} {machine} {json}");
            let text = fs::read_to_string(&path).unwrap();
            let ran = msccl_reading(&["verify", "-", "--topo", machine], text.as_bytes());
            assert_eq!(ran.code, 0, "{ran}");
            let formatted = msccl_reading(&["fmt", "-"], text.as_bytes());
            assert_eq!(formatted.stdout, text);
        }
    }
}

#[test]
fn false_certificates_are_refused() {
    let text = program("allgather");
    let time = "takes 3/400000000000 s/byte";
    assert!(text.contains(time), "{text}");
    let refused = |text: &str, more: &[&str], expected: &str| {
        let ran = verify(text, more);
        assert_eq!(ran.code, 1, "{ran}");
        assert!(ran.stderr.contains(expected), "{expected}\n{ran}");
        let json = verify(text, &[more, &["--format", "json"]].concat()).json();
        assert!(json["error"].as_str().unwrap().contains(expected), "{json}");
    };
    let busiest = "the certificate says that the busiest link takes 1/400000000000 s/byte";
    refused(&text.replace(time, "takes 1/400000000000 s/byte"), &[], busiest);
    let higher = text.replace("bound 3/400000000000", "bound 3/300000000000");
    refused(&higher, &[], "the witness of the certificate: ");
    refused(
        &text.replace("over 4 ranks\n// certificate: t", "over 5 ranks\n// certificate: t"),
        &[],
        "this is allgather over 4 ranks on 4 GPUs",
    );
    refused(
        &text.replace("s/byte\n// certificate: cut", "s/byte\n// certificate: cat"),
        &[],
        "certificate: expected `cut`, `group`, `length` or `weight`, found `cat",
    );
    refused(&text, &["--slow", "gpu0-gpu1=0.5"], "the busiest link takes");
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let mesh = mesh();
    let check = |args: &[&str], code, expected: &str| {
        check_refusal(&[&["synthesize"], args].concat(), code, expected);
    };
    check(&["allgather"], 2, "expected a machine to write a program for, found none");
    check(&["gather", "--topo", &mesh], 2, "broadcast or reduce, found gather");
    check(&["allgather", "--topo", &mesh, "--ranks", "3"], 2, "expected the 4 GPUs of a mesh");
    check(&["reduce", "--root", "4", "--topo", &mesh], 2, "expected a root below 4");
    let apart = ["--without", "gpu0", "--topo", &mesh];
    check(&[&["allgather"], &apart[..]].concat(), 2, "expected a path from `gpu");
    check(&["allgather", "--topo", &mesh, "--chunks", "0"], 2, "whole number from 1");
    check(&["allgather", "--topo", &mesh, "--time-limit", "0"], 2, "is no time span");
}

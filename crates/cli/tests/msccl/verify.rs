//! `msccl verify`.

use crate::{
    RING, SHORT_RING, arg, check_refusal, exchange_xml, file, msccl, msccl_reading, stuck_xml,
};

#[test]
fn a_proof_says_what_it_rests_on() {
    let ran = msccl_reading(&["verify", "-"], RING.as_bytes());
    assert_eq!(ran.code, 0, "{ran}");
    insta::assert_snapshot!(ran.stdout, @r"
    proved   <stdin>: ring, allgather over 3 ranks, 1 chunk a block
             9 steps in 3 thread blocks, 3 links on 1 channel
             no race, no deadlock on native Simple links of depth 4; 2 would do
             right result for all sizes, in place
    ");
    let quiet = msccl_reading(&["verify", "-q", "-"], RING.as_bytes());
    assert_eq!(quiet.stdout.lines().count(), 1, "{quiet}");
}

#[test]
fn a_wrong_program_is_refused_at_its_line() {
    let path = file("verify/short.msccl", SHORT_RING);
    let ran = msccl(&["verify", arg(&path)]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("wrong-result"), "{ran}");
    assert!(ran.stdout.contains("short.msccl:"), "{ran}");
    assert!(ran.stdout.contains('^'), "{ran}");
}

#[test]
fn a_deadlock_shows_who_waits_for_whom() {
    let ran = msccl_reading(&["verify", "-"], stuck_xml().as_bytes());
    assert_eq!(ran.code, 1, "{ran}");
    insta::assert_snapshot!(ran.stdout, @r#"
    refused  <stdin>: deadlock (target msccl)
    error: 2 thread blocks wait for one another in a circle
      --> <stdin>:6:7
       |
     6 |       <step s="2" type="s" srcbuf="i" srcoff="2" dstbuf="s" dstoff="2" cnt="1" depid="-1" deps="-1" hasdep="0"/>
       |       ^^^^^ r0 tb0 s2
    ...
    16 |       <step s="2" type="s" srcbuf="i" srcoff="2" dstbuf="s" dstoff="2" cnt="1" depid="-1" deps="-1" hasdep="0"/>
       |       ----- r1 tb0 s2
        r0 tb0 s2 waits for room on its link to r1 on ch0 (2 of 2 messages in flight)
        r1 tb0 s2 waits for room on its link to r0 on ch0 (2 of 2 messages in flight)
        a link is full: let its receiver take messages sooner, or send some of them on another channel
    "#);
    let deeper = ["verify", "--target", "native", "-"];
    assert_eq!(msccl_reading(&deeper, stuck_xml().as_bytes()).code, 0);
    assert_eq!(msccl_reading(&["verify", "-"], exchange_xml(2).as_bytes()).code, 0);
}

/// A two-shot that claims to add in an order.
const CLAIMS: &str = "\
algorithm claims(ranks N = 4) implements allreduce(chunks N) in place order ORDER {
    for r in 0..N {
        input@r[r] = sum(q in 0..N: input@q[r])
        for q in 0..N if q != r { input@q[r] = input@r[r] }
    }
}
";

#[test]
fn an_order_that_is_claimed_must_hold() {
    let claims = |order: &str, args: &[&str]| {
        msccl_reading(&[args, &["-"]].concat(), CLAIMS.replace("ORDER", order).as_bytes())
    };
    let flat = claims("flat", &["verify"]);
    assert!(flat.code == 0 && flat.stdout.contains("0+1+…+3 (flat)"), "{flat}");
    let tree = claims("tree", &["verify"]);
    assert_eq!(tree.code, 1, "{tree}");
    insta::assert_snapshot!(tree.stdout, @r"
    refused  <stdin>: order (target native)
    error: the claimed order is tree, (0+1)+(2+3), but it adds in the order 0+1+…+3
     --> <stdin>:1:71
      |
    1 | algorithm claims(ranks N = 4) implements allreduce(chunks N) in place order tree {
      |                                                                       ^^^^^^^^^^ claimed here
      |
      = hint: `balanced_sum` of the module `balanced` adds in this order
      = hint: a ring adds each chunk in an order of its own
      = hint: without the clause, `msccl verify` says in which order the algorithm adds
    ");
    // Of two ranks there is one order.
    assert_eq!(claims("tree", &["verify", "--ranks", "2"]).code, 0);
    for command in [&["run"][..], &["compile", "--emit", "json"], &["check"]] {
        let (kept, broken) = (claims("flat", command), claims("tree", command));
        assert_eq!((kept.code, broken.code), (0, 1), "{kept}\n{broken}");
        let report = format!("{}{}", broken.stdout, broken.stderr);
        assert!(report.contains("the claimed order is tree"), "{broken}");
    }
    // Steps of MSCCL add two summands.
    let xml = claims("flat", &["compile"]);
    assert!(xml.code == 1 && xml.stdout.is_empty(), "{xml}");
    assert!(xml.stderr.contains("on target msccl every sum of two is rounded"), "{xml}");
    let json = claims("tree", &["verify", "--format", "json"]).json();
    assert_eq!((&json["fault"], &json["at"][0]["line"]), (&"order".into(), &1.into()));
}

#[test]
fn json_has_the_promised_keys() {
    let proved = msccl_reading(&["verify", "--format", "json", "-"], RING.as_bytes()).json();
    assert_eq!(proved["verdict"], "proved");
    assert_eq!(proved["fault"], serde_json::Value::Null);
    assert_eq!(proved["facts"]["ranks"], 3);
    assert!(proved["facts"]["steps"].as_u64() > Some(0));
    let refused = msccl_reading(&["verify", "--format", "json", "-"], stuck_xml().as_bytes());
    assert_eq!(refused.code, 1);
    let refused = refused.json();
    assert_eq!(refused["verdict"], "refused");
    assert_eq!(refused["fault"], "deadlock");
    assert!(refused["message"].as_str().is_some_and(|message| !message.is_empty()));
    assert_eq!(refused["sound_up_to_bytes"], serde_json::Value::Null);
    assert_eq!(refused["at"][0]["rank"], 0);
    assert_eq!((&refused["at"][0]["line"], &refused["at"][1]["line"]), (&6.into(), &16.into()));
    assert_eq!(refused["story"].as_array().map(Vec::len), Some(3));
}

/// The public toolkit's `rrc` names the peer's place as the source; the corpus of such files has
/// this one in it.
#[test]
fn how_the_toolkit_reads_a_source_is_explained() {
    let xml = exchange_xml(1);
    let (mine, peers) =
        (r#"type="rrc" srcbuf="i" srcoff="0""#, r#"type="rrc" srcbuf="s" srcoff="0""#);
    let ran = msccl_reading(&["verify", "-"], xml.replace(mine, peers).as_bytes());
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("uninitialised") && ran.stdout.contains("<stdin>:11:7"), "{ran}");
    assert!(ran.stdout.contains("the public toolkit writes the peer's place into `src`"), "{ran}");
    assert!(!msccl_reading(&["verify", "-"], stuck_xml().as_bytes()).stdout.contains("toolkit"));
}

#[test]
fn further_faults_name_their_step_once() {
    let xml = stuck_xml().replace("cnt=\"1\"", "cnt=\"9\"");
    let ran = msccl_reading(&["verify", "-"], xml.as_bytes());
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("also: structure: r0 tb0 s"), "{ran}");
    assert!(!ran.stdout.contains("s1: r0 tb0 s1"), "{ran}");
}

#[test]
fn a_collective_that_nobody_knows_is_reported() {
    let xml = exchange_xml(1).replace("allreduce", "allred");
    let ran = msccl_reading(&["verify", "-"], xml.as_bytes());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("nothing is promised about the result"), "{ran}");
    assert!(
        ran.stderr.contains("`allred` is none of the standard collectives (allreduce, "),
        "{ran}"
    );
    assert!(msccl_reading(&["verify", "-"], exchange_xml(1).as_bytes()).stderr.is_empty());
    // The file names no output, since it runs in place.
    let ran = msccl_reading(&["verify", "--collective", "allreduce", "-"], xml.as_bytes());
    assert!(ran.code == 0 && ran.stdout.contains("right result for"), "{ran}");
}

#[test]
fn python_is_recognised() {
    let path = file("verify/ring.py", "from msccl.language import *\n");
    crate::check_refusal(&["verify", arg(&path)], 2, "expected an algorithm, found Python");
}

#[test]
fn refused_programs_name_their_lines_in_json() {
    let path = file("verify/short2.msccl", SHORT_RING);
    let refused = msccl(&["verify", "--format", "json", arg(&path)]).json();
    assert_eq!(refused["fault"], "wrong-result");
    assert!(refused["at"][0]["line"].as_u64() > Some(0), "{refused}");
    assert!(refused["at"][0]["file"].as_str().unwrap().ends_with("short2.msccl"));
}

#[test]
fn several_files_give_an_array_and_the_worst_exit() {
    let good = file("verify/good.msccl", RING);
    let stuck = file("verify/stuck.xml", stuck_xml());
    let all = ["verify", "--format", "json", arg(&good), arg(&stuck), "missing.xml"];
    let ran = msccl(&all);
    assert_eq!(ran.code, 2, "{ran}");
    let objects = ran.json();
    assert_eq!(objects[0]["verdict"], "proved");
    assert_eq!(objects[1]["verdict"], "refused");
    assert!(objects[2]["error"].as_str().unwrap().contains("cannot read missing.xml"));
    assert_eq!(msccl(&all[..5]).code, 1);
}

#[test]
fn a_file_that_contradicts_itself_is_refused_for_its_structure() {
    let text = exchange_xml(1).replace("type=\"rrc\"", "type=\"re\"");
    let ran = msccl_reading(&["verify", "--format", "json", "-"], text.as_bytes());
    assert_eq!(ran.code, 1, "{ran}");
    let verdict = ran.json();
    assert_ne!(verdict["fault"], serde_json::Value::Null, "{verdict}");
}

/// Three ranks send their two chunks to one another and add up what comes: both chunks of one peer
/// by one `re`, those of the other by one `re` each.
fn unlike_chain_xml() -> String {
    let step = |at, kind, (from, to): ((&str, u32), (&str, u32)), count, waits: [i32; 2]| {
        let (((srcbuf, srcoff), (dstbuf, dstoff)), [depid, deps]) = ((from, to), waits);
        let has = u32::from(kind == "r");
        format!(
            "<step s=\"{at}\" type=\"{kind}\" srcbuf=\"{srcbuf}\" srcoff=\"{srcoff}\" \
             dstbuf=\"{dstbuf}\" dstoff=\"{dstoff}\" cnt=\"{count}\" depid=\"{depid}\" \
             deps=\"{deps}\" hasdep=\"{has}\"/>\n"
        )
    };
    let mut text =
        "<algo name=\"unlike\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"2\" ngpus=\"3\" \
                    coll=\"allreduce\" inplace=\"1\" outofplace=\"0\" minBytes=\"0\" \
                    maxBytes=\"65536\">\n"
            .to_owned();
    for gpu in 0..3 {
        text += &format!("<gpu id=\"{gpu}\" i_chunks=\"2\" o_chunks=\"0\" s_chunks=\"4\">\n");
        for (tb, at) in [(0, 0), (1, 2)] {
            let peer = (gpu + 1 + tb) % 3;
            text += &format!("<tb id=\"{tb}\" send=\"{peer}\" recv=\"{peer}\" chan=\"0\">\n");
            text += &step(0, "s", (("i", 0), ("s", 0)), 2, [-1, -1]);
            text += &step(1, "r", (("s", at), ("s", at)), 2, [-1, -1]);
            text += "</tb>\n";
        }
        text += "<tb id=\"2\" send=\"-1\" recv=\"-1\" chan=\"0\">\n";
        text += &step(0, "nop", (("i", 0), ("o", 0)), 0, [0, 1]);
        text += &step(1, "re", (("s", 0), ("i", 0)), 2, [1, 1]);
        text += &step(2, "re", (("s", 2), ("i", 0)), 1, [-1, -1]);
        text += &step(3, "re", (("s", 3), ("i", 1)), 1, [-1, -1]);
        text += "</tb>\n</gpu>\n";
    }
    text + "</algo>\n"
}

#[test]
fn reductions_that_a_runtime_merges_wrongly_are_refused_for_that_runtime() {
    let text = unlike_chain_xml();
    let judge = |target: &str| msccl_reading(&["verify", "--target", target, "-"], text.as_bytes());
    for (target, runtime) in
        [("msccl", "the first MSCCL runtime"), ("executor", "the MSCCL executor")]
    {
        let ran = judge(target);
        assert_eq!(ran.code, 1, "{ran}");
        assert!(ran.stdout.contains("structure"), "{ran}");
        let why = format!("{runtime} merges this `re` with the one before it, and the merged step");
        assert!(ran.stdout.contains(&why) && ran.stdout.contains("<stdin>:14:"), "{ran}");
    }
    // Ours runs every step by itself.
    let ran = judge("native");
    assert_eq!(ran.code, 0, "{ran}");
}

#[test]
fn a_size_range_narrows_the_question() {
    let ring = file("verify/sized.msccl", RING);
    let ran = msccl(&["verify", "--size", "..8MiB", "--format", "json", arg(&ring)]);
    assert_eq!(ran.json()["facts"]["max_bytes"], 8 << 20, "{ran}");
    let small = RING.replace("in place {", "in place bytes 0 .. 1KiB {");
    let small = file("verify/small.msccl", small);
    check_refusal(
        &["verify", "--size", "1MiB..", arg(&small)],
        2,
        "expected sizes within those that it serves",
    );
}

#[test]
fn options_for_programs_are_refused_for_finished_algorithms() {
    let xml = file("verify/two.xml", exchange_xml(2));
    let expected = "this file holds a finished algorithm, which --instances cannot change";
    check_refusal(&["verify", "--instances", "2", arg(&xml)], 2, expected);
    check_refusal(
        &["verify", "--collective", "alltoall", arg(&xml)],
        2,
        "computes allreduce, not alltoall",
    );
    assert_eq!(msccl(&["verify", "--collective", "allreduce", arg(&xml)]).code, 0);
    assert_eq!(msccl(&["verify", "--placement", "in", arg(&xml)]).code, 0);
    check_refusal(
        &["verify", "--placement", "out", arg(&xml)],
        2,
        "runs in place, not out of place",
    );
}

#[test]
fn mistakes_in_programs_come_with_a_caret() {
    let ran = msccl_reading(
        &["verify", "-"],
        b"algorithm a(ranks N) implements allgather() { out@0[0] = 1 }",
    );
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("error:") && ran.stderr.contains('^'), "{ran}");
}

#[test]
fn the_instance_can_be_chosen() {
    let ring = "dsl-examples/allreduce/ring.msccl";
    let facts = |args: &[&str]| {
        let all: Vec<_> =
            ["verify", "--format", "json", ring].iter().chain(args).copied().collect();
        let ran = msccl(&all);
        assert_eq!(ran.code, 0, "{ran}");
        ran.json()["facts"].clone()
    };
    assert_eq!(facts(&["--ranks", "5"])["ranks"], 5);
    assert_eq!(facts(&["-D", "C=4"])["channels"], 4);
    assert_eq!(facts(&["-D", "N=6"])["ranks"], 6);
    assert_eq!(facts(&["--instances", "2"])["chunks"], 16);
    assert_eq!(facts(&["--protocol", "ll128"])["protocol"], "LL128");
    assert_eq!(facts(&["--placement", "out"])["placement"], "out of place");
    assert_eq!(facts(&["--collective", "allreduce"])["name"], "ring");
    assert_eq!(facts(&["--algorithm", "ring", "--target", "executor"])["link_depth"], 2);
    check_refusal(&["verify", ring, "-D", "Q=1"], 2, "Q");
    check_refusal(&["verify", ring, "--algorithm", "tree"], 2, "tree");
    let expected = "no algorithm here implements alltoall, only allreduce";
    check_refusal(&["verify", ring, "--collective", "alltoall"], 2, expected);
}

#[test]
fn imports_are_found_beside_the_importing_file() {
    file("verify/parts/hop.msccl", "fn hop(a, b) { output@b[a] = output@a[a] }\n");
    let main = "import \"parts/hop.msccl\"\n\
        algorithm pair(ranks N = 2) implements allgather() in place {\n    hop(0, 1)\n    hop(1, \
        0)\n}\n";
    let path = file("verify/importing.msccl", main);
    let ran = msccl(&["verify", arg(&path)]);
    assert_eq!(ran.code, 0, "{ran}");
    let path = file("verify/lost.msccl", main.replace("parts/hop", "parts/hope"));
    check_refusal(&["verify", arg(&path)], 2, "there is no such file");
}

/// A broadcast along links from rank 0, and by the rank before to whom none leads.
const LINKED: &str = "\
algorithm linked(ranks N = 2) implements broadcast(root 0) in place {
    for r in 1..N { output@r = output@(if linked(0, r) then 0 else r - 1) }
}
";

#[test]
fn a_program_is_compiled_for_the_machine_that_topo_names() {
    let program = file("topo/linked.msccl", LINKED);
    let compiled = |options: &[&str]| {
        let ran = msccl(&[&["compile", arg(&program), "--emit", "text"], options].concat());
        assert_eq!(ran.code, 0, "{ran}");
        ran.stdout
    };
    // The ranks are the GPUs.
    let ranks =
        |text: &str, ranks: u32| assert!(text.contains(&format!(" ranks {ranks} ")), "{text}");
    ranks(&compiled(&[]), 2);
    ranks(&compiled(&["--topo", "hgx-h100-4"]), 4);
    ranks(&compiled(&["--topo", "hgx-h100-4", "--ranks", "3"]), 3);
    ranks(&compiled(&["--topo", "hgx-h100-4", "--nodes", "2"]), 8);
    // On a cube mesh other ranks send, and a link less changes that.
    let [all, mesh, degraded] = [
        compiled(&["--ranks", "8"]),
        compiled(&["--topo", "dgx1-v100"]),
        compiled(&["--topo", "dgx1-v100", "--without", "gpu0-gpu2"]),
    ];
    assert!(all != mesh && mesh != degraded && all != degraded);
    let described = file("topo/two.cluster", "cluster \"two\"\nnode {\n gpu * 2\n}\n");
    ranks(&compiled(&["--topo", arg(&described)]), 2);
}

#[test]
fn a_machine_that_does_not_fit_is_refused() {
    let program = file("topo/large.msccl", LINKED);
    let verify = ["verify", arg(&program)];
    let check = |more: &[&str], expected| {
        check_refusal(&[&verify[..], more].concat(), 2, expected);
    };
    let expected = "the cluster has 8 GPUs, too few for 16 ranks";
    check(&["--topo", "dgx1-v100", "--ranks", "16"], expected);
    check(&["--topo", "dgx3"], "expected the name of a machine");
    check(&["--topo", "no/such.cluster"], "no/such.cluster");
}

//! `msccl verify --topo`: what a schedule puts on links, beside the bound; and warnings.

use crate::{RING, SHORT_RING, arg, check_refusal, file, msccl, msccl_reading};

/// Four GPUs with 100 GB/s at one switch.
fn star() -> String {
    let text = "cluster \"a star\"\ngpu * 4\nswitch nvswitch\n\
                gpu* - nvswitch nvlink 100 GB/s 0.5 us\n";
    arg(&file("verify/star.cluster", text)).to_owned()
}

#[test]
fn loads_stand_beside_the_bound() {
    let star = star();
    let ran = msccl_reading(&["verify", "--topo", &star, "-"], RING.as_bytes());
    assert_eq!(ran.code, 0, "{ran}");
    for expected in [
        // The program's own number is 3.
        "ring, allgather over 4 ranks",
        "on       a star\n",
        "nvlink  nvswitch > gpu0  3/4 · S  100 GB/s  3/400 s/GB (0.0075)\n",
        "carries 3/4 · S; no schedule can do with less (cut {gpu0})\n",
        "at least 3/400 s/GB (0.0075), 1.00 times the bound\n",
        "schedules come as near to it as one likes\n",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}\n{ran}");
    }
    let quiet = msccl_reading(&["verify", "--quiet", "--topo", &star, "-"], RING.as_bytes());
    assert_eq!(quiet.stdout.lines().count(), 3, "{quiet}");
}

#[test]
fn a_ring_over_nodes_loads_their_nics_more_than_it_must() {
    let args = ["verify", "allreduce/ring", "--topo", "docs/examples/clusters/pairs.cluster"];
    let ran = msccl(&args);
    let expected = "node0.nic1 > fabric carries 7/4 · S; no schedule can do with less than 1/2 · S \
                    (cut {node0.*})\n";
    assert!(ran.stdout.contains(expected), "{ran}");
    let json = msccl(&[&args[..], &["--format", "json"]].concat()).json();
    let loads = &json["loads"];
    assert_eq!(loads["busiest"][0]["medium"], "cable");
    assert_eq!(loads["busiest"][0]["share"], "7/4");
    assert_eq!(loads["busiest"][0]["least_share"], "1/2");
    assert_eq!(loads["times_bound"], 3.5);
    assert_eq!(loads["bound"]["ranks"], 8);
    assert_eq!(json["verdict"], "proved");
    assert_eq!(json["facts"]["ranks"], 8);
}

#[test]
fn where_there_is_no_bound_the_loads_say_why() {
    let star = star();
    let fewer = msccl(&["verify", "allreduce/ring", "--ranks", "3", "--topo", &star]);
    assert_eq!(fewer.code, 0, "{fewer}");
    assert!(fewer.stdout.contains("no bound: it would be for 4 ranks"), "{fewer}");
    let custom = msccl(&["verify", "dsl-examples/custom/shift.msccl", "--topo", &star]);
    assert!(custom.stdout.contains("no bound: shift is a collective of its own"), "{custom}");
    let made = msccl(&["compile", "allreduce/ring", "--ranks", "8", "--emit", "text"]).stdout;
    let more = msccl_reading(&["verify", "-", "--topo", &star], made.as_bytes());
    assert_eq!(more.code, 2, "{more}");
    assert!(more.stdout.starts_with("proved"), "{more}");
    assert!(more.stderr.contains("on a star: the algorithm has 8 ranks"), "{more}");
    let wrong = msccl_reading(&["verify", "--topo", &star, "-"], SHORT_RING.as_bytes());
    assert_eq!(wrong.code, 1, "{wrong}");
    assert!(!wrong.stdout.contains("a star"), "{wrong}");
    check_refusal(&["verify", "allreduce/ring", "--nodes", "2"], 2, "--topo <WHAT>");
}

/// The all-reduces of `docs/TOPOLOGY.md`, with the share of the bytes that a NIC carries, and the
/// time that this takes at 256 MiB and 25 GB/s.
#[test]
fn the_odd_machine_ranks_its_all_reduces_by_their_nics() {
    let odd = [
        ("doubling", "2", 21.47),
        ("two_rings", "7/8", 9.40),
        ("rails", "1/2", 5.37),
        ("rails_swap", "1/2", 5.37),
    ];
    for (name, share, floor_ms) in odd {
        let program = format!("docs/examples/odd/{name}.msccl");
        let machine = "docs/examples/clusters/pairs.cluster";
        let args = ["verify", &program, "--topo", machine, "--format", "json"];
        let json = msccl(&args).json();
        assert_eq!(json["verdict"], "proved", "{name}: {json}");
        let loads = &json["loads"];
        let busiest = &loads["busiest"][0];
        let expected = serde_json::json!(["cable", share, "1/2"]);
        let found =
            serde_json::json!([busiest["medium"], busiest["share"], busiest["least_share"]]);
        assert_eq!(found, expected, "{name}");
        let gigabytes = f64::from(256 << 20) / 1e9;
        let found_ms = loads["seconds_per_gb"].as_f64().unwrap() * gigabytes * 1e3;
        assert!((found_ms - floor_ms).abs() < 0.01, "{name}: {found_ms}");
        // Phases overlap, so that the estimate is what the NICs take.
        let [instances, sizes] = [["--instances", "8"], ["--sizes", "256M"]];
        let args = [&["compare", &program], &args[2..], &instances, &sizes].concat();
        let estimate_ms = msccl(&args).json()["algorithms"][0]["times"][0]["us"].as_f64();
        let ratio = estimate_ms.unwrap() / 1e3 / floor_ms;
        assert!((0.999..1.01).contains(&ratio), "{name}: {ratio}");
    }
    let args = ["bound", "allreduce", "--topo", "docs/examples/clusters/pairs.cluster"];
    let bound = msccl(&[&args[..], &["--size", "256MiB"]].concat()).stdout;
    assert!(bound.contains("256 MiB  5368.7 µs  bandwidth"), "{bound}");
}

/// A broadcast in which rank 1 gets what nobody looks at.
const UNREAD: &str = "\
algorithm twice(ranks N = 2) implements broadcast(root 0) in place {
    scratch spare[1]
    output@1[0] = output@0[0]
    spare@1[0] = output@0[0]
}
";

#[test]
fn results_that_nobody_reads_are_reported() {
    let program = file("verify/twice.msccl", UNREAD);
    for command in ["verify", "check"] {
        let ran = msccl(&[command, arg(&program)]);
        assert_eq!(ran.code, 0, "{ran}");
        let expected = "twice.msccl:4:5: what r0 tb0 s1 sends to r1 tb0 s1 is never read";
        assert!(ran.stderr.contains(expected), "{ran}");
        let json = msccl(&[command, arg(&program), "--format", "json"]).json();
        let list = if command == "check" { "diagnostics" } else { "warnings" };
        assert_eq!(json[list].as_array().unwrap().len(), 1, "{json}");
        assert_eq!(json[list][0]["line"], 4);
    }
    let ring = msccl(&["verify", "allreduce/ring", "--format", "json"]);
    assert_eq!(ring.json()["warnings"], serde_json::json!([]));
    assert!(ring.stderr.is_empty(), "{ring}");
}

#[test]
fn warnings_of_a_machine_name_the_way() {
    let rails = "docs/examples/clusters/rails.cluster";
    let args = ["verify", "allreduce/ring", "--topo", rails];
    let ran = msccl(&args);
    assert_eq!(ran.code, 0, "{ran}");
    for expected in [
        "note: r7 sends to r8, which is at another rail, by node0.gpu7 > node0.nic7 > rail7 > \
         spine > rail0 > node1.nic0 > node1.gpu0 (3 more pairs do so)\n",
        "note: all that leaves node 0 passes node0.nic7, and nothing passes node0.nic[0-6] that \
         way (likewise at 3 more nodes)\n",
    ] {
        assert!(ran.stderr.contains(expected), "{ran}");
    }
    let json = msccl(&[&args[..], &["--format", "json"]].concat()).json();
    let kinds = json["warnings"].as_array().unwrap().iter().map(|it| it["kind"].clone());
    assert_eq!(kinds.collect::<Vec<_>>(), ["crossed-rail", "one-nic", "one-nic"]);
    let good = msccl(&["verify", "allreduce/hierarchical", "--topo", rails]);
    assert!(good.stderr.is_empty(), "{good}");
    let pairs = "docs/examples/clusters/pairs.cluster";
    let swap = msccl(&["verify", "docs/examples/odd/rails_swap.msccl", "--topo", pairs]);
    let expected = "note: r0 sends to r2 without a direct link, by node0.gpu0 > node0.numa0 > \
                    node0.numa1 > node0.gpu2 (7 more pairs do so)\n";
    assert_eq!(swap.stderr, expected, "{swap}");
}

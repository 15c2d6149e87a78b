//! Clusters: texts there and back, complaints about texts, degraded ones, several nodes, what is
//! shown of them.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::degrade::{slow, without};
use msccl_topology::cluster::draw::draw;
use msccl_topology::cluster::format::{MOST_TEXT_BYTES, parse, print};
use msccl_topology::cluster::from_topology::from_topology;
use msccl_topology::cluster::presets::{PRESETS, preset};
use msccl_topology::cluster::repeat::repeat;
use msccl_topology::cluster::{
    Cluster, ClusterLink, MOST_LINKS, MOST_VERTICES, Medium, VertexIndex, VertexKind,
};
use msccl_topology::{Topology, xml};
use proptest::prelude::*;

const PAIRS: &str = include_str!("../../../docs/examples/clusters/pairs.cluster");
const RAILS: &str = include_str!("../../../docs/examples/clusters/rails.cluster");
const HOST: &str = include_str!("../../../docs/examples/topology.xml");

/// The rate from one vertex to another, in MB/s, of all links.
fn rate(cluster: &Cluster, from: &str, to: &str) -> u32 {
    let [from, to] = [from, to].map(|name| cluster.find(name).unwrap());
    let links = cluster.links().iter().filter(|link| link.from == from && link.to == to);
    links.map(|link| link.rate.mb_per_s()).sum()
}

fn names(cluster: &Cluster) -> Vec<&str> {
    cluster.vertices().iter().map(|vertex| vertex.name.as_str()).collect()
}

#[test]
fn examples_say_what_they_seem_to() {
    let pairs = parse(PAIRS).unwrap();
    assert_eq!(pairs.gpus().count(), 8);
    assert_eq!(rate(&pairs, "node1.gpu2", "node1.gpu3"), 247_200);
    assert_eq!(rate(&pairs, "node1.gpu1", "node1.gpu2"), 0);
    assert_eq!(rate(&pairs, "fabric", "node1.nic0"), 25_000);
    let rails = parse(RAILS).unwrap();
    assert_eq!(rails.gpus().count(), 32);
    assert_eq!(rate(&rails, "node3.nic5", "rail5"), 50_000);
    assert_eq!(rate(&rails, "node3.nic5", "rail4"), 0);
    assert_eq!(rate(&rails, "rail5", "spine"), 50_000);
    for cluster in [pairs, rails] {
        assert_eq!(parse(&print(&cluster)).unwrap(), cluster);
    }
}

#[test]
fn statements_add_what_the_format_says() {
    let check = |text: &str, vertices: &[&str], links: usize| {
        let cluster = parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        assert_eq!(names(&cluster), vertices, "{text}");
        assert_eq!(cluster.links().len(), links, "{text}");
    };
    check("", &[], 0);
    check("\n// nothing\n", &[], 0);
    check("gpu a b c", &["a", "b", "c"], 0);
    check("gpu * 2\ngpu * 1 x * 2", &["gpu0", "gpu1", "gpu2", "x0", "x1"], 0);
    check("gpu gpu7\ngpu * 1", &["gpu7", "gpu8"], 0);
    check("node * 2 { gpu * 1 }", &["node0.gpu0", "node1.gpu0"], 0);
    check("node { gpu * 1 }\nnode { gpu * 1 }", &["gpu0", "gpu1"], 0);
    check("gpu * 4\ngpu* - gpu* nvlink 1 GB/s", &["gpu0", "gpu1", "gpu2", "gpu3"], 12);
    check("gpu * 3\ngpu* > gpu* nvlink 1 GB/s", &["gpu0", "gpu1", "gpu2"], 6);
    check("gpu a b\nnic x y\na b - x y pairwise pci 1 GB/s", &["a", "b", "x", "y"], 4);
    check("gpu a b\nnic x y\na b > x y pci 1 GB/s 2 ns", &["a", "b", "x", "y"], 4);
}

#[test]
fn nodes_have_numbers() {
    let text = "node * 2 { gpu * 1 }\nnode 5 { gpu a }\nnode { gpu b }\nnode 5 { gpu c }\ngpu d";
    let cluster = parse(text).unwrap();
    let nodes: Vec<_> = cluster.vertices().iter().map(|vertex| vertex.node).collect();
    assert_eq!(nodes, [Some(0), Some(1), Some(5), Some(6), Some(5), None]);
    assert_eq!(parse(&print(&cluster)).unwrap(), cluster);
}

#[test]
fn rates_and_latencies_are_exact() {
    let check = |facts: &str, mb_per_s: u32, latency_ns: u32| {
        let cluster = parse(&format!("gpu a b\na > b nvlink {facts}")).unwrap();
        let [link] = cluster.links() else { panic!("{facts}") };
        assert_eq!((link.rate.mb_per_s(), link.latency_ns), (mb_per_s, latency_ns), "{facts}");
    };
    check("25 GB/s", 25_000, 0);
    check("25GB/s 0.7us", 25_000, 700);
    check("18 * 20.6 GB/s 370 ns", 370_800, 370);
    check("400 Gbit/s 3 us", 50_000, 3_000);
    check("1 MB/s 0.001 us", 1, 1);
    check("0.001 GB/s", 1, 0);
}

/// Checks that `text` is refused with that message.
fn refuses(text: &str, expected: &str) {
    let error = parse(text).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some(expected), "{text}");
}

#[test]
fn complaints_about_links_say_where_and_what_to_do() {
    let check = refuses;
    check(
        "gpu * 2\ngpu0 - gpu2 nvlink 1 GB/s",
        "line 2, column 8: expected the name of a vertex that the lines above add, found `gpu2`; \
         add vertices above the lines that name them: `gpu * 4`, `nic nic0`",
    );
    check(
        "gpu * 4\ngpu0 - gpu[1-4] nvlink 1 GB/s",
        "line 2, column 8: expected 4 vertices, found 3 in `gpu[1-4]`",
    );
    check("gpu a a", "line 1, column 7: expected a name that is new, found `a` again");
    check(
        "gpu a b\na - b 1 GB/s",
        "line 2, column 7: expected `nvlink`, `xgmi`, `pci`, `socket` \
         or `cable`, found `1`",
    );
    check(
        "gpu a b\na - b pci fast",
        "line 2, column 11: expected a rate, such as `25 GB/s`, \
         found `fast`",
    );
    check(
        "gpu a b\na - b pci 1 GiB/s",
        "line 2, column 13: expected `GB/s`, `MB/s` or `Gbit/s`, \
         found `GiB/s`",
    );
    check(
        "gpu a b\na - b pci 0 GB/s",
        "line 2, column 11: expected a rate of whole MB/s, \
         from 1 MB/s to 4294967 GB/s, found `0`",
    );
    check(
        "gpu a b\na - b pci 1.2345 GB/s",
        "line 2, column 11: expected a rate of whole MB/s, \
         from 1 MB/s to 4294967 GB/s, found `1.2345`",
    );
    check("gpu a b\na - b pci 1 GB/s 1 s", "line 2, column 20: expected `us` or `ns`, found `s`");
    check(
        "gpu a b\na - b pci 1 GB/s c",
        "line 2, column 18: expected a latency, such as \
         `0.5 us`, or the end of the line, found `c`",
    );
    check(
        "gpu a\na - a pci 1 GB/s",
        "line 2, column 1: expected two different ends of a link, \
         found a vertex and itself",
    );
    check(
        "gpu a b\na b b - a pci 1 GB/s",
        "line 2, column 5: expected each vertex once in a \
         list, found `b` twice",
    );
    check(
        "gpu a b c\na b - c pairwise pci 1 GB/s",
        "line 2, column 9: expected as many names \
         left as right, found 2 and 1",
    );
}

#[test]
fn complaints_about_nodes_and_words_say_where_and_what_to_do() {
    let check = refuses;
    check(
        "node * 2 { gpu * 1",
        "line 1, column 19: expected `}` after the statements of a node, \
         found the end of the text",
    );
    check(
        "node * 2 { node { } }",
        "line 1, column 12: expected a statement of the node, or `}`, \
         found `node`; nodes do not stand in nodes",
    );
    check(
        "}",
        "line 1, column 1: expected a statement or the end of the text, found `}`; no \
         block is open here",
    );
    check(
        "node*2 { }",
        "line 1, column 1: expected the name of a vertex that the lines above add, found \
         `node*2`; a count has spaces: `node * 2 { … }`",
    );
    check(
        "gpu * 0",
        "line 1, column 7: expected how many vertices, a number from 1 to 16384, \
         found `0`",
    );
    check(
        "cluster \"a",
        "line 1, column 9: expected `\"` after the title, on the same line, \
         found a title without its second quote",
    );
    check(
        "é",
        "line 1, column 1: expected a name, number, sign or comment, found `é`; comments \
         begin with `//`; names have letters, digits, `_` and `.`",
    );
    check(
        "gpu * 1 // é\ngpu § b",
        "line 2, column 5: expected a name, number, sign or comment, \
         found `§`; comments begin with `//`; names have letters, digits, `_` and `.`",
    );
}

#[test]
fn what_a_text_takes_is_bounded() {
    let refused = |text: &str, words: &str| {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(&" ".repeat(MOST_TEXT_BYTES + 1), "at most 1048576 bytes");
    refused("node * 16384 { gpu * 16384 }", "at most 16384 vertices");
    refused("gpu * 16384\ngpu * 1", "at most 16384 vertices");
    refused("gpu * 600\ngpu* - gpu* pci 1 GB/s", "at most 262144 links");
    refused("node * 16384 { gpu * 1\n gpu0 - x* y* pci 1 GB/s }", "`x*`");
    let scans =
        "network * 16000\n".to_owned() + &"network[0-0] - network1 pci 1 GB/s\n".repeat(9000);
    refused(&scans, "fewer lists");
    assert_eq!(parse("node * 16384 { }").unwrap().vertices(), []);
}

/// Clusters as texts can say them: names differ, no link leads from a vertex to itself.
fn clusters() -> impl Strategy<Value = Cluster> {
    let kinds = prop::sample::select(VertexKind::ALL.to_vec());
    let name = prop_oneof!["[a-z][a-z0-9_.]{0,5}", "(gpu|nic|node[01]\\.gpu|x)[0-9]{1,2}"];
    let vertex = (name, kinds, prop::option::of(0u32..4));
    let media = prop::sample::select(Medium::ALL.to_vec());
    let link = (any::<u16>(), any::<u16>(), 1u32..4, 0u32..3, media, any::<bool>());
    let all = (
        "[ -!#-~é]{0,12}",
        prop::collection::vec(vertex, 0..12),
        prop::collection::vec(link, 0..24),
        prop::bool::ANY,
    );
    all.prop_map(|(title, vertices, links, grouped)| {
        let mut cluster = Cluster::new(title);
        let mut vertices = vertices;
        if grouped {
            vertices.sort_by_key(|(_, kind, node)| (node.is_none(), *node, kind.name()));
        }
        for (name, kind, node) in vertices {
            let keyword = parse(&format!("gpu {name}")).is_err();
            if !keyword && cluster.find(&name).is_none() {
                cluster.add(name, kind, node);
            }
        }
        let count = cluster.vertices().len() as u32;
        for (from, to, rate, latency_ns, medium, both) in links {
            let [from, to] = [from, to].map(|at| VertexIndex(u32::from(at) % count.max(1)));
            let rate = Bandwidth::from_mb_per_s(rate * 12_345);
            let link = ClusterLink { from, to, rate, latency_ns: latency_ns * 350, medium };
            if from != to && both {
                cluster.join(from, to, rate, link.latency_ns, medium);
            } else if from != to {
                cluster.add_link(link);
            }
        }
        cluster
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn what_is_printed_is_read_back(cluster in clusters()) {
        let text = print(&cluster);
        match parse(&text) {
            Ok(back) => prop_assert_eq!(back, cluster, "{}", text),
            Err(error) => prop_assert!(false, "{}\n{}", error, text),
        }
    }

    #[test]
    fn repeated_clusters_are_read_back(cluster in clusters(), count in 2u32..4) {
        if let Ok(many) = repeat(&cluster, count) {
            prop_assert_eq!(many.gpus().count(), count as usize * cluster.gpus().count());
            if let Ok(back) = parse(&print(&many)) {
                prop_assert_eq!(back, many);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(
        text in "(gpu|nic|node|a|b|\\*|-|>|\\{|\\}|[0-9]| |\n|GB/s|\"|\\[|é|//|pci){0,40}",
    ) {
        if let Ok(cluster) = parse(&text) {
            prop_assert_eq!(parse(&print(&cluster)).unwrap(), cluster);
        }
    }

    #[test]
    fn any_part_of_an_example_is_read_or_refused(from in 0usize..900, length in 0usize..900) {
        let end = (from + length).min(PAIRS.len());
        if let Some(part) = PAIRS.get(from.min(end)..end) {
            let _ = parse(part);
        }
    }
}

#[test]
fn links_are_taken_away() {
    let mesh = preset("mi300x-8").unwrap();
    let less = without(&mesh, "gpu2-gpu3").unwrap();
    assert_eq!(mesh.links().len() - less.links().len(), 2);
    assert_eq!(rate(&less, "gpu3", "gpu2"), 0);
    let less = without(&mesh, "nic1").unwrap();
    assert_eq!(mesh.links().len() - less.links().len(), 4);
    let less = without(&mesh, "gpu[0-3] - gpu[4-7]").unwrap();
    assert_eq!(mesh.links().len() - less.links().len(), 32);
    assert_eq!(less.vertices(), mesh.vertices());
}

#[test]
fn links_are_slowed() {
    let machine = preset("hgx-h100-8").unwrap();
    let slower = slow(&machine, "nic1=0.5").unwrap();
    assert_eq!(rate(&slower, "nic1", "fabric"), 25_000);
    assert_eq!(rate(&slower, "gpu1", "nic1"), 24_000);
    assert_eq!(rate(&slower, "gpu2", "nic2"), 48_000);
    let slower = slow(&machine, "gpu3-nvswitch=0.25").unwrap();
    assert_eq!(rate(&slower, "nvswitch", "gpu3"), 92_700);
}

#[test]
fn what_is_not_there_is_not_degraded() {
    let ring = parse("gpu * 3\ngpu0 - gpu1 pci 1 GB/s").unwrap();
    let check = |found: Result<Cluster, _>, expected: &str| {
        let found: Result<Cluster, msccl_topology::cluster::degrade::DegradeError> = found;
        assert_eq!(found.unwrap_err().to_string(), expected);
    };
    check(
        without(&ring, "gpu7"),
        "expected the name of a vertex, found `gpu7`; there are `gpu0`, `gpu1`, `gpu2`",
    );
    check(
        without(&ring, "gpu0-gpu2"),
        "expected links that there are, found `gpu0-gpu2`; `gpu0` has links with `gpu1`",
    );
    check(
        without(&ring, "gpu2"),
        "expected links that there are, found `gpu2`; `gpu2` has no links",
    );
    check(
        slow(&ring, "gpu0"),
        "expected links and a part of their rate, such as `nic1=0.5`, found `gpu0`",
    );
    for factor in ["0", "1.5", "-1", "NaN", "inf", "x", ""] {
        let error = slow(&ring, &format!("gpu0={factor}")).unwrap_err().to_string();
        assert!(error.starts_with("expected a part above 0, at most 1"), "{error}");
    }
}

#[test]
fn nodes_are_repeated() {
    let one = preset("ndv5").unwrap();
    let two = repeat(&one, 2).unwrap();
    assert_eq!(two.name(), format!("{}, 2 times", one.name()));
    assert_eq!(rate(&two, "node1.nic3", "rail3"), 50_000);
    assert_eq!(rate(&two, "node0.nic3", "rail3"), 50_000);
    assert!(print(&two).contains("node * 2 {"));
    assert!(print(&two).contains("nic* - rail* pairwise"));
    for text in [PAIRS, RAILS] {
        assert!(print(&parse(text).unwrap()).contains("node * "));
    }
    let racks = repeat(&preset("gb200-nvl72").unwrap(), 2).unwrap();
    assert_eq!(rate(&racks, "node35.gpu3", "group1.nvswitch"), 721_800);
    assert_eq!(rate(&racks, "node35.nic3", "fabric"), 50_000);
    let error = repeat(&parse("gpu * 2").unwrap(), 2).unwrap_err().to_string();
    assert!(error.contains("expected a cluster with a network"), "{error}");
    let error = repeat(&one, 9999).unwrap_err().to_string();
    assert!(error.contains("expected a number of nodes from 1 to "), "{error}");
    assert!(repeat(&one, 0).is_err());
    let most = MOST_VERTICES / one.vertices().len();
    assert!(repeat(&one, most.min(MOST_LINKS / one.links().len()) as u32).is_ok());
}

#[test]
fn a_topology_is_a_cluster() {
    let topology = Topology::new(xml::read(HOST).unwrap().system);
    let cluster = from_topology(&topology);
    assert_eq!(cluster.gpus().count(), topology.gpus().len());
    let nics = cluster.vertices().iter().filter(|it| it.kind == VertexKind::Nic).count();
    assert_eq!(nics, topology.nets().len());
    assert_eq!(parse(&print(&cluster)).unwrap(), cluster);
    insta::assert_snapshot!(draw(&cluster));
}

#[test]
fn hosts_of_a_topology_are_nodes() {
    let host = |hash: u32| {
        format!(
            "<cpu host_hash=\"{hash:#x}\" numaid=\"0\" affinity=\"ff\" arch=\"x86_64\">\
             <pci busid=\"0000:10:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\"/></pci>\
             <pci busid=\"0000:20:00.0\" class=\"0x020000\"><nic>\
             <net name=\"a\" dev=\"0\" speed=\"100000\" port=\"1\"/>\
             <net name=\"a\" dev=\"1\" speed=\"100000\" port=\"2\"/></nic></pci></cpu>"
        )
    };
    let file = format!("<system version=\"1\">{}{}</system>", host(1), host(2));
    let cluster = from_topology(&Topology::new(xml::read(&file).unwrap().system));
    assert_eq!(cluster.gpus().count(), 2);
    assert_eq!(rate(&cluster, "node1.gpu0", "node1.cpu0"), 12_000);
    assert_eq!(rate(&cluster, "node1.cpu0", "node1.card0"), 12_000);
    assert_eq!(rate(&cluster, "node1.card0", "node1.nic1"), 12_500);
    assert_eq!(rate(&cluster, "fabric", "node0.nic1"), 12_500);
    assert_eq!(parse(&print(&cluster)).unwrap(), cluster);
    assert!(draw(&cluster).contains("node * 2 {"), "{}", draw(&cluster));
}

#[test]
fn clusters_are_shown() {
    let presets = PRESETS.iter().filter(|preset| !preset.name.starts_with("hgx-h200"));
    let shown: Vec<String> = presets
        .map(|preset| format!("{}\n{}", preset.name, draw(&preset.cluster().unwrap())))
        .chain([draw(&parse(PAIRS).unwrap()), draw(&parse(RAILS).unwrap())])
        .chain([draw(&without(&preset("ndv2").unwrap(), "nic0").unwrap())])
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

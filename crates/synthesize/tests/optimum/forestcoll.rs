//! Trees in the XML of ForestColl: read, proved, and refused where something is wrong with them.

use std::fmt::Write;

use msccl_collective::{CollectiveKind, Rank};
use msccl_synthesize::{
    ForestCollError, ForestCollTrees, Options, Plan, SynthesisError, Tree, TreeEdge, Trees, plan,
    plan_of_trees,
};
use msccl_topology::cluster::Cluster;

use crate::machines::machine;
use crate::proved::Proved;

/// Two chunks of every block of three GPUs: one along each way round a ring.
const RING: &str = r#"<?xml version="1.0" ?>
<Algo nchunkspernode="2">
  <!-- By hand. -->
  <tree root="0" index="0" nchunks="1" height="2">
    <send src="0" dst="1" path="0,1"/>
    <send src="1" dst="2" path="1,2"/>
  </tree>
  <tree root="0" index="1" nchunks="1" height="2">
    <send src="2" dst="1" path="2,1"/>
    <send src="0" dst="2" path="0,2"/>
  </tree>
  <tree root="1" index="0" nchunks="2" height="1">
    <send src="1" dst="2" path="1,2"/>
    <send src="1" dst="0"/>
  </tree>
  <tree root="2" index="0" nchunks="2" height="1">
    <send src="2" dst="0" path="2,switch,0"/>
    <send src="2" dst="1" path="2,1"/>
  </tree>
</Algo>
"#;

const RING_GPUS: [&str; 3] = ["a", "b", "c"];

/// The names that ForestColl's examples have for GPUs: of which node, and which one there.
fn name(rank: u32, per_node: u32) -> String {
    format!("({}, 'GPU', {})", rank / per_node, rank % per_node)
}

/// The trees of `plan` as ForestColl writes them, those of the last root first.
fn xml(plan: &Plan, per_node: u32) -> String {
    let mut out = format!("<Algo nchunkspernode=\"{}\">\n", plan.chunks);
    let name = |rank| name(rank, per_node);
    let listed = plan.forests().flat_map(|forest| match &forest.trees {
        Trees::Listed(trees) => trees,
        Trees::Nested(_) => panic!("expected trees one by one"),
    });
    let trees: Vec<&Tree> = listed.collect();
    for Tree { root, chunks, edges, .. } in trees.into_iter().rev() {
        let root = name(*root);
        writeln!(out, "  <tree root=\"{root}\" index=\"0\" nchunks=\"{chunks}\" height=\"1\">")
            .unwrap();
        for TreeEdge { parent, child } in edges {
            let [from, to] = [*parent, *child].map(name);
            let path = format!("{from},(0, 'NVSwitch', 0),{to}");
            writeln!(out, "    <send src=\"{from}\" dst=\"{to}\" path=\"{path}\"/>").unwrap();
        }
        out += "  </tree>\n";
    }
    out + "</Algo>\n"
}

fn read(text: &str, cluster: &Cluster) -> Result<ForestCollTrees, ForestCollError> {
    let vertices = cluster.vertices();
    let gpus: Vec<&str> = cluster.gpus().map(|gpu| &*vertices[gpu.index()].name).collect();
    ForestCollTrees::read(text, &gpus)
}

/// What is written as ForestColl does is proved to be as fast as it was, for all three collectives.
#[test]
fn trees_of_others_are_proved_and_certified() {
    for (machine_name, per_node) in [("dgx1-v100 nvlink", 8), ("hgx-h100-8*2", 8), ("mi250", 16)] {
        let cluster = machine(machine_name);
        let found = plan(&cluster, CollectiveKind::AllGather, &Options::default()).unwrap();
        let trees = read(&xml(&found, per_node), &cluster).unwrap();
        for kind in
            [CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce]
        {
            let taken = plan_of_trees(&cluster, kind, &trees).unwrap();
            let proved = Proved::of_plan(taken, &cluster);
            assert_eq!(proved.seconds_per_byte, proved.plan.seconds_per_byte(), "{machine_name}");
            if kind == CollectiveKind::AllGather {
                assert_eq!(proved.seconds_per_byte, found.seconds_per_byte(), "{machine_name}");
                assert_eq!(proved.plan.bound, found.bound, "{machine_name}");
            }
        }
    }
}

#[test]
fn names_of_the_machine_are_its_gpus() {
    let trees = ForestCollTrees::read(RING, &RING_GPUS).unwrap();
    assert_eq!(ForestCollTrees::read(RING, &["0", "1", "2"]), Ok(trees.clone()));
    assert_ne!(ForestCollTrees::read(RING, &["2", "1", "0"]), Ok(trees));
}

#[test]
fn collectives_of_one_root_are_refused() {
    let cluster = machine("dgx1-v100 nvlink");
    let found = plan(&cluster, CollectiveKind::AllGather, &Options::default()).unwrap();
    let trees = read(&xml(&found, 8), &cluster).unwrap();
    let kind = CollectiveKind::Broadcast(Rank(0));
    let error = plan_of_trees(&cluster, kind, &trees).unwrap_err();
    assert_eq!(error, SynthesisError::NotOfAllRoots { kind });
}

/// Each line is RING with one piece replaced: where that is found, and what is expected there.
#[test]
fn what_is_wrong_with_a_file_is_located() {
    let none_of_2 = "trees of 3 roots, the number of the machine's GPUs, found 2";
    for (piece, instead, place, expected) in [
        ("<Algo n", "<algo n", (2, 1), "expected <Algo>, found <algo>"),
        ("nchunkspernode=\"2\"", "chunks=\"2\"", (2, 1), "attributes nchunkspernode of <Algo>"),
        (" nchunkspernode=\"2\"", "", (2, 1), "an attribute `nchunkspernode` of <Algo>"),
        ("node=\"2\"", "node=\"0\"", (2, 1), "`nchunkspernode` from 1 to 1024, found `0`"),
        ("node=\"2\"", "node=\"99999\"", (2, 1), "from 1 to 1024, found `99999`"),
        ("node=\"2\"", "node=\"3\"", (2, 1), "3 chunks of trees of `0`, found 2"),
        ("node=\"2\"", "node=\"1\"", (8, 3), "1 chunks of trees of `0`, found 2 up to here"),
        ("root=\"2\"", "root=\"1\"", (2, 1), none_of_2),
        ("nchunks=\"2\"", "nchunks=\"two\"", (12, 3), "`nchunks` from 1 to 1024, found `two`"),
        ("dst=\"1\"", "dst=\"7\"", (5, 5), "a path from `0` to `7`, found `0,1`"),
        ("dst=\"0\"/>", "dst=\"7\"/>", (14, 5), "a GPU that is the root of a tree, found `7`"),
        ("dst=\"0\"/>", "dst=\"1\"/>", (14, 5), "found a second one for `1`"),
        ("dst=\"0\"/>", "dst=\"2\"/>", (14, 5), "found a second one for `2`"),
        (
            "<send src=\"0\" dst=\"2\" path=\"0,2\"/>",
            "<send src=\"1\" dst=\"2\"/>",
            (8, 3),
            "sends from `0` on to 2 GPUs, found to 0",
        ),
        ("path=\"2,switch,0\"", "path=\"2,switch,1\"", (17, 5), "a path from `2` to `0`"),
        ("<send src=\"1\" dst=\"0\"/>", "", (12, 3), "sends from `1` on to 2 GPUs, found to 1"),
        ("<send src=\"1\" dst=\"0\"/>", "<tree/>", (14, 5), "expected <send>, found <tree>"),
        ("<!-- By hand. -->", "By hand.", (2, 26), "elements only, found text"),
        ("</Algo>", "", (21, 1), "</Algo>, found the end"),
        ("</Algo>", "</Algo><Algo/>", (20, 8), "no element here, found <Algo>"),
        ("</tree>\n</Algo>", "</Algo>", (19, 3), "well-formed XML"),
    ] {
        assert!(RING.contains(piece), "{piece}");
        let error = ForestCollTrees::read(&RING.replacen(piece, instead, 1), &RING_GPUS);
        let error = error.unwrap_err();
        assert!(error.to_string().contains(expected), "{instead}: {error}");
        assert_eq!(error.place(), place, "{instead}: {error}");
    }
}

#[test]
fn no_text_panics() {
    for end in 0..RING.len() {
        let _ = ForestCollTrees::read(&RING[..end], &RING_GPUS);
    }
    for text in ["", "<", "\u{0}", "<Algo nchunkspernode=\"1\"/>", "<!DOCTYPE x><Algo/>"] {
        assert!(ForestCollTrees::read(text, &RING_GPUS).is_err(), "{text}");
        assert!(ForestCollTrees::read(text, &[]).is_err() || text.contains("/>"), "{text}");
    }
}

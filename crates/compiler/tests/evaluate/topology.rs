//! What programs ask of the cluster for which they are compiled.

use std::sync::Arc;

use super::{check_errors_for, dag, dag_for, lines};
use msccl_compiler::evaluate::Launch;
use msccl_topology::cluster::presets::preset;
use msccl_topology::cluster::ranks::RankTopology;

/// A launch on a preset.
fn on(name: &str, ranks: u32, per_node: u32) -> Launch {
    let topology = Some(Arc::new(RankTopology::of(&preset(name).expect("a preset"))));
    Launch { ranks: Some(ranks), per_node: Some(per_node), topology, ..Launch::default() }
}

/// Holds every line to be true in a program for `launch`.
fn check_truths(truths: &str, launch: &Launch) {
    for truth in lines(truths) {
        let text = format!(
            "import groups
             algorithm a(ranks N = 8, per_node G = 4) implements allreduce() {{ require {truth} }}"
        );
        assert_eq!(dag_for(&text, launch).ops, [], "{truth}");
    }
}

#[test]
fn a_cluster_says_what_ranks_share_and_how_wide_links_are() {
    check_truths(
        "nic(0) == 0 and nic(1) == 0 and nic(2) == 1 and nic(15) == 7 and nics() == 8
         switch(7) == 3 and switches() == 8
         numa(3) == 0 and numa(4) == 1 and numas() == 4
         linked(0, 3) and linked(0, 1) and not linked(0, 5) and not linked(0, 0)
         not linked(0, 8)
         width(0, 3) == 40 and width(0, 1) == 20 and width(0, 5) == 0
         nic_ranks(1) == [2, 3] and nic_ranks(8) == []
         switch_ranks(4) == [8, 9] and numa_ranks(3) == [12, 13, 14, 15]
         linked_ranks(0) == [1, 2, 3, 4]",
        &on("dgx1-v100*2", 16, 8),
    );
}

#[test]
fn fewer_ranks_than_gpus_are_the_first() {
    check_truths(
        "nics() == 3 and numas() == 2 and switches() == 3
         linked_ranks(0) == [1, 2, 3, 4]
         nic_ranks(2) == [4]",
        &on("dgx1-v100*2", 5, 5),
    );
}

#[test]
fn without_a_cluster_each_rank_has_a_nic_and_each_node_a_switch() {
    check_truths(
        "nic(5) == 5 and nics() == 8 and nic_ranks(5) == [5]
         switch(5) == 1 and switches() == 2 and switch_ranks(1) == [4, 5, 6, 7]
         numa(5) == 1 and numas() == 2 and numa_ranks(0) == [0, 1, 2, 3]
         linked(4, 5) and not linked(3, 4) and not linked(4, 4)
         width(4, 5) == 1 and width(3, 4) == 0
         linked_ranks(6) == [4, 5, 7]",
        &Launch::default(),
    );
    let one_node = "algorithm a(ranks N = 3) implements allreduce() {
        require linked(0, 2) and switches() == 1 and nics() == 3
    }";
    assert_eq!(dag(one_node).ops, []);
}

#[test]
fn the_head_may_ask_once_ranks_are_known() {
    let text = "algorithm a(ranks N, per_node G, K = nics()) implements allreduce(chunks K) {}";
    assert_eq!(dag_for(text, &on("ndv2*2", 16, 8)).collective.chunks, 2);
    let early = "algorithm a(K = nics(), ranks N = 2) implements allreduce(chunks K) {}";
    let error = "1:17 the number of ranks is not known yet here";
    check_errors_for(early, &Launch::default(), error);
}

#[test]
fn a_program_for_another_cluster_is_another() {
    let text = "algorithm a(ranks N = 4) implements allreduce() in place {
        for r in 1..N if linked(r, 0) { input@0 += input@r }
    }";
    let ops = |launch: &Launch| dag_for(text, launch).ops.len();
    let of = |name| ops(&Launch { per_node: None, ..on(name, 4, 4) });
    assert_eq!((ops(&Launch::default()), of("pcie-pairs-4"), of("pcie-4")), (3, 1, 0));
}

#[test]
fn questions_that_have_no_answer_are_refused() {
    let check = |question: &str, error: &str| {
        let head = "algorithm a(ranks N = 4) implements allreduce()";
        let text = format!("{head} {{\nlet x = {question}\n}}");
        check_errors_for(&text, &Launch::default(), error);
    };
    check("nic(4)", "2:13 there is no rank 4");
    check("switch(-1)", "2:16 there is no rank -1");
    check("numa([0])", "2:14 expected an integer, found a list");
    check("linked(0, 4)", "2:19 there is no rank 4");
    check("width(true, 1)", "2:15 expected an integer, found a truth value");
    check("nic()", "2:9 `nic` takes 1 argument, not 0");
    check("nics(0)", "2:9 `nics` takes 0 arguments, not 1");
    check("linked(0)", "2:9 `linked` takes 2 arguments, not 1");
}

#[test]
fn a_cluster_with_too_few_gpus_is_refused() {
    let text = "algorithm a(ranks N = 16) implements allreduce() {}";
    let launch = Launch { per_node: None, ..on("dgx1-v100", 16, 8) };
    check_errors_for(text, &launch, "1:11 the cluster has 8 GPUs, too few for 16 ranks");
}

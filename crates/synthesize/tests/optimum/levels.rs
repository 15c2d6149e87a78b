//! Levels: all of them are proved, on one thread block and on channels, and links carry what is
//! planned.

use msccl_collective::{CollectiveKind, Protocol, Rank, SizeRange};
use msccl_synthesize::{BlockSpread, Layout, Levels, Plan, level_plans};
use msccl_topology::cluster::{Cluster, format};

use crate::machines::machine;
use crate::proved::Proved;

const KINDS: [CollectiveKind; 3] =
    [CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce];

const LAYOUTS: [Layout; 2] = [
    Layout {
        spread: BlockSpread::OneBlock,
        instances: 2,
        protocol: Protocol::Ll,
        sizes: SizeRange { min_bytes: 0, max_bytes: Some((1 << 20) - 1) },
    },
    Layout {
        spread: BlockSpread::Channels(1),
        instances: 1,
        protocol: Protocol::Simple,
        sizes: SizeRange::ALL,
    },
];

fn check(cluster: &Cluster, kind: CollectiveKind) -> Vec<Levels> {
    let plans = level_plans(cluster, kind).unwrap();
    for plan in &plans {
        for layout in &LAYOUTS {
            let proved = Proved::of_layout(plan.clone(), layout, cluster);
            let name = format!("{} on {}", plan.summary(), cluster.name());
            assert_eq!(proved.seconds_per_byte, plan.seconds_per_byte(), "{name}");
        }
    }
    plans.iter().filter_map(Plan::levels).cloned().collect()
}

#[test]
fn all_levels_are_proved() {
    for name in ["hgx-h100-8", "mi300x-8", "pairs"] {
        for kind in KINDS {
            assert!(!check(&machine(name), kind).is_empty(), "{name}");
        }
    }
}

/// So many GPUs behind a switch.
fn switched(gpus: u32) -> Cluster {
    let text = format!(
        "cluster \"{gpus} behind a switch\"\ngpu * {gpus}\nswitch s\n\
         gpu* - s nvlink 50 GB/s 0.5 us\n"
    );
    format::parse(&text).unwrap()
}

/// Of six ranks: 6, 2 × 3, 3 × 2. Of five: 5.
#[test]
fn ranks_need_not_be_a_power_of_two() {
    for (gpus, count) in [(6, 3), (5, 1)] {
        let found = check(&switched(gpus), CollectiveKind::AllGather);
        assert_eq!(found.len(), count, "{gpus}");
        check(&switched(gpus), CollectiveKind::AllReduce);
    }
}

/// A ring of eight has routes between neighbours only; a DGX-1 between four and four, and from one
/// four to the other.
#[test]
fn levels_have_routes() {
    let sizes = |name| {
        let found = check(&machine(name), CollectiveKind::AllGather);
        found.iter().map(Levels::sizes).collect::<Vec<_>>()
    };
    assert_eq!(sizes("ring"), Vec::<String>::new());
    assert_eq!(sizes("dgx1-v100 nvlink"), ["2 × 2 × 2", "4 × 2"]);
}

#[test]
fn collectives_of_one_root_have_no_levels() {
    for kind in [CollectiveKind::AllToAll, CollectiveKind::Broadcast(Rank(0))] {
        assert_eq!(level_plans(&machine("hgx-h100-8"), kind).unwrap(), Vec::new());
    }
}

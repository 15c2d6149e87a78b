//! Every preset with every collective, by the defaults: proved, certified and near to the bound.

use msccl_collective::{CollectiveKind, Rank};
use msccl_synthesize::{Ending, Options};
use msccl_topology::cluster::presets::PRESETS;
use msccl_topology::cluster::repeat::repeat;
use num_rational::Ratio;

use crate::proved::Proved;

const KINDS: [CollectiveKind; 6] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast(Rank(1)),
    CollectiveKind::Reduce(Rank(0)),
];

/// More GPUs than this take long without optimisation.
const GPUS_MAX: usize = 128;

/// How far from the bound each is, at most.
fn most(name: &str, nodes: u32, kind: CollectiveKind) -> Ratio<u128> {
    match (name, nodes, kind) {
        // The optimum needs more chunks than there are by default.
        ("dgx1-v100", 1, _) => Ratio::new(81, 80),
        ("ndv2", 1, CollectiveKind::Broadcast(_) | CollectiveKind::Reduce(_)) => Ratio::new(49, 48),
        // Both phases are at their bounds, and nobody knows of anything better.
        ("pcie-4" | "pcie-pairs-4", 2, CollectiveKind::AllReduce) => Ratio::new(75, 64),
        _ => Ratio::new(201, 200),
    }
}

#[test]
fn one_and_two_of_every_preset_serve_every_collective() {
    for (preset, nodes) in PRESETS.iter().flat_map(|preset| [(preset, 1), (preset, 2)]) {
        let cluster = repeat(&preset.cluster().unwrap(), nodes).unwrap();
        let name = preset.name;
        if cluster.gpus().count() > GPUS_MAX {
            eprintln!("SKIPPED: {nodes} × {name} has more than {GPUS_MAX} GPUs");
            continue;
        }
        for kind in KINDS {
            let proved = Proved::of(&cluster, kind, &Options::default());
            let times = proved.times_bound();
            assert_eq!(proved.plan.ending, Ending::Complete, "{kind} on {nodes} × {name}");
            assert!(times <= most(name, nodes, kind), "{kind} on {nodes} × {name}: {times}");
        }
    }
}

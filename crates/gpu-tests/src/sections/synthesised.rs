//! Programs as `msccl synthesize` writes them, for machines of so many GPUs: trees, paths and
//! levels, on one thread block in several instances, and on channels.

use msccl_collective::{CollectiveKind, Placement, Protocol, SizeRange};
use msccl_registry::File;
use msccl_synthesize::{BlockSpread, Layout, Options, Plan, level_plans, plan, program};
use msccl_topology::cluster::Cluster;
use msccl_topology::cluster::degrade::without;
use msccl_topology::cluster::presets::{hgx, preset};
use msccl_topology::cluster::repeat::repeat;

use super::programs::run_in_turns;
use super::{Bench, Section};
use crate::Trouble;
use crate::examples::Loadable;
use crate::tally::Tally;

/// Synthesised programs.
pub const SECTION: Section = Section {
    name: "synthesised",
    about: "programs that are synthesised for machines of as many GPUs, loaded as text",
    run,
};

const KINDS: [CollectiveKind; 4] = [
    CollectiveKind::AllReduce,
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllToAll,
];

const LAYOUTS: [Layout; 3] = [
    layout(BlockSpread::OneBlock, 4, Protocol::Ll),
    layout(BlockSpread::Channels(4), 1, Protocol::Simple),
    layout(BlockSpread::OneBlock, 3, Protocol::Simple),
];

const fn layout(spread: BlockSpread, instances: u32, protocol: Protocol) -> Layout {
    Layout { spread, instances, protocol, sizes: SizeRange::ALL }
}

fn run(bench: &Bench, tally: &mut Tally) {
    let mut files = Vec::new();
    for cluster in machines(bench.ranks) {
        for kind in KINDS {
            let what = || format!("{} for {}", kind.name(), cluster.name());
            files.extend(tally.need(what, || written(&cluster, kind)).into_iter().flatten());
        }
    }
    run_in_turns(bench, files, bench.number(usize::MAX, 3), tally);
}

/// Machines with so many GPUs.
fn machines(ranks: u32) -> Vec<Cluster> {
    let nodes = ranks.is_multiple_of(2).then(|| hgx(2, ranks / 2)).flatten();
    let named = match ranks {
        8 => {
            let mesh = preset("dgx1-v100").and_then(|mesh| without(&mesh, "pci*").ok());
            let pairs = preset("pcie-pairs-4").and_then(|pairs| repeat(&pairs, 2).ok());
            vec![preset("mi300x-8"), mesh, pairs]
        }
        _ => Vec::new(),
    };
    [hgx(1, ranks), nodes].into_iter().chain(named).flatten().collect()
}

/// The programs for `kind` on `cluster`.
fn written(cluster: &Cluster, kind: CollectiveKind) -> Result<Vec<Loadable>, Trouble> {
    let mut plans = level_plans(cluster, kind)?;
    plans.push(plan(cluster, kind, &Options::default())?);
    let of_plan = |(number, plan): (usize, &Plan)| {
        // All levels on all layouts take long; each is on one of them.
        let layout = LAYOUTS[number % LAYOUTS.len()];
        let name = format!("{}.{}.{number}.msccl", cluster.name(), kind.name());
        let file = File { name, content: Ok(program(plan, &layout).into_bytes()) };
        Loadable { file, kind, placement: Placement::InPlace }
    };
    Ok(plans.iter().enumerate().map(of_plan).collect())
}

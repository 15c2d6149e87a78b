//! `msccl tune --estimate`: times of the cost model in place of measurements.

use std::sync::Arc;

use msccl_bench::tune::{self, EstimatePlan};
use msccl_bench::{Machine, Placement, Workload};
use msccl_collective::Placement as Serves;
use msccl_environment::{Preferences, Reader};
use msccl_registry::{Registry, Shape};

use super::plan;
use crate::args::{PlacementName, TuneArgs};
use crate::calibration::hardware;
use crate::clock::today;
use crate::cluster::per_node;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// The placements that are requested; of a collective with a root only the root knows.
fn placements(args: &TuneArgs, collective: Workload) -> Vec<Placement> {
    let requested = args.placement.map(PlacementName::placement);
    match requested {
        _ if collective.has_root() => vec![Placement::OutOfPlace],
        Some(Serves::InPlace) => vec![Placement::InPlace],
        Some(Serves::OutOfPlace) => vec![Placement::OutOfPlace],
        Some(Serves::Both) | None => Placement::BOTH.into(),
    }
}

/// Ranks, if nothing says how many.
const USUAL_RANKS: u32 = 8;

/// What `args` request to be estimated.
pub fn estimated(args: &TuneArgs, output: &mut Output) -> Result<tune::Data> {
    let nothing = || Failure::new("name a collective, such as allreduce");
    let collective = args.collective.ok_or_else(nothing)?;
    plan::expect_algorithms(collective)?;
    let cluster = args.cluster.cluster(output)?;
    let gpus = cluster.as_ref().map(|cluster| cluster.gpus().count() as u32);
    let ranks = args.ranks.or(gpus).unwrap_or(USUAL_RANKS);
    let node = args.per_node.or_else(|| cluster.as_ref().and_then(per_node));
    let per_node = node.unwrap_or(ranks).min(ranks);
    if ranks < 2 || !ranks.is_multiple_of(per_node) {
        let text = format!(
            "expected at least two ranks that fill nodes of {per_node}, found {ranks}; --ranks and \
             --per-node say how many"
        );
        return Err(Failure::new(text));
    }
    let shape = Shape { ranks, per_node };
    let hardware = hardware(cluster, args.cluster.machine.calibration.as_deref(), shape)?;
    let mut reader = Reader::new(&msccl_environment::lookup);
    let files = Preferences::read(&mut reader).files();
    reader.value_errors().iter().for_each(|value_error| output.warn(value_error));
    let registry = Arc::new(Registry::new(shape, &files));
    for refused in registry.refused() {
        output.warn(format_args!("{}: {}", refused.name, refused.reason));
    }
    let plan = EstimatePlan {
        registry,
        hardware,
        cases: plan::cases(args, collective, &Machine::Gpus(Vec::new()), ranks)?,
        placements: placements(args, collective),
        rule: plan::rule(args),
        date: today(),
        command: plan::command(),
    };
    Ok(tune::estimate(&plan, &mut |what| output.note(format_args!("estimating {what}"))))
}

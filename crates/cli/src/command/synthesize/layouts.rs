//! Which layout of a plan is fastest at a size, by the cost model.

use msccl_collective::Protocol;
use msccl_registry::Shape;
use msccl_synthesize::{Layout, Plan, program};
use msccl_topology::cluster::Cluster;

use crate::args::{LaunchArgs, SynthesizeArgs};
use crate::calibration::hardware;
use crate::cluster::per_node;
use crate::estimate::{CallTerms, Estimator};
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::output::Output;
use crate::size::ByteSize;
use crate::subject;
use crate::verdict::{self, Verdict};

/// Channels of a direction that are tried.
const CHANNELS: [u32; 4] = [1, 4, 16, 48];

/// Instances that are tried.
const INSTANCES: [u32; 4] = [1, 2, 4, 8];

/// Larger calls than this are not tried with packets that carry their flags.
const PACKETS_MAX: ByteSize = ByteSize(4 << 20);

/// A layout, and how long a call takes with it.
pub struct Timed {
    pub layout: Layout,
    pub us: f64,
}

/// The layouts that serve calls of `size`, the fastest first.
///
/// # Errors
///
/// None serves them.
pub fn timed(
    args: &SynthesizeArgs,
    plan: &Plan,
    cluster: &Cluster,
    size: ByteSize,
    output: &mut Output,
) -> Result<Vec<Timed>> {
    let per_node = per_node(cluster).unwrap_or(1);
    let shape = Shape { ranks: plan.ranks, per_node };
    let calibration = args.cluster.machine.calibration.as_deref();
    let estimator =
        Estimator::of_shape(shape, hardware(Some(cluster.clone()), calibration, shape)?);
    let mut found = Vec::new();
    let mut why = None;
    for layout in layouts(plan, size) {
        match us(args, plan, &layout, size, &estimator, output) {
            Ok(us) => found.push(Timed { layout, us }),
            Err(failure) => why = Some(failure),
        }
    }
    found.sort_by(|one, other| one.us.total_cmp(&other.us));
    match (found.is_empty(), why) {
        (true, Some(failure)) => Err(failure),
        (true, None) => Err(Failure::new("expected layouts to estimate, found none")),
        (false, _) => Ok(found),
    }
}

/// Those that differ for `plan`.
fn layouts(plan: &Plan, size: ByteSize) -> Vec<Layout> {
    let count = plan.count() as u32;
    let protocols: &[Protocol] =
        if size <= PACKETS_MAX { &[Protocol::Simple, Protocol::Ll] } else { &[Protocol::Simple] };
    let mut channels: Vec<u32> = CHANNELS.into_iter().map(|channels| channels.min(count)).collect();
    channels.dedup();
    let mut all = Vec::new();
    for &protocol in protocols {
        for &channels in &channels {
            let of = |instances| Layout { channels, instances, protocol };
            all.extend(INSTANCES.map(of));
        }
    }
    all
}

/// How long a call takes.
fn us(
    args: &SynthesizeArgs,
    plan: &Plan,
    layout: &Layout,
    size: ByteSize,
    estimator: &Estimator,
    output: &mut Output,
) -> Result<f64> {
    us_of_program(args, plan.kind.name(), program(plan, layout), size, estimator, output)
}

/// How long a call of the program `text` takes.
pub fn us_of_program(
    args: &SynthesizeArgs,
    name: &str,
    text: String,
    size: ByteSize,
    estimator: &Estimator,
    output: &mut Output,
) -> Result<f64> {
    let input = Input { name: name.to_owned(), text };
    let launch = LaunchArgs { cluster: args.cluster.clone(), ..LaunchArgs::default() };
    let loaded = subject::load(input, &launch, None, &mut |warning| output.warn(warning))?;
    let Verdict::Proved(proved) = verdict::judge(loaded) else {
        return Err(Failure::new(format!("{name}: a layout is not proved")));
    };
    let entry = proved.entry();
    let call = estimator.model(&entry, &CallTerms::default(), size)?;
    let estimate = call.modelled.estimate(estimator.hardware());
    let estimate = estimate.map_err(|error| Failure::new(format!("{name}: {error}")))?;
    Ok(estimate.total_us)
}

//! When every step of a call runs, by the cost model.

use msccl_collective::SizeRange;
use msccl_ir::Algorithm;
use msccl_registry::{Entry, Shape};
use msccl_simulate::model::{Calibration, Cause, Untimed};
use msccl_simulate::timeline::{self, Timeline, critical_path};
use msccl_topology::cluster::Cluster;

use crate::estimate::{CallTerms, Estimator, ModelledCall, hardware};
use crate::failure::{Failure, Result};
use crate::size::ByteSize;
use crate::verdict::Proved;

/// The size of a call, if none is requested and the algorithm serves it.
const USUAL_SIZE: ByteSize = ByteSize(1 << 20);

/// The machine of an estimate, as far as it is given.
#[derive(Clone, Default)]
pub struct EstimateMachine {
    /// What its GPUs and links are.
    pub cluster: Option<Cluster>,
    /// The rates of its GPUs.
    pub calibration: Option<Calibration>,
}

/// The size of a call that is shown if none is requested: 1 MiB, or the nearest that is served.
pub fn usual_size(algorithm: &Algorithm) -> ByteSize {
    let SizeRange { min_bytes, max_bytes } = algorithm.sizes;
    ByteSize(USUAL_SIZE.0.min(max_bytes.unwrap_or(u64::MAX)).max(min_bytes))
}

/// The timeline of a call of `size` on what is supposed of so many ranks.
///
/// # Errors
///
/// The algorithm does not serve such a call.
pub fn of_verified(proved: &Proved, size: ByteSize) -> Result<Timeline> {
    let entry = proved.entry();
    of_entry(&entry, proved.per_node, EstimateMachine::default(), size)
}

/// The timeline of a call of `size` of `entry` on `machine`.
///
/// # Errors
///
/// The algorithm does not serve such a call, or the machine does not fit it.
pub fn of_entry(
    entry: &Entry,
    per_node: u32,
    machine: EstimateMachine,
    size: ByteSize,
) -> Result<Timeline> {
    let estimator = estimator(entry, per_node, machine)?;
    let ModelledCall { modelled, service } = estimator.model(entry, &CallTerms::default(), size)?;
    let hardware = estimator.hardware();
    let about = timeline::Subject {
        name: entry.verified.algorithm().name.clone(),
        bytes: size.0,
        assumptions: hardware.to_string(),
        service: service.to_string(),
    };
    let untimed = |error: Untimed| Failure::new(format!("{}: {error}", entry.name));
    let workload = modelled.workload(hardware).map_err(untimed)?;
    timeline::timeline(about, &workload, &hardware.rates, &hardware.cluster).map_err(untimed)
}

/// What estimates the times of `entry` on `machine`.
///
/// # Errors
///
/// The machine does not fit it.
pub fn estimator(entry: &Entry, per_node: u32, machine: EstimateMachine) -> Result<Estimator> {
    let ranks = entry.verified.algorithm().collective.ranks;
    let per_node = Some(per_node).filter(|of| ranks.is_multiple_of(*of)).unwrap_or(1);
    let shape = Shape { ranks, per_node };
    let EstimateMachine { cluster, calibration } = machine;
    Ok(Estimator::of_shape(shape, hardware(cluster, calibration, shape)?))
}

/// Messages in the longest chain of a call.
pub fn chain(
    entry: &Entry,
    size: ByteSize,
    estimator: &Estimator,
    terms: &CallTerms,
) -> Option<usize> {
    let ModelledCall { modelled, service: _ } = estimator.model(entry, terms, size).ok()?;
    let (_, rows) = modelled.trace(estimator.hardware()).ok()?;
    let chain = critical_path(&rows);
    Some(chain.iter().filter(|step| matches!(step.cause, Cause::Message(_))).count())
}

//! Estimates of time: every command that shows one asks here, so that all show the same.

use std::sync::Arc;

use msccl_collective::{CallPlacement, Collective, DataType, Rank, Reduction};
use msccl_registry::{Entry, Registry, Shape};
use msccl_select::{
    Hardware, Machine, Modelled, NamedAlgorithmShape, Overrides, Selector, ServiceSummary, Tuning,
};
use msccl_simulate::model::Calibration;
use msccl_topology::cluster::Cluster;

use crate::failure::{Failure, Result};
use crate::size::ByteSize;

/// The machine of estimates: `cluster`, or what is supposed of ranks of `shape`, with the rates of
/// `calibration` or those that ship.
///
/// # Errors
///
/// The cluster has too few GPUs, or nothing can be supposed.
pub fn hardware(
    cluster: Option<Cluster>,
    calibration: Option<Calibration>,
    shape: Shape,
) -> Result<Hardware> {
    let ranks = shape.ranks;
    let supposed = match cluster {
        Some(cluster) => {
            let gpus = cluster.gpus().count();
            if gpus < ranks as usize {
                return Err(Failure::new(format!(
                    "expected a machine of at least {ranks} GPUs, one for each rank, found {gpus}; \
                     `--nodes` repeats it"
                )));
            }
            Hardware::of(cluster)
        }
        None => Hardware::nominal(shape).ok_or_else(|| {
            Failure::new(format!("{ranks} ranks are too many to suppose a machine for them"))
        })?,
    };
    let Some(calibration) = calibration else { return Ok(supposed) };
    Ok(Hardware::calibrated(supposed.cluster, calibration))
}

/// What says how calls run and how long they take.
pub struct Estimator {
    selector: Selector,
    hardware: Hardware,
}

impl Estimator {
    /// For ranks with the algorithms of `registry`, on `hardware`.
    pub fn new(
        registry: &Arc<Registry>,
        overrides: &Overrides,
        tuning: Option<&Tuning>,
        hardware: Hardware,
    ) -> Self {
        let selector = Selector::nominal(Machine::Gpus, registry, Rank(0), overrides, tuning, true);
        Self { selector, hardware }
    }

    /// For algorithms that are in no registry.
    pub fn of_shape(shape: Shape, hardware: Hardware) -> Self {
        Self::on(Machine::Gpus, shape, hardware)
    }

    /// The same for ranks that GPUs execute, or host threads.
    pub fn on(machine: Machine, shape: Shape, hardware: Hardware) -> Self {
        let registry = Arc::new(Registry::new(shape, &[]));
        let overrides = Overrides::default();
        let selector = Selector::nominal(machine, &registry, Rank(0), &overrides, None, true);
        Self { selector, hardware }
    }

    /// The machine.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// How `entry` runs in a call of `size`, in the first placement that it serves.
    ///
    /// # Errors
    ///
    /// It does not serve such calls.
    pub fn model(&self, entry: &Entry, terms: &CallTerms, size: ByteSize) -> Result<ModelledCall> {
        let algorithm = entry.verified.algorithm();
        let count = elements(&algorithm.collective, terms.data_type, size);
        let placement = match terms.placement {
            Some(placement) => placement,
            None => {
                let out_of_place = CallPlacement::OutOfPlace;
                let serves = algorithm.placement.serves(out_of_place);
                if serves { out_of_place } else { CallPlacement::InPlace }
            }
        };
        let CallTerms { placement: _, data_type, reduction } = *terms;
        let call = NamedAlgorithmShape { placement, data_type, reduction, count };
        let found = self.selector.model(entry, &call);
        let (modelled, service) = found.map_err(|error| Failure::new(error.to_string()))?;
        Ok(ModelledCall { modelled, service })
    }
}

/// An algorithm in a call.
pub struct ModelledCall {
    /// Its steps.
    pub modelled: Modelled,
    /// How they run.
    pub service: ServiceSummary,
}

impl ModelledCall {
    /// How long it takes on `hardware`, in µs.
    ///
    /// # Errors
    ///
    /// The cluster does not carry it, or it never ends.
    pub fn us(&self, hardware: &Hardware) -> Result<f64> {
        let found = self.modelled.estimate(hardware);
        found.map(|found| found.total_us).map_err(|error| Failure::new(error.to_string()))
    }
}

/// What calls have in common.
#[derive(Clone, Copy, Debug)]
pub struct CallTerms {
    /// Whether input and output share memory; if not given, the first placement that is served.
    pub placement: Option<CallPlacement>,
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine, where they do.
    pub reduction: Reduction,
}

impl Default for CallTerms {
    fn default() -> Self {
        let (data_type, reduction) = (DataType::F32, Reduction::Sum);
        Self { placement: None, data_type, reduction }
    }
}

/// Elements of a block where the larger buffer has `size`, rounded up to whole ones.
pub fn elements(collective: &Collective, data_type: DataType, size: ByteSize) -> u64 {
    let blocks = collective.loop_chunks().div_ceil(collective.chunks.max(1)).max(1);
    size.0.div_ceil(u64::from(blocks) * data_type.size_bytes() as u64)
}

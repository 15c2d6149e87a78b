//! How long calls take by the cost model, as the runtime would run them.
//!
//! The same decision that a communicator takes says which kernel runs, under which protocol and
//! links, with how many instances, threads and rounds. The cost model ([`msccl_simulate::model`])
//! is asked what that takes on a [`Hardware`]. Whoever wants a time asks here: `explain`, timelines
//! and comparisons give one answer to one question.

use std::fmt;
use std::sync::{Arc, PoisonError};

use msccl_collective::{CollectiveKind, Protocol};
use msccl_plan::{Plan, Program};
use msccl_registry::{Entry, Shape};
use msccl_simulate::model::{
    Calibration, Estimate, Execution, KernelKind, Rates, Row, Untimed, Workload, estimate, trace,
};
use msccl_topology::cluster::Cluster;
use msccl_topology::cluster::presets::hgx;

use crate::preference::Preference;
use crate::requirements::Requirements;
use crate::{
    CallShape, Decision, Error, KernelClass, Links, NamedAlgorithmShape, Selector, SelectorCache,
    ServiceSummary,
};

/// What calls are estimated on.
#[derive(Clone, PartialEq, Debug)]
pub struct Hardware {
    /// Its GPUs are the ranks, in order.
    pub cluster: Cluster,
    /// What these GPUs take.
    pub rates: Rates,
    /// Where the rates are from, in a few words.
    pub source: String,
}

impl Hardware {
    /// `cluster`, with rates that ship: those of H100s where its name speaks of these alone,
    /// otherwise those of H200s.
    pub fn of(cluster: Cluster) -> Self {
        let name = cluster.name();
        let is_h100 = name.contains("H100") && !name.contains("H200");
        let calibration = if is_h100 { Calibration::h100() } else { Calibration::h200() };
        Self::calibrated(cluster, calibration)
    }

    /// `cluster`, with the rates of a calibration.
    pub fn calibrated(cluster: Cluster, calibration: Calibration) -> Self {
        let source = format!("rates of {} ({})", calibration.machine, calibration.date);
        Self { cluster, rates: calibration.rates, source }
    }

    /// What is supposed of ranks of `shape` where nobody says more: an H200 for each on nodes with
    /// NVSwitch, and a NIC of 400 Gbit/s for each. Nothing, if that is too large to describe.
    pub fn nominal(shape: Shape) -> Option<Self> {
        hgx(shape.nodes(), shape.per_node).map(Self::of)
    }
}

impl fmt::Display for Hardware {
    /// The assumptions of an estimate: `HGX H200 with 8 GPUs; rates of 2 × NVIDIA H200 (…)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cluster.name(), self.source)
    }
}

/// An algorithm as the runtime would run it in a call.
pub struct Modelled {
    programs: Arc<[Program]>,
    execution: Execution,
}

impl Modelled {
    /// What runs: the programs of all ranks.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// How it runs.
    pub fn execution(&self) -> Execution {
        self.execution
    }

    /// The steps of all ranks on `hardware`.
    ///
    /// # Errors
    ///
    /// The cluster does not carry them.
    pub fn workload(&self, hardware: &Hardware) -> Result<Workload, Untimed> {
        let Hardware { cluster, rates, source: _ } = hardware;
        Ok(Workload::new(&self.programs, cluster, rates, self.execution)?)
    }

    /// How long the call takes.
    ///
    /// # Errors
    ///
    /// The cluster does not carry it, or it never ends.
    pub fn estimate(&self, hardware: &Hardware) -> Result<Estimate, Untimed> {
        estimate(&self.workload(hardware)?, &hardware.rates)
    }

    /// How long the call takes, and what thread blocks do when.
    ///
    /// # Errors
    ///
    /// The cluster does not carry it, or it never ends.
    pub fn trace(&self, hardware: &Hardware) -> Result<(Estimate, Vec<Row>), Untimed> {
        trace(&self.workload(hardware)?, &hardware.rates)
    }
}

impl Decision {
    /// Which code moves the bytes, as the cost model distinguishes it.
    pub fn kernel_kind(&self) -> KernelKind {
        match (self.links, self.kernel, self.protocol) {
            (Links::Direct, _, _) => KernelKind::Direct,
            (Links::Staged, KernelClass::LowLatency, Protocol::Ll) => KernelKind::LowLatencyLl,
            (Links::Staged, KernelClass::LowLatency, Protocol::Ll128) => {
                KernelKind::LowLatencyLl128
            }
            (Links::Staged, _, Protocol::Ll) => KernelKind::Ll,
            (Links::Staged, _, Protocol::Ll128) => KernelKind::Ll128,
            (Links::Staged, KernelClass::WarpSpecialised, Protocol::Simple) => {
                KernelKind::WarpSpecialised
            }
            (Links::Staged, _, Protocol::Simple) => KernelKind::Simple,
        }
    }
}

impl Selector {
    /// `entry` in a call that `decision` serves with it.
    ///
    /// # Errors
    ///
    /// The plan of a rank has a number that does not fit its field.
    pub fn modelled(&self, entry: &Entry, decision: &Decision) -> Result<Modelled, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.modelled_among(&mut known, entry, decision)
    }

    /// The same, for whoever holds what is known.
    pub(crate) fn modelled_among(
        &self,
        known: &mut SelectorCache,
        entry: &Entry,
        decision: &Decision,
    ) -> Result<Modelled, Error> {
        let programs = match known.programs.get(&entry.fingerprint) {
            Some(programs) => Arc::clone(programs),
            None => {
                let plans = Plan::all(&entry.verified);
                let plans = plans.map_err(|error| Error::new(error.to_string()))?;
                let programs = plans.iter().map(|plan| plan.program().clone());
                let programs: Arc<[Program]> = programs.collect();
                known.programs.insert(entry.fingerprint, Arc::clone(&programs));
                programs
            }
        };
        let execution = Execution {
            kernel: decision.kernel_kind(),
            threads: decision.threads.aligned,
            cut: decision.cut,
            depth: self.capacity.wires(decision.protocol).depth,
        };
        Ok(Modelled { programs, execution })
    }

    /// `entry` as it would run in a call if it were the one to serve it, and how that is.
    ///
    /// # Errors
    ///
    /// It does not serve such calls.
    pub fn model(
        &self,
        entry: &Entry,
        call: &NamedAlgorithmShape,
    ) -> Result<(Modelled, ServiceSummary), Error> {
        let decision = match self.as_preferred(entry, call) {
            Some(decision) => decision,
            None => self.force(entry, call)?,
        };
        Ok((self.modelled(entry, &decision)?, decision.service()))
    }

    /// How `entry` serves a call where tables or guesses name it.
    fn as_preferred(&self, entry: &Entry, call: &NamedAlgorithmShape) -> Option<Decision> {
        let NamedAlgorithmShape { placement, data_type, reduction, count } = *call;
        let collective = &entry.verified.algorithm().collective;
        let kind = CollectiveKind::of(&collective.kind)?;
        let reduction = collective.reduces().then_some(reduction);
        let request = CallShape { kind, placement, data_type, reduction, count };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let terms = Requirements::new(&request, self.ranks());
        let guesses = match entry.loaded {
            true => Vec::new(),
            false => self.guesses(&mut known, &request),
        };
        let preferences = self.preferences(&guesses, &request);
        let mut named = preferences.filter(|of| of.available.name() == entry.name);
        named.find_map(|Preference { variant, .. }| {
            self.try_one(&mut known, entry, &variant, &terms).ok()
        })
    }
}

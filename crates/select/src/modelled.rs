//! How long calls take by the cost model, as the runtime would run them.
//!
//! The same decision that a communicator takes says which kernel runs, under which protocol and
//! links, with how many instances, threads and rounds. The cost model ([`msccl_simulate::model`])
//! is asked what that takes on a [`Hardware`]. Whoever wants a time asks here: `explain`, timelines
//! and comparisons give one answer to one question.

use std::fmt;
use std::sync::{Arc, PoisonError};

use msccl_collective::{CollectiveKind, Protocol};
use msccl_plan::cut::Cut;
use msccl_plan::{Plan, Program};
use msccl_registry::{Entry, Shape};
use msccl_simulate::link_loads;
use msccl_simulate::model::{
    Calibration, Estimate, Execution, KernelKind, Rates, Row, Untimed, Workload, estimate, trace,
};
use msccl_topology::cluster::presets::hgx;
use msccl_topology::cluster::{Cluster, format};

use crate::requirements::Requirements;
use crate::{
    CallShape, Choice, Decision, Error, KernelClass, Links, Machine, NamedAlgorithmShape, Selector,
    SelectorCache, ServiceSummary, Variant,
};

/// Rounds that are simulated of many where little time is left for it, and again.
const LATER_ROUNDS: u32 = 6;
const EARLY_ROUNDS: u32 = 3;

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

    /// What the busiest link needs for 10⁹ bytes of a call of `entry`, in s; 0 if that is unknown.
    /// No call is faster.
    pub fn floor_s_per_gb(&self, entry: &Entry) -> f64 {
        let loads = link_loads(entry.verified.algorithm(), &self.cluster).ok();
        let floor = loads.and_then(|loads| loads.floor_s_per_gb(&self.cluster));
        floor.map_or(0.0, |(s_per_gb, _)| s_per_gb)
    }

    /// What calls are guessed on where nobody measured: as [`Hardware::nominal`], or hosts whose
    /// ranks are processes, on an ordinary network. Nothing, if that is too large to describe.
    pub fn supposed(machine: Machine, shape: Shape) -> Option<Self> {
        match machine {
            Machine::Gpus => Self::nominal(shape),
            Machine::Host => hosts(shape).map(|cluster| {
                let supposed = Self::of(cluster);
                let rates = Rates { proxy_ns: HOST_PROXY_NS, ..supposed.rates };
                Self { rates, ..supposed }
            }),
        }
    }
}

/// What a process takes to send a message over a socket, in ns.
const HOST_PROXY_NS: f64 = 3_000.0;

/// Hosts with a process for each rank and one NIC: a guess, of the order of magnitude that shared
/// memory and 10 Gbit/s have. Kernels of GPUs stand for their threads, which take little beside
/// that.
fn hosts(shape: Shape) -> Option<Cluster> {
    let Shape { ranks: _, per_node } = shape;
    let nodes = shape.nodes();
    let text = format!(
        "cluster \"hosts\"
network fabric
node * {nodes} {{
    gpu * {per_node}
    switch memory
    nic nic0
    gpu* - memory      nvlink 3 GB/s 0.5 us
    gpu* - nic0        pci 3 GB/s 1 us
}}
node*.nic0 - fabric    cable 1 GB/s 14 us
"
    );
    format::parse(&text).ok()
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

    /// The same algorithm in a call that runs so.
    fn with(&self, execution: Execution) -> Self {
        Self { programs: Arc::clone(&self.programs), execution }
    }

    /// The same algorithm in a call that cuts its buffers so.
    pub fn with_cut(&self, cut: Cut) -> Self {
        self.with(Execution { cut, ..self.execution })
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

    /// How long the call takes, in µs; if it has many rounds, by what the later ones of a few take.
    /// That is nearly what [`Modelled::estimate`] finds, in a third of the time.
    ///
    /// # Errors
    ///
    /// The cluster does not carry it, or it never ends.
    pub fn quick_us(&self, hardware: &Hardware) -> Result<f64, Untimed> {
        let us = |rounds: u32| {
            let cut = with_rounds(self.execution.cut, rounds);
            let part = self.with(Execution { cut, ..self.execution });
            part.estimate(hardware).map(|found| found.total_us)
        };
        let rounds = self.execution.cut.rounds;
        if rounds <= LATER_ROUNDS {
            return us(rounds);
        }
        let (early_us, later_us) = (us(EARLY_ROUNDS)?, us(LATER_ROUNDS)?);
        let round_us = (later_us - early_us) / f64::from(LATER_ROUNDS - EARLY_ROUNDS);
        Ok(later_us + round_us * f64::from(rounds - LATER_ROUNDS))
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

/// A call of the first `rounds` of `cut`.
fn with_rounds(cut: Cut, rounds: u32) -> Cut {
    if rounds >= cut.rounds {
        return cut;
    }
    let part_bytes = cut.slice_bytes * u64::from(rounds);
    let chunk_bytes = part_bytes * u64::from(cut.instances);
    let chunks = cut.block_bytes.div_ceil(cut.chunk_bytes.max(1));
    Cut { block_bytes: chunk_bytes * chunks, chunk_bytes, part_bytes, rounds, ..cut }
}

impl Decision {
    /// Which code moves the bytes, as the cost model distinguishes it.
    pub fn kernel_kind(&self) -> KernelKind {
        match (self.links, self.kernel, self.protocol) {
            // Nobody has calibrated copy engines; they move what direct links move.
            (Links::Direct | Links::CopyEngine, _, _) => KernelKind::Direct,
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
    /// How long a call like `request` takes by what serves it, in µs, on the machine that is
    /// supposed of such ranks; nothing, if there are too many ranks, or nothing serves it.
    pub fn estimate_us(&self, request: &CallShape) -> Option<f64> {
        if !self.is_guessed() {
            return None;
        }
        let (decision, _) = self.choose(request).ok()?;
        let hardware =
            self.supposed.get_or_init(|| Hardware::supposed(self.machine, self.registry.shape()));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let guesses = self.guesses(&mut known, request);
        let mut serving = self
            .preferences(&guesses, request)
            .filter(|of| of.available.name() == decision.prepared.name)
            .filter_map(|of| self.proved(of.available, request));
        let modelled = self.modelled_among(&mut known, &serving.next()?, &decision).ok()?;
        modelled.quick_us(hardware.as_ref()?).ok()
    }

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

    /// `entry` as `variant` of it would run in a call like `request`, and which variant that comes
    /// to, with its thread blocks on rank 0.
    ///
    /// # Errors
    ///
    /// It does not serve such calls.
    pub fn model_variant(
        &self,
        entry: &Entry,
        request: &CallShape,
        variant: &Variant,
    ) -> Result<(Modelled, Choice, u32), Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let terms = Requirements::new(request, self.ranks());
        let decision = self.try_with(&mut known, entry, variant, &terms, &self.overrides);
        let decision = decision.map_err(|why| Error::new(format!("{}: {why}", entry.name)))?;
        let modelled = self.modelled_among(&mut known, entry, &decision)?;
        Ok((modelled, decision.choice(), decision.service().blocks()))
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
        named.find_map(|preference| {
            let variant = self.variant_of(&preference, entry, &request);
            self.try_one(&mut known, entry, &variant, &terms).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_supposed_of_every_shape() {
        for machine in [Machine::Gpus, Machine::Host] {
            for (ranks, per_node) in [(2, 1), (6, 2), (16, 8), (32, 4)] {
                let hardware = Hardware::supposed(machine, Shape { ranks, per_node }).unwrap();
                assert_eq!(hardware.cluster.gpus().count() as u32, ranks, "{machine:?}");
            }
        }
    }
}

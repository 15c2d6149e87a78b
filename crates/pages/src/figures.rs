//! How long a proved algorithm takes, what it sends, and what no schedule can beat.

use msccl_bounds::SwitchModel;
use msccl_collective::CollectiveKind;
use msccl_ir::Algorithm;
use msccl_registry::Entry;
use msccl_simulate::timeline::Timeline;
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;
use serde::Serialize;

use crate::bound::{LeastTime, Limits, words as bound_words};
use crate::estimate::{CallTerms, Estimator};
use crate::failure::Result;
use crate::loads::Loads;
use crate::size::ByteSize;
use crate::timeline::{self, EstimateMachine, chain};
use crate::verdict::Proved;

/// The sizes of estimates, if none are named: powers of four from 1 KiB to 1 GiB.
pub fn usual_sizes() -> Vec<ByteSize> {
    (0..=10).map(|power| ByteSize(1024 << (2 * power))).collect()
}

/// What is known of the times of an algorithm on a machine.
#[derive(Serialize)]
pub struct Figures {
    /// The machine, and where its rates are from.
    pub assumptions: String,
    /// For each size, how long a call takes.
    pub estimates: Vec<Estimate>,
    /// Messages in the longest chain of a call of the smallest size that is served.
    pub chain: Option<usize>,
    /// What the busiest link carries, beside the bound, in sentences.
    pub loads: Vec<String>,
    /// The bound on large calls and on small ones, in sentences; why there is none, otherwise.
    pub bound: Vec<String>,
}

/// A call of one size.
#[derive(Serialize)]
pub struct Estimate {
    /// The size of the larger buffer.
    pub bytes: u64,
    /// The size in words.
    pub size: String,
    /// How long it takes, if it is served.
    pub us: Option<f64>,
    /// How it runs, or why it is not served.
    pub how: String,
    /// No schedule is faster, if that is known.
    pub least_us: Option<f64>,
    /// Which bound says so.
    pub by: Option<&'static str>,
}

/// The figures of `proved` for calls of `sizes` on `machine`.
///
/// # Errors
///
/// The machine does not fit the algorithm.
pub fn figures(proved: &Proved, sizes: &[ByteSize], machine: EstimateMachine) -> Result<Figures> {
    let entry = proved.entry();
    let estimator = timeline::estimator(&entry, proved.per_node, machine)?;
    let cluster = &estimator.hardware().cluster;
    let algorithm = proved.verified.algorithm();
    let limits = limits(algorithm, cluster);
    let estimates: Vec<_> = sizes
        .iter()
        .map(|&size| estimate(&entry, size, &estimator, limits.as_ref().ok()))
        .collect();
    let served = estimates.iter().find(|estimate| estimate.us.is_some());
    let chain = served.and_then(|served| {
        chain(&entry, ByteSize(served.bytes), &estimator, &CallTerms::default())
    });
    let loads = Loads::of(&proved.file, algorithm, cluster);
    let loads = loads.map_or_else(|failure| vec![failure.to_string()], |loads| loads.in_words());
    let assumptions = estimator.hardware().to_string();
    let bound = limits.map_or_else(|why| vec![why], |limits| bound_in_words(cluster, &limits));
    Ok(Figures { assumptions, estimates, chain, loads, bound })
}

fn estimate(
    entry: &Entry,
    size: ByteSize,
    estimator: &Estimator,
    limits: Option<&Limits>,
) -> Estimate {
    let modelled = estimator.model(entry, &CallTerms::default(), size);
    let found =
        modelled.and_then(|call| Ok((call.us(estimator.hardware())?, call.service.to_string())));
    let (us, how) = match found {
        Ok((us, how)) => (Some(us), how),
        Err(failure) => (None, failure.to_string()),
    };
    let least = limits.map(|limits| limits.least_time(size.0));
    let (least_us, by) = least.map(|LeastTime { us, by }| (us, by.name())).unzip();
    Estimate { bytes: size.0, size: size.to_string(), us, how, least_us, by }
}

/// What no schedule can beat, or why that is not known.
fn limits(algorithm: &Algorithm, cluster: &Cluster) -> std::result::Result<Limits, String> {
    let collective = &algorithm.collective;
    let Some(kind) = CollectiveKind::of(&collective.kind) else {
        return Err(format!("No bound: {} is a collective of its own.", collective.name()));
    };
    let (ranks, gpus) = (collective.ranks as usize, cluster.gpus().count());
    if ranks != gpus {
        return Err(format!("No bound: it would be for {gpus} ranks, as many as there are GPUs."));
    }
    let too_large = cluster.gpus().count() > MOST_BOUNDED;
    if too_large {
        return Err(format!("No bound is looked for beyond {MOST_BOUNDED} GPUs."));
    }
    Limits::of(cluster, kind, SwitchModel::Forward).map_err(|failure| failure.to_string())
}

/// Most GPUs of a machine whose bound is looked for unasked.
const MOST_BOUNDED: usize = 128;

fn bound_in_words(cluster: &Cluster, limits: &Limits) -> Vec<String> {
    let Limits { bound, optimum, latency } = limits;
    let time = bound_words::seconds_per_gb(bound.seconds_per_byte);
    let us = bound_words::rounded(latency.nanoseconds as f64 / 1e3);
    let most = bound.gb_per_s();
    vec![
        format!("Large calls take at least {time}, which is {most:.1} GB/s."),
        bound_words::witness(cluster, bound),
        bound_words::optimum(cluster, optimum),
        format!("Small calls take at least {us} µs: the way of one message between two GPUs."),
    ]
}

/// The timeline of a call of `size`.
///
/// # Errors
///
/// The algorithm does not serve such a call, or the machine does not fit it.
pub fn timeline_of(proved: &Proved, size: ByteSize, machine: EstimateMachine) -> Result<Timeline> {
    let entry = proved.entry();
    timeline::of_entry(&entry, proved.per_node, machine, size)
}

/// What ranks send, of the bytes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// The rank that sends most.
    pub most: Ratio<u128>,
    /// All ranks together.
    pub all: Ratio<u128>,
}

impl Traffic {
    /// What the ranks of `algorithm` send.
    pub fn of(algorithm: &Algorithm) -> Self {
        let chunks_of_call = u128::from(algorithm.collective.loop_chunks().max(1));
        let mut by_rank = vec![0_u128; algorithm.ranks.len()];
        for (rank, _, block) in algorithm.thread_blocks() {
            let sent = block
                .steps
                .iter()
                .map(|step| u128::from(step.count) * step.sends().count() as u128);
            by_rank[rank.index()] += sent.sum::<u128>();
        }
        let share = |chunks| Ratio::new(chunks, chunks_of_call);
        let most = by_rank.iter().copied().max().unwrap_or(0);
        Self { most: share(most), all: share(by_rank.iter().sum()) }
    }
}

//! Plans in layouts, and how long calls take with them by the cost model.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use msccl_collective::{Protocol, SizeRange};
use msccl_registry::{Entry, Shape};
use msccl_synthesize::{BlockSpread, Layout, Phase, Plan, program};
use msccl_topology::cluster::Cluster;

use super::candidates::{Candidates, HALVINGS, Halving, Timed};
use super::judged;
use crate::args::SynthesizeArgs;
use crate::calibration::hardware;
use crate::cluster::per_node;
use crate::estimate::{CallTerms, Estimator};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::size::ByteSize;
use crate::verdict::Verdict;

/// Channels of a direction that are tried for trees and paths.
const CHANNELS: [u32; 4] = [1, 4, 16, 48];

/// Instances that are tried.
const INSTANCES: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// With so many, plans are compared before their layouts are.
const FIRST_INSTANCES: u32 = 8;

/// Trees are tried again if links would let them take less than this part of the best time: their
/// estimates take long.
const WORTH: f64 = 0.9;

/// Larger calls than this are not tried with packets that carry their flags.
const PACKETS_MAX: ByteSize = ByteSize(4 << 20);

/// The best of a size.
#[derive(Clone, Copy, Debug)]
pub struct Best {
    pub timed: Timed,
    /// With as many thread blocks as there are, if that is faster.
    pub unlimited: Option<Timed>,
}

/// What is compiled once for all its instances and sizes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Compilation {
    plan: usize,
    spread: BlockSpread,
    protocol: Protocol,
}

/// Which plan in which layout is fastest.
pub struct Search<'a> {
    plans: &'a [Plan],
    args: &'a SynthesizeArgs,
    estimator: Estimator,
    entries: HashMap<Compilation, Option<Entry>>,
    /// By plan, layout and size.
    times_us: HashMap<(usize, Layout, ByteSize), f64>,
    /// Why a layout is not served.
    refusal: Option<Failure>,
    end: Option<Instant>,
}

impl<'a> Search<'a> {
    /// Among `plans`, of which there is at least one, for as long as the arguments say.
    ///
    /// # Errors
    ///
    /// The machine is none for estimates.
    pub fn new(plans: &'a [Plan], args: &'a SynthesizeArgs, cluster: &Cluster) -> Result<Self> {
        let estimator = estimator(args, cluster)?;
        let end = Instant::now().checked_add(args.time_limit.max(Duration::from_millis(1)));
        Ok(Self {
            plans,
            args,
            estimator,
            entries: HashMap::new(),
            times_us: HashMap::new(),
            refusal: None,
            end,
        })
    }

    /// Whether the time was over before everything was tried.
    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// The fastest for calls of `size`.
    ///
    /// # Errors
    ///
    /// None serves them.
    pub fn best(&mut self, size: ByteSize, output: &mut Output) -> Result<Best> {
        let fastest = self.fastest(size, None, output)?;
        let most = self.args.thread_blocks;
        if most.is_none_or(|most| fastest.thread_blocks <= most) {
            return Ok(Best { timed: fastest, unlimited: None });
        }
        let timed = self.fastest(size, most, output)?;
        Ok(Best { timed, unlimited: Some(fastest).filter(|fastest| fastest.us < timed.us) })
    }

    /// The fastest with at most so many thread blocks.
    fn fastest(&mut self, size: ByteSize, most: Option<u32>, output: &mut Output) -> Result<Timed> {
        let all: Vec<usize> = (0..self.plans.len()).collect();
        let best = self.fastest_of(&all, size, most, output);
        // Trees are slow where parts of a call are small, and may win a large one.
        let trees: Vec<usize> =
            all.into_iter().filter(|plan| self.is_open(*plan, size, &best)).collect();
        if size <= PACKETS_MAX || trees.is_empty() || self.is_over() {
            return best;
        }
        match (best, self.fastest_of(&trees, size, most, output)) {
            (Ok(best), Ok(other)) if other.us < best.us => Ok(other),
            (Ok(best), _) => Ok(best),
            (Err(_), other) => other,
        }
    }

    /// Whether links would let trees be faster than what was found, by enough to try.
    fn is_open(&self, plan: usize, size: ByteSize, best: &Result<Timed>) -> bool {
        let is_tree = self.plans[plan].forests().next().is_some();
        let is_faster = |best: &Timed| self.least_us(plan, size) < WORTH * best.us;
        is_tree && best.as_ref().is_ok_and(|best| best.plan != plan && is_faster(best))
    }

    /// The fastest layout of some plans.
    fn fastest_of(
        &mut self,
        plans: &[usize],
        size: ByteSize,
        most: Option<u32>,
        output: &mut Output,
    ) -> Result<Timed> {
        let halvings: &[Halving] = if size > PACKETS_MAX { &HALVINGS } else { &[] };
        let first = halvings.first().map_or(size, |halving| halving.size(size));
        let mut candidates = Candidates { size: first, most, found: Vec::new(), too_many: None };
        for &plan in plans {
            if !self.is_beaten(plan, &candidates) {
                self.try_all(
                    plan,
                    &first_layouts(&self.plans[plan], size, most),
                    &mut candidates,
                    output,
                );
            }
        }
        for plan in candidates.fastest_plans() {
            self.try_all(plan, &layouts(&self.plans[plan], size, most), &mut candidates, output);
        }
        let later = halvings.iter().skip(1).map(|halving| halving.size(size)).chain([size]);
        for (halving, size) in halvings.iter().zip(later) {
            let kept = candidates.fastest(halving.kept);
            candidates = Candidates { size, found: Vec::new(), ..candidates };
            for Timed { plan, layout, .. } in kept {
                self.try_all(plan, &[layout], &mut candidates, output);
            }
        }
        candidates.fastest(1).pop().ok_or_else(|| self.unserved(&candidates))
    }

    /// How long a call of `size` takes with what was found for another size.
    pub fn us_at(&mut self, of: &Timed, size: ByteSize, output: &mut Output) -> Option<f64> {
        self.timed(of.plan, of.layout, size, output).map(|timed| timed.us)
    }

    fn unserved(&mut self, candidates: &Candidates) -> Failure {
        let Candidates { size: _, most, found: _, too_many } = candidates;
        match (too_many, most, self.refusal.take()) {
            (Some(least), Some(most), _) => Failure::new(format!(
                "--thread-blocks {most}: expected {least} or more; no layout that was tried has \
                 fewer on every rank"
            )),
            (_, _, Some(failure)) => failure,
            (_, _, None) => Failure::new("no layout was estimated within the time limit"),
        }
    }

    /// Whether links alone keep `plan` busy for longer than what was found takes.
    fn is_beaten(&self, plan: usize, candidates: &Candidates) -> bool {
        let least_us = self.least_us(plan, candidates.size);
        candidates.found.iter().any(|timed| timed.us < least_us)
    }

    /// How long links alone are busy.
    fn least_us(&self, plan: usize, size: ByteSize) -> f64 {
        let per_byte = self.plans[plan].seconds_per_byte();
        let (seconds, bytes) = (*per_byte.numer() as f64, *per_byte.denom() as f64);
        seconds / bytes * size.0 as f64 * 1e6
    }

    fn try_all(
        &mut self,
        plan: usize,
        layouts: &[Layout],
        candidates: &mut Candidates,
        output: &mut Output,
    ) {
        for &layout in layouts {
            // Something must be there, however little time there is.
            if !candidates.found.is_empty() && self.is_over() {
                return;
            }
            if let Some(timed) = self.timed(plan, layout, candidates.size, output) {
                candidates.add(timed);
            }
        }
    }

    /// `plan` in `layout`, with as many instances as there is room for.
    fn timed(
        &mut self,
        plan: usize,
        layout: Layout,
        size: ByteSize,
        output: &mut Output,
    ) -> Option<Timed> {
        let entry = self.entry(plan, layout, output)?.with_instances(layout.instances);
        let found = self.estimator.model(&entry, &CallTerms::default(), size).and_then(|call| {
            // Of those that there is no room for, the same is left as of fewer.
            let layout = Layout { instances: call.service.instances, ..layout };
            let call_key = (plan, layout, size);
            if let Some(known) = self.times_us.get(&call_key) {
                return Ok((layout, *known));
            }
            let us = call.us(self.estimator.hardware())?;
            self.times_us.insert(call_key, us);
            Ok((layout, us))
        });
        match found {
            Ok((layout, us)) => {
                let thread_blocks = most_thread_blocks(&entry) * layout.instances;
                Some(Timed { plan, layout, thread_blocks, us })
            }
            Err(failure) => {
                self.refusal = Some(failure);
                None
            }
        }
    }

    /// One instance of `plan` in `layout`, compiled and proved, if it can be.
    fn entry(&mut self, plan: usize, layout: Layout, output: &mut Output) -> Option<Entry> {
        let Layout { spread, protocol, .. } = layout;
        let compilation = Compilation { plan, spread, protocol };
        if let Some(known) = self.entries.get(&compilation) {
            return known.clone();
        }
        let one = Layout { instances: 1, sizes: SizeRange::ALL, ..layout };
        let (name, text) = (self.plans[plan].kind.name(), program(&self.plans[plan], &one));
        let entry = match entry_of_program(self.args, name, text, output) {
            Ok(entry) => Some(entry),
            Err(failure) => {
                self.refusal = Some(failure);
                None
            }
        };
        self.entries.insert(compilation, entry.clone());
        entry
    }
}

/// Thread blocks of an instance of `entry` on the rank that has most.
fn most_thread_blocks(entry: &Entry) -> u32 {
    let ranks = &entry.verified.algorithm().ranks;
    ranks.iter().map(|rank| rank.thread_blocks.len() as u32).max().unwrap_or(0)
}

fn protocols(size: ByteSize) -> &'static [Protocol] {
    if size <= PACKETS_MAX {
        &[Protocol::Ll, Protocol::Ll128, Protocol::Simple]
    } else {
        &[Protocol::Simple]
    }
}

/// How the work of `plan` may be spread, the usual way first.
fn spreads(plan: &Plan) -> Vec<BlockSpread> {
    let channels = match &plan.phases[..] {
        [Phase::Levels(_)] => vec![1],
        _ => {
            let count = plan.count() as u32;
            let mut all: Vec<u32> = CHANNELS.into_iter().map(|some| some.min(count)).collect();
            all.dedup();
            all
        }
    };
    let of_channels = channels.into_iter().rev().map(BlockSpread::Channels);
    of_channels.chain([BlockSpread::OneBlock]).collect()
}

/// A layout or two of each protocol, by which plans are compared.
fn first_layouts(plan: &Plan, size: ByteSize, most: Option<u32>) -> Vec<Layout> {
    let spreads = spreads(plan);
    let (usual, one) = (spreads[0], BlockSpread::OneBlock);
    let of = |&protocol: &Protocol| {
        let layout = |spread| {
            let instances = match spread {
                BlockSpread::OneBlock => most.unwrap_or(FIRST_INSTANCES).min(FIRST_INSTANCES),
                // How many thread blocks these have, nobody knows yet.
                BlockSpread::Channels(_) if most.is_some() => 1,
                BlockSpread::Channels(_) => FIRST_INSTANCES,
            };
            Layout { spread, instances, protocol, sizes: SizeRange::ALL }
        };
        match protocol {
            Protocol::Simple => vec![layout(usual), layout(one)],
            Protocol::Ll | Protocol::Ll128 => vec![layout(one)],
        }
    };
    protocols(size).iter().flat_map(of).collect()
}

/// Those that differ for `plan`.
fn layouts(plan: &Plan, size: ByteSize, most: Option<u32>) -> Vec<Layout> {
    let mut all = Vec::new();
    for &protocol in protocols(size) {
        for &spread in &spreads(plan) {
            let of = |instances| Layout { spread, instances, protocol, sizes: SizeRange::ALL };
            all.extend(INSTANCES.map(of));
            // As many as the limit allows of one thread block each.
            all.extend(most.filter(|_| spread == BlockSpread::OneBlock).map(of));
        }
    }
    all
}

/// What estimates calls on all GPUs of `cluster`.
///
/// # Errors
///
/// The machine is none for estimates.
pub fn estimator(args: &SynthesizeArgs, cluster: &Cluster) -> Result<Estimator> {
    let ranks = cluster.gpus().count() as u32;
    let shape = Shape { ranks, per_node: per_node(cluster).unwrap_or(1) };
    let calibration = args.cluster.machine.calibration.as_deref();
    Ok(Estimator::of_shape(shape, hardware(Some(cluster.clone()), calibration, shape)?))
}

/// What a communicator makes of the program `text`.
fn entry_of_program(
    args: &SynthesizeArgs,
    name: &str,
    text: String,
    output: &mut Output,
) -> Result<Entry> {
    let Verdict::Proved(proved) = judged(args, name, text, output)? else {
        return Err(Failure::new(format!("{name}: a layout is not proved")));
    };
    Ok(proved.entry())
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
    let entry = entry_of_program(args, name, text, output)?;
    let call = estimator.model(&entry, &CallTerms::default(), size)?;
    call.us(estimator.hardware()).map_err(|error| Failure::new(format!("{name}: {error}")))
}

//! Rung 5: the figures in [`Limits`]; those of [`crate::Rules`] in [`super::runtime`].

use msccl_collective::{Rank, StepIndex, TbIndex};

use super::{Report, Tb, ViolationClass};
use crate::{Algorithm, Limits, LinkShape, Packing, Step, StepRef, Target, ThreadBlock};

/// Checks every limit of `target`.
pub(super) fn check(algorithm: &Algorithm, target: &Target, report: &mut Report) {
    let scope = Scope { target };
    whole_messages(algorithm, target, report);
    super::runtime::check(algorithm, target, report);
    for (rank, program) in algorithm.ranks.iter().enumerate() {
        let rank = Rank::from(rank);
        let blocks = &program.thread_blocks;
        scope.most(report, None, blocks.len(), target.limits.tbs_per_rank, || {
            format!("{rank} has too many thread blocks")
        });
        scope.peers(rank, blocks, report);
        for (tb, block) in blocks.iter().enumerate() {
            scope.block(Tb(rank, TbIndex::from(tb)), block, report);
        }
        if report.is_full() {
            return;
        }
    }
}

/// Where every step is one message, the shortest slices of the longest step must fit one.
fn whole_messages(algorithm: &Algorithm, target: &Target, report: &mut Report) {
    let shape = target.link(algorithm.protocol);
    let LinkShape { depth: _, message_bytes, packing } = shape;
    let steps = algorithm.thread_blocks().flat_map(|(_, _, block)| &block.steps);
    let count = steps.map(|step| step.count).max().unwrap_or(0);
    let slice_bytes = shape.slice_bytes(count);
    let fits = slice_bytes.saturating_mul(u64::from(count)) <= message_bytes;
    if packing == Packing::Whole && !fits {
        report.add(ViolationClass::Limits, None, || {
            let protocol = algorithm.protocol;
            format!(
                "too many chunks in one step: {count} slices of {slice_bytes} bytes do not fit a \
                 message, which holds {message_bytes} bytes on target {target} under {protocol}"
            )
        });
    }
}

struct Scope<'a> {
    target: &'a Target,
}

impl Scope<'_> {
    /// Reports `what` if `found` is more than `most`.
    fn most(
        &self,
        report: &mut Report,
        at: Option<StepRef>,
        found: usize,
        most: u32,
        what: impl FnOnce() -> String,
    ) {
        if found > most as usize {
            report.add(ViolationClass::Limits, at, || {
                format!("{}: {found}, but target {} allows {most}", what(), self.target)
            });
        }
    }

    /// Thread blocks of a rank that send (that receive) on one channel.
    fn peers(&self, rank: Rank, blocks: &[ThreadBlock], report: &mut Report) {
        let mut senders: Vec<_> =
            blocks.iter().filter(|b| !b.sends.is_empty()).map(|b| b.channel).collect();
        let mut receivers: Vec<_> =
            blocks.iter().filter(|b| !b.receives.is_empty()).map(|b| b.channel).collect();
        for (channels, verb) in [(&mut senders, "send"), (&mut receivers, "receive")] {
            channels.sort_unstable();
            for on_channel in channels.chunk_by(|a, b| a == b) {
                let most = self.target.limits.peers_per_channel;
                self.most(report, None, on_channel.len(), most, || {
                    format!("too many thread blocks of {rank} {verb} on {}", on_channel[0])
                });
            }
        }
    }

    fn block(&self, at: Tb, block: &ThreadBlock, report: &mut Report) {
        let Limits {
            steps_per_tb,
            tbs_per_rank: _,
            channels,
            peers_per_channel: _,
            count: _,
            waitable_tbs: _,
            slots: _,
        } = self.target.limits;
        self.most(report, None, block.steps.len(), steps_per_tb, || {
            format!("{at} has too many steps")
        });
        let last_channel = block.channel;
        self.most(report, None, last_channel.index().saturating_add(1), channels, || {
            format!("{at} is on {last_channel}; too many channels")
        });
        for (index, step) in block.steps.iter().enumerate() {
            let step_ref = StepRef { rank: at.0, tb: at.1, step: StepIndex::from(index) };
            self.step(step_ref, step, report);
        }
    }

    fn step(&self, at: StepRef, step: &Step, report: &mut Report) {
        let Limits { count, waitable_tbs, slots, .. } = self.target.limits;
        let at = Some(at);
        self.most(report, at, step.count as usize, count, || "too many chunks in one step".into());
        for wait in &step.waits {
            let tb = wait.tb;
            self.most(report, at, tb.index() + 1, waitable_tbs, || {
                format!("waits for {tb}, whose number is too high to be waited for")
            });
        }
        for region in step.reads().chain(step.writes()) {
            let end = region.start.index as usize + region.count as usize;
            self.most(report, at, end, slots, || format!("{region} lies too far in its buffer"));
        }
    }
}

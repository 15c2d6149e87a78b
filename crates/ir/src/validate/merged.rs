//! Rung 4: where the runtime merges consecutive `re`, the merged step does what they say.

use msccl_collective::{Rank, StepIndex, TbIndex};

use super::{Report, ViolationClass};
use crate::merging::{self, Judge, Misfit};
use crate::{Algorithm, StepRef, Target};

/// Checks every chain of every thread block.
pub(super) fn check(algorithm: &Algorithm, target: &Target, report: &mut Report) {
    let Some(merging) = target.rules.merging else { return };
    let Algorithm { collective, placement, protocol, .. } = algorithm;
    let judge = Judge { merging, protocol: *protocol, collective, placement: *placement };
    for (rank, program) in algorithm.ranks.iter().enumerate() {
        let rank = Rank::from(rank);
        let awaited = merging::awaited(program);
        for (tb, block) in program.thread_blocks.iter().enumerate() {
            for chain in merging::chains(block, &awaited[tb], merging) {
                for (step, misfit) in judge.misfits(rank, block, chain) {
                    let at = StepRef { rank, tb: TbIndex::from(tb), step: StepIndex::from(step) };
                    add(report, at, misfit, algorithm, target);
                }
            }
        }
        if report.is_full() {
            return;
        }
    }
}

fn add(report: &mut Report, at: StepRef, misfit: Misfit, algorithm: &Algorithm, target: &Target) {
    let class = match misfit {
        Misfit::Count | Misfit::ReadsSum => ViolationClass::Structure,
        Misfit::Room(_) => ViolationClass::Limits,
    };
    report.add(class, Some(at), || misfit.explain(target.rules.runtime, algorithm.protocol));
}

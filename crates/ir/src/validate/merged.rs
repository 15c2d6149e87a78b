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
    let runtime = target.rules.runtime;
    let protocol = algorithm.protocol;
    let (class, why) = match misfit {
        Misfit::Count => {
            (ViolationClass::Structure, "the merged step uses the last count for all".to_owned())
        }
        Misfit::ReadsSum => (
            ViolationClass::Structure,
            "it reads its source before the others' sum is stored there".to_owned(),
        ),
        Misfit::Room(room) => (
            ViolationClass::Limits,
            format!(
                "under {protocol} a merged step has room for {room} sources and loses the rest"
            ),
        ),
    };
    report.add(class, Some(at), || {
        format!(
            "{runtime} merges this `re` with the one before it, and {why}; let it wait for the \
             step before it, or put another step between them"
        )
    });
}

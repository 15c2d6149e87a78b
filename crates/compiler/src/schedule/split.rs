//! Keeps the target from merging `re` that must not become one step.
//!
//! A `re` that waits for the step before it is not merged with that one, and the wait is satisfied
//! as soon as it is looked at: steps of a thread block run in order.

use msccl_collective::{Rank, StepIndex, TbIndex};
use msccl_ir::merging::{self, Judge};
use msccl_ir::{Algorithm, Target, Wait};

/// Adds waits where merged steps would not do what their steps say.
pub(super) fn split(algorithm: &mut Algorithm, target: &Target) {
    let Some(merging) = target.rules.merging else { return };
    let Algorithm { collective, placement, protocol, ranks, .. } = algorithm;
    let judge = Judge { merging, protocol: *protocol, collective, placement: *placement };
    for (rank, program) in ranks.iter_mut().enumerate() {
        let awaited = merging::awaited(program);
        for (tb, block) in program.thread_blocks.iter_mut().enumerate() {
            let chains = merging::chains(block, &awaited[tb], merging).into_iter();
            let misfits = chains.flat_map(|chain| judge.misfits(Rank::from(rank), block, chain));
            let misfits: Vec<_> = misfits.map(|(step, _)| step).collect();
            for step in misfits {
                let wait = Wait { tb: TbIndex::from(tb), step: StepIndex::from(step - 1) };
                block.steps[step].waits.push(wait);
            }
        }
    }
}

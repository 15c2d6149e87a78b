//! Several rounds of a program as one program.

use msccl_collective::StepIndex;
use msccl_ir::{Algorithm, Wait};

/// The algorithm with the steps of every thread block `rounds` times over. Waits move with their
/// round; that rounds touch different memory is for the reader to know.
pub(crate) fn unroll(algorithm: &Algorithm, rounds: u32) -> Algorithm {
    let mut unrolled = algorithm.clone();
    for program in &mut unrolled.ranks {
        let lengths: Vec<_> =
            program.thread_blocks.iter().map(|block| block.steps.len() as u32).collect();
        for block in &mut program.thread_blocks {
            let once = std::mem::take(&mut block.steps);
            for round in 0..rounds.max(1) {
                block.steps.extend(once.iter().cloned().map(|mut step| {
                    for Wait { tb, step } in &mut step.waits {
                        *step = StepIndex(step.0 + round * lengths[tb.index()]);
                    }
                    step
                }));
            }
        }
    }
    unrolled
}

//! How many rounds waits can distinguish.
//!
//! Where a runtime counts rounds in a field of the flag that waits look at, a call of more rounds
//! takes the flags of the next call for its own. Algorithms without waits do not look at flags.

use msccl_ir::Target;

use crate::program::Program;
use crate::refusal::{Fault, FaultKind};

/// A fault if the largest call has more rounds than waits can distinguish.
pub(crate) fn check(program: &Program<'_>, target: &Target) -> Option<Fault> {
    let algorithm = program.algorithm();
    let rounds = target.rules.rounds?;
    let chunk_bytes_max = target.rules.waited_chunk_bytes_max(algorithm.protocol)?;
    let at = program.ats().find(|&at| !program.step(at).waits.is_empty())?;
    let loop_chunks = u64::from(algorithm.collective.loop_chunks()).max(1);
    let bytes = chunk_bytes_max.saturating_mul(loop_chunks);
    if algorithm.sizes.max_bytes.is_some_and(|served| served <= bytes) {
        return None;
    }
    let bytes = bytes / target.rules.call_divisor(&algorithm.collective);
    let at = program.step_ref(at);
    let message = format!(
        "in calls of more than {bytes} bytes a chunk takes more than {} rounds, and {} takes flags \
         of later rounds for those of another call, so waits such as that of {at} never end; limit \
         the size of calls",
        rounds.max, target.rules.runtime
    );
    let mut fault = Fault::new(FaultKind::Limits, message).at([at]);
    fault.sound_up_to_bytes = Some(bytes);
    Some(fault)
}

//! Where, when, after what: thread blocks, channels, order, waits.
//!
//! [`schedule`] turns the instruction DAG into an [`Algorithm`]:
//!
//! 1. `channels` gives every message a channel, so that each link end can belong to one thread
//!    block and every step's links to one channel;
//! 2. `blocks` gives every instruction of a rank a thread block;
//! 3. `waits` finds, in the order of waves and phases, what each step must wait for, without what
//!    is implied;
//! 4. `emit` writes steps, with no-op steps where the target allows one wait per step;
//! 5. `split` keeps the target from merging `re` that must not be one.
//!
//! [`interleave()`] cuts every chunk of the result, where the program asks for that.
//!
//! # Why schedules do not deadlock
//!
//! A message has the wave of the op that moves it. It is taken in that wave or, if it was to be
//! staged and is absorbed, in a later one, but always before the wave of the link's next message
//! (rule 3 of `instruction::absorb`).
//!
//! Every thread block keeps the order (wave, phase). Take the unfinished step that is first in that
//! order. Everything it waits for is earlier, hence done. If it receives, its message was sent
//! earlier, and is the link's first, since the receivers of those before it are earlier still. If
//! it sends in its own wave, the link is empty, since the receiver of the previous message is in an
//! earlier wave; then either the step's messages fit into an empty link, as those that wait for a
//! later wave always do (rule 4 of `instruction::absorb`), or the thread blocks at both ends hold
//! nothing of that wave but this link's two ends (`channels`, rule 4), so that the receiver runs at
//! once. If it passes a result on, which belongs to the next wave, the link holds at most the
//! messages of one earlier step, which another passing step of the same wave is about to take; it
//! has room for both (rule 3 of `instruction::fuse`). So some step can always go on.
//!
//! Absent from this stage: what moves, which instruction sends what, bytes.

mod blocks;
mod channels;
mod emit;
mod interleave;
mod memory;
mod origins;
mod split;
#[cfg(test)]
mod tests;
mod waits;

use msccl_collective::{Collective, Kind, SizeRange};
use msccl_ir::{Algorithm, StepForm, Target};
use msccl_syntax::Diagnostic;

use crate::chunk;
use crate::instruction::{self, SlotTable};
pub use interleave::interleave;
pub use origins::{Origins, SourceLines};

/// An algorithm, and which statement each of its steps came from.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Where its steps came from.
    pub origins: Origins,
}

/// Schedules `instructions`, lowered from `program`, for `target`.
///
/// # Errors
///
/// Hints that cannot be honoured, and programs that need more channels than the target has, each at
/// the statement behind it. Sizes of the result are checked afterwards, by
/// [`msccl_ir::validate()`].
pub fn schedule(
    program: &chunk::ChunkDag,
    instructions: &instruction::InstructionDag,
    target: &Target,
) -> Result<Schedule, Vec<Diagnostic>> {
    let assignments = channels::assign(program, instructions, target)?;
    let slots = SlotTable::new(&program.collective, &instructions.scratch_chunks);
    let context = emit::Context {
        program,
        dag: instructions,
        assignments: &assignments,
        slots: &slots,
        target,
    };
    let mut ranks = Vec::with_capacity(instructions.scratch_chunks.len());
    let mut statements = Vec::with_capacity(instructions.scratch_chunks.len());
    for (rank, ids) in emit::by_rank(program, instructions) {
        let (steps, sources) = emit::rank(&context, rank, &ids)?;
        ranks.push(steps);
        statements.push(sources);
    }
    let mut algorithm = Algorithm {
        name: program.name.clone(),
        collective: program.collective.clone(),
        placement: program.placement,
        protocol: program.protocol,
        sizes: served_sizes(program, instructions, target),
        threads: program.threads,
        ranks,
    };
    split::split(&mut algorithm, target);
    limit_rounds(&mut algorithm, target);
    whole_blocks(&mut algorithm, target);
    let origins = Origins { statements, table: program.statements.clone() };
    Ok(Schedule { algorithm, origins })
}

/// Where waits distinguish only so many rounds, a program that names no largest call serves calls
/// of up to so many.
fn limit_rounds(algorithm: &mut Algorithm, target: &Target) {
    let chunk_bytes_max = target.rules.waited_chunk_bytes_max(algorithm.protocol);
    let waits = {
        let mut steps = algorithm.thread_blocks().flat_map(|(_, _, block)| &block.steps);
        steps.any(|step| !step.waits.is_empty())
    };
    if let Some(chunk_bytes_max) = chunk_bytes_max.filter(|_| waits)
        && algorithm.sizes.max_bytes.is_none()
    {
        let chunks = u64::from(algorithm.collective.loop_chunks());
        algorithm.sizes.max_bytes = Some(chunk_bytes_max.saturating_mul(chunks));
    }
}

/// Files of MSCCL may count one block of a gather or scatter for the size of a call. A call has
/// whole blocks, so the range ends with one.
fn whole_blocks(algorithm: &mut Algorithm, target: &Target) {
    let Collective { kind, ranks, .. } = &algorithm.collective;
    let is_rooted = matches!(kind, Kind::Gather { .. } | Kind::Scatter { .. });
    if is_rooted && target.form == StepForm::Msccl {
        let blocks = u64::from(*ranks).max(1);
        let SizeRange { min_bytes, max_bytes } = &mut algorithm.sizes;
        *min_bytes = min_bytes.checked_next_multiple_of(blocks).unwrap_or(*min_bytes);
        max_bytes.iter_mut().for_each(|bytes| *bytes -= *bytes % blocks);
    }
}

/// The sizes requested. A target that sets scratch aside for the largest call of all needs a
/// largest call, so a program with scratch that names none gets the target's.
fn served_sizes(
    program: &chunk::ChunkDag,
    instructions: &instruction::InstructionDag,
    target: &Target,
) -> SizeRange {
    let has_scratch = instructions.scratch_chunks.iter().any(|&chunks| chunks > 0);
    let default = target.scratch_call_bytes_max.filter(|_| has_scratch);
    SizeRange { max_bytes: program.sizes.max_bytes.or(default), ..program.sizes }
}

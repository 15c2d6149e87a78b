//! Algorithms that are nothing but independent copies between callers' buffers, which anybody may
//! make, in any order: copy engines, for one.
//!
//! A program is such a set if
//!
//! 1. the collective reduces nothing, and every step takes one operand, from the input of its rank
//!    or from a link;
//! 2. every message was read from the input of its sender, so it goes one hop;
//! 3. every destination that is no link is in the output, and no step uses scratch;
//! 4. in memory, as calls of a placement have it, no cell is written by two copies, and none that
//!    is written by one is read by another;
//! 5. together the copies move whole blocks to whole blocks, so that no chunk is seen any more.
//!
//! *Claim.* Whoever makes the copies of one call in any order, one after another or at the same
//! time, leaves what the proved program leaves. *Proof.* By 1 to 3 every cell that the program
//! writes gets the value that an input cell has at some moment. By 4 no copy changes what another
//! reads, so that is the value from before the call; and no cell has two writers, so it is the last
//! value, too. Neither depends on an order. ∎
//!
//! Condition 4 speaks of the memory of each rank for itself. So where both placements fulfil it,
//! ranks may differ in theirs; and the program itself need not serve a placement that its copies
//! serve.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::{Buffer, Placement, Rank, Region, Slot};
use msccl_ir::{Place, Step};

use crate::Verified;
use crate::memory::{Call, Memory};
use crate::program::{At, Program};

/// A copy of one block from the input of a rank to the output of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockCopy {
    /// Whose input is read.
    pub from: Rank,
    /// Which block of it, as the collective numbers them.
    pub input: u32,
    /// Whose output is written; the same rank, or another.
    pub to: Rank,
    /// Which block of it.
    pub output: u32,
}

/// The copies that an algorithm is, if it is nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockCopies {
    /// Ordered.
    pub copies: Vec<BlockCopy>,
    /// The placements of calls in which no copy touches what another writes.
    pub placement: Placement,
}

/// A copy of one chunk.
#[derive(Clone, Copy)]
struct ChunkCopy {
    from: Rank,
    input: Slot,
    to: Rank,
    output: Slot,
}

/// The copies that `verified` is; `None` if it is anything else.
pub(crate) fn of(verified: &Verified) -> Option<BlockCopies> {
    let algorithm = verified.algorithm();
    (!algorithm.collective.reduces()).then_some(())?;
    // A proved algorithm is well formed.
    let program = Program::new(algorithm).ok()?;
    let mut copies = Vec::new();
    for at in program.ats() {
        chunk_copies(&program, at, &mut copies)?;
    }
    let independent = |call| are_independent(&program, call, &copies);
    let placement = match (independent(Call::InPlace), independent(Call::OutOfPlace)) {
        (true, true) => Placement::Both,
        (true, false) => Placement::InPlace,
        (false, true) => Placement::OutOfPlace,
        (false, false) => return None,
    };
    // What is promised of a program holds where it is served.
    let served = |of: Call| Call::served(algorithm).any(|served| served == of);
    let proved =
        [Call::InPlace, Call::OutOfPlace].into_iter().any(|call| served(call) && independent(call));
    proved.then_some(())?;
    let copies = whole_blocks(algorithm.collective.chunks.max(1), &copies)?;
    Some(BlockCopies { copies, placement })
}

/// Adds the copies that end at step `at`; `None` if it does anything else.
fn chunk_copies(program: &Program<'_>, at: At, copies: &mut Vec<ChunkCopy>) -> Option<()> {
    let step = program.step(at);
    let to = program.rank(at);
    let (from, input) = match step.sources[..] {
        // Nothing, but what waits for others.
        [] => return step.destinations.is_empty().then_some(()),
        [Place::Local(_)] => (to, only_input(step)?),
        [Place::Link(_)] => {
            let &[sender] = program.senders(program.id(at)) else { return None };
            let sender = program.locate(sender);
            (program.rank(sender), only_input(program.step(sender))?)
        }
        _ => return None,
    };
    for region in step.writes() {
        (region.start.buffer == Buffer::Output).then_some(())?;
        let slots = input.slots().zip(region.slots());
        copies.extend(slots.map(|(input, output)| ChunkCopy { from, input, to, output }));
    }
    Some(())
}

/// What the step reads, if it is one region of the input and nothing else.
fn only_input(step: &Step) -> Option<Region> {
    let region = step.reads().next().filter(|_| step.sources.len() == 1)?;
    (region.start.buffer == Buffer::Input).then_some(region)
}

/// Whether no copy changes what another reads, and none writes what another has written.
fn are_independent(program: &Program<'_>, call: Call, copies: &[ChunkCopy]) -> bool {
    let memory = Memory::new(program.algorithm(), call);
    let ends =
        |copy: &ChunkCopy| (memory.cell(copy.from, copy.input), memory.cell(copy.to, copy.output));
    // A copy of a cell onto itself changes nothing.
    let moving = || copies.iter().map(ends).filter(|(read, written)| read != written);
    let mut written = vec![false; memory.len()];
    let once = moving().all(|(_, cell)| !std::mem::replace(&mut written[cell], true));
    once && moving().all(|(read, _)| !written[read])
}

/// The copies as copies of blocks of `chunks` chunks; `None` if some would be of a part of one.
fn whole_blocks(chunks: u32, copies: &[ChunkCopy]) -> Option<Vec<BlockCopy>> {
    let mut columns: BTreeMap<BlockCopy, BTreeSet<u32>> = BTreeMap::new();
    for ChunkCopy { from, input, to, output } in copies {
        let column = input.index % chunks;
        (output.index % chunks == column).then_some(())?;
        let (input, output) = (input.index / chunks, output.index / chunks);
        let block = BlockCopy { from: *from, input, to: *to, output };
        columns.entry(block).or_default().insert(column);
    }
    let is_whole = columns.values().all(|columns| columns.len() == chunks as usize);
    is_whole.then(|| columns.into_keys().collect())
}

//! Interleaving: every chunk cut in `k`, every step done for one part after the other.
//!
//! ```text
//! s0: i[3] -> r1                     k = 2     s0: i[6] -> r1
//! s1: r2 + i[4] -> i[4], r1                    s1: i[7] -> r1
//!                                              s2: r2 + i[8] -> i[8], r1
//!                                              s3: r2 + i[9] -> i[9], r1
//! ```
//!
//! A step that needs what another rank has just sent waits for as long as a message is on its way.
//! With two parts the thread block moves one of them meanwhile. Instances do the same in thread
//! blocks of their own, which take a multiprocessor each.
//!
//! Chunk `c` of every buffer becomes the chunks `c*k .. c*k + k`, as with instances. No two parts
//! share a slot, and each does what the whole did, in the same order; a step that waited for
//! another waits for what that does for the same part. Both ends of a link cut each of its messages
//! alike, so they arrive in the order in which they are awaited. But there are `k` times as many,
//! so that a link may have to hold more of them: whether it does, and that nothing waits for ever,
//! is for the proof to say.

use msccl_collective::{Slot, StepIndex};
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock, Wait};

use super::{Origins, Schedule};
use crate::chunk::{StatementId, cut};

/// `schedule` with every chunk cut in `k` parts; `k` of 0 counts as 1.
pub fn interleave(schedule: Schedule, k: u32) -> Schedule {
    if k <= 1 {
        return schedule;
    }
    let Schedule { algorithm, origins } = schedule;
    let Origins { statements, table } = origins;
    let ranks = algorithm.ranks.iter();
    let statements = ranks.zip(&statements).map(|(rank, blocks)| {
        let blocks = rank.thread_blocks.iter().zip(blocks);
        blocks.map(|(block, steps)| statements_of(block, steps, k)).collect()
    });
    let origins = Origins { statements: statements.collect(), table };
    let collective = cut(&algorithm.collective, k);
    let ranks = algorithm.ranks.iter().map(|rank| rank_program(rank, k)).collect();
    Schedule { algorithm: Algorithm { collective, ranks, ..algorithm }, origins }
}

fn rank_program(rank: &RankProgram, k: u32) -> RankProgram {
    let RankProgram { scratch_chunks, thread_blocks } = rank;
    // Where the parts of every step begin, by thread block.
    let starts: Vec<Vec<u32>> = thread_blocks.iter().map(|block| starts(block, k)).collect();
    let blocks = thread_blocks.iter().map(|block| {
        let steps = block.steps.iter().flat_map(|step| parts(step, thread_blocks, &starts, k));
        let ThreadBlock { channel, sends, receives, steps: _ } = block;
        let (sends, receives) = (sends.clone(), receives.clone());
        ThreadBlock { channel: *channel, sends, receives, steps: steps.collect() }
    });
    RankProgram { scratch_chunks: scratch_chunks * k, thread_blocks: blocks.collect() }
}

/// How many steps `step` becomes for each part.
fn each(step: &Step) -> u32 {
    step.count.max(1)
}

fn starts(block: &ThreadBlock, k: u32) -> Vec<u32> {
    let place = |next: &mut u32, step: &Step| {
        let start = *next;
        *next += each(step) * k;
        Some(start)
    };
    block.steps.iter().scan(0, place).collect()
}

/// What `step` becomes, part by part. The chunks of one part are not neighbours, so each has a step
/// of its own.
fn parts(step: &Step, blocks: &[ThreadBlock], starts: &[Vec<u32>], k: u32) -> Vec<Step> {
    let last_of = |wait: &Wait, part: u32| {
        let (tb, awaited) = (wait.tb.index(), wait.step.index());
        let each = each(&blocks[tb].steps[awaited]);
        Wait { tb: wait.tb, step: StepIndex(starts[tb][awaited] + part * each + each - 1) }
    };
    let place = |place: &Place, chunk: u32, part: u32| match *place {
        Place::Local(slot) => Place::Local(Slot::new(slot.buffer, (slot.index + chunk) * k + part)),
        Place::Link(rank) => Place::Link(rank),
    };
    let one = |part: u32, chunk: u32| {
        let Step { waits, sources, destinations, count } = step;
        let waits = waits.iter().filter(|_| chunk == 0).map(|wait| last_of(wait, part)).collect();
        let sources = sources.iter().map(|of| place(of, chunk, part)).collect();
        let destinations = destinations.iter().map(|of| place(of, chunk, part)).collect();
        Step { waits, sources, destinations, count: (*count).min(1) }
    };
    (0..k).flat_map(|part| (0..each(step)).map(move |chunk| one(part, chunk))).collect()
}

/// The statements that requested the parts of every step.
fn statements_of(block: &ThreadBlock, statements: &[StatementId], k: u32) -> Vec<StatementId> {
    let steps = block.steps.iter().zip(statements);
    steps.flat_map(|(step, &of)| std::iter::repeat_n(of, (each(step) * k) as usize)).collect()
}

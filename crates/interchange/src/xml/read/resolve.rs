//! From the file's thread blocks to those of the IR: ids become positions, waits are checked
//! against what they name, and what the IR cannot hold is reported.

use std::collections::BTreeMap;

use msccl_collective::{Buffer, Channel, Slot, StepIndex, TbIndex};
use msccl_ir::{RankProgram, ThreadBlock, Wait};

use super::gpu::Block;
use super::notes::Notes;
use super::places::{self, RankPlaces};
use super::step::FileRow;
use crate::xml::row::{Row, Type};
use crate::xml::{Locus, hazard};

/// The program of gpu `id` and the places of its steps. Its buffers have `chunks` chunks (input,
/// output, scratch). There were `found_before` contradictions before this gpu.
pub(super) fn resolve(
    mut blocks: Vec<Block>,
    id: u32,
    chunks: [u32; 3],
    notes: &mut Notes,
    found_before: usize,
) -> (RankProgram, RankPlaces) {
    blocks.sort_by_key(|block| block.id);
    check_ids(&blocks, id, notes);
    drop_idle_nops(&mut blocks, notes);
    resolve_waits(&mut blocks, id, notes);
    for block in &mut blocks {
        drop_last_nops(block, notes);
    }
    if notes.found() == found_before {
        check_blocks(&blocks, id, chunks, notes);
    }
    let scratch_chunks = blocks.iter().map(scratch_end).fold(chunks[2], u32::max);
    let places = places::of_blocks(&blocks);
    let thread_blocks = blocks.into_iter().map(assemble).collect();
    (RankProgram { scratch_chunks, thread_blocks }, places)
}

fn check_blocks(blocks: &[Block], gpu: u32, chunks: [u32; 3], notes: &mut Notes) {
    let mut rows: Vec<Row> = Vec::new();
    for block in blocks {
        let at = Locus { gpu: Some(gpu), tb: Some(block.id), step: None };
        check_peers(block, at, notes);
        check_places(block, chunks, at, notes);
        rows.clear();
        rows.extend(block.rows.iter().map(|row| row.row));
        hazard::find(&rows, |step, message| {
            notes.contradiction(block.rows[step].offset, numbered(at, step), message);
        });
    }
}

fn numbered(at: Locus, step: usize) -> Locus {
    Locus { step: u32::try_from(step).ok(), ..at }
}

fn check_ids(blocks: &[Block], gpu: u32, notes: &mut Notes) {
    let wrong = blocks.iter().enumerate().find(|&(position, block)| block.id as usize != position);
    let Some((position, block)) = wrong else { return };
    let message = if position > 0 && blocks[position - 1].id == block.id {
        format!("a second thread block has the id {}", block.id)
    } else {
        format!("there is no thread block {position}; number them 0, 1, 2, …")
    };
    let locus = Locus { gpu: Some(gpu), tb: Some(block.id), step: None };
    notes.contradiction(block.offset, locus, message);
}

/// Turns thread block ids in waits into positions, drops waits for what does not exist, and settles
/// which steps signal.
fn resolve_waits(blocks: &mut [Block], gpu: u32, notes: &mut Notes) {
    for block in 0..blocks.len() {
        for step in 0..blocks[block].rows.len() {
            let Some(wait) = blocks[block].rows[step].row.wait else { continue };
            let found = target(blocks, wait);
            let row = &mut blocks[block].rows[step];
            let offset = row.offset;
            row.row.wait = found.as_ref().ok().copied();
            let complaint = match found {
                Err(message) => Some(message),
                Ok(wait) => signal(&mut blocks[wait.tb.index()].rows[wait.step.index()]),
            };
            if let Some(message) = complaint {
                let at = Locus { gpu: Some(gpu), tb: Some(blocks[block].id), step: None };
                notes.contradiction(offset, numbered(at, step), message);
            }
        }
    }
    blocks.iter_mut().zip(0..).for_each(|(block, position)| keep_cuts(block, position));
    for row in blocks.iter_mut().flat_map(|block| &mut block.rows) {
        row.row.signals |= row.signals == Some(true);
    }
}

/// A step that signals ends a chain of merged `re`, whether anybody waits for it or not. The IR
/// knows signals by those who wait, so the next `re` gets a wait for it, which is satisfied at
/// once.
fn keep_cuts(block: &mut Block, position: u32) {
    for at in 1..block.rows.len() {
        let (before, rest) = block.rows.split_at_mut(at);
        let (Some(before), Some(row)) = (before.last_mut(), rest.first_mut()) else { continue };
        let merges = before.row.kind == Type::Reduce
            && row.row.kind == Type::Reduce
            && row.row.wait.is_none()
            && row.row.dst == before.row.dst
            && row.row.src.buffer == before.row.src.buffer;
        if merges && before.signals == Some(true) && !before.row.signals {
            before.row.signals = true;
            row.row.wait = Some(Wait { tb: TbIndex(position), step: StepIndex(at as u32 - 1) });
        }
    }
}

/// The step that a wait by id means, by position.
fn target(blocks: &[Block], wait: Wait) -> Result<Wait, String> {
    let Wait { tb, step } = wait;
    let position = blocks
        .binary_search_by_key(&tb.0, |block| block.id)
        .map_err(|_| format!("waits for tb {}, which does not exist", tb.0))?;
    let rows = &blocks[position].rows;
    match rows.get(step.index()) {
        None => {
            let (tb, step, count) = (tb.0, step.0, rows.len());
            Err(format!("waits for step {step} of tb {tb}, which has {count} steps"))
        }
        Some(row) if row.row.kind == Type::Nop => {
            let (tb, step) = (tb.0, step.0);
            Err(format!("waits for step {step} of tb {tb}, which moves nothing and never signals"))
        }
        Some(_) => Ok(Wait { tb: TbIndex::from(position), step }),
    }
}

/// Marks a step as signalling, unless the file says that it does not.
fn signal(target: &mut FileRow) -> Option<String> {
    target.row.signals = true;
    let silent = target.signals == Some(false);
    silent.then(|| {
        "waits for a step that does not signal: the interpreter waits for a later step, or for \
         ever; set the other step's `hasdep` to 1"
            .to_owned()
    })
}

/// No-ops without a wait do nothing in the interpreters, which do not even count them. So they are
/// left out where nobody waits for them or for a later step of their thread block; elsewhere what
/// is waited for is not what the file says.
fn drop_idle_nops(blocks: &mut [Block], notes: &mut Notes) {
    let waits = blocks.iter().flat_map(|block| block.rows.iter().filter_map(|row| row.row.wait));
    let mut last_awaited: BTreeMap<u32, u32> = BTreeMap::new();
    for Wait { tb, step } in waits {
        let last = last_awaited.entry(tb.0).or_default();
        *last = step.0.max(*last);
    }
    for block in blocks {
        let first_free = last_awaited.get(&block.id).map_or(0, |last| *last as usize + 1);
        let mut position = 0;
        block.rows.retain(|row| {
            let is_idle = row.row.kind == Type::Nop && row.row.wait.is_none();
            let is_kept = !is_idle || position < first_free;
            position += 1;
            if !is_kept {
                notes.warning("no-ops that wait for nothing are ignored".to_owned());
            }
            is_kept
        });
    }
}

/// No-ops at the end of a thread block have no effect in the interpreters.
fn drop_last_nops(block: &mut Block, notes: &mut Notes) {
    while block.rows.last().is_some_and(|row| row.row.kind == Type::Nop) {
        block.rows.pop();
        notes.warning("no-ops at the end of a thread block are ignored".to_owned());
    }
}

fn check_peers(block: &Block, at: Locus, notes: &mut Notes) {
    for (number, FileRow { row, signals: _, offset }) in block.rows.iter().enumerate() {
        let sends_nowhere = row.kind.sends() && block.send.is_none();
        let receives_nowhere = row.kind.receives() && block.receive.is_none();
        if sends_nowhere || receives_nowhere {
            let attribute = if sends_nowhere { "send" } else { "recv" };
            let kind = row.kind.name();
            let message = format!("a step of type `{kind}`, but `{attribute}` of its tb is -1");
            notes.contradiction(*offset, numbered(at, number), message);
        }
    }
}

/// Compares the places that steps use with the buffers that the `<gpu>` declares.
///
/// A place beyond its buffer that is only read is left to the verifier, which finds that it was
/// never written; one that is written would be another's memory.
fn check_places(block: &Block, chunks: [u32; 3], at: Locus, notes: &mut Notes) {
    for (number, FileRow { row, signals: _, offset }) in block.rows.iter().enumerate() {
        if row.kind.uses_dst() && is_beyond(row.dst, row.count, chunks) {
            let message = format!(
                "writes {}, but {}_chunks of its gpu is {}",
                row.dst.run(row.count),
                row.dst.buffer.letter(),
                chunks[row.dst.buffer as usize]
            );
            notes.contradiction(*offset, numbered(at, number), message);
        }
        if row.kind.uses_src() && is_beyond(row.src, row.count, chunks) {
            notes.warning(format!("{at} reads beyond the chunks that its gpu declares"));
        }
    }
}

/// Whether a region leaves its buffer. Interpreters check the first slot only; a run that leaves
/// the caller's buffers later is found wherever an algorithm is validated.
fn is_beyond(slot: Slot, count: u32, chunks: [u32; 3]) -> bool {
    let declared = chunks[slot.buffer as usize];
    slot.index >= declared || slot.buffer == Buffer::Scratch && slot.index + count > declared
}

/// The end of the scratch that a thread block uses: the IR knows no place beyond a buffer, so
/// scratch is as large as the steps take it to be.
fn scratch_end(block: &Block) -> u32 {
    let ends = block.rows.iter().flat_map(|FileRow { row, .. }| {
        let used = [(row.kind.uses_src(), row.src), (row.kind.uses_dst(), row.dst)];
        used.map(|(is_used, slot)| match slot.buffer {
            Buffer::Scratch if is_used => slot.index + row.count,
            Buffer::Scratch | Buffer::Input | Buffer::Output => 0,
        })
    });
    ends.max().unwrap_or(0)
}

/// The thread block. A step that lacks its peer, which has been reported, becomes a no-op.
fn assemble(block: Block) -> ThreadBlock {
    let Block { id: _, offset: _, channel, send, receive, rows } = block;
    let steps = rows.into_iter().map(|row| row.row.to_step(send, receive).unwrap_or_default());
    ThreadBlock {
        channel: Channel(channel),
        sends: send.into_iter().collect(),
        receives: receive.into_iter().collect(),
        steps: steps.collect(),
    }
}

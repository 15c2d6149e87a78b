//! From the file's thread blocks to those of the IR: ids become positions, waits are checked
//! against what they name, and what the IR cannot hold is reported.

use msccl_collective::{Buffer, Channel, Slot, TbIndex};
use msccl_ir::{RankProgram, Step, ThreadBlock, Wait};

use super::gpu::Block;
use super::notes::Notes;
use super::step::FileRow;
use crate::xml::row::{Row, Type};
use crate::xml::{Locus, hazard};

/// The program of gpu `id`, whose buffers have `chunks` chunks (input, output, scratch).
pub(super) fn resolve(
    mut blocks: Vec<Block>,
    id: u32,
    chunks: [u32; 3],
    notes: &mut Notes,
) -> RankProgram {
    blocks.sort_by_key(|block| block.id);
    check_ids(&blocks, id, notes);
    resolve_waits(&mut blocks, id, notes);
    let mut scratch_chunks = chunks[2];
    for block in &mut blocks {
        let at = Locus { gpu: Some(id), tb: Some(block.id), step: None };
        drop_last_nops(block, notes);
        scratch_chunks = scratch_chunks.max(check_places(block, chunks, at, notes));
        let rows: Vec<Row> = block.rows.iter().map(|row| row.row).collect();
        hazard::find(&rows, |step, message| {
            notes.contradiction(block.rows[step].offset, numbered(at, step), message);
        });
    }
    let thread_blocks = blocks.into_iter().map(|block| assemble(block, id, notes)).collect();
    RankProgram { scratch_chunks, thread_blocks }
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
    for row in blocks.iter_mut().flat_map(|block| &mut block.rows) {
        row.row.signals |= row.signals == Some(true);
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

/// No-ops at the end of a thread block have no effect in the interpreters.
fn drop_last_nops(block: &mut Block, notes: &mut Notes) {
    while block.rows.last().is_some_and(|row| row.row.kind == Type::Nop) {
        block.rows.pop();
        notes.warning("no-ops at the end of a thread block are ignored".to_owned());
    }
}

/// Compares the places that steps use with the buffers that the `<gpu>` declares; returns how many
/// scratch chunks it takes to hold them.
///
/// A place beyond its buffer that is only read is left to the verifier, which finds that it was
/// never written; one that is written would be another's memory.
fn check_places(block: &Block, chunks: [u32; 3], at: Locus, notes: &mut Notes) -> u32 {
    let declared = |slot: Slot| chunks[slot.buffer as usize];
    let mut scratch_chunks = 0;
    for (number, FileRow { row, signals: _, offset }) in block.rows.iter().enumerate() {
        let used = [(row.kind.uses_src(), row.src, false), (row.kind.uses_dst(), row.dst, true)];
        for (_, slot, written) in used.into_iter().filter(|(is_used, ..)| *is_used) {
            let end = slot.index.saturating_add(row.count);
            if slot.buffer == Buffer::Scratch {
                scratch_chunks = scratch_chunks.max(end);
            }
            let outside = slot.index >= declared(slot) || row_leaves_scratch(slot, end, chunks);
            if outside && written {
                let message = format!(
                    "writes {}, but the gpu declares {} chunks of it",
                    slot.run(row.count),
                    declared(slot)
                );
                notes.contradiction(*offset, numbered(at, number), message);
            } else if outside {
                notes.warning(format!("{at} reads beyond the chunks that its gpu declares"));
            }
        }
    }
    scratch_chunks
}

fn row_leaves_scratch(slot: Slot, end: u32, chunks: [u32; 3]) -> bool {
    slot.buffer == Buffer::Scratch && end > chunks[Buffer::Scratch as usize]
}

fn assemble(block: Block, gpu: u32, notes: &mut Notes) -> ThreadBlock {
    let Block { id, offset: _, channel, send, receive, rows } = block;
    let mut steps = Vec::with_capacity(rows.len());
    for (number, FileRow { row, signals: _, offset }) in rows.into_iter().enumerate() {
        steps.push(row.to_step(send, receive).unwrap_or_else(|| {
            let message = format!(
                "a step of type `{}` in a thread block without {}",
                row.kind.name(),
                if row.kind.sends() && send.is_none() { "send peer" } else { "receive peer" }
            );
            let at = Locus { gpu: Some(gpu), tb: Some(id), step: None };
            notes.contradiction(offset, numbered(at, number), message);
            Step::default()
        }));
    }
    ThreadBlock {
        channel: Channel(channel),
        sends: send.into_iter().collect(),
        receives: receive.into_iter().collect(),
        steps,
    }
}

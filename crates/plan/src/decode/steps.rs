//! Steps, and those that run as one.

use msccl_collective::{Buffer, Slot, StepIndex, TbIndex};
use msccl_ir::{StepKind, Wait};

use super::Corrupt;
use super::tables::Tables;
use super::words::{Words, corrupt};
use crate::layout::{operand, step};
use crate::program::{Operand, Program, Step, ThreadBlock, words_of};
use crate::shape;

/// Reads the steps of thread block `tb` from `cursor` on, and moves it behind them. Thread blocks
/// follow one another without a gap, whatever the table says; it is compared at the end.
pub(super) fn decode_steps(
    words: Words<'_>,
    program: &Program,
    tables: &Tables,
    tb: usize,
    cursor: &mut usize,
) -> Result<Vec<Step>, Corrupt> {
    let mut steps = Vec::new();
    while steps.len() < tables.steps[tb] {
        let bundle = decode_bundle(words, program, tables, tb, *cursor)?;
        *cursor += words_of(&bundle);
        steps.extend(bundle);
    }
    if steps.len() > tables.steps[tb] {
        let message = format!("expected {} steps, found more in a bundle", tables.steps[tb]);
        return Err(corrupt(*cursor, message));
    }
    Ok(steps)
}

/// The steps that `step` stands for, which has the first word `head`: several that run as one, or
/// itself.
fn unbundled(head: u32, whole: Step) -> Result<Vec<Step>, String> {
    if head & step::BUNDLE == 0 {
        return match shape::fault(&whole) {
            Some(fault) => Err(fault),
            None => Ok(vec![whole]),
        };
    }
    let Step {
        kind: _,
        completes,
        signals,
        waits,
        sources,
        raw,
        destinations,
        count,
        bundled: _,
        far,
    } = whole;
    let fits = sources.len() == destinations.len() && sources.len() > 1 && count == 1;
    if !fits || completes || !raw.is_empty() {
        return Err(format!(
            "expected a bundle of at least two copies of one chunk, each from one place to one \
             other; found {} sources and {} destinations of {count} chunks",
            sources.len(),
            destinations.len()
        ));
    }
    let (count_of_all, mut waits) = (sources.len(), Some(waits));
    let far_of = |at: usize| {
        let far = [at, count_of_all + at].map(|at| far.get(at).copied().flatten());
        if far.iter().any(Option::is_some) { far.to_vec() } else { Vec::new() }
    };
    let pairs = sources.into_iter().zip(destinations).enumerate();
    Ok(pairs
        .map(|(at, (source, destination))| {
            let (sources, destinations) = (vec![source], vec![destination]);
            Step {
                kind: shape::kind(&sources, &destinations),
                completes,
                signals: signals && at + 1 == count_of_all,
                waits: waits.take().unwrap_or_default(),
                sources,
                raw: Vec::new(),
                destinations,
                count,
                bundled: at > 0,
                far: far_of(at),
            }
        })
        .collect())
}

/// Several steps that run as one, or one alone.
fn decode_bundle(
    words: Words<'_>,
    program: &Program,
    tables: &Tables,
    tb: usize,
    at: usize,
) -> Result<Vec<Step>, Corrupt> {
    const LOW: u32 = u16::MAX as u32;
    let head = words.get(at + step::HEAD as usize)?;
    let operands = words.get(at + step::OPERANDS as usize)?;
    let count = words.get(at + step::COUNT as usize)?;
    let first_wait = at + step::LENGTH;
    let first_source = first_wait + (head >> step::WAITS_SHIFT) as usize;
    let first_destination = first_source + (operands & LOW) as usize;
    let end = first_destination + (operands >> step::DESTINATIONS_SHIFT) as usize;

    let far_words = if head & step::FAR == 0 { 0 } else { end - first_source };
    let far = (end..end + far_words).map(|at| decode_far(words, at));

    let block = &program.thread_blocks[tb];
    let operand = |at, sends| decode_operand(words, program, block, at, count, sends);
    let raw: Vec<_> = (first_source..first_destination)
        .map(|at| words.get(at).map(|word| word & operand::RAW != 0))
        .collect::<Result<_, _>>()?;
    let waits = (first_wait..first_source).map(|at| decode_wait(words, tables, tb, at));
    let step = Step {
        kind: StepKind::Nop,
        completes: head & step::COMPLETES != 0,
        signals: head & step::SIGNALS != 0,
        waits: waits.collect::<Result<_, _>>()?,
        sources: (first_source..first_destination)
            .map(|at| operand(at, false))
            .collect::<Result<_, _>>()?,
        raw: if raw.contains(&true) { raw } else { Vec::new() },
        destinations: (first_destination..end)
            .map(|at| operand(at, true))
            .collect::<Result<_, _>>()?,
        count,
        bundled: false,
        far: far.collect::<Result<_, _>>()?,
    };
    let kind = shape::kind(&step.sources, &step.destinations);
    unbundled(head, Step { kind, ..step }).map_err(|fault| corrupt(at, fault))
}

/// A slot of a peer: how many it has is not known here.
fn decode_far(words: Words<'_>, at: usize) -> Result<Option<Slot>, Corrupt> {
    let word = words.get(at)?;
    let slot = |buffer| Some(Slot::new(buffer, word & operand::INDEX_MASK));
    match word >> operand::PLACE_SHIFT {
        _ if word == operand::NOT_FAR => Ok(None),
        operand::PLACE_INPUT => Ok(slot(Buffer::Input)),
        operand::PLACE_OUTPUT => Ok(slot(Buffer::Output)),
        _ => Err(corrupt(at, format!("expected a slot of input or output, found {word:#x}"))),
    }
}

fn decode_wait(words: Words<'_>, tables: &Tables, own: usize, at: usize) -> Result<Wait, Corrupt> {
    let word = words.get(at)?;
    let tb = (word >> operand::WAIT_TB_SHIFT) as usize;
    let step = (word & operand::WAIT_STEP_MASK) as usize;
    let exists = tables.steps.get(tb).is_some_and(|&steps| step < steps);
    let wait = Wait { tb: TbIndex::from(tb), step: StepIndex::from(step) };
    if tb == own || !exists {
        let message = format!("expected a step of another thread block, found {wait}");
        return Err(corrupt(at, message));
    }
    Ok(wait)
}

fn decode_operand(
    words: Words<'_>,
    program: &Program,
    block: &ThreadBlock,
    at: usize,
    count: u32,
    sends: bool,
) -> Result<Operand, Corrupt> {
    let word = words.get(at)?;
    let index = word & operand::INDEX_MASK;
    let geometry = &program.geometry;
    let (buffer, chunks) = match word >> operand::PLACE_SHIFT {
        operand::PLACE_INPUT => (Buffer::Input, geometry.input_chunks),
        operand::PLACE_OUTPUT => (Buffer::Output, geometry.output_chunks),
        operand::PLACE_SCRATCH => (Buffer::Scratch, geometry.scratch_chunks),
        _ => return decode_link(block, at, index, sends),
    };
    let slot = Slot::new(buffer, index);
    if u64::from(index) + u64::from(count) > u64::from(chunks) {
        let message = format!("{} exceeds the buffer's {chunks} chunks", slot.run(count));
        return Err(corrupt(at, message));
    }
    Ok(Operand::Local(slot))
}

fn decode_link(block: &ThreadBlock, at: usize, link: u32, sends: bool) -> Result<Operand, Corrupt> {
    let first = if sends { block.receives.len() } else { 0 };
    let end = if sends { first + block.sends.len() } else { block.receives.len() };
    if !(first..end).contains(&(link as usize)) {
        let way = if sends { "an outgoing" } else { "an incoming" };
        let message = format!("expected {way} link in {first}..{end}, found link{link}");
        return Err(corrupt(at, message));
    }
    Ok(Operand::Link(link))
}

//! What holds of every well-formed step, whatever its thread block.

use msccl_collective::{Rank, TbIndex};
use msccl_ir::{Place, StepKind};

use crate::program::{Operand, Step, ThreadBlock};

/// The field's name for a step with these operands.
pub(crate) fn kind(sources: &[Operand], destinations: &[Operand]) -> StepKind {
    let place = |operand: &Operand| match *operand {
        Operand::Local(slot) => Place::Local(slot),
        // Only whether a place is a link matters to the shape.
        Operand::Link(link) => Place::Link(Rank(link)),
    };
    let sources = sources.iter().map(place).collect();
    let destinations = destinations.iter().map(place).collect();
    msccl_ir::Step { sources, destinations, ..msccl_ir::Step::default() }.kind()
}

/// What is wrong with the operands of `step` taken together, if anything is.
pub(crate) fn fault(step: &Step) -> Option<String> {
    let (sources, destinations, count) = (step.sources.len(), step.destinations.len(), step.count);
    let empty = sources == 0 && destinations == 0 && count == 0;
    let full = sources > 0 && destinations > 0 && count > 0;
    if !empty && !full {
        return Some(format!(
            "expected sources, destinations and a count, or none of them; found {sources} sources, \
             {destinations} destinations and count {count}"
        ));
    }
    let twice = repeated_link(&step.sources).or_else(|| repeated_link(&step.destinations));
    twice.map(|link| format!("expected one message per link, found link{link} twice"))
}

fn repeated_link(operands: &[Operand]) -> Option<u32> {
    let link = |operand: &Operand| match *operand {
        Operand::Link(link) => Some(link),
        Operand::Local(_) => None,
    };
    let mut links: Vec<_> = operands.iter().filter_map(link).collect();
    links.sort_unstable();
    links.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// For every step of every thread block: whether some step waits for it.
pub(crate) fn awaited(thread_blocks: &[ThreadBlock]) -> Vec<Vec<bool>> {
    let mut awaited: Vec<_> =
        thread_blocks.iter().map(|block| vec![false; block.steps.len()]).collect();
    let waits = thread_blocks.iter().flat_map(|block| &block.steps).flat_map(|step| &step.waits);
    for wait in waits {
        let TbIndex(tb) = wait.tb;
        let step = awaited.get_mut(tb as usize).and_then(|steps| steps.get_mut(wait.step.index()));
        if let Some(step) = step {
            *step = true;
        }
    }
    awaited
}

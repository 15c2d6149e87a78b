//! What a recording says of a plan.

use msccl_collective::{StepIndex, TbIndex};
use msccl_ir::{StepKind, StepRef};
use msccl_plan::{Operand, Program, Step, ThreadBlock};

use crate::recording::{
    LinkEnd, PlanDescription, SlotRange, StepAddress, StepDescription, StepShape,
    ThreadBlockDescription,
};

/// What of a plan its program does not say.
#[derive(Clone, Copy, Debug)]
pub struct PlanName<'a> {
    /// The number by which call shapes name the plan.
    pub id: u32,
    /// Name of the algorithm.
    pub algorithm: &'a str,
    /// Name of the text that lines are about, if there is one.
    pub source: Option<&'a str>,
}

/// How steps run that the plan takes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepGrouping {
    /// As one, with one record, as kernels run them.
    Bundles,
    /// One by one, as host threads run them.
    Single,
}

/// Describes the plan of one rank. `line` gives the line of the source behind each step.
pub fn describe(
    name: PlanName<'_>,
    program: &Program,
    grouping: StepGrouping,
    line: impl Fn(StepRef) -> Option<u32>,
) -> PlanDescription {
    let PlanName { id, algorithm, source } = name;
    let mut numbers = program.link_numbers();
    let mut describe_block = |(tb, block): (usize, &ThreadBlock)| {
        let mut end = |peer: &msccl_collective::Rank| LinkEnd {
            peer: peer.0,
            number: numbers.next().unwrap_or(0),
        };
        let receives = block.receives.iter().map(&mut end).collect();
        let sends = block.sends.iter().map(&mut end).collect();
        let line = |step: usize| {
            let at =
                StepRef { rank: program.rank, tb: TbIndex::from(tb), step: StepIndex::from(step) };
            line(at)
        };
        let steps = steps(block, grouping, line);
        ThreadBlockDescription { channel: block.channel.0, receives, sends, steps }
    };
    let thread_blocks = program.thread_blocks.iter().enumerate().map(&mut describe_block);
    let thread_blocks = thread_blocks.collect();
    let source = source.map(str::to_owned);
    PlanDescription { id, algorithm: algorithm.to_owned(), source, thread_blocks }
}

fn steps(
    block: &ThreadBlock,
    grouping: StepGrouping,
    line: impl Fn(usize) -> Option<u32>,
) -> Vec<StepDescription> {
    let mut first = 0;
    let describe_bundle = |bundle: &[Step]| {
        let index = first;
        first += bundle.len();
        let operands = |of: fn(&Step) -> &[Operand]| bundle.iter().flat_map(of).filter_map(link);
        let sends_from = block.receives.len() as u32;
        let waits = bundle.iter().flat_map(|step| &step.waits);
        let waits = waits.map(|wait| StepAddress { thread_block: wait.tb.0, step: wait.step.0 });
        StepDescription {
            index: index as u32,
            bundled: bundle.len() as u32,
            shape: shape_of(bundle),
            count: bundle.iter().map(|step| step.count).max().unwrap_or(0),
            receives: operands(|step| &step.sources).collect(),
            sends: operands(|step| &step.destinations).map(|link| link - sends_from).collect(),
            waits: waits.collect(),
            reads: slots(bundle, |step| &step.sources),
            writes: slots(bundle, |step| &step.destinations),
            line: line(index),
            text: bundle.iter().map(|step| text(step, block)).collect::<Vec<_>>().join("; "),
        }
    };
    match grouping {
        StepGrouping::Bundles => block.bundles().map(describe_bundle).collect(),
        StepGrouping::Single => block.steps.chunks(1).map(describe_bundle).collect(),
    }
}

/// What steps touch of buffers.
fn slots(bundle: &[Step], operands: fn(&Step) -> &[Operand]) -> Vec<SlotRange> {
    let range = |step: &Step, operand: &Operand| match *operand {
        Operand::Local(slot) => Some(SlotRange {
            buffer: slot.buffer.letter().to_string(),
            first: slot.index,
            count: step.count,
        }),
        Operand::Link(_) => None,
    };
    let ranges = bundle.iter().flat_map(|step| {
        operands(step).iter().filter_map(|operand| range(step, operand)).collect::<Vec<_>>()
    });
    ranges.collect()
}

fn link(operand: &Operand) -> Option<u32> {
    match *operand {
        Operand::Local(_) => None,
        Operand::Link(link) => Some(link),
    }
}

/// The shape of steps that run as one: that of all, or a mix.
fn shape_of(bundle: &[Step]) -> StepShape {
    let mut shapes = bundle.iter().map(single_shape);
    let Some(first) = shapes.next() else { return StepShape::Nop };
    shapes.fold(first, |all, next| match all == next {
        true => all,
        false if all.reduces() || next.reduces() => StepShape::ManyReduce,
        false => StepShape::ManyCopy,
    })
}

fn single_shape(step: &Step) -> StepShape {
    match step.kind {
        StepKind::Nop => StepShape::Nop,
        StepKind::Send => StepShape::Send,
        StepKind::Recv => StepShape::Recv,
        StepKind::Copy => StepShape::Copy,
        StepKind::Reduce => StepShape::Reduce,
        StepKind::RecvCopySend => StepShape::RecvCopySend,
        StepKind::RecvReduceCopy => StepShape::RecvReduceCopy,
        StepKind::RecvReduceSend => StepShape::RecvReduceSend,
        StepKind::RecvReduceCopySend => StepShape::RecvReduceCopySend,
        StepKind::Many if step.sources.len() > 1 => StepShape::ManyReduce,
        StepKind::Many => StepShape::ManyCopy,
    }
}

/// `r1 + i[0] -> o[0], r2`, as in the text form of algorithms.
fn text(step: &Step, block: &ThreadBlock) -> String {
    let operand = |operand: &Operand| match *operand {
        Operand::Local(slot) => slot.run(step.count).to_string(),
        Operand::Link(link) => {
            let mut peers = block.receives.iter().chain(&block.sends);
            peers.nth(link as usize).map_or_else(String::new, ToString::to_string)
        }
    };
    let all = |of: &[Operand], between| of.iter().map(operand).collect::<Vec<_>>().join(between);
    match step.kind {
        StepKind::Nop => "wait".to_owned(),
        _ => format!("{} -> {}", all(&step.sources, " + "), all(&step.destinations, ", ")),
    }
}

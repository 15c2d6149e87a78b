//! Operand tables: what a thread block reads and writes in a round where each of its steps is one
//! message.
//!
//! A kernel that is to run a plan once, each step being one message, need not find operands step by
//! step: it can find all of them before it begins, one in each thread. For that it must know of
//! each, without a look at others, which chunk it is, and of a link, which of its messages. Such a
//! table says so, in one word for each operand of each chunk: step by step, of a step chunk by
//! chunk, of a chunk sources first. Steps that run as one count as one here.
//!
//! A thread block has a table if kernels can hold all that it finds.

use msccl_collective::Slot;

use crate::launch::PREFETCHED_OPERANDS_MAX;
use crate::layout::operand;
use crate::program::{Operand, Step, ThreadBlock};

/// An operand of one chunk of a step, in a round where every step is one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Where it is.
    pub(crate) place: FoundPlace,
    /// Whether it is a source, and a raw contribution.
    pub(crate) raw: bool,
}

/// Where such an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FoundPlace {
    /// A slot.
    Local(Slot),
    /// Chunk number `position` of message number `message` of link number `link`.
    Link { link: u32, message: u32, position: u32 },
}

/// What a thread block does in such a round.
pub(crate) struct Table {
    /// Its operands; empty if it has no table.
    pub(crate) operands: Vec<Found>,
    /// For each of its links, the messages that it carries.
    pub(crate) messages: Vec<u32>,
}

impl Table {
    /// That of `block`.
    pub(crate) fn of(block: &ThreadBlock) -> Self {
        let mut messages = vec![0; block.receives.len() + block.sends.len()];
        let taken: Vec<_> = block.bundles().map(|steps| take_up(steps, &mut messages)).collect();
        let all: u64 = taken.iter().map(|it| it.operands.len() as u64 * u64::from(it.count)).sum();
        let has_table = all <= u64::from(PREFETCHED_OPERANDS_MAX);
        let operands: Vec<_> =
            taken.iter().filter(|_| has_table).flat_map(TakenUp::chunks).collect();
        let fits = operands.iter().copied().all(Found::fits);
        Self { operands: if fits { operands } else { Vec::new() }, messages }
    }
}

/// Chunks in the longest step of any of `blocks`.
pub(crate) fn longest_step(blocks: &[ThreadBlock]) -> u32 {
    let counts = blocks.iter().flat_map(|block| &block.steps).map(|step| step.count);
    counts.max().unwrap_or(0)
}

/// Steps that run as one.
struct TakenUp {
    /// Chunks in every operand.
    count: u32,
    /// Sources first.
    operands: Vec<TakenOperand>,
}

/// An operand of all chunks of such steps.
#[derive(Clone, Copy)]
struct TakenOperand {
    operand: Operand,
    /// Of a link, the number of its message among those of the link.
    message: u32,
    raw: bool,
}

/// `messages` are those that each link has carried before `steps`, and then after.
fn take_up(steps: &[Step], messages: &mut [u32]) -> TakenUp {
    let source = |step: &'_ Step, at: usize| (step.sources[at], step.is_raw(at));
    let sources =
        steps.iter().flat_map(|step| (0..step.sources.len()).map(move |at| source(step, at)));
    let destinations = steps.iter().flat_map(|step| &step.destinations);
    let operands = sources.chain(destinations.map(|&destination| (destination, false)));
    let mut number = |operand: Operand| match operand {
        Operand::Local(_) => 0,
        Operand::Link(link) => messages.get_mut(link as usize).map_or(0, |messages| {
            *messages += 1;
            *messages - 1
        }),
    };
    let taken = |(operand, raw)| TakenOperand { operand, message: number(operand), raw };
    let operands = operands.map(taken).collect();
    TakenUp { count: steps.first().map_or(0, |step| step.count), operands }
}

impl TakenUp {
    /// The operands of each chunk.
    fn chunks(&self) -> impl Iterator<Item = Found> {
        let of_chunk = |chunk| {
            self.operands.iter().map(move |&TakenOperand { operand, message, raw }| {
                let place = match operand {
                    Operand::Local(Slot { buffer, index }) => {
                        FoundPlace::Local(Slot::new(buffer, index + chunk))
                    }
                    Operand::Link(link) => FoundPlace::Link { link, message, position: chunk },
                };
                Found { place, raw }
            })
        };
        (0..self.count).flat_map(of_chunk)
    }
}

impl Found {
    /// Whether its fields can hold it.
    fn fits(self) -> bool {
        let below = |value: u32, bits: u32| value < 1 << bits;
        match self.place {
            FoundPlace::Local(_) => true,
            FoundPlace::Link { link, message, position } => {
                below(link, operand::TABLE_LINK_BITS)
                    && below(message, operand::TABLE_MESSAGE_BITS)
                    && below(position, operand::TABLE_POSITION_BITS)
            }
        }
    }
}

const _: () = assert!(
    operand::RAW
        == 1 << (operand::TABLE_LINK_BITS
            + operand::TABLE_MESSAGE_BITS
            + operand::TABLE_POSITION_BITS)
);

#[cfg(test)]
mod tests {
    use msccl_collective::{Buffer, Channel, Rank};
    use msccl_ir::StepKind;

    use super::*;
    use crate::shape;

    fn slot(index: u32) -> Operand {
        Operand::Local(Slot::new(Buffer::Output, index))
    }

    fn step(sources: &[Operand], destinations: &[Operand], count: u32, bundled: bool) -> Step {
        let (sources, destinations) = (sources.to_vec(), destinations.to_vec());
        let kind = match sources.is_empty() {
            true => StepKind::Nop,
            false => shape::kind(&sources, &destinations),
        };
        let (completes, signals, waits) = (false, false, Vec::new());
        let (raw, far) = (Vec::new(), Vec::new());
        Step { kind, completes, signals, waits, sources, raw, destinations, count, bundled, far }
    }

    /// One link in, number 0; two out, 1 and 2.
    fn block(steps: Vec<Step>) -> ThreadBlock {
        let (receives, sends) = (vec![Rank(1)], vec![Rank(1), Rank(2)]);
        ThreadBlock { channel: Channel(0), receives, sends, deliveries: Vec::new(), steps }
    }

    fn local(index: u32) -> Found {
        Found { place: FoundPlace::Local(Slot::new(Buffer::Output, index)), raw: false }
    }

    fn link(link: u32, message: u32, position: u32) -> Found {
        Found { place: FoundPlace::Link { link, message, position }, raw: false }
    }

    #[test]
    fn chunks_stand_one_after_another_and_messages_are_counted() {
        let block = block(vec![
            step(&[slot(4)], &[Operand::Link(1)], 2, false),
            step(&[], &[], 0, false),
            step(&[Operand::Link(0), slot(7)], &[slot(7), Operand::Link(1)], 1, false),
        ]);
        let first = [local(4), link(1, 0, 0), local(5), link(1, 0, 1)];
        let last = [link(0, 0, 0), local(7), local(7), link(1, 1, 0)];
        let Table { operands, messages } = Table::of(&block);
        assert_eq!(operands, [first, last].concat());
        assert_eq!(messages, [1, 2, 0]);
        assert_eq!(longest_step(&[block]), 2);
    }

    #[test]
    fn sources_of_a_bundle_come_before_all_its_destinations() {
        let block = block(vec![
            step(&[slot(0)], &[Operand::Link(1)], 1, false),
            step(&[slot(1)], &[Operand::Link(2)], 1, true),
        ]);
        let Table { operands, messages } = Table::of(&block);
        assert_eq!(operands, [local(0), local(1), link(1, 0, 0), link(2, 0, 0)]);
        assert_eq!(messages, [0, 1, 1]);
    }

    #[test]
    fn what_no_kernel_can_hold_has_no_table() {
        let of_step =
            |chunks| Table::of(&block(vec![step(&[slot(0)], &[Operand::Link(1)], chunks, false)]));
        assert_eq!(
            of_step(PREFETCHED_OPERANDS_MAX / 2).operands.len(),
            PREFETCHED_OPERANDS_MAX as usize
        );
        assert_eq!(of_step(PREFETCHED_OPERANDS_MAX / 2 + 1).operands, []);
        // It carries the message all the same.
        assert_eq!(of_step(u32::MAX).messages, [0, 1, 0]);
    }
}

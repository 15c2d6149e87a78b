//! The meaning of one step.

use std::ops::Range;

use msccl_collective::Slot;
use msccl_ir::{Place, Step};

/// What a rank's thread block works on: its memory, its link ends, and a domain of values.
///
/// A chunk of a step is `read`, `add`, …, `add`, `round`, `write`, …, `write`. A place is one
/// chunk: for [`Place::Local`] the slot itself, for [`Place::Link`] the next chunk of the current
/// message of that link. A message holds the chunks of one piece of a step in ascending order, and
/// every piece touches each of its links' messages from the first chunk to the last.
pub trait Machine {
    /// A sum under way. It may be more precise than what memory and messages hold.
    type Sum;
    /// What memory and messages hold.
    type Value;
    /// Why a read or a write can fail; [`std::convert::Infallible`] if it cannot.
    type Error;

    /// The chunk at `from`, as the start of a sum.
    ///
    /// # Errors
    ///
    /// Whatever the machine reports.
    fn read(&mut self, from: Place) -> Result<Self::Sum, Self::Error>;

    /// `sum` combined with the chunk at `from`, in that order.
    ///
    /// # Errors
    ///
    /// Whatever the machine reports.
    fn add(&mut self, sum: Self::Sum, from: Place) -> Result<Self::Sum, Self::Error>;

    /// The finished sum as memory and messages hold it: rounded once, to the storage type.
    fn round(&mut self, sum: Self::Sum) -> Self::Value;

    /// Puts `value` into the slot, or appends it to the current message of the link.
    ///
    /// # Errors
    ///
    /// Whatever the machine reports.
    fn write(&mut self, to: Place, value: &Self::Value) -> Result<(), Self::Error>;
}

/// Executes the chunks `chunks` of `step`: for each, reads the sources, combines them in the order
/// written, rounds once, and writes the result to every destination.
///
/// Waits are the caller's affair, and so are the messages: before a piece runs, every message that
/// it takes has arrived and there is room for every message that it sends.
///
/// Going chunk by chunk equals reading everything first, because validation makes a source region
/// equal to a destination region or disjoint from it.
///
/// # Errors
///
/// The first error of the machine; later chunks are then not touched.
pub fn execute<M: Machine>(
    step: &Step,
    chunks: Range<u32>,
    machine: &mut M,
) -> Result<(), M::Error> {
    let [first, rest @ ..] = step.sources.as_slice() else {
        return Ok(());
    };
    for offset in chunks {
        let mut sum = machine.read(chunk_of(*first, offset))?;
        for &source in rest {
            sum = machine.add(sum, chunk_of(source, offset))?;
        }
        let value = machine.round(sum);
        for &destination in &step.destinations {
            machine.write(chunk_of(destination, offset), &value)?;
        }
    }
    Ok(())
}

/// Chunk `offset` of a place of a step.
fn chunk_of(place: Place, offset: u32) -> Place {
    match place {
        Place::Local(Slot { buffer, index }) => {
            Place::Local(Slot { buffer, index: index + offset })
        }
        Place::Link(peer) => Place::Link(peer),
    }
}

/// The pieces in which `step` runs when a message carries up to `chunks_per_message` chunks: each
/// piece takes one message from every incoming link and sends one to every outgoing link.
///
/// A step without links is one piece, and so is a step that only waits (an empty one).
pub fn pieces(step: &Step, chunks_per_message: u32) -> impl ExactSizeIterator<Item = Range<u32>> {
    let count = step.count;
    let length = if touches_link(step) { chunks_per_message.max(1) } else { count.max(1) };
    (0..count.div_ceil(length).max(1)).map(move |piece| {
        let start = piece * length;
        start..start.saturating_add(length).min(count)
    })
}

/// Whether the step takes or sends messages.
pub(crate) fn touches_link(step: &Step) -> bool {
    let is_link = |place: &Place| matches!(place, Place::Link(_));
    step.sources.iter().any(is_link) || step.destinations.iter().any(is_link)
}

//! One call under way: memory, links and counters, and how a thread block goes on in it.

use std::sync::atomic::{AtomicU64, Ordering};

use msccl_collective::{Buffer, Rank, Slot};
use msccl_ir::{Place, StepRef, Wait};
use msccl_machine::Reason;

use super::arithmetic::Arithmetic;
use super::bind::{Block, Bound, BoundStep};
use super::lane::{Lane, Staging};
use super::link::Link;
use super::memory::Shared;
use super::pool::{Pool, Turn};
use super::rank_memory::RankMemory;
use super::slicing::Slicing;
use super::stall::Blocked;

/// Pieces that a thread block moves before others have their turn.
const SHARE: u32 = 64;

/// Everything that the thread blocks of one call share.
pub(crate) struct Engine<'a> {
    pub(crate) bound: &'a Bound,
    pub(crate) slicing: Slicing,
    pub(crate) arithmetic: &'static dyn Arithmetic,
    /// Contributions to a complete value, by which `avg` divides.
    pub(crate) contributions: u32,
    /// By rank.
    pub(crate) memory: Vec<RankMemory>,
    links: Vec<Link>,
    /// By thread block; the end of step `s` in round `k` brings one to `k * stride + s + 1`.
    signals: Vec<AtomicU64>,
}

/// How far a thread block has come.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cursor {
    pub(crate) round: usize,
    pub(crate) step: usize,
    /// The first chunk of the next piece.
    pub(crate) chunk: u32,
}

/// What a worker thread keeps for itself.
#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) staging: Staging,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl<'a> Engine<'a> {
    /// A call over `memory`; `None` if its links would exceed the address space.
    pub(crate) fn new(
        bound: &'a Bound,
        slicing: Slicing,
        link_depth: u32,
        memory: Vec<RankMemory>,
        arithmetic: &'static dyn Arithmetic,
        contributions: u32,
    ) -> Option<Self> {
        let slice_bytes = if slicing.rounds() == 0 { 0 } else { slicing.slice_bytes(0) };
        let links = bound.links.iter().map(|ends| {
            let chunks = ends.largest_count.min(slicing.chunks_per_message) as usize;
            Link::new(link_depth, chunks.checked_mul(slice_bytes)?)
        });
        let links = links.collect::<Option<Vec<_>>>()?;
        let signals = bound.blocks.iter().map(|_| AtomicU64::new(0)).collect();
        Some(Self { bound, slicing, arithmetic, contributions, memory, links, signals })
    }

    /// Lets thread block `index` go on from `cursor` as far as it can.
    pub(crate) fn turn(
        &self,
        index: usize,
        cursor: &mut Cursor,
        worker: &mut Worker,
        pool: &Pool,
    ) -> Turn {
        let block = &self.bound.blocks[index];
        for _ in 0..SHARE {
            if cursor.round == self.slicing.rounds() {
                return Turn::Finished;
            }
            let Some(bound) = block.steps.get(cursor.step) else {
                *cursor = Cursor { round: cursor.round + 1, ..Cursor::default() };
                continue;
            };
            if self.missing(block, bound, cursor).is_some() {
                return Turn::Blocked;
            }
            self.fire(block, bound, cursor, worker, pool);
            self.go_on(index, bound, cursor, pool);
        }
        Turn::Yielded
    }

    /// Moves the piece at `cursor`, whose conditions hold.
    fn fire(
        &self,
        block: &Block,
        bound: &BoundStep,
        cursor: &Cursor,
        worker: &mut Worker,
        pool: &Pool,
    ) {
        let length = bound.piece_chunks(self.slicing.chunks_per_message);
        let end = cursor.chunk.saturating_add(length).min(bound.step.count);
        let chunks = cursor.chunk..end;
        let slice_bytes = self.slicing.slice_bytes(cursor.round);
        Lane::new(self, block, bound, cursor, &mut worker.staging).run(chunks.clone(), slice_bytes);
        for link in bound.step.receives().filter_map(|peer| block.link_from(peer)) {
            self.links[link].release();
            pool.wake(self.bound.links[link].sender);
        }
        for link in bound.step.sends().filter_map(|peer| block.link_to(peer)) {
            self.links[link].publish();
            pool.wake(self.bound.links[link].receiver);
            worker.messages += 1;
            worker.bytes += chunks.len() as u64 * slice_bytes as u64;
        }
    }

    /// Moves `cursor` past the piece that has fired, and signals the end of its step.
    fn go_on(&self, index: usize, bound: &BoundStep, cursor: &mut Cursor, pool: &Pool) {
        let length = bound.piece_chunks(self.slicing.chunks_per_message);
        cursor.chunk = cursor.chunk.saturating_add(length);
        if cursor.chunk < bound.step.count {
            return;
        }
        let block = &self.bound.blocks[index];
        if bound.signals {
            let value = self.signal_value(block, cursor.round, cursor.step);
            self.signals[index].store(value, Ordering::Release);
            block.waiters.iter().for_each(|&waiter| pool.wake(waiter));
        }
        *cursor = Cursor { round: cursor.round, step: cursor.step + 1, chunk: 0 };
    }

    fn signal_value(&self, block: &Block, round: usize, step: usize) -> u64 {
        (round * block.signal_stride + step + 1) as u64
    }

    /// The first thing that the piece at `cursor` lacks: an awaited step, a message, or room for
    /// one.
    fn missing(&self, block: &Block, bound: &BoundStep, cursor: &Cursor) -> Option<Missing> {
        let step = &bound.step;
        // Waits hold for a whole step, so later pieces need not look again.
        let mut waits = step.waits.iter().copied().filter(|_| cursor.chunk == 0);
        if let Some(wait) = waits.find(|&wait| !self.has_ended(block, wait, cursor.round)) {
            return Some(Missing::Step(wait));
        }
        let mut incoming = step.receives().filter_map(|from| Some((from, block.link_from(from)?)));
        if let Some((from, link)) = incoming.find(|&(_, link)| !self.links[link].has_message()) {
            return Some(Missing::Message(from, link));
        }
        let mut outgoing = step.sends().filter_map(|to| Some((to, block.link_to(to)?)));
        let (to, link) = outgoing.find(|&(_, link)| !self.links[link].has_room())?;
        Some(Missing::Room(to, link))
    }

    fn has_ended(&self, block: &Block, wait: Wait, round: usize) -> bool {
        let other = block.first_of_rank + wait.tb.index();
        let value = self.signal_value(block, round, wait.step.index());
        self.signals[other].load(Ordering::Acquire) >= value
    }

    /// Where thread block `index` stands and what it waits for; `None` if it can go on or is done.
    pub(crate) fn blocked(&self, index: usize, cursor: &Cursor) -> Option<Blocked> {
        let block = &self.bound.blocks[index];
        let bound = block.steps.get(cursor.step)?;
        let (rank, tb, channel) = (block.rank, block.tb, block.channel);
        let (reason, message) = match self.missing(block, bound, cursor)? {
            Missing::Step(wait) => (Reason::Signal(wait), None),
            Missing::Message(from, link) => {
                (Reason::Message { from, channel }, Some(self.links[link].taken()))
            }
            Missing::Room(to, link) => {
                let link = &self.links[link];
                let in_flight = link.sent() - link.taken();
                let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
                (Reason::Room { to, channel, in_flight }, Some(link.sent()))
            }
        };
        let at = StepRef { rank, tb, step: cursor.step.into() };
        Some(Blocked { at, round: cursor.round, reason, message })
    }

    /// The link at a place of `block`, if it is one that messages come from.
    pub(crate) fn incoming(&self, block: &Block, place: Place) -> Option<&Link> {
        match place {
            Place::Link(peer) => block.link_from(peer).map(|link| &self.links[link]),
            Place::Local(_) => None,
        }
    }

    /// The link at a place of `block`, if it is one that messages go to.
    pub(crate) fn outgoing(&self, block: &Block, place: Place) -> Option<&Link> {
        match place {
            Place::Link(peer) => block.link_to(peer).map(|link| &self.links[link]),
            Place::Local(_) => None,
        }
    }

    /// The memory of slice `round` of `slot`, and its bytes there, as far as they exist.
    pub(crate) fn slice(
        &self,
        rank: Rank,
        slot: Slot,
        round: usize,
    ) -> (&Shared, std::ops::Range<usize>) {
        let range = match slot.buffer {
            Buffer::Input | Buffer::Output => self.slicing.user_slice(slot.index, round),
            Buffer::Scratch => self.slicing.scratch_slice(slot.index, round),
        };
        let (memory, start) = self.memory[rank.index()].part(slot.buffer);
        (memory, start + range.start..start + range.end)
    }
}

/// What a piece lacks. Links come with their number.
enum Missing {
    Step(Wait),
    Message(Rank, usize),
    Room(Rank, usize),
}

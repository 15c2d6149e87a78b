//! One call under way: memory, links and counters, and what a thread block reaches of them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use msccl_collective::{Buffer, Rank};
use msccl_ir::{StepRef, Wait};
use msccl_machine::Reason;

use super::bind::{OracleBinding, OracleBlock};
use super::link::Link;
use super::pool::Pool;
use super::rank_memory::RankMemory;
use super::stall::Blocked;
use crate::walk::{Advance, CallContext, Cursor, Missing, Staging, ThreadBlockMemory};

/// Everything that the thread blocks of one call share.
pub(crate) struct OracleRun<'a> {
    pub(crate) bound: &'a OracleBinding,
    pub(crate) terms: CallContext,
    /// By rank.
    pub(crate) memory: Vec<RankMemory>,
    /// Who runs and who waits.
    pub(crate) pool: Pool,
    links: Vec<Link>,
    /// By thread block; the end of step `s` in round `k` brings one to `k * stride + s + 1`.
    signals: Vec<AtomicU64>,
}

/// What a worker thread keeps for itself.
#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) staging: Staging,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl<'a> OracleRun<'a> {
    /// A call over `memory`; `None` if its links would exceed the address space.
    pub(crate) fn new(
        bound: &'a OracleBinding,
        terms: CallContext,
        link_depth: u32,
        memory: Vec<RankMemory>,
    ) -> Option<Self> {
        let slice_bytes = terms.slicing.slice_bytes_max();
        let links = bound.links.iter().map(|ends| {
            let chunks = ends.largest_count.min(terms.slicing.chunks_per_message) as usize;
            Link::new(link_depth, chunks.checked_mul(slice_bytes)?)
        });
        let links = links.collect::<Option<Vec<_>>>()?;
        let signals = bound.blocks.iter().map(|_| AtomicU64::new(0)).collect();
        Some(Self { bound, terms, memory, pool: Pool::new(bound.blocks.len()), links, signals })
    }

    /// Lets thread block `index` go on from `cursor` as far as it can.
    pub(crate) fn advance(
        &self,
        index: usize,
        cursor: &mut Cursor,
        worker: &mut Worker,
    ) -> Advance {
        let mut thread_block = self.thread_block(index);
        let steps = &thread_block.block.steps;
        let turn = cursor.advance(steps, &self.terms, &mut thread_block, &mut worker.staging);
        worker.messages += thread_block.messages;
        worker.bytes += thread_block.bytes;
        turn
    }

    /// Where thread block `index` stands and what it waits for; `None` if it can go on or is done.
    pub(crate) fn blocked(&self, index: usize, cursor: &Cursor) -> Option<Blocked> {
        let mut thread_block = self.thread_block(index);
        let OracleBlock { rank, tb, channel, steps, .. } = thread_block.block;
        let (channel, link) = (*channel, |link: Option<usize>| link.map(|link| &self.links[link]));
        let (reason, message) = match cursor.missing(steps, &self.terms, &mut thread_block)? {
            Missing::Step(wait) => (Reason::Signal(wait), None),
            Missing::Message(from) => {
                let message = link(thread_block.block.link_from(from)).map(Link::taken);
                (Reason::Message { from, channel }, message)
            }
            Missing::Room(to) => {
                let link = link(thread_block.block.link_to(to))?;
                let in_flight = link.sent() - link.taken();
                let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
                (Reason::Room { to, channel, in_flight }, Some(link.sent()))
            }
        };
        let at = StepRef { rank: *rank, tb: *tb, step: cursor.step.into() };
        Some(Blocked { at, round: cursor.pass.round as usize, reason, message })
    }

    fn thread_block(&self, index: usize) -> OracleThreadBlock<'_> {
        OracleThreadBlock {
            run: self,
            index,
            block: &self.bound.blocks[index],
            messages: 0,
            bytes: 0,
        }
    }
}

/// What thread block `index` reaches.
struct OracleThreadBlock<'a> {
    run: &'a OracleRun<'a>,
    index: usize,
    block: &'a OracleBlock,
    messages: u64,
    bytes: u64,
}

impl OracleThreadBlock<'_> {
    fn signal_value(&self, round: u32, step: usize) -> u64 {
        (round as usize * self.block.signal_stride + step + 1) as u64
    }

    fn link_from(&self, from: Rank) -> Option<&Link> {
        self.block.link_from(from).map(|link| &self.run.links[link])
    }

    fn link_to(&self, to: Rank) -> Option<&Link> {
        self.block.link_to(to).map(|link| &self.run.links[link])
    }
}

impl ThreadBlockMemory for OracleThreadBlock<'_> {
    fn has_ended(&self, wait: Wait, round: u32) -> bool {
        let other = self.block.first_of_rank + wait.tb.index();
        let value = self.signal_value(round, wait.step.index());
        self.run.signals[other].load(Ordering::Acquire) >= value
    }

    fn has_message(&mut self, from: Rank) -> bool {
        self.link_from(from).is_none_or(Link::has_message)
    }

    fn has_room(&mut self, to: Rank) -> bool {
        self.link_to(to).is_none_or(Link::has_room)
    }

    fn load(&mut self, buffer: Buffer, range: Range<usize>, into: &mut [u8]) {
        let (memory, start) = self.run.memory[self.block.rank.index()].part(buffer);
        memory.read(start + range.start..start + range.end, into);
    }

    fn store(&mut self, buffer: Buffer, start: usize, bytes: &[u8]) {
        let (memory, part) = self.run.memory[self.block.rank.index()].part(buffer);
        memory.write(part + start, bytes);
    }

    fn take(&mut self, from: Rank, offset: usize, into: &mut [u8]) {
        if let Some(link) = self.link_from(from) {
            link.read(offset, into);
        }
    }

    fn put(&mut self, to: Rank, offset: usize, bytes: &[u8]) {
        if let Some(link) = self.link_to(to) {
            link.write(offset, bytes);
        }
    }

    fn release(&mut self, from: Rank, _bytes: usize) {
        if let Some(link) = self.block.link_from(from) {
            self.run.links[link].release();
            self.run.pool.wake(self.run.bound.links[link].sender);
        }
    }

    fn publish(&mut self, to: Rank, bytes: usize) {
        if let Some(link) = self.block.link_to(to) {
            self.run.links[link].publish();
            self.run.pool.wake(self.run.bound.links[link].receiver);
            self.messages += 1;
            self.bytes += bytes as u64;
        }
    }

    fn signal(&mut self, step: usize, round: u32) {
        let value = self.signal_value(round, step);
        self.run.signals[self.index].store(value, Ordering::Release);
        self.block.waiters.iter().for_each(|&waiter| self.run.pool.wake(waiter));
    }
}

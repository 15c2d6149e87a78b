//! Steps of a thread block: waits, messages, slices, flags.

use msccl_collective::Protocol;

use super::super::ITERATIONS;
use super::super::parse::{Block, Kind, Transfer};
use super::super::proxy::Wire;
use super::{Fifo, Phase, Run, Thread, WORK_INDEX};

impl Run<'_> {
    pub(super) fn wait(&mut self, at: usize, code: &Block, transfer: &Transfer) -> bool {
        let (rank, round) = (self.blocks[at].rank as usize, self.blocks[at].round);
        let (first, number) = transfer.dependences;
        let steps = self.interpreter.steps() as u64;
        let seen = (0..number).filter(|&thread| (thread as u64) < self.threads).all(|thread| {
            let (block, step) = code.dependences[first + thread];
            let current = usize::try_from(block).ok().and_then(|block| self.flags[rank].get(block));
            current.is_some_and(|&current| {
                current >= self.flag(round, step) && current / (ITERATIONS * steps) == WORK_INDEX
            })
        });
        if seen {
            let thread = &mut self.blocks[at];
            thread.step += (number as i64 - 1).max(0);
            (thread.phase, thread.chunk) = (Phase::Message, 0);
        }
        seen
    }

    /// The next message of a step, or its end.
    pub(super) fn begin(&mut self, at: usize, code: &Block, transfer: &Transfer) -> bool {
        if self.blocks[at].chunk >= transfer.count {
            self.end_step(at, code, transfer);
            return true;
        }
        let is_packet = self.protocol() != Protocol::Simple;
        if let Some(link) = self.outgoing(at, code, transfer).filter(|_| is_packet) {
            let fifo = &mut self.fifos[link];
            // `NCCL_STEPS` messages.
            let is_full = match &fifo.wire {
                Some(wire) => !wire.has_room(),
                None => fifo.posted >= fifo.freed + 8,
            };
            if is_full {
                return false;
            }
            fifo.wire.iter_mut().for_each(Wire::announce);
        }
        (self.blocks[at].phase, self.blocks[at].slice) = (Phase::Slice, 0);
        true
    }

    pub(super) fn begin_slice(&mut self, at: usize, code: &Block, transfer: &Transfer) -> bool {
        if self.protocol() == Protocol::Simple {
            let (outgoing, incoming) =
                (self.outgoing(at, code, transfer), self.incoming(at, code, transfer));
            // Two of eight steps a slice.
            let room = |fifo: &Fifo| match &fifo.wire {
                Some(wire) => wire.has_room(),
                None => fifo.posted < fifo.freed + 4,
            };
            let there = |fifo: &Fifo| match &fifo.wire {
                Some(wire) => wire.has_slice(),
                None => fifo.posted > fifo.freed,
            };
            let is_ready = outgoing.is_none_or(|link| room(&self.fifos[link]))
                && incoming.is_none_or(|link| there(&self.fifos[link]));
            if !is_ready {
                return false;
            }
            let wire = outgoing.and_then(|link| self.fifos[link].wire.as_mut());
            wire.into_iter().for_each(Wire::announce);
        }
        let elements = self.elements(at, code, transfer);
        self.blocks[at].elements = elements;
        self.blocks[at].phase = Phase::Elements;
        true
    }

    pub(super) fn end_slice(&mut self, at: usize, code: &Block, transfer: &Transfer) {
        let (outgoing, incoming) =
            (self.outgoing(at, code, transfer), self.incoming(at, code, transfer));
        let simple = self.protocol() == Protocol::Simple;
        if simple && outgoing.is_some() {
            self.flush(at);
        }
        if let Some(fifo) = outgoing.map(|link| &mut self.fifos[link]) {
            fifo.posted += 1;
            fifo.wire.iter_mut().for_each(Wire::post);
        }
        if let Some(fifo) = incoming.map(|link| &mut self.fifos[link]) {
            fifo.freed += 1;
            fifo.wire.iter_mut().for_each(Wire::free);
        }
        let links = outgoing.is_some() || incoming.is_some();
        if simple && links && self.blocks[at].slice == 0 {
            (self.blocks[at].slice, self.blocks[at].phase) = (1, Phase::Slice);
            return;
        }
        outgoing.into_iter().for_each(|link| self.fifos[link].sent += 1);
        incoming.into_iter().for_each(|link| self.fifos[link].taken += 1);
        let thread = &mut self.blocks[at];
        if thread.chunk == 0 && transfer.kind == Kind::Reduce {
            thread.step += transfer.reductions.1 as i64 - 1;
        }
        thread.chunk += self.max_count;
        thread.phase = Phase::Message;
    }

    pub(super) fn end_step(&mut self, at: usize, code: &Block, transfer: &Transfer) {
        if transfer.signals {
            self.flush(at);
            let Thread { rank, number, round, step, .. } = self.blocks[at];
            self.flags[rank as usize][number] = self.flag(round, step);
        }
        let thread = &mut self.blocks[at];
        (thread.step, thread.at, thread.phase) = (thread.step + 1, thread.at + 1, Phase::Waits);
        if thread.at == code.transfers.len() {
            (thread.step, thread.at, thread.round) = (0, 0, thread.round + 1);
        }
    }
}

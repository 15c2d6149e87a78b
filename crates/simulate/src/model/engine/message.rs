//! The messages of thread blocks: what each needs, when it begins, moves and ends.

use super::state::{Event, Missing, SpanStart};
use super::{AT_ONCE_NS, Engine};
use crate::model::result::{Cause, Span};
use crate::model::sharing::Flow;
use crate::model::workload::{Execution, Op};

use msccl_collective::{Rank, TbIndex};

impl<'a> Engine<'a> {
    /// Schedules the next message of a thread block, or parks it at what is missing.
    pub(super) fn look(&mut self, block: usize) {
        let Some(op) = self.op(block) else { return };
        if self.blocks[block].begun {
            return;
        }
        match self.ready_ns(block, op) {
            Ok((at_ns, cause)) => {
                (self.blocks[block].begun, self.blocks[block].cause) = (true, cause);
                self.at(at_ns.max(self.now_ns), Event::Begin(block));
            }
            Err(Missing::Op(other, end)) => self.blocks[other].waiters.push((end, block)),
            Err(Missing::Message(link)) => self.links[link].receiver_parked = true,
            Err(Missing::Room(link)) => self.links[link].sender_parked = true,
        }
    }

    /// When the next message of a thread block can begin, and what it waits for until then.
    fn ready_ns(&self, block: usize, op: &Op) -> Result<(f64, Cause), Missing> {
        let state = &self.blocks[block];
        let mut last = (state.free_ns, Cause::Program);
        let mut later = |ns: f64, cause: Cause| {
            if ns > last.0 {
                last = (ns, cause);
            }
        };
        if state.chunks == 0 {
            for &(other, of) in &op.waits {
                let end = state.round as usize * self.workload.blocks[other].ops.len() + of;
                let ended = self.blocks[other].ends_ns.get(end);
                let ended_ns = ended.ok_or(Missing::Op(other, end))?;
                later(ended_ns + self.kernel.signal_ns, Cause::Step(self.name(other)));
            }
        }
        for &link in &op.receives {
            let arrival = self.links[link].arrivals_ns.front();
            let sender = self.name(self.workload.links[link].sender);
            later(*arrival.ok_or(Missing::Message(link))?, Cause::Message(sender));
        }
        for &link in &op.sends {
            let credit = self.links[link].credits_ns.front();
            let receiver = self.name(self.workload.links[link].receiver);
            later(*credit.ok_or(Missing::Room(link))?, Cause::Room(receiver));
        }
        Ok(last)
    }

    fn name(&self, block: usize) -> (Rank, TbIndex) {
        let block = &self.workload.blocks[block];
        (block.rank, block.tb)
    }

    /// Takes what the message needs, and prepares its move.
    pub(super) fn begin(&mut self, block: usize) {
        let Some(op) = self.op(block) else { return };
        let streams = self.workload.execution.kernel.streams();
        let (mut tail_ns, mut tails) = (0.0_f64, 0);
        for &link in &op.receives {
            let state = &mut self.links[link];
            state.arrivals_ns.pop_front();
            if streams {
                match state.tails_ns.pop_front() {
                    Some(tail) => tail_ns = tail_ns.max(tail),
                    None => {
                        state.tail_parked = true;
                        tails += 1;
                    }
                }
            }
        }
        for &link in &op.sends {
            self.links[link].credits_ns.pop_front();
        }
        let waited = self.now_ns > self.blocks[block].free_ns + AT_ONCE_NS;
        let mut step_ns = self.kernel.step_ns;
        if !waited {
            step_ns += if op.receives.is_empty() { 0.0 } else { self.kernel.receive_ns };
            step_ns += if op.loads { self.kernel.load_ns } else { 0.0 };
        }
        let state = &mut self.blocks[block];
        (state.tail_ns, state.tails, state.moved) = (tail_ns, tails, false);
        let (wait_ns, start_ns, cause) = (state.free_ns, self.now_ns, state.cause);
        state.span.get_or_insert(SpanStart { wait_ns, start_ns, cause });
        self.at(self.now_ns + step_ns, Event::Move(block));
    }

    /// Bytes of a chunk in the round of a thread block.
    fn slice_bytes(&self, round: u32) -> f64 {
        let cut = &self.workload.execution.cut;
        let done = u64::from(round) * cut.slice_bytes;
        let part = cut.part_bytes.min(cut.chunk_bytes);
        cut.slice_bytes.min(part.saturating_sub(done)) as f64
    }

    /// Chunks in the message of a thread block.
    fn chunks(&self, block: usize, op: &Op) -> u32 {
        let left = op.count.saturating_sub(self.blocks[block].chunks);
        left.min(self.workload.execution.cut.chunks_per_message.max(1)).max(1)
    }

    pub(super) fn start_move(&mut self, block: usize) {
        let Some(op) = self.op(block) else { return };
        let bytes = self.slice_bytes(self.blocks[block].round) * f64::from(self.chunks(block, op));
        if self.workload.execution.kernel.streams() {
            self.send_streams(op);
        }
        if op.byte_ns <= 0.0 || bytes <= 0.0 {
            self.moved(block);
            return;
        }
        for of in &op.uses {
            self.link_bytes[of.resource as usize] += of.weight * bytes;
        }
        let Execution { kernel, threads, .. } = self.workload.execution;
        let at_once = kernel.bytes_at_once() * f64::from(kernel.movers(threads));
        let turns = (bytes / at_once).ceil() - 1.0;
        let slow = (turns * at_once / bytes).max(1e-9);
        self.flows.push(Flow {
            owner: block,
            left_bytes: bytes,
            rate_max: 1.0 / (op.byte_ns * slow),
            rate: 0.0,
            uses: op.uses.clone(),
        });
    }

    /// The first packets of messages are on their way.
    fn send_streams(&mut self, op: &Op) {
        for &link in &op.sends {
            let at_ns = self.now_ns + self.latency_ns(link);
            self.links[link].arrivals_ns.push_back(at_ns);
            self.wake_receiver(link);
        }
    }

    fn latency_ns(&self, link: usize) -> f64 {
        self.kernel.latency_ns + self.workload.links[link].path_ns
    }

    fn wake_receiver(&mut self, link: usize) {
        if std::mem::take(&mut self.links[link].receiver_parked) {
            self.look(self.workload.links[link].receiver);
        }
    }

    /// All bytes are where they belong, but those that are still to come.
    pub(super) fn moved(&mut self, block: usize) {
        let state = &mut self.blocks[block];
        state.moved = true;
        if state.tails > 0 {
            return;
        }
        let commit_ns = self.commit_ns(block);
        let at_ns = self.blocks[block].tail_ns.max(self.now_ns + commit_ns);
        if at_ns > self.now_ns + AT_ONCE_NS {
            self.at(at_ns, Event::Finish(block));
        } else {
            self.finish(block);
        }
    }

    /// How long a thread block waits for what its message has stored, if others will look for it.
    fn commit_ns(&self, block: usize) -> f64 {
        let aside = self.workload.execution.kernel.commits_aside();
        let sends = self.op(block).is_some_and(|op| !op.sends.is_empty());
        if sends && !aside { self.kernel.commit_ns } else { 0.0 }
    }

    pub(super) fn finish(&mut self, block: usize) {
        let Some(op) = self.op(block) else { return };
        let now_ns = self.now_ns;
        let bytes = self.slice_bytes(self.blocks[block].round) * f64::from(self.chunks(block, op));
        for &link in &op.sends {
            self.sent(link, bytes);
        }
        for &link in &op.receives {
            let path_ns = self.workload.links[link].path_ns;
            let state = &mut self.links[link];
            state.credits_ns.push_back(now_ns + self.kernel.credit_ns + path_ns);
            if std::mem::take(&mut state.sender_parked) {
                self.look(self.workload.links[link].sender);
            }
        }
        self.next_message(block, op);
        self.look(block);
    }

    fn sent(&mut self, link: usize, bytes: f64) {
        let aside = self.workload.execution.kernel.commits_aside();
        let commit_ns = if aside { self.kernel.commit_ns } else { 0.0 };
        let at_ns = self.now_ns + commit_ns + self.latency_ns(link);
        if self.workload.links[link].network.is_some() {
            self.links[link].staged.push_back((self.now_ns + self.kernel.latency_ns, bytes));
            self.at(self.now_ns + self.kernel.latency_ns, Event::Carry(link));
        } else if self.workload.execution.kernel.streams() {
            self.end_stream(link, at_ns);
        } else {
            self.links[link].arrivals_ns.push_back(at_ns);
            self.wake_receiver(link);
        }
    }

    /// The last packet of a message arrives at `at_ns`.
    fn end_stream(&mut self, link: usize, at_ns: f64) {
        let state = &mut self.links[link];
        if !std::mem::take(&mut state.tail_parked) {
            state.tails_ns.push_back(at_ns);
            return;
        }
        let block = self.workload.links[link].receiver;
        let state = &mut self.blocks[block];
        state.tails -= 1;
        state.tail_ns = state.tail_ns.max(at_ns);
        if state.moved && state.tails == 0 {
            let at_ns = state.tail_ns.max(self.now_ns);
            self.at(at_ns, Event::Finish(block));
        }
    }

    fn next_message(&mut self, block: usize, op: &Op) {
        let chunks = self.chunks(block, op);
        let count_of_ops = self.workload.blocks[block].ops.len();
        let now_ns = self.now_ns;
        let state = &mut self.blocks[block];
        state.begun = false;
        state.free_ns = now_ns;
        state.chunks += chunks;
        if state.chunks < op.count {
            return;
        }
        let ended = state.ends_ns.len();
        state.ends_ns.push(now_ns);
        let (round, span) = (state.round, state.span.take());
        state.chunks = 0;
        state.op += 1;
        if state.op == count_of_ops {
            let end = &mut self.round_ends_ns[state.round as usize];
            *end = end.max(now_ns);
            (state.op, state.round) = (0, state.round + 1);
        }
        if let (Some(row), Some(span)) = (self.rows.as_mut().and_then(|of| of.get_mut(block)), span)
        {
            let SpanStart { wait_ns, start_ns, cause } = span;
            let us = |ns: f64| ns / 1000.0;
            let (wait_us, start_us, end_us) = (us(wait_ns), us(start_ns), us(now_ns));
            let round = u64::from(round);
            let (at, kind) = (op.at, op.kind);
            row.spans.push(Span { at, round, kind, wait_us, start_us, end_us, cause });
        }
        let state = &mut self.blocks[block];
        let waiters = std::mem::take(&mut state.waiters);
        let (woken, waiting): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|of| of.0 <= ended);
        state.waiters = waiting;
        woken.into_iter().for_each(|(_, waiter)| self.look(waiter));
    }

    /// Lets the proxy of a link begin with the next message.
    pub(super) fn carry(&mut self, link: usize) {
        let state = &mut self.links[link];
        let Some(&(at_ns, bytes)) = state.staged.front() else { return };
        if state.carrying || at_ns > self.now_ns + AT_ONCE_NS {
            return;
        }
        state.carrying = true;
        let uses = self.workload.links[link].network.clone().unwrap_or_default();
        for of in &uses {
            self.link_bytes[of.resource as usize] += of.weight * bytes;
        }
        let owner = self.blocks.len() + link;
        let left_bytes = bytes.max(1.0);
        self.flows.push(Flow { owner, left_bytes, rate_max: f64::MAX, rate: 0.0, uses });
    }

    pub(super) fn carried(&mut self, link: usize) {
        let at_ns = self.now_ns + self.rates.proxy_ns + self.workload.links[link].path_ns;
        let state = &mut self.links[link];
        state.carrying = false;
        state.staged.pop_front();
        state.arrivals_ns.push_back(at_ns);
        self.wake_receiver(link);
        self.carry(link);
    }
}

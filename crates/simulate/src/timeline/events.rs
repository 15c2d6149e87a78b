//! The simulation itself.
//!
//! A thread block whose next message has everything it needs stands in a queue with the time at
//! which it can start; the earliest one fires. Firing only makes things available at later times,
//! so times never run backwards, and ports are served in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use msccl_ir::{Algorithm, Step, Target};
use msccl_machine::{LinkId, TbId, Wiring, pieces};

use super::cost::LinkCost;
use super::{CostModel, Row, Span, Timeline, Untimed};

pub(super) fn run(
    algorithm: &Algorithm,
    target: &Target,
    cost: &CostModel,
    bytes: u64,
) -> Result<Timeline, Untimed> {
    // A valid algorithm has partners for all links; were it not so, nothing could be said.
    let wiring = Wiring::new(algorithm).map_err(|_| Untimed::Invalid(Vec::new()))?;
    let cut = Cut::of(algorithm, target, bytes);
    let depth = target.link(algorithm.protocol).depth;
    let mut events = Events::new(&wiring, cost, cut, depth);
    events.run();
    let blocked = events.blocks.iter().filter(|block| block.round < cut.rounds).count();
    if blocked > 0 {
        return Err(Untimed::Stalled { blocked });
    }
    let ends = events.blocks.iter().map(|block| block.free_us);
    let total_us = ends.fold(cost.launch_us, f64::max);
    let rows = events.rows;
    let name = algorithm.name.clone();
    let ranks = algorithm.collective.ranks;
    let nodes = cost.network.map_or(1, |network| ranks / network.per_node.max(1));
    Ok(Timeline { name, bytes, nodes, rows, rounds: cut.rounds, total_us })
}

/// How the call is cut; the last slice may be shorter, chunks are taken to be equally long.
#[derive(Clone, Copy)]
struct Cut {
    chunk_bytes: u64,
    slice_bytes: u64,
    rounds: u64,
    chunks_per_message: u32,
}

impl Cut {
    fn of(algorithm: &Algorithm, target: &Target, bytes: u64) -> Self {
        let shape = target.link(algorithm.protocol);
        let chunks = u64::from(algorithm.collective.loop_chunks()).max(1);
        let chunk_bytes = bytes.div_ceil(chunks);
        let steps = algorithm.thread_blocks().flat_map(|(_, _, block)| &block.steps);
        let count_max = steps.map(|step| step.count).max().unwrap_or(0);
        let slice_bytes = shape.slice_bytes(count_max).max(1);
        let chunks_per_message = shape.chunks_per_message(chunk_bytes, target.limits.count);
        let rounds = chunk_bytes.div_ceil(slice_bytes);
        Self { chunk_bytes, slice_bytes, rounds, chunks_per_message }
    }

    /// Bytes of one chunk in round `round`.
    fn bytes(self, round: u64) -> u64 {
        self.slice_bytes.min(self.chunk_bytes - round * self.slice_bytes)
    }
}

struct Events<'a> {
    wiring: &'a Wiring<'a>,
    cost: &'a CostModel,
    cut: Cut,
    blocks: Vec<Block>,
    links: Vec<Link>,
    /// By rank: when its ports are free again.
    ports: Vec<Ports>,
    /// Thread blocks that can start, the earliest first.
    ready: BinaryHeap<Reverse<(Time, u32)>>,
    rows: Vec<Row>,
}

/// When the ports of a rank are free again, outgoing and incoming.
#[derive(Clone, Copy, Default)]
struct Ports {
    /// To its own node.
    local: [f64; 2],
    /// To the network.
    remote: [f64; 2],
}

impl Ports {
    fn of(&mut self, link_cost: LinkCost) -> &mut [f64; 2] {
        if link_cost.is_remote { &mut self.remote } else { &mut self.local }
    }
}

/// A time that is not NaN and not negative, as an ordered number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Time(u64);

impl Time {
    fn of(us: f64) -> Self {
        // The bits of non-negative floats are ordered as the floats are.
        Self(us.to_bits())
    }

    fn us(self) -> f64 {
        f64::from_bits(self.0)
    }
}

struct Block {
    round: u64,
    step: usize,
    piece: usize,
    /// When the piece before was done.
    free_us: f64,
    /// When the first piece of the step began.
    span_start_us: f64,
    /// When each step so far ended, round after round.
    ends_us: Vec<f64>,
    /// Who waits for a step to come: its position in `ends_us`, and the waiter.
    waiters: Vec<(usize, TbId)>,
}

#[derive(Default)]
struct Link {
    /// When the messages under link cost arrive.
    arrivals_us: VecDeque<f64>,
    /// When free slots became so.
    credits_us: VecDeque<f64>,
    sender_parked: bool,
    receiver_parked: bool,
}

/// Something that is not there yet.
enum Missing {
    Step(TbId, usize),
    Message(LinkId),
    Room(LinkId),
}

impl<'a> Events<'a> {
    fn new(wiring: &'a Wiring<'a>, cost: &'a CostModel, cut: Cut, depth: u32) -> Self {
        let all = || (0..wiring.tb_count() as u32).map(TbId);
        let block = |_| Block {
            round: 0,
            step: 0,
            piece: 0,
            free_us: cost.launch_us,
            span_start_us: 0.0,
            ends_us: Vec::new(),
            waiters: Vec::new(),
        };
        let link = |_| Link { credits_us: (0..depth).map(|_| 0.0).collect(), ..Link::default() };
        let row = |tb| Row {
            rank: wiring.rank(tb),
            tb: wiring.tb_index(tb),
            channel: wiring.block(tb).channel,
            spans: Vec::new(),
        };
        Self {
            wiring,
            cost,
            cut,
            blocks: all().map(block).collect(),
            links: wiring.links().iter().map(link).collect(),
            ports: vec![Ports::default(); wiring.algorithm().ranks.len()],
            ready: BinaryHeap::new(),
            rows: all().map(row).collect(),
        }
    }

    fn run(&mut self) {
        for tb in 0..self.blocks.len() as u32 {
            self.schedule(TbId(tb));
        }
        while let Some(Reverse((time, tb))) = self.ready.pop() {
            self.fire(TbId(tb), time.us());
            self.schedule(TbId(tb));
        }
    }

    /// The step that `tb` is at, if it has not finished; a new round starts over.
    fn step(&mut self, tb: TbId) -> Option<&'a Step> {
        let steps = &self.wiring.block(tb).steps;
        let block = &mut self.blocks[tb.index()];
        if block.step == steps.len() && block.round < self.cut.rounds {
            block.step = 0;
            block.round = if steps.is_empty() { self.cut.rounds } else { block.round + 1 };
        }
        if block.round < self.cut.rounds { steps.get(block.step) } else { None }
    }

    /// Queues `tb` for the time at which its next piece can start, or parks it.
    fn schedule(&mut self, tb: TbId) {
        let Some(step) = self.step(tb) else { return };
        match self.start_us(tb, step) {
            Ok(start_us) => self.ready.push(Reverse((Time::of(start_us), tb.0))),
            Err(Missing::Step(other, end)) => self.blocks[other.index()].waiters.push((end, tb)),
            Err(Missing::Message(link)) => self.links[link.index()].receiver_parked = true,
            Err(Missing::Room(link)) => self.links[link.index()].sender_parked = true,
        }
    }

    fn start_us(&self, tb: TbId, step: &Step) -> Result<f64, Missing> {
        let (wiring, block) = (self.wiring, &self.blocks[tb.index()]);
        let mut start_us = block.free_us;
        for wait in &step.waits {
            let other = wiring.tb_id(wiring.rank(tb), wait.tb);
            let end = block.round as usize * wiring.block(other).steps.len() + wait.step.index();
            let ended = self.blocks[other.index()].ends_us.get(end);
            let ended = ended.ok_or(Missing::Step(other, end))?;
            start_us = start_us.max(ended + self.cost.signal_us);
        }
        for link in step.receives().filter_map(|from| wiring.link_from(tb, from)) {
            let arrival = self.links[link.index()].arrivals_us.front();
            start_us = start_us.max(*arrival.ok_or(Missing::Message(link))?);
        }
        for link in step.sends().filter_map(|to| wiring.link_to(tb, to)) {
            let credit = self.links[link.index()].credits_us.front();
            start_us = start_us.max(*credit.ok_or(Missing::Room(link))?);
        }
        Ok(start_us)
    }

    /// Fires the next piece of `tb` at `start_us`.
    fn fire(&mut self, tb: TbId, start_us: f64) {
        let Some(step) = self.step(tb) else { return };
        let mut all = pieces(step, self.cut.chunks_per_message);
        let (piece, pieces) = (self.blocks[tb.index()].piece, all.len());
        let chunks = all.nth(piece).unwrap_or_default();
        let end_us = self.move_data(tb, step, chunks, start_us);
        let block = &mut self.blocks[tb.index()];
        block.free_us = end_us;
        if piece == 0 {
            block.span_start_us = start_us;
        }
        block.piece += 1;
        if block.piece == pieces {
            self.end_step(tb, step, end_us);
        }
    }

    /// Takes and sends the messages of a piece; returns when its thread block is done with it.
    fn move_data(&mut self, tb: TbId, step: &Step, chunks: Range<u32>, start_us: f64) -> f64 {
        let (wiring, cost) = (self.wiring, self.cost);
        let bytes = (chunks.len() as u64 * self.cut.bytes(self.blocks[tb.index()].round)) as f64;
        let operands = step.sources.len().max(step.destinations.len()) as f64;
        let mut end_us = start_us + cost.step_us + operands * bytes / cost.tb_bytes_per_us;
        let rank = wiring.rank(tb);
        let outgoing: Vec<_> = step.sends().filter_map(|to| wiring.link_to(tb, to)).collect();
        let mut arrivals_us = Vec::with_capacity(outgoing.len());
        for &link in &outgoing {
            let peer = wiring.rank(wiring.links()[link.index()].receiver);
            let link_cost = cost.link_cost(rank, peer);
            let on_wire_us = bytes / link_cost.port_bytes_per_us;
            let [sent_us, _] = self.ports[rank.index()].of(link_cost);
            *sent_us = sent_us.max(start_us) + on_wire_us;
            let sent_us = *sent_us;
            let [_, arrival_us] = self.ports[peer.index()].of(link_cost);
            *arrival_us = arrival_us.max(start_us) + on_wire_us;
            arrivals_us.push((link_cost, arrival_us.max(sent_us)));
            // Stores to a peer keep the thread block; a proxy sends on its own.
            end_us = if link_cost.is_remote { end_us } else { end_us.max(sent_us) };
        }
        for from in step.receives() {
            let Some(link) = wiring.link_from(tb, from) else { continue };
            self.take(link, end_us + cost.link_cost(from, rank).credit_us);
        }
        for (&link, (link_cost, arrival_us)) in outgoing.iter().zip(arrivals_us) {
            self.send(link, arrival_us.max(end_us) + link_cost.latency_us);
        }
        end_us
    }

    fn take(&mut self, link: LinkId, credit_us: f64) {
        let state = &mut self.links[link.index()];
        state.arrivals_us.pop_front();
        state.credits_us.push_back(credit_us);
        if std::mem::take(&mut state.sender_parked) {
            self.schedule(self.wiring.links()[link.index()].sender);
        }
    }

    fn send(&mut self, link: LinkId, arrival_us: f64) {
        let state = &mut self.links[link.index()];
        state.credits_us.pop_front();
        state.arrivals_us.push_back(arrival_us);
        if std::mem::take(&mut state.receiver_parked) {
            self.schedule(self.wiring.links()[link.index()].receiver);
        }
    }

    fn end_step(&mut self, tb: TbId, step: &Step, end_us: f64) {
        let block = &mut self.blocks[tb.index()];
        let at = self.wiring.step_ref(tb, block.step as u32);
        let (round, kind, start_us) = (block.round, step.kind(), block.span_start_us);
        self.rows[tb.index()].spans.push(Span { at, round, kind, start_us, end_us });
        let ended = block.ends_us.len();
        block.ends_us.push(end_us);
        block.piece = 0;
        block.step += 1;
        let (woken, waiting) = block.waiters.iter().partition(|&&(end, _)| end <= ended);
        block.waiters = waiting;
        for (_, waiter) in woken as Vec<(usize, TbId)> {
            self.schedule(waiter);
        }
    }
}

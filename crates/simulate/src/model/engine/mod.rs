//! The simulation itself.
//!
//! Thread blocks, proxies and moves under way change at events. Between two events all moves go on
//! at constant rates, which [`Sharing`] finds anew whenever a move has begun or ended.

mod message;
mod state;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::rates::{KernelRates, Rates};
use state::{BlockState, Event, LinkState, Owner, Time};

use super::result::{Estimate, Row, Untimed};
use super::sharing::{Flow, Sharing};
use super::workload::{Block, Execution, Op, Workload};

/// Most rounds that are simulated one by one.
pub const ROUNDS_MAX: u32 = 24;

/// How much later the instances of a group begin than those of the group before. Links are shared
/// fairly, so instances that begin together stay together, and all links are idle while they
/// prepare their next messages. Real ones drift apart; this is about half of what a message takes.
const GROUP_NS: f64 = 400.0;

/// Events that are no further apart happen at once, so that what is alike stays alike.
const AT_ONCE_NS: f64 = 0.01;

/// How long the call takes.
///
/// # Errors
///
/// The thread blocks come to a standstill.
pub fn estimate(workload: &Workload, rates: &Rates) -> Result<Estimate, Untimed> {
    let mut engine = Engine::new(workload, rates, None);
    engine.run();
    engine.estimate()
}

/// How long the call takes, and what each thread block of the first instance does when.
///
/// # Errors
///
/// The thread blocks come to a standstill.
pub fn trace(workload: &Workload, rates: &Rates) -> Result<(Estimate, Vec<Row>), Untimed> {
    let rows = workload.blocks.iter().filter(|block| block.group == 0).map(|block| {
        let Block { group: _, rank, tb, channel, ops: _ } = *block;
        Row { rank, tb, channel, spans: Vec::new() }
    });
    let mut engine = Engine::new(workload, rates, Some(rows.collect()));
    engine.run();
    let rows = engine.rows.take().unwrap_or_default();
    Ok((engine.estimate()?, rows))
}

struct Engine<'a> {
    workload: &'a Workload,
    rates: &'a Rates,
    kernel: &'a KernelRates,
    now_ns: f64,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    flows: Vec<Flow>,
    sharing: Sharing,
    blocks: Vec<BlockState>,
    links: Vec<LinkState>,
    rounds: u32,
    launch_ns: f64,
    /// By round, when the last step of any thread block ended.
    round_ends_ns: Vec<f64>,
    link_bytes: Vec<f64>,
    /// What the thread blocks of the first group do, if that is asked.
    rows: Option<Vec<Row>>,
}

impl<'a> Engine<'a> {
    fn new(workload: &'a Workload, rates: &'a Rates, rows: Option<Vec<Row>>) -> Self {
        let Execution { kernel, threads, cut, depth } = workload.execution;
        let of_kernel = rates.kernel(kernel);
        let late = workload.blocks_of_rank > rates.early_start_blocks;
        let launch_ns = of_kernel.launch_ns
            + of_kernel.launch_block_ns * f64::from(workload.blocks_of_rank)
            + of_kernel.launch_thread_ns * f64::from(threads)
            + if workload.acknowledges { of_kernel.acknowledge_ns } else { 0.0 }
            + if late { of_kernel.late_start_ns } else { 0.0 };
        let block = |of: &Block| {
            let free_ns = launch_ns + GROUP_NS * f64::from(of.group);
            BlockState { free_ns, ..BlockState::default() }
        };
        let link =
            |_| LinkState { credits_ns: (0..depth).map(|_| 0.0).collect(), ..LinkState::default() };
        let rounds = cut.rounds.clamp(1, ROUNDS_MAX);
        Self {
            workload,
            rates,
            kernel: of_kernel,
            now_ns: 0.0,
            events: BinaryHeap::new(),
            flows: Vec::new(),
            sharing: Sharing::new(workload.capacity.clone()),
            blocks: workload.blocks.iter().map(block).collect(),
            links: workload.links.iter().map(link).collect(),
            rounds,
            launch_ns,
            round_ends_ns: vec![launch_ns; rounds as usize],
            link_bytes: vec![0.0; workload.capacity.len()],
            rows,
        }
    }

    fn run(&mut self) {
        (0..self.blocks.len()).for_each(|block| self.look(block));
        loop {
            let next = self.events.peek().map(|Reverse((time, _))| time.ns());
            let flow = self.flows.iter().map(|flow| flow.left_bytes / flow.rate);
            let flow = flow.fold(f64::INFINITY, f64::min);
            let Some(until_ns) = next
                .map_or(Some(self.now_ns + flow), |at| Some(at.min(self.now_ns + flow)))
                .filter(|at| at.is_finite())
            else {
                break;
            };
            let until_ns = until_ns.max(self.now_ns);
            let flows_before = self.flows.len();
            let mut changed = self.advance(until_ns);
            while let Some(&Reverse((time, event))) = self.events.peek() {
                if time.ns() > self.now_ns + AT_ONCE_NS {
                    break;
                }
                self.events.pop();
                self.fire(event);
            }
            changed |= self.flows.len() != flows_before;
            if changed {
                self.sharing.share(&mut self.flows);
            }
        }
    }

    /// Lets all moves go on until then; says whether some ended.
    fn advance(&mut self, until_ns: f64) -> bool {
        let passed_ns = until_ns - self.now_ns;
        self.now_ns = until_ns;
        let mut ended = Vec::new();
        self.flows.retain_mut(|flow| {
            flow.left_bytes -= flow.rate * passed_ns;
            let ends = flow.left_bytes <= flow.rate * AT_ONCE_NS;
            if ends {
                ended.push(flow.owner);
            }
            !ends
        });
        let any = !ended.is_empty();
        for owner in ended {
            match self.owner(owner) {
                Owner::Block(block) => self.moved(block),
                Owner::Proxy(link) => self.carried(link),
            }
        }
        any
    }

    fn owner(&self, owner: usize) -> Owner {
        match owner.checked_sub(self.blocks.len()) {
            None => Owner::Block(owner),
            Some(link) => Owner::Proxy(link),
        }
    }

    fn at(&mut self, ns: f64, event: Event) {
        self.events.push(Reverse((Time::of(ns), event)));
    }

    fn fire(&mut self, event: Event) {
        match event {
            Event::Begin(block) => self.begin(block),
            Event::Move(block) => self.start_move(block),
            Event::Finish(block) => self.finish(block),
            Event::Carry(link) => self.carry(link),
        }
    }

    fn op(&self, block: usize) -> Option<&'a Op> {
        let state = &self.blocks[block];
        if state.round >= self.rounds {
            return None;
        }
        self.workload.blocks[block].ops.get(state.op)
    }

    fn estimate(self) -> Result<Estimate, Untimed> {
        let unfinished = |(state, block): (&BlockState, &Block)| {
            state.round < self.rounds && !block.ops.is_empty()
        };
        let pairs = self.blocks.iter().zip(&self.workload.blocks);
        let blocked = pairs.filter(|&pair| unfinished(pair)).count();
        if blocked > 0 {
            return Err(Untimed::Stalled { blocked });
        }
        let last_ns = self.round_ends_ns.iter().copied().fold(self.launch_ns, f64::max);
        let all = self.workload.execution.cut.rounds.max(1);
        let (mut total_ns, mut factor) = (last_ns, 1.0);
        if all > self.rounds {
            let half = self.rounds / 2;
            let half_ns = self.round_ends_ns[half as usize - 1];
            let round_ns = (last_ns - half_ns) / f64::from(self.rounds - half);
            total_ns += round_ns * f64::from(all - self.rounds);
            factor = f64::from(all) / f64::from(self.rounds);
        }
        let links = &self.workload.capacity[..self.workload.cluster_links];
        let link_bytes: Vec<f64> =
            self.link_bytes.iter().take(links.len()).map(|of| of * factor).collect();
        // No link carries more than its rate says, whatever the later rounds are taken to be.
        let carried_ns = link_bytes.iter().zip(links).map(|(bytes, rate)| bytes / rate);
        total_ns = carried_ns.fold(total_ns, f64::max);
        Ok(Estimate { total_us: total_ns / 1000.0, rounds: self.rounds, link_bytes })
    }
}

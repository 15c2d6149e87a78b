//! When everything happens, by the one true clock.

use std::collections::HashMap;

use msccl_trace::record::RecordKind;
use msccl_trace::recording::{StepAddress, StepDescription, ThreadBlockDescription};

use super::{ImaginedRun, PlantedFault};

/// What a move takes beside its bytes.
const STEP_NS: f64 = 600.0;
/// What a thread block moves in a nanosecond.
const BYTES_PER_NS: f64 = 40.0;
/// From the end of a move to the arrival of its message, and of the credit.
const LATENCY_NS: f64 = 700.0;
/// From the end of a launch to the begin of the next.
const LAUNCH_NS: f64 = 2500.0;
/// From the last step to the end.
const FINISH_NS: f64 = 200.0;

/// When everything happens, by the one true clock.
#[derive(Clone, Debug)]
pub struct Execution {
    /// What each track of each rank records: by rank, track, in order.
    pub ends: Vec<Vec<Vec<TrueSpan>>>,
}

/// The end of a span.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TrueSpan {
    /// When it ends, in ns since the run began.
    pub time_ns: f64,
    /// What ends.
    pub kind: RecordKind,
    /// The step.
    pub step: u32,
    /// The number that a record has.
    pub message: u32,
}

/// A link: sender, receiver, wire.
type Wire = (u32, u32, u32);

/// Messages that are on their way.
#[derive(Default)]
struct WireState {
    /// By message, when it arrives.
    arrivals_ns: Vec<f64>,
    /// By message, when the sender knows that it was taken.
    credits_ns: Vec<f64>,
}

/// Where a thread block is.
struct BlockState {
    rank: usize,
    instance: u32,
    thread_block: usize,
    now_ns: f64,
    /// Moves of this call so far.
    done: usize,
    /// By step, when its last move of each round ended.
    ends_ns: HashMap<(u32, u32), f64>,
}

/// A move: step, round, message of the step.
struct Planned<'a> {
    step: &'a StepDescription,
    round: u32,
    message: u32,
}

pub(super) fn execute(run: &ImaginedRun) -> Execution {
    let instances = run.cut.instances as usize;
    let tracks = |rank: usize| run.plans[rank].thread_blocks.len() * instances;
    let mut ends: Vec<Vec<Vec<TrueSpan>>> =
        (0..run.plans.len()).map(|rank| vec![Vec::new(); tracks(rank)]).collect();
    let mut wires: HashMap<Wire, WireState> = HashMap::new();
    let mut free_ns = vec![0.0; run.plans.len()];
    for call in 1..=run.calls {
        let mut blocks = Vec::new();
        for (rank, free_ns) in free_ns.iter().enumerate() {
            let begin_ns = free_ns + LAUNCH_NS + late_ns(run, rank, call);
            for (track, ends) in ends[rank].iter_mut().enumerate() {
                let of_plan = run.plans[rank].thread_blocks.len();
                let (kind, step) = (RecordKind::Begin, 0);
                ends.push(TrueSpan { time_ns: begin_ns, kind, step, message: call });
                blocks.push(BlockState {
                    rank,
                    instance: (track / of_plan) as u32,
                    thread_block: track % of_plan,
                    now_ns: begin_ns,
                    done: 0,
                    ends_ns: HashMap::new(),
                });
            }
        }
        run_call(run, &mut blocks, &mut wires, &mut ends);
        for block in &blocks {
            let time_ns = block.now_ns + FINISH_NS;
            let (kind, step) = (RecordKind::End, 0);
            track(run, block, &mut ends).push(TrueSpan { time_ns, kind, step, message: call });
            free_ns[block.rank] = f64::max(free_ns[block.rank], time_ns);
        }
    }
    Execution { ends }
}

fn late_ns(run: &ImaginedRun, of: usize, call: u32) -> f64 {
    let late = |fault: &PlantedFault| match *fault {
        PlantedFault::LateRank { rank, first, last, late_ns } => {
            let is_late = rank as usize == of && (first..=last).contains(&call);
            if is_late { late_ns } else { 0.0 }
        }
        PlantedFault::SlowBlock { .. } | PlantedFault::SlowLink { .. } => 0.0,
    };
    run.faults.iter().map(late).sum()
}

fn track<'a>(
    run: &ImaginedRun,
    block: &BlockState,
    ends: &'a mut [Vec<Vec<TrueSpan>>],
) -> &'a mut Vec<TrueSpan> {
    let of_plan = run.plans[block.rank].thread_blocks.len();
    &mut ends[block.rank][block.instance as usize * of_plan + block.thread_block]
}

/// Lets every thread block go on as far as it can, until all are done.
fn run_call(
    run: &ImaginedRun,
    blocks: &mut [BlockState],
    wires: &mut HashMap<Wire, WireState>,
    ends: &mut [Vec<Vec<TrueSpan>>],
) {
    loop {
        let (mut has_moved, mut is_done) = (false, true);
        for at in 0..blocks.len() {
            while let Some(planned) = next(run, &blocks[at]) {
                if !try_move(run, blocks, at, &planned, wires, ends) {
                    is_done = false;
                    break;
                }
                has_moved = true;
            }
        }
        if is_done {
            return;
        }
        assert!(has_moved, "the plans wait for one another");
    }
}

fn messages(run: &ImaginedRun, step: &StepDescription) -> u32 {
    step.count.div_ceil(run.cut.chunks_per_message.max(1)).max(1)
}

/// The next move of a thread block, if it is not done.
fn next<'a>(run: &'a ImaginedRun, block: &BlockState) -> Option<Planned<'a>> {
    let steps = &description(run, block).steps;
    let mut all = (0..run.cut.rounds).flat_map(|round| {
        let of_step = move |step| (0..messages(run, step)).map(move |message| (step, message));
        let of_round = steps.iter().flat_map(of_step);
        of_round.map(move |(step, message)| Planned { step, round, message })
    });
    all.nth(block.done)
}

fn description<'a>(run: &'a ImaginedRun, block: &BlockState) -> &'a ThreadBlockDescription {
    &run.plans[block.rank].thread_blocks[block.thread_block]
}

/// Moves one message of a thread block, unless it must wait for what has no time yet.
fn try_move(
    run: &ImaginedRun,
    blocks: &mut [BlockState],
    at: usize,
    planned: &Planned<'_>,
    wires: &mut HashMap<Wire, WireState>,
    ends: &mut [Vec<Vec<TrueSpan>>],
) -> bool {
    let Planned { step, round, message: _ } = *planned;
    let [receives, sends] = wires_of(run, &blocks[at], step);
    let of_blocks = block_waits(blocks, at, planned);
    let (Some(of_blocks), Some(of_links)) = (of_blocks, link_waits(run, wires, &receives, &sends))
    else {
        return false;
    };
    let block = &mut blocks[at];
    let mut now_ns = block.now_ns;
    let recorded = track(run, block, ends);
    for &(kind, until_ns, message) in of_blocks.iter().chain(&of_links) {
        now_ns = f64::max(now_ns + 20.0, until_ns);
        recorded.push(TrueSpan { time_ns: now_ns, kind, step: step.index, message });
    }
    let bytes = bytes(run, planned);
    now_ns += duration_ns(run, block, bytes);
    // Waits for room stand before those for data.
    let message = of_links.first().map_or(round, |(_, _, message)| *message);
    recorded.push(TrueSpan { time_ns: now_ns, kind: RecordKind::Move, step: step.index, message });
    for wire in &sends {
        let state = wires.entry(*wire).or_default();
        let arrival_ns = arrival_ns(run, *wire, state, now_ns, bytes);
        state.arrivals_ns.push(arrival_ns);
    }
    for wire in &receives {
        wires.entry(*wire).or_default().credits_ns.push(now_ns + LATENCY_NS);
    }
    // Others wait for the last of the steps that run as one, or for any.
    for index in step.index..step.index + step.bundled {
        block.ends_ns.insert((index, round), now_ns);
    }
    block.now_ns = now_ns;
    block.done += 1;
    true
}

/// The wires that a step receives from, and those that it sends by.
fn wires_of(run: &ImaginedRun, block: &BlockState, step: &StepDescription) -> [Vec<Wire>; 2] {
    let of = description(run, block);
    let own = block.rank as u32;
    let wire = |number: u32| number * run.cut.instances + block.instance;
    let receives = step.receives.iter().map(|&at| of.receives[at as usize]);
    let sends = step.sends.iter().map(|&at| of.sends[at as usize]);
    [
        receives.map(|end| (end.peer, own, wire(end.number))).collect(),
        sends.map(|end| (own, end.peer, wire(end.number))).collect(),
    ]
}

/// Until when a step waits for other thread blocks; `None` if that is not known yet.
fn block_waits(
    blocks: &[BlockState],
    at: usize,
    planned: &Planned<'_>,
) -> Option<Vec<(RecordKind, f64, u32)>> {
    let Planned { step, round, message } = *planned;
    let own = &blocks[at];
    let until = |wait: &StepAddress| {
        let awaited = blocks.iter().find(|other| {
            let is_there = other.rank == own.rank && other.instance == own.instance;
            is_there && other.thread_block == wait.thread_block as usize
        })?;
        let ended_ns = awaited.ends_ns.get(&(wait.step, round))?;
        Some((RecordKind::WaitBlock, *ended_ns, 0))
    };
    step.waits.iter().filter(|_| message == 0).map(until).collect()
}

/// Until when a step waits for room, and then for data.
fn link_waits(
    run: &ImaginedRun,
    wires: &mut HashMap<Wire, WireState>,
    receives: &[Wire],
    sends: &[Wire],
) -> Option<Vec<(RecordKind, f64, u32)>> {
    let mut waits = Vec::new();
    for wire in sends {
        let state = wires.entry(*wire).or_default();
        let number = state.arrivals_ns.len();
        let credit_ns = match number.checked_sub(run.depth) {
            Some(credit) => *state.credits_ns.get(credit)?,
            None => 0.0,
        };
        waits.push((RecordKind::WaitRoom, credit_ns, number as u32 + 1));
    }
    for wire in receives {
        let state = wires.entry(*wire).or_default();
        let number = state.credits_ns.len();
        waits.push((RecordKind::WaitData, *state.arrivals_ns.get(number)?, number as u32 + 1));
    }
    Some(waits)
}

fn bytes(run: &ImaginedRun, planned: &Planned<'_>) -> u64 {
    let per_message = run.cut.chunks_per_message.max(1);
    let chunks = per_message.min(planned.step.count - planned.message * per_message);
    run.cut.slice_bytes * u64::from(chunks)
}

fn duration_ns(run: &ImaginedRun, block: &BlockState, bytes: u64) -> f64 {
    let factor = |fault: &PlantedFault| match *fault {
        PlantedFault::SlowBlock { rank, thread_block, factor } => {
            let is_slow =
                rank as usize == block.rank && thread_block as usize == block.thread_block;
            if is_slow { factor } else { 1.0 }
        }
        PlantedFault::LateRank { .. } | PlantedFault::SlowLink { .. } => 1.0,
    };
    let factor: f64 = run.faults.iter().map(factor).product();
    (STEP_NS + bytes as f64 / BYTES_PER_NS) * factor
}

fn arrival_ns(run: &ImaginedRun, wire: Wire, state: &WireState, now_ns: f64, bytes: u64) -> f64 {
    let at_once_ns = now_ns + LATENCY_NS;
    let paced = |fault: &PlantedFault| match *fault {
        PlantedFault::SlowLink { from, to, bytes_per_ns } if (from, to) == (wire.0, wire.1) => {
            let before_ns = state.arrivals_ns.last().copied().unwrap_or(0.0);
            Some(f64::max(before_ns, at_once_ns) + bytes as f64 / bytes_per_ns)
        }
        PlantedFault::SlowLink { .. }
        | PlantedFault::LateRank { .. }
        | PlantedFault::SlowBlock { .. } => None,
    };
    run.faults.iter().find_map(paced).unwrap_or(at_once_ns)
}

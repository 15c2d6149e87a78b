//! Does it end? At which link depth, and up to which size of a call?
//!
//! The answer of one run is the answer of all runs (`docs/VERIFICATION.md`, section 3), an
//! algorithm that ends at one depth ends at every greater one, and one that ends with `m` chunks
//! per message ends with more (section 5). So the worst case is the finest regime at the least
//! depth, and good algorithms need that single run.

use std::convert::Infallible;

use msccl_machine::{Blocked, Messages, Outcome, Reason, Stall, latest_ready, run};

use crate::program::{At, Program};
use crate::refusal::{Event, Fault, FaultKind, MOST_FAULTS};
use crate::regime::Regimes;

/// Most events of a cycle.
const MOST_LINES: usize = 8;

/// What is known of an algorithm that ends, at least for small calls.
pub(crate) struct Ended {
    /// All steps in the order in which they ended in one run: a linear extension of
    /// happens-before.
    pub(crate) order: Vec<At>,
    /// The least link depth that suffices for every call that ends.
    pub(crate) least_depth: u32,
    /// Why larger calls do not end.
    pub(crate) deadlock_of_larger_calls: Option<Fault>,
}

/// How one run went.
enum Ran {
    Ended(Vec<At>),
    Stalled(Stall),
}

/// Decides deadlock and left-over messages for every regime.
///
/// # Errors
///
/// A deadlock if even the smallest call does not end; left-over messages if it does not use them
/// up.
pub(crate) fn check(program: &Program<'_>, regimes: &Regimes) -> Result<Ended, Vec<Fault>> {
    let Regimes { coarsest, finest, depth, .. } = *regimes;
    if let Ran::Ended(order) = try_run(program, finest, 1)? {
        return Ok(ended(order, 1));
    }
    match try_run(program, finest, depth)? {
        Ran::Ended(order) => {
            let least = least_depth(program, finest, depth)?;
            Ok(ended(order, least))
        }
        Ran::Stalled(stall) if coarsest == finest => Err(vec![deadlock(program, &stall)]),
        Ran::Stalled(stall) => smaller_calls(program, regimes, stall),
    }
}

fn ended(order: Vec<At>, least_depth: u32) -> Ended {
    Ended { order, least_depth, deadlock_of_larger_calls: None }
}

/// The largest call does not end: up to which one does it?
fn smaller_calls(
    program: &Program<'_>,
    regimes: &Regimes,
    mut stall: Stall,
) -> Result<Ended, Vec<Fault>> {
    let Regimes { coarsest, finest, depth, .. } = *regimes;
    let mut order = match try_run(program, coarsest, depth)? {
        Ran::Ended(order) => order,
        Ran::Stalled(stall) => return Err(vec![deadlock(program, &stall)]),
    };
    let (mut stalls, mut ends) = (finest, coarsest);
    while ends - stalls > 1 {
        let middle = stalls + (ends - stalls) / 2;
        match try_run(program, middle, depth)? {
            Ran::Ended(later) => (order, ends) = (later, middle),
            Ran::Stalled(later) => (stall, stalls) = (later, middle),
        }
    }
    let fault = of_larger_calls(deadlock(program, &stall), regimes, ends);
    let least_depth = least_depth(program, ends, depth)?;
    Ok(Ended { order, least_depth, deadlock_of_larger_calls: Some(fault) })
}

fn of_larger_calls(mut fault: Fault, regimes: &Regimes, chunks: u32) -> Fault {
    let bytes = regimes.largest_call_bytes(chunks);
    fault.message = format!(
        "in calls of more than {bytes} bytes, where a message holds fewer than {chunks} chunks, {}",
        fault.message
    );
    fault.sound_up_to_bytes = Some(bytes);
    fault
}

/// The least depth with which the algorithm ends, given that it ends with `enough`.
fn least_depth(program: &Program<'_>, chunks: u32, enough: u32) -> Result<u32, Vec<Fault>> {
    let (mut stalls, mut ends) = (0, enough);
    while ends - stalls > 1 {
        let middle = stalls + (ends - stalls) / 2;
        match try_run(program, chunks, middle)? {
            Ran::Ended(_) => ends = middle,
            Ran::Stalled(_) => stalls = middle,
        }
    }
    Ok(ends)
}

/// The steps in the order in which they end in one run, if that run ends.
pub(crate) fn order(program: &Program<'_>, chunks: u32, depth: u32) -> Option<Vec<At>> {
    match try_run(program, chunks, depth) {
        Ok(Ran::Ended(order)) => Some(order),
        Ok(Ran::Stalled(_)) | Err(_) => None,
    }
}

fn try_run(program: &Program<'_>, chunks: u32, depth: u32) -> Result<Ran, Vec<Fault>> {
    let messages = Messages { chunks_per_message: chunks, depth };
    let mut order = Vec::with_capacity(program.step_count());
    let outcome = run(&program.wiring, messages, latest_ready, |piece| {
        if piece.ends_step {
            order.push(At { tb: piece.tb, step: piece.step });
        }
        Ok::<_, Infallible>(())
    });
    match outcome {
        Ok(Outcome::Stalled(stall)) => Ok(Ran::Stalled(stall)),
        Ok(Outcome::Completed { leftover }) if leftover.is_empty() => Ok(Ran::Ended(order)),
        Ok(Outcome::Completed { leftover }) => {
            let links = leftover.iter().take(MOST_FAULTS);
            Err(links.map(|&(link, held)| left_behind(program, link, held)).collect())
        }
        Err(never) => match never {},
    }
}

fn left_behind(program: &Program<'_>, link: msccl_machine::LinkId, held: u32) -> Fault {
    let wiring = &program.wiring;
    let sender = wiring.links()[link.index()].sender;
    let receiver = wiring.links()[link.index()].receiver;
    let (from, to) = (wiring.rank(sender), wiring.rank(receiver));
    let channel = wiring.block(sender).channel;
    let steps = &wiring.block(sender).steps;
    let last = steps.iter().rposition(|step| step.sends().any(|peer| peer == to));
    let at = last.map(|step| wiring.step_ref(sender, step as u32));
    let (messages, are) = if held == 1 { ("message", "is") } else { ("messages", "are") };
    let message = format!(
        "{held} {messages} from {from} to {to} on {channel} {are} never received by {to} {}",
        wiring.tb_index(receiver)
    );
    let sends = at.map(|at| Event::new(at, format!("sends to {to}, the last time")));
    Fault::new(FaultKind::Leftover, message).at(at).with_events(sends)
}

/// What to do about thread blocks of which some wait for free FIFO entries.
fn advice(chain: &[(&Blocked, Reason)]) -> Option<Event> {
    let is_full = chain.iter().any(|(_, reason)| matches!(reason, Reason::Room { .. }));
    let text = "a link is full: let its receiver take messages sooner, or send some of them on \
                another channel";
    (is_full && chain.len() > 1).then(|| Event { at: None, text: text.to_owned() })
}

/// The cycle of who waits for whom.
fn deadlock(program: &Program<'_>, stall: &Stall) -> Fault {
    let chain = stall.chain(&program.wiring);
    let at: Vec<_> = chain.iter().map(|(blocked, _)| blocked.at).collect();
    let message = match chain.as_slice() {
        [] => "no thread block can go on".to_owned(),
        [(Blocked { at, .. }, Reason::Signal(wait))] if wait.tb == at.tb => format!(
            "{at} waits for the end of {wait} of its own thread block, which does not run before it"
        ),
        [(blocked, reason)] => {
            format!("{} {reason}, which never comes: the other side has finished", blocked.at)
        }
        _ => format!("{} thread blocks wait for one another in a circle", chain.len()),
    };
    let lines = chain.iter().take(MOST_LINES);
    let waits = lines.map(|(blocked, reason)| Event::new(blocked.at, reason.to_string()));
    let rest = chain.len().saturating_sub(MOST_LINES);
    let more = (rest > 0).then(|| Event { at: None, text: format!("… and {rest} more") });
    let fault =
        Fault::new(FaultKind::Deadlock, message).at(at).with_events(waits).with_events(more);
    fault.with_events(advice(&chain))
}

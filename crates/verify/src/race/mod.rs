//! Are conflicting accesses ordered?
//!
//! Two accesses of one memory cell by steps of different thread blocks conflict if one of them
//! writes. They must be ordered by happens-before: program order, the end of a step before whatever
//! waits for it, and every message from its send to its receive, through any rank. Room on a link
//! is not used as order, so the proof holds at any depth. A message may be taken while it is still
//! being written, chunk by chunk, so its chunks are ordered one by one: that is the weakest order
//! that any number of chunks per message gives.
//!
//! Where messages order loads alone ([`MessageOrder::Loads`]), they count only for conflicts whose
//! earlier access is a load, and chunk `i` of a message comes before chunk `i` alone.
//!
//! The accesses of every rank are scanned in a linear extension of happens-before ([`scan`]). It is
//! enough to compare each access with the last write and each write with the reads since, because
//! order is transitive. Most pairs are ordered by waits on the rank itself ([`clocks`]); what those
//! cannot order is decided exactly over all ranks ([`global`]).

mod clocks;
mod global;
mod scan;
mod search;

use msccl_collective::Slot;
use msccl_ir::{MessageOrder, Target};
use rustc_hash::FxHashSet;

use crate::memory::Call;
use crate::program::{At, Program};
use crate::refusal::{Event, Fault, FaultKind, MOST_FAULTS};

/// One access of a cell: which step, which chunk of it, and whether it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Access {
    at: At,
    /// What the step calls the cell: in place, two names may mean one memory.
    slot: Slot,
    offset: u32,
    writes: bool,
}

/// Two accesses of one cell, one of them a write, in the order in which one run made them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Conflict {
    earlier: Access,
    later: Access,
}

impl Conflict {
    /// Whether `other` is ordered if this one is: the same two steps, accesses of one kind, and in
    /// both the chunks in an order that a stream keeps.
    fn speaks_for(&self, other: &Conflict, messages: MessageOrder) -> bool {
        self.earlier.at == other.earlier.at
            && self.later.at == other.later.at
            && self.earlier.writes == other.earlier.writes
            && self.is_streamed(messages)
            && other.is_streamed(messages)
    }

    /// Whether a stream of messages from the earlier step to the later one orders the accesses.
    fn is_streamed(&self, messages: MessageOrder) -> bool {
        let (earlier, later) = (self.earlier.offset, self.later.offset);
        match messages {
            MessageOrder::Memory => earlier <= later,
            MessageOrder::Loads => earlier == later,
        }
    }
}

/// Looks for races. In-place aliasing only adds conflicts, so a call in place speaks for one out of
/// place.
///
/// # Errors
///
/// Races, if there are any.
pub(crate) fn check(
    program: &Program<'_>,
    target: &Target,
    order: &[At],
) -> Result<(), Vec<Fault>> {
    let Some(call) = Call::served(program.algorithm()).next() else { return Ok(()) };
    let messages = target.rules.message_order(program.algorithm().protocol);
    let conflicts = scan::not_ordered_locally(program, order, call, messages);
    let races = global::not_ordered(program, order, conflicts, messages);
    if races.is_empty() { Ok(()) } else { Err(faults(program, target, &races, call)) }
}

/// One fault for every pair of steps.
fn faults(program: &Program<'_>, target: &Target, races: &[Conflict], call: Call) -> Vec<Fault> {
    let mut seen = FxHashSet::default();
    let steps = |race: &Conflict| (program.id(race.earlier.at), program.id(race.later.at));
    let fresh = races.iter().filter(|race| seen.insert(steps(race)));
    fresh.take(MOST_FAULTS).map(|race| fault(program, target, race, call)).collect()
}

fn fault(program: &Program<'_>, target: &Target, race: &Conflict, call: Call) -> Fault {
    let Conflict { earlier, later } = *race;
    let (first, second) = (program.step_ref(earlier.at), program.step_ref(later.at));
    let rank = second.rank;
    let message = format!(
        "{second} {} {} of {rank} and {first} {} {}, in no order ({})",
        verb(later),
        later.slot,
        verb(earlier),
        if earlier.slot == later.slot { "it" } else { "the same memory" },
        call.name(),
    );
    let shape = |access: Access| {
        let kind = program.step(access.at).kind().abbreviation();
        format!("({kind}) {} {}", verb(access), access.slot)
    };
    let protocol = program.algorithm().protocol;
    let text = match target.rules.message_order(protocol) {
        MessageOrder::Memory => {
            "no wait and no chain of messages makes one end before the other begins".to_owned()
        }
        MessageOrder::Loads => format!(
            "no wait makes one end before the other begins, and under {protocol} a message of {} \
             orders nothing but what its sender has loaded, chunk by chunk",
            target.rules.runtime
        ),
    };
    let order = Event { at: None, text };
    Fault::new(FaultKind::Race, message).at([second, first]).with_events([
        Event::new(first, shape(earlier)),
        Event::new(second, shape(later)),
        order,
    ])
}

fn verb(access: Access) -> &'static str {
    if access.writes { "writes" } else { "reads" }
}

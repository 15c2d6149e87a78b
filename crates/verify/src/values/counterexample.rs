//! How a slot came to hold what it holds, or nothing: the run, backwards.

use std::fmt::Write as _;

use msccl_collective::{Contribution, Promise, Rank, Slot};
use msccl_ir::Place;

use super::expression::ValueId;
use super::promise::{Expected, Wrong};
use super::symbols::{End, Held};
use crate::memory::Memory;
use crate::program::{At, Program};
use crate::refusal::{Event, Fault, FaultKind};

/// Most steps of one counterexample.
const MOST_STEPS: usize = 7;

/// Most contributions that one line lists.
const MOST_LISTED: usize = 6;

/// Most contributions of a value that are looked at to describe it.
const MOST_LEAVES: usize = 1 << 16;

/// Reads of what nobody had written.
pub(super) fn unwritten(
    program: &Program<'_>,
    order: &[At],
    memory: &Memory<'_>,
    reads: &[(At, Slot)],
) -> Vec<Fault> {
    let faults = reads.iter().map(|&(at, slot)| {
        let (step, rank) = (program.step_ref(at), program.rank(at));
        let call = memory.call().name();
        let message = format!("{step} reads {slot} of {rank}, which nothing has written ({call})");
        let cell = memory.cell(rank, slot);
        let later =
            order.iter().find(|&&writer| writes(program, memory, writer, rank, cell).is_some());
        let event = match later {
            Some(&writer) => {
                let kind = program.step(writer).kind().abbreviation();
                Event::new(program.step_ref(writer), format!("({kind}) writes it, but only later"))
            }
            None => Event { at: None, text: format!("no step of {rank} writes it") },
        };
        let later = later.map(|&writer| program.step_ref(writer));
        Fault::new(FaultKind::Uninitialised, message).at([step]).at(later).with_events([event])
    });
    faults.collect()
}

/// The chunk of step `at` that ends in `cell` of `rank`, if one does.
fn writes(
    program: &Program<'_>,
    memory: &Memory<'_>,
    at: At,
    rank: Rank,
    cell: usize,
) -> Option<u32> {
    if program.rank(at) != rank {
        return None;
    }
    program.step(at).writes().find_map(|region| {
        let offset = cell.checked_sub(memory.cell(rank, region.start))?;
        (offset < region.count as usize).then_some(offset as u32)
    })
}

/// A run with everything that it computed.
pub(super) struct Counterexample<'a> {
    program: &'a Program<'a>,
    order: &'a [At],
    memory: &'a Memory<'a>,
    end: &'a End,
    initial: Vec<Held>,
    /// By step number: its position in the run, and of its first chunk in `end.computed`.
    positions: Vec<(u32, u32)>,
}

/// A chunk of a step, by its position in the run.
#[derive(Clone, Copy)]
struct WrittenChunk {
    position: usize,
    offset: u32,
}

impl<'a> Counterexample<'a> {
    pub(super) fn new(
        program: &'a Program<'a>,
        order: &'a [At],
        memory: &'a Memory<'a>,
        end: &'a End,
    ) -> Self {
        let mut positions = vec![(0, 0); program.step_count()];
        let mut computed = 0;
        for (position, &at) in order.iter().enumerate() {
            positions[program.id(at).index()] = (position as u32, computed);
            computed += program.step(at).count;
        }
        let initial = super::symbols::initial(program, memory, &end.expressions);
        Self { program, order, memory, end, initial, positions }
    }

    /// What is wrong with a slot, and the steps by which its value came, the last one first.
    pub(super) fn fault(&self, wrong: &Wrong) -> Fault {
        let Wrong { rank, slot, found, expected } = wrong;
        let excess = self.difference(*found, expected).1;
        let mut events = Vec::new();
        let mut next = self.writer(*rank, *slot, self.order.len());
        if next.is_none() {
            events.push(Event { at: None, text: format!("no step of {rank} writes {slot}") });
        }
        while let Some(written) = next.filter(|_| events.len() < MOST_STEPS) {
            events.push(self.event(written));
            next = self.responsible_source(written, &excess);
        }
        let at: Vec<_> = events.iter().filter_map(|event| event.at).collect();
        let fault = Fault::new(FaultKind::WrongResult, self.sentence(wrong));
        fault.at(at).with_events(events)
    }

    fn sentence(&self, wrong: &Wrong) -> String {
        let Wrong { rank, slot, found, expected } = wrong;
        let call = self.memory.call().name();
        let holds = self.describe(*found);
        let promise = match expected {
            Expected::Unchanged => {
                return format!(
                    "{slot} of {rank} holds {holds} at the end; the call is out of place, so the \
                     caller's input must stay as it was"
                );
            }
            Expected::Promise(promise) => promise,
        };
        let mut text =
            format!("{slot} of {rank} should hold {} but holds {holds}", promised(promise));
        let (missing, excess) = self.difference(*found, expected);
        if self.end.expressions.leaves(*found) > 1 || !matches!(promise, Promise::One(_)) {
            let _ = list(&mut text, ": missing ", &missing);
            let _ = list(&mut text, if missing.is_empty() { ": " } else { "; " }, &excess);
            if !excess.is_empty() {
                text.push_str(" too often");
            }
        }
        let _ = write!(text, " ({call})");
        text
    }

    /// Contributions that the value lacks and that it has too often.
    fn difference(
        &self,
        found: ValueId,
        expected: &Expected,
    ) -> (Vec<Contribution>, Vec<Contribution>) {
        let mut found = self.end.expressions.expand(found, MOST_LEAVES).0;
        found.sort_unstable();
        let promised = match expected {
            Expected::Unchanged => return (Vec::new(), Vec::new()),
            Expected::Promise(Promise::One(one)) => vec![*one],
            Expected::Promise(Promise::Sum(sum)) => sum.clone(),
            Expected::Promise(Promise::EveryRank { index }) => {
                let ranks = self.program.algorithm().collective.all_ranks();
                ranks.map(|rank| Contribution { rank, index: *index }).collect()
            }
        };
        (without(&promised, &found), without(&found, &promised))
    }

    /// What a step did: `(rrc) o[2] = r0.i[2] + r1.i[2]`.
    fn event(&self, written: WrittenChunk) -> Event {
        let at = self.order[written.position];
        let step = self.program.step(at);
        let mut text = format!("({})", step.kind().abbreviation());
        for (index, &destination) in step.destinations.iter().enumerate() {
            text.push_str(if index == 0 { " " } else { ", " });
            let _ = match destination {
                Place::Local(slot) => write!(text, "{}", slot.offset(written.offset)),
                Place::Link(peer) => write!(text, "to {peer}"),
            };
        }
        let _ = write!(text, " = {}", self.describe(self.value(written)));
        Event::new(self.program.step_ref(at), text)
    }

    /// The chunk that brought what is too much into a chunk of a step; where several sources are
    /// responsible or none is, the first that combines most.
    fn responsible_source(
        &self,
        written: WrittenChunk,
        excess: &[Contribution],
    ) -> Option<WrittenChunk> {
        let mut sources = self.sources(written);
        if sources.len() > 1 && !excess.is_empty() {
            sources.retain(|(value, _)| {
                let leaves = self.end.expressions.expand(*value, MOST_LEAVES).0;
                excess.iter().all(|it| leaves.contains(it))
            });
        }
        if sources.len() > 1 {
            return None;
        }
        sources.first().and_then(|(_, written)| *written)
    }

    /// For every source of a chunk of a step: its value and where it was made, unless it was given.
    fn sources(&self, written: WrittenChunk) -> Vec<(ValueId, Option<WrittenChunk>)> {
        let at = self.order[written.position];
        let rank = self.program.rank(at);
        let mut senders = self.program.senders(self.program.id(at)).iter();
        let step = self.program.step(at);
        let sources = step.sources.iter().filter_map(|source| match *source {
            Place::Local(slot) => {
                let slot = slot.offset(written.offset);
                let made = self.writer(rank, slot, written.position);
                let given = self.initial[self.memory.cell(rank, slot)].value;
                Some((made.map_or(given, |made| self.value(made)), made))
            }
            Place::Link(_) => {
                let position = self.positions[senders.next()?.index()].0 as usize;
                let made = WrittenChunk { position, offset: written.offset };
                Some((self.value(made), Some(made)))
            }
        });
        sources.collect()
    }

    /// The last write of a slot before a position in the run.
    fn writer(&self, rank: Rank, slot: Slot, before: usize) -> Option<WrittenChunk> {
        let cell = self.memory.cell(rank, slot);
        let mut earlier = self.order[..before].iter().enumerate().rev();
        earlier.find_map(|(position, &at)| {
            let offset = writes(self.program, self.memory, at, rank, cell)?;
            Some(WrittenChunk { position, offset })
        })
    }

    fn value(&self, written: WrittenChunk) -> ValueId {
        let id = self.program.id(self.order[written.position]);
        let first = self.positions[id.index()].1;
        self.end.computed[(first + written.offset) as usize].1
    }

    fn describe(&self, value: ValueId) -> String {
        if value == ValueId::UNWRITTEN {
            return "nothing".to_owned();
        }
        let (mut leaves, _) = self.end.expressions.expand(value, MOST_LEAVES);
        leaves.sort_unstable();
        let total = self.end.expressions.leaves(value) as usize;
        let shown: Vec<_> = leaves.iter().take(MOST_LISTED).map(ToString::to_string).collect();
        let mut text = shown.join(" + ");
        if total > MOST_LISTED {
            let _ = write!(text, " + … ({total} contributions)");
        }
        text
    }
}

fn promised(promise: &Promise) -> String {
    match promise {
        Promise::One(one) => one.to_string(),
        Promise::EveryRank { index } => format!("the sum of i[{index}] of every rank"),
        Promise::Sum(sum) => {
            let shown: Vec<_> = sum.iter().take(MOST_LISTED).map(ToString::to_string).collect();
            let more = if sum.len() > MOST_LISTED { " + …" } else { "" };
            format!("{}{more}", shown.join(" + "))
        }
    }
}

/// Appends a list of contributions, shortened, unless it is empty.
fn list(text: &mut String, lead: &str, items: &[Contribution]) -> std::fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = items.iter().take(MOST_LISTED).map(ToString::to_string).collect();
    write!(text, "{lead}{}", shown.join(", "))?;
    match items.len().checked_sub(MOST_LISTED) {
        Some(more) if more > 0 => write!(text, " and {more} more"),
        _ => Ok(()),
    }
}

/// The multiset difference of two ascending lists.
fn without(list: &[Contribution], removed: &[Contribution]) -> Vec<Contribution> {
    let mut removed = removed.iter().peekable();
    let mut rest = Vec::new();
    for item in list {
        while removed.next_if(|next| *next < item).is_some() {}
        if removed.next_if(|next| *next == item).is_none() {
            rest.push(*item);
        }
    }
    rest
}

//! Thread blocks that two phases share: a thread block waits at one line, while a later step of
//! another line could go on.
//!
//! A step can go on when all that it needs is there: its messages have come, the steps of other
//! thread blocks that it waits for have ended, and so have the earlier steps of its own thread
//! block in the same round that touch what it touches, and the one before it of the same line.
//! Steps of other lines do not count: they could be in another thread block, on another channel. A
//! message has come when it was sent and what messages usually take is over.

use std::collections::{BTreeMap, BTreeSet};

use super::conflicts::{Conflicts, RoundEnds};
use super::{Culprit, Finding, GroupFacts, block_of, short, us};
use crate::report::placed::{LineName, Placed, PlacedPart};
use crate::report::statistics::median;
use crate::timeline::SpanKind;

/// Of the time of calls that must be lost, at least.
const PART: f64 = 0.15;

/// Who waits for whom: a thread block, the line that is ready, the line that is waited at.
type Sharing<'a> = ((u32, u32), LineName<'a>, LineName<'a>);

/// By launch that loses time, how much, in µs.
type Lost = Vec<(usize, f64)>;

pub(super) fn shared_blocks(facts: &GroupFacts<'_>) -> Vec<Finding> {
    let timeline = facts.index.timeline;
    let mut lost: BTreeMap<Sharing<'_>, Lost> = BTreeMap::new();
    let mut durations_us = Vec::new();
    let mut ready = ReadyTimes::default();
    for &number in facts.launches {
        let launch = &timeline.launches[number];
        durations_us.push((launch.end_ns - launch.begin_ns) / 1000.0);
        for part in facts.index.parts(&[number]) {
            ready.look_at(facts, part);
            for (sharing, ns) in part_losses(facts, part, &ready.times) {
                let lost = lost.entry(sharing).or_default();
                match lost.last_mut() {
                    // Instances run side by side.
                    Some((last, us)) if *last == number => *us = us.max(ns / 1000.0),
                    _ => lost.push((number, f64::max(0.0, ns / 1000.0))),
                }
            }
        }
    }
    let duration_us = median(&mut durations_us);
    let mut findings: Vec<Finding> = lost
        .into_iter()
        .filter_map(|(sharing, of)| finding(facts, sharing, &of, duration_us))
        .collect();
    findings.sort_by(|one, other| other.cost_us.total_cmp(&one.cost_us));
    // One of a kind is enough: ranks are often alike.
    let mut known = BTreeSet::new();
    findings.retain(|found| known.insert(found.lines.clone()));
    findings
}

fn finding(
    facts: &GroupFacts<'_>,
    ((rank, thread_block), ready, waiting): Sharing<'_>,
    lost_us: &Lost,
    duration_us: f64,
) -> Option<Finding> {
    let mut all: Vec<f64> = lost_us.iter().map(|(_, us)| *us).collect();
    all.resize(facts.launches.len(), 0.0);
    let typical_us = median(&mut all);
    if typical_us < PART * duration_us || typical_us < facts.least_us {
        return None;
    }
    let text = format!(
        "two phases share thread block {thread_block} of rank {rank}: line {} waits for line {} of \
         {}, though it could go on: {} of {} a call",
        ready.line,
        waiting.line,
        short(waiting.program),
        us(typical_us),
        us(duration_us),
    );
    Some(Finding {
        culprit: Culprit::SharedBlock { rank, thread_block },
        text,
        cost_us: lost_us.iter().map(|(_, us)| us).sum(),
        calls: lost_us.len(),
        lines: vec![ready.into(), waiting.into()],
    })
}

/// The time that each pair of lines loses in a part, in ns; `ready_ns` says since when moves could
/// go on.
fn part_losses<'a>(
    facts: &GroupFacts<'a>,
    part: PlacedPart<'a>,
    ready_ns: &[Option<f64>],
) -> BTreeMap<Sharing<'a>, f64> {
    let mut ready = Readiness::default();
    let mut losses: BTreeMap<Sharing<'_>, f64> = BTreeMap::new();
    for (span, ready_ns) in part.part.spans.clone().zip(ready_ns).rev() {
        let placed = part.span(span);
        if placed.span.kind == SpanKind::Finish {
            continue;
        }
        let Some(line) = placed.line() else { continue };
        if let Some(since_ns) = ready_ns {
            ready.add(*since_ns, line);
        } else if let Some((since_ns, other)) = ready.of_another(line) {
            let lost_ns = placed.span.end_ns - since_ns.max(placed.span.begin_ns);
            if let Some(block) = block_of(facts.index, &placed).filter(|_| lost_ns > 0.0) {
                *losses.entry((block, other, line)).or_default() += lost_ns;
            }
        }
    }
    losses
}

/// Since when the moves of a part could go on. The memory is used again for the next part.
#[derive(Default)]
struct ReadyTimes {
    /// By span of the part: the time; nothing for waits.
    times: Vec<Option<f64>>,
    /// By line: when its last move ended.
    of_line: Vec<(u32, f64)>,
    conflicts: Conflicts,
    ends: RoundEnds,
}

impl ReadyTimes {
    fn look_at(&mut self, facts: &GroupFacts<'_>, part: PlacedPart<'_>) {
        let index = facts.index;
        let conflicts = self.conflicts.of(&part);
        self.ends.begin(part.steps.len());
        self.of_line.clear();
        self.times.clear();
        let mut signal_ns = f64::MIN;
        for placed in part.all() {
            let span = placed.span;
            if span.kind == SpanKind::WaitBlock {
                signal_ns = signal_ns.max(index.signalled_ns(placed.at).unwrap_or(span.end_ns));
            }
            let position = part.position(span).filter(|_| span.kind.is_move());
            self.times.push(position.map(|position| {
                let signal_ns = std::mem::replace(&mut signal_ns, f64::MIN);
                let there_ns = message_ns(facts, &placed);
                let conflict_ns = self.ends.end(position, span, &conflicts[position]);
                let line = placed.step.and_then(|step| step.line).unwrap_or(0);
                let line_ns = replace(&mut self.of_line, line, span.end_ns);
                let others_ns = [there_ns, conflict_ns, line_ns].into_iter().flatten();
                others_ns.fold(part.part.begin_ns.max(signal_ns), f64::max)
            }));
        }
    }
}

/// When the message of a move had come, if it receives one.
fn message_ns(facts: &GroupFacts<'_>, placed: &Placed<'_>) -> Option<f64> {
    let message = facts.index.received(placed.at)?;
    let transit_ns = facts.expected.transit_ns(facts.index, message.link, message.bytes);
    Some(facts.index.timeline.span(message.send).end_ns + transit_ns.unwrap_or(0.0))
}

/// Sets the value of a key; what it was before.
fn replace(values: &mut Vec<(u32, f64)>, key: u32, value: f64) -> Option<f64> {
    match values.iter_mut().find(|(known, _)| *known == key) {
        Some((_, known)) => Some(std::mem::replace(known, value)),
        None => {
            values.push((key, value));
            None
        }
    }
}

/// Since when later steps could go on: the first of all lines, and of all but the line of that.
#[derive(Default)]
struct Readiness<'a> {
    first: Option<(f64, LineName<'a>)>,
    of_others: Option<(f64, LineName<'a>)>,
}

impl<'a> Readiness<'a> {
    fn add(&mut self, since_ns: f64, line: LineName<'a>) {
        match &mut self.first {
            Some((first_ns, first)) if *first == line => *first_ns = first_ns.min(since_ns),
            Some((first_ns, _)) if *first_ns <= since_ns => {
                let is_earlier =
                    self.of_others.as_ref().is_none_or(|(known_ns, _)| since_ns < *known_ns);
                if is_earlier {
                    self.of_others = Some((since_ns, line));
                }
            }
            _ => self.of_others = self.first.replace((since_ns, line)),
        }
    }

    fn of_another(&self, line: LineName<'a>) -> Option<(f64, LineName<'a>)> {
        [self.first, self.of_others].into_iter().flatten().find(|(_, of)| *of != line)
    }
}

//! Thread blocks that two phases share: a thread block waits at one line, while a later step of
//! another line could go on.
//!
//! A step can go on when all that it needs is there: its messages have come, the steps of other
//! thread blocks that it waits for have ended, and so have the earlier steps of its own thread
//! block in the same round that touch what it touches, and the one before it of the same line.
//! Steps of other lines do not count: they could be in another thread block, on another channel. A
//! message has come when it was sent and what messages usually take is over.

use std::collections::{BTreeMap, BTreeSet};

use super::{Culprit, Finding, GroupFacts, SourceLine, block_of, short, source_line, us};
use crate::recording::{SlotRange, StepDescription};
use crate::report::statistics::median;
use crate::timeline::{Part, SpanKind, SpanRef};

/// Of the time of calls that must be lost, at least.
const PART: f64 = 0.15;

/// Who waits for whom: a thread block, the line that is ready, the line that is waited at.
type Sharing = ((u32, u32), SourceLine, SourceLine);

pub(super) fn shared_blocks(facts: &GroupFacts<'_>) -> Vec<Finding> {
    let timeline = facts.index.timeline;
    let mut lost: BTreeMap<Sharing, BTreeMap<usize, f64>> = BTreeMap::new();
    let mut durations_us = Vec::new();
    for number in facts.launches {
        let launch = &timeline.launches[*number];
        durations_us.push((launch.end_ns - launch.begin_ns) / 1000.0);
        for (rank, of_rank) in timeline.rank_launches(launch) {
            for part in &timeline.ranks[rank].parts[of_rank.parts.clone()] {
                for (sharing, ns) in part_losses(facts, rank as u32, part) {
                    let of_launch = lost.entry(sharing).or_default().entry(*number).or_default();
                    // Instances run side by side.
                    *of_launch = of_launch.max(ns / 1000.0);
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
    ((rank, thread_block), ready, waiting): Sharing,
    lost_us: &BTreeMap<usize, f64>,
    duration_us: f64,
) -> Option<Finding> {
    let mut all: Vec<f64> = lost_us.values().copied().collect();
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
        short(&waiting.program),
        us(typical_us),
        us(duration_us),
    );
    Some(Finding {
        culprit: Culprit::SharedBlock { rank, thread_block },
        text,
        cost_us: lost_us.values().sum(),
        calls: lost_us.len(),
        lines: vec![ready, waiting],
    })
}

/// The time that each pair of lines loses in a part, in ns.
fn part_losses(facts: &GroupFacts<'_>, rank: u32, part: &Part) -> Vec<(Sharing, f64)> {
    let index = facts.index;
    let ready_ns = ready_times(facts, rank, part);
    let mut ready = Readiness::default();
    let mut losses: BTreeMap<Sharing, f64> = BTreeMap::new();
    for (position, span) in part.spans.clone().enumerate().rev() {
        let at = SpanRef { rank, span: span as u32 };
        let of = index.timeline.span(at);
        if of.kind == SpanKind::Finish {
            continue;
        }
        let Some(line) = source_line(index, at) else { continue };
        if let Some(since_ns) = ready_ns[position] {
            ready.add(since_ns, line);
        } else if let Some((since_ns, other)) = ready.of_another(&line) {
            let lost_ns = of.end_ns - since_ns.max(of.begin_ns);
            if let Some(block) = block_of(index, at).filter(|_| lost_ns > 0.0) {
                *losses.entry((block, other.clone(), line)).or_default() += lost_ns;
            }
        }
    }
    losses.into_iter().collect()
}

/// A move that has ended: what it touched, and when.
struct Done<'a> {
    step: &'a StepDescription,
    round: u32,
    end_ns: f64,
}

/// By span of a part: since when a move could go on; nothing for waits.
fn ready_times(facts: &GroupFacts<'_>, rank: u32, part: &Part) -> Vec<Option<f64>> {
    let index = facts.index;
    let mut of_line: BTreeMap<u32, f64> = BTreeMap::new();
    let mut done: Vec<Done<'_>> = Vec::new();
    let mut signal_ns = f64::MIN;
    let mut times = vec![None; part.spans.len()];
    for (position, span) in part.spans.clone().enumerate() {
        let at = SpanRef { rank, span: span as u32 };
        let of = index.timeline.span(at);
        if of.kind == SpanKind::WaitBlock {
            signal_ns = signal_ns.max(index.signalled_ns(at).unwrap_or(of.end_ns));
        }
        let Some(step) = index.placed(at).and_then(|placed| placed.step) else { continue };
        if !of.kind.is_move() {
            continue;
        }
        let mut ready_ns = part.begin_ns.max(signal_ns);
        if let Some(message) = index.received(at) {
            let link = message.link;
            let transit_ns = facts.expected.transit_ns(index, link, message.bytes).unwrap_or(0.0);
            ready_ns = ready_ns.max(index.timeline.span(message.send).end_ns + transit_ns);
        }
        done.retain(|before| before.round == of.round);
        let conflicting = done.iter().filter(|before| conflict(before.step, step));
        ready_ns = conflicting.map(|before| before.end_ns).fold(ready_ns, f64::max);
        let before_ns = of_line.insert(step.line.unwrap_or(0), of.end_ns);
        times[position] = Some(before_ns.map_or(ready_ns, |before_ns| ready_ns.max(before_ns)));
        done.push(Done { step, round: of.round, end_ns: of.end_ns });
        signal_ns = f64::MIN;
    }
    times
}

/// Whether the order of two steps matters for what they read and write.
fn conflict(one: &StepDescription, other: &StepDescription) -> bool {
    // Where a call is in place, input and output may be one memory: chunks are compared as if they
    // always were.
    let is_scratch = |range: &SlotRange| range.buffer == "s";
    let overlaps = |a: &SlotRange, b: &SlotRange| {
        let ends = [a, b].map(|range| u64::from(range.first) + u64::from(range.count));
        let is_same = is_scratch(a) == is_scratch(b);
        is_same && u64::from(a.first) < ends[1] && u64::from(b.first) < ends[0]
    };
    let any = |ones: &[SlotRange], others: &[SlotRange]| {
        ones.iter().any(|one| others.iter().any(|other| overlaps(one, other)))
    };
    any(&one.writes, &other.reads)
        || any(&one.reads, &other.writes)
        || any(&one.writes, &other.writes)
}

/// Since when later steps could go on: the first of all lines, and of all but the line of that.
#[derive(Default)]
struct Readiness {
    first: Option<(f64, SourceLine)>,
    of_others: Option<(f64, SourceLine)>,
}

impl Readiness {
    fn add(&mut self, since_ns: f64, line: SourceLine) {
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

    fn of_another(&self, line: &SourceLine) -> Option<&(f64, SourceLine)> {
        [&self.first, &self.of_others].into_iter().flatten().find(|(_, of)| of != line)
    }
}

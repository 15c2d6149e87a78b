//! Ranks that arrive later than others.

use std::collections::BTreeMap;

use super::{Culprit, Finding, GroupFacts, most, named, us};
use crate::report::arrival::Arrival;
use crate::report::index::Index;
use crate::report::placed::LineName;
use crate::report::statistics::median;

/// The calls that a rank holds up.
#[derive(Default)]
struct Lateness<'a> {
    late_us: Vec<f64>,
    calls: Vec<u64>,
    /// What others wait for it.
    waits_ns: BTreeMap<LineName<'a>, f64>,
}

pub(super) fn late_ranks(facts: &GroupFacts<'_>) -> Vec<Finding> {
    let GroupFacts { index, launches, arrivals, name, .. } = facts;
    let error_ns = index.timeline.clock.errors_ns.iter().copied().fold(0.0, f64::max);
    let mut late: BTreeMap<u32, Lateness<'_>> = BTreeMap::new();
    for (number, arrival) in launches.iter().zip(*arrivals) {
        let Some(arrival) = arrival else { continue };
        let late_us = arrival.late_ns / 1000.0;
        if late_us > facts.least_us && arrival.late_ns > error_ns {
            let of_rank = late.entry(index.rank_number(arrival.last as u32)).or_default();
            of_rank.late_us.push(late_us);
            of_rank.calls.push(index.timeline.launches[*number].call);
            add_waits(index, *number, arrival, &mut of_rank.waits_ns);
        }
    }
    let finding = |(rank, mut lateness): (u32, Lateness<'_>)| {
        let cost_us = lateness.late_us.iter().sum();
        let typical = us(median(&mut lateness.late_us));
        let (calls, all) = (lateness.calls.len(), launches.len());
        let (which, lines) = (which(&lateness.calls), most(&lateness.waits_ns));
        let at = named(&lines).map(|lines| format!(" at {lines}")).unwrap_or_default();
        let text = format!(
            "rank {rank} is late by {typical} ({which}; {calls} of {all}) to {name}: the others \
             wait for it{at}"
        );
        Finding { culprit: Culprit::LateRank { rank }, text, cost_us, calls, lines }
    };
    late.into_iter().map(finding).collect()
}

/// How long the others wait, line by line, until the last rank has come.
fn add_waits<'a>(
    index: &Index<'a>,
    launch: usize,
    arrival: &Arrival,
    waits_ns: &mut BTreeMap<LineName<'a>, f64>,
) {
    for placed in index.spans(&[launch]) {
        let span = placed.span;
        let until_ns = span.end_ns.min(arrival.last_ns);
        let is_other = placed.at.rank as usize != arrival.last;
        if !is_other || !span.kind.is_wait() || until_ns <= span.begin_ns {
            continue;
        }
        if let Some(line) = placed.line() {
            *waits_ns.entry(line).or_default() += until_ns - span.begin_ns;
        }
    }
}

/// `call 17`, `calls 17 to 20`, `calls 3, 9, …`.
fn which(calls: &[u64]) -> String {
    let (first, last) = (calls.first().copied().unwrap_or(0), calls.last().copied().unwrap_or(0));
    let is_run = last - first.min(last) + 1 == calls.len() as u64;
    match calls {
        [call] => format!("call {call}"),
        _ if first == last => format!("call {first}, replayed"),
        _ if is_run => format!("calls {first} to {last}"),
        [one, two, ..] => format!("calls {one}, {two}, …"),
        [] => String::new(),
    }
}

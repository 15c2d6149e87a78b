//! Ranks that arrive later than others.

use std::collections::BTreeMap;

use super::{Culprit, Finding, GroupFacts, SourceLine, most, named, source_line, us};
use crate::report::arrival::{Arrival, arrival};
use crate::report::index::Index;
use crate::report::statistics::median;
use crate::timeline::{Launch, SpanRef};

/// The calls that a rank holds up.
#[derive(Default)]
struct Lateness {
    late_us: Vec<f64>,
    calls: Vec<u64>,
    /// What others wait for it.
    waits_ns: BTreeMap<SourceLine, f64>,
}

pub(super) fn late_ranks(facts: &GroupFacts<'_>) -> Vec<Finding> {
    let GroupFacts { index, launches, name, .. } = facts;
    let errors_ns = &index.timeline.clock.errors_ns;
    let mut late: BTreeMap<u32, Lateness> = BTreeMap::new();
    for number in *launches {
        let launch = &index.timeline.launches[*number];
        let Some(arrival) = arrival(index, launch) else { continue };
        let error_ns = errors_ns.iter().copied().fold(0.0, f64::max);
        let late_us = arrival.late_ns / 1000.0;
        if late_us > facts.least_us && arrival.late_ns > error_ns {
            let of_rank = late.entry(index.rank_number(arrival.last as u32)).or_default();
            of_rank.late_us.push(late_us);
            of_rank.calls.push(launch.call);
            add_waits(index, launch, &arrival, &mut of_rank.waits_ns);
        }
    }
    let finding = |(rank, mut lateness): (u32, Lateness)| {
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
fn add_waits(
    index: &Index<'_>,
    launch: &Launch,
    arrival: &Arrival,
    waits_ns: &mut BTreeMap<SourceLine, f64>,
) {
    let timeline = index.timeline;
    for (rank, of_rank) in timeline.rank_launches(launch).filter(|(rank, _)| *rank != arrival.last)
    {
        let parts = &timeline.ranks[rank].parts[of_rank.parts.clone()];
        for span in parts.iter().flat_map(|part| part.spans.clone()) {
            let at = SpanRef { rank: rank as u32, span: span as u32 };
            let of = timeline.span(at);
            let until_ns = of.end_ns.min(arrival.last_ns);
            if !of.kind.is_wait() || until_ns <= of.begin_ns {
                continue;
            }
            if let Some(line) = source_line(index, at) {
                *waits_ns.entry(line).or_default() += until_ns - of.begin_ns;
            }
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

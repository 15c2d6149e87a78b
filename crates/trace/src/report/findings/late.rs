//! Ranks that arrive later than others.

use std::collections::BTreeMap;

use super::{Culprit, Finding, GroupFacts, us};
use crate::report::arrival::arrival;
use crate::report::statistics::median;

/// The calls that a rank holds up.
#[derive(Default)]
struct Lateness {
    late_us: Vec<f64>,
    calls: Vec<u64>,
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
        }
    }
    let finding = |(rank, mut lateness): (u32, Lateness)| {
        let cost_us = lateness.late_us.iter().sum();
        let typical = us(median(&mut lateness.late_us));
        let (calls, all) = (lateness.calls.len(), launches.len());
        let which = which(&lateness.calls);
        let text = format!(
            "rank {rank} is late by {typical} ({which}; {calls} of {all}) to {name}: the others \
             wait for it"
        );
        Finding { culprit: Culprit::LateRank { rank }, text, cost_us, calls, lines: Vec::new() }
    };
    late.into_iter().map(finding).collect()
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

//! What links carry, against what they can.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Expectations;
use super::index::Index;
use super::search::count_first;
use crate::timeline::SpanRef;

/// What a link carries.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LinkLoad {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Bytes of a call.
    pub bytes: u64,
    /// Over the duration of a call, in GB/s.
    pub gb_per_s: f64,
    /// What the machine can carry, if it is known, in GB/s.
    pub can_carry_gb_per_s: Option<f64>,
}

/// The link that carries most in `launches`, which take `duration_us`; where the machine is known,
/// the one that carries most of what it can.
pub(super) fn busiest(
    index: &Index<'_>,
    launches: &[usize],
    duration_us: f64,
    expectations: &Expectations,
) -> Option<LinkLoad> {
    let carried = carried_bytes(index, launches);
    let can_carry = |pair: &Pair| expectations.link_gb_per_s.get(pair).copied();
    let load = |(pair, bytes): (&Pair, &u64)| *bytes as f64 / can_carry(pair).unwrap_or(1.0);
    let (pair, bytes) = carried.iter().max_by(|one, other| load(*one).total_cmp(&load(*other)))?;
    let bytes = bytes / launches.len().max(1) as u64;
    let gb_per_s = bytes as f64 / (duration_us * 1000.0).max(1.0);
    let (from, to) = *pair;
    Some(LinkLoad { from, to, bytes, gb_per_s, can_carry_gb_per_s: can_carry(pair) })
}

/// From sender to receiver.
type Pair = (u32, u32);

/// The bytes of all messages in `launches`, by link. Messages stand in the order of their sends, so
/// that those of a launch stand together.
fn carried_bytes(index: &Index<'_>, launches: &[usize]) -> BTreeMap<Pair, u64> {
    let timeline = index.timeline;
    let mut carried: BTreeMap<Pair, u64> = BTreeMap::new();
    // Where the messages of a rank in its next launch should begin.
    let mut near = vec![0; timeline.ranks.len()];
    for launch in launches.iter().map(|number| &timeline.launches[*number]) {
        for (rank, of_rank) in timeline.rank_launches(launch) {
            let spans = timeline.ranks[rank].spans_of(of_rank);
            let [first, end] = [spans.start, spans.end]
                .map(|span| SpanRef { rank: rank as u32, span: span as u32 });
            let near = &mut near[rank];
            *near = count_first(&timeline.messages, *near, |message| message.send < first);
            let messages = timeline.messages[*near..].iter();
            for message in messages.take_while(|message| message.send < end) {
                *near += 1;
                let link = timeline.link(message.link);
                *carried.entry((link.from, link.to)).or_default() += message.bytes;
            }
        }
    }
    carried
}

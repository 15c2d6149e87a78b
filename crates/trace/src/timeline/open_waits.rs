//! Which link a wait waited for, where its step has several and not all waits were recorded.
//!
//! A wait ends when the last thing that it lacked is there. So it is taken for a wait for the
//! message that was sent last before it ended; a wait for room, for one of the link whose receiver
//! took last. That needs one clock.

use std::collections::{BTreeMap, HashMap};

use super::join::OpenWaits;
use super::numbers::Side;
use super::{LinkId, SpanRef, Timeline};

/// Assigns the open waits of each rank to links, and those for data to messages.
pub(super) fn assign(timeline: &mut Timeline, open: &[Vec<OpenWaits>]) {
    if open.iter().all(Vec::is_empty) {
        return;
    }
    let known = Known::of(timeline);
    for (rank, of_rank) in (0..).zip(open) {
        for waits in of_rank {
            assign_one(timeline, &known, rank, waits);
        }
    }
}

/// What is looked up of messages.
struct Known {
    /// By move that receives: its messages, as positions in [`Timeline::messages`].
    of_receive: HashMap<SpanRef, Vec<usize>>,
    /// By link: when its messages were taken, in order.
    taken_ns: BTreeMap<LinkId, Vec<f64>>,
}

impl Known {
    fn of(timeline: &Timeline) -> Self {
        let mut of_receive: HashMap<SpanRef, Vec<usize>> = HashMap::new();
        let mut taken_ns: BTreeMap<LinkId, Vec<f64>> = BTreeMap::new();
        for (number, message) in timeline.messages.iter().enumerate() {
            of_receive.entry(message.receive).or_default().push(number);
            let taken = timeline.span(message.receive).end_ns;
            taken_ns.entry(message.link).or_default().push(taken);
        }
        taken_ns.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
        Self { of_receive, taken_ns }
    }
}

/// What a wait may have waited for: the link, the message, and when it was there.
struct Candidate {
    link: LinkId,
    message: Option<usize>,
    there_ns: f64,
}

fn assign_one(timeline: &mut Timeline, known: &Known, rank: u32, open: &OpenWaits) {
    let OpenWaits { side, waits, links, moved } = open;
    let mut left = links.clone();
    for &wait in waits {
        let end_ns = timeline.span(SpanRef { rank, span: wait }).end_ns;
        let candidates: Vec<Candidate> = match side {
            Side::Receive => {
                let moved = SpanRef { rank, span: *moved };
                let messages = known.of_receive.get(&moved).map_or(&[][..], Vec::as_slice);
                messages.iter().map(|&number| sent(timeline, number)).collect()
            }
            Side::Send => links.iter().filter_map(|link| taken(known, *link, end_ns)).collect(),
        };
        let candidates = candidates.into_iter().filter(|of| left.contains(&of.link));
        // The clocks of two ranks may differ by a little.
        let error_ns = timeline.clock.errors_ns.iter().copied().fold(0.0, f64::max);
        let there = candidates.filter(|of| of.there_ns <= end_ns + error_ns);
        let Some(last) = there.max_by(|one, other| one.there_ns.total_cmp(&other.there_ns)) else {
            continue;
        };
        left.retain(|link| *link != last.link);
        timeline.ranks[rank as usize].spans[wait as usize].link = Some(last.link);
        if let Some(message) = last.message {
            timeline.messages[message].wait = Some(SpanRef { rank, span: wait });
        }
    }
}

/// A message was there when it was sent.
fn sent(timeline: &Timeline, number: usize) -> Candidate {
    let message = &timeline.messages[number];
    let there_ns = timeline.span(message.send).end_ns;
    Candidate { link: message.link, message: Some(number), there_ns }
}

/// Room was there when the receiver had last taken from the link.
fn taken(known: &Known, link: LinkId, before_ns: f64) -> Option<Candidate> {
    let times = known.taken_ns.get(&link)?;
    let count = times.partition_point(|time_ns| *time_ns <= before_ns);
    let there_ns = times[count.checked_sub(1)?];
    Some(Candidate { link, message: None, there_ns })
}

//! Which link a wait waited for, where its step has several and not all waits were recorded.
//!
//! A wait ends when the last thing that it lacked is there. So it is taken for a wait for the
//! message that was sent last before it ended; a wait for room, for one of the link whose receiver
//! took last. That needs one clock.

use std::collections::BTreeMap;

use super::ends::OpenWaits;
use super::numbers::Side;
use super::{LinkId, SpanRef, Timeline};

/// Assigns the open waits of each rank to links, and those for data to messages.
pub(super) fn assign(timeline: &mut Timeline, open: &[Vec<OpenWaits>]) {
    if open.iter().all(Vec::is_empty) {
        return;
    }
    let known = Known::of(timeline, open);
    for (rank, of_rank) in (0..).zip(open) {
        for waits in of_rank {
            assign_one(timeline, &known, rank, waits);
        }
    }
}

/// What is looked up of the messages that open waits may have been for.
#[derive(Default)]
struct Known {
    /// Moves that receive, each with a message, as a position in [`Timeline::messages`]; in order.
    of_receive: Vec<(SpanRef, usize)>,
    /// By link: when its messages were taken, in order.
    taken_ns: BTreeMap<LinkId, Vec<f64>>,
}

impl Known {
    fn of(timeline: &Timeline, open: &[Vec<OpenWaits>]) -> Self {
        let (mut moved, mut known) = (Vec::new(), Self::default());
        let all = (0..).zip(open).flat_map(|(rank, of)| of.iter().map(move |of| (rank, of)));
        for (rank, waits) in all {
            match waits.side {
                Side::Receive => moved.push(SpanRef { rank, span: waits.moved }),
                Side::Send => {
                    let links = waits.links.iter().map(|link| (*link, Vec::new()));
                    known.taken_ns.extend(links);
                }
            }
        }
        moved.sort_unstable();
        for (number, message) in timeline.messages.iter().enumerate() {
            if moved.binary_search(&message.receive).is_ok() {
                known.of_receive.push((message.receive, number));
            }
            if let Some(taken_ns) = known.taken_ns.get_mut(&message.link) {
                taken_ns.push(timeline.span(message.receive).end_ns);
            }
        }
        known.of_receive.sort_unstable();
        known.taken_ns.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
        known
    }

    /// The messages that a move receives, in order.
    fn messages(&self, moved: SpanRef) -> impl Iterator<Item = usize> {
        let first = self.of_receive.partition_point(|(of, _)| *of < moved);
        let of_move = self.of_receive[first..].iter().take_while(move |(of, _)| *of == moved);
        of_move.map(|(_, number)| *number)
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
                known.messages(moved).map(|number| sent(timeline, number)).collect()
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

//! Launches of all ranks, and sends with their receives.
//!
//! Links number their messages alike at both ends. So two ends of a link whose first message in a
//! launch has one number are in the same launch of the communicator, whatever was lost before.
//! Ends that have shown no number are paired within launches that were found so. Launches of calls
//! that exchange no messages are found by counting: the first of one rank is the first of another.

use std::collections::{BTreeMap, HashMap};

use super::join::LinkEndMoves;
use super::numbers::Side;
use super::{Launch, LinkId, Message, RankTimeline, SpanRef};

/// What was found.
pub(super) struct Paired {
    pub launches: Vec<Launch>,
    pub messages: Vec<Message>,
}

/// An end of a link: the position of the rank, and that of the end among those of the rank.
type EndAt = (usize, usize);

/// Pairs the launches and the messages of `ranks`, of which each has its ends in `ends`. Times do
/// not matter.
pub(super) fn pair(ranks: &[RankTimeline], ends: &[Vec<LinkEndMoves>]) -> Paired {
    let mut classes = Classes::new(ranks);
    let numbered = numbered_pairs(ends);
    let node = |classes: &Classes, (rank, end): EndAt| classes.first[rank] + ends[rank][end].launch;
    for &(send, receive) in &numbered {
        let (send, receive) = (node(&classes, send), node(&classes, receive));
        classes.join(send, receive);
    }
    count_silent(ranks, &mut classes, &numbered, ends);
    let mut pairs = numbered;
    pairs.extend(unnumbered_pairs(ends, &mut classes));
    let mut messages = Vec::new();
    for ((sender, send), (receiver, receive)) in pairs {
        let (send, receive) = (&ends[sender][send], &ends[receiver][receive]);
        let at = |rank: usize, span: u32| SpanRef { rank: rank as u32, span };
        messages.extend(send.moves.iter().zip(&receive.moves).map(|(sent, received)| Message {
            link: send.link,
            send: at(sender, sent.span),
            receive: at(receiver, received.span),
            wait: received.wait.map(|span| at(receiver, span)),
            bytes: sent.bytes,
        }));
    }
    messages.sort_by_key(|message| message.send);
    Paired { launches: launches(ranks, &mut classes), messages }
}

/// Ends of one link that begin with one number.
fn numbered_pairs(ends: &[Vec<LinkEndMoves>]) -> Vec<(EndAt, EndAt)> {
    let mut known: HashMap<(LinkId, u32), [Option<EndAt>; 2]> = HashMap::new();
    for (rank, of_rank) in ends.iter().enumerate() {
        for (at, end) in of_rank.iter().enumerate() {
            let Some(base) = end.base else { continue };
            known.entry((end.link, base)).or_default()[side(end)] = Some((rank, at));
        }
    }
    let mut pairs: Vec<_> = known.into_values().filter_map(both).collect();
    pairs.sort_unstable();
    pairs
}

fn side(end: &LinkEndMoves) -> usize {
    match end.side {
        Side::Send => 0,
        Side::Receive => 1,
    }
}

fn both([send, receive]: [Option<EndAt>; 2]) -> Option<(EndAt, EndAt)> {
    Some((send?, receive?))
}

/// Joins launches of calls of which no message is paired, by their number and by counting.
fn count_silent(
    ranks: &[RankTimeline],
    classes: &mut Classes,
    pairs: &[(EndAt, EndAt)],
    ends: &[Vec<LinkEndMoves>],
) {
    let mut paired: Vec<u64> = Vec::new();
    for &((rank, end), _) in pairs {
        paired.push(ranks[rank].launches[ends[rank][end].launch].call);
    }
    paired.sort_unstable();
    paired.dedup();
    let mut known: HashMap<(u64, usize), usize> = HashMap::new();
    for (rank, of_rank) in ranks.iter().enumerate() {
        let mut times: HashMap<u64, usize> = HashMap::new();
        for (number, launch) in of_rank.launches.iter().enumerate() {
            if paired.binary_search(&launch.call).is_ok() {
                continue;
            }
            let times = times.entry(launch.call).or_default();
            let node = classes.first[rank] + number;
            let same = *known.entry((launch.call, *times)).or_insert(node);
            classes.join(same, node);
            *times += 1;
        }
    }
}

/// Ends of one link in one launch, of which at least one has shown no number.
fn unnumbered_pairs(ends: &[Vec<LinkEndMoves>], classes: &mut Classes) -> Vec<(EndAt, EndAt)> {
    let mut known: BTreeMap<(usize, LinkId), [Vec<EndAt>; 2]> = BTreeMap::new();
    for (rank, of_rank) in ends.iter().enumerate() {
        for (at, end) in of_rank.iter().enumerate() {
            let class = classes.root(classes.first[rank] + end.launch);
            known.entry((class, end.link)).or_default()[side(end)].push((rank, at));
        }
    }
    let single = |sides: [Vec<EndAt>; 2]| match (sides[0].as_slice(), sides[1].as_slice()) {
        (&[send], &[receive]) => Some((send, receive)),
        _ => None,
    };
    let base = |(rank, at): EndAt| ends[rank][at].base;
    let pairs = known.into_values().filter_map(single);
    pairs.filter(|(send, receive)| base(*send).is_none() || base(*receive).is_none()).collect()
}

fn launches(ranks: &[RankTimeline], classes: &mut Classes) -> Vec<Launch> {
    let mut found: BTreeMap<usize, Launch> = BTreeMap::new();
    for (rank, of_rank) in ranks.iter().enumerate() {
        for (number, launch) in of_rank.launches.iter().enumerate() {
            let class = classes.root(classes.first[rank] + number);
            let joined = found.entry(class).or_insert_with(|| Launch {
                call: launch.call,
                of_rank: vec![None; ranks.len()],
                begin_ns: 0.0,
                end_ns: 0.0,
            });
            joined.of_rank[rank].get_or_insert(number);
        }
    }
    found.into_values().collect()
}

/// Launches of ranks, joined to launches of the communicator (disjoint sets).
struct Classes {
    /// By rank, the node of its first launch.
    first: Vec<usize>,
    parent: Vec<usize>,
}

impl Classes {
    fn new(ranks: &[RankTimeline]) -> Self {
        let (mut first, mut next) = (Vec::new(), 0);
        for rank in ranks {
            first.push(next);
            next += rank.launches.len();
        }
        Self { first, parent: (0..next).collect() }
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.parent[one.max(other)] = one.min(other);
    }
}

//! Launches of all ranks, and sends with their receives.
//!
//! Links number their messages alike at both ends. So two ends of a link whose first message in a
//! launch has one number are in the same launch of the communicator, whatever was lost before.
//! Ends that have shown no number are paired within launches that were found so. Launches of calls
//! that exchange no messages are found by counting: the first of one rank is the first of another.

use std::collections::HashMap;

use super::ends::{LinkEndMoves, RankLinks};
use super::numbers::Side;
use super::{Launch, LinkId, Message, RankTimeline, SpanRef};

/// What was found.
pub(super) struct Paired {
    pub launches: Vec<Launch>,
    pub messages: Vec<Message>,
}

/// An end of a link: the position of the rank, and that of the end among those of the rank.
type EndAt = (u32, u32);

/// Pairs the launches and the messages of `ranks`, of which each has its ends in `links`. Times do
/// not matter.
pub(super) fn pair(ranks: &[RankTimeline], links: &[RankLinks]) -> Paired {
    let mut classes = Classes::new(ranks);
    let numbered = numbered_pairs(links);
    for &(send, receive) in &numbered {
        let [send, receive] =
            [send, receive].map(|at| classes.node(at.0, end_at(links, at).launch));
        classes.join(send, receive);
    }
    count_silent(ranks, &mut classes, &numbered, links);
    let mut pairs = numbered;
    pairs.extend(unnumbered_pairs(links, &mut classes));
    let messages = messages(ranks, links, &pairs);
    Paired { launches: launches(ranks, &mut classes), messages }
}

fn end_at(links: &[RankLinks], (rank, end): EndAt) -> &LinkEndMoves {
    &links[rank as usize].ends[end as usize]
}

/// All ends of all ranks, in order.
fn all_ends(links: &[RankLinks]) -> impl Iterator<Item = (EndAt, &LinkEndMoves)> {
    (0..).zip(links).flat_map(|(rank, of_rank)| {
        (0..).zip(&of_rank.ends).map(move |(at, end)| ((rank, at), end))
    })
}

/// The messages of pairs of ends, by their sends.
fn messages(ranks: &[RankTimeline], links: &[RankLinks], pairs: &[(EndAt, EndAt)]) -> Vec<Message> {
    let most = pairs.iter().map(|(send, _)| end_at(links, *send).moves.len()).sum();
    let mut messages = Vec::with_capacity(most);
    for &(send_at, receive_at) in pairs {
        let (send, receive) = (end_at(links, send_at), end_at(links, receive_at));
        let [sent, received] = [(send_at, send), (receive_at, receive)]
            .map(|((rank, _), end)| links[rank as usize].moves_of(end));
        let spans = &ranks[send_at.0 as usize].spans;
        messages.extend(sent.iter().zip(received).map(|(sent, received)| Message {
            link: send.link,
            send: SpanRef { rank: send_at.0, span: sent.span },
            receive: SpanRef { rank: receive_at.0, span: received.span },
            wait: received.wait.map(|span| SpanRef { rank: receive_at.0, span }),
            bytes: spans[sent.span as usize].bytes,
        }));
    }
    messages.sort_by_key(|message| message.send);
    messages
}

/// Ends of one link that begin with one number; of several on one side, the last.
fn numbered_pairs(links: &[RankLinks]) -> Vec<(EndAt, EndAt)> {
    // By link: number, side, end. Each side is in order but for where numbers begin again, so that
    // sorting takes little more than a look at each.
    let mut by_link: Vec<Vec<(u32, Side, EndAt)>> = Vec::new();
    for (at, end) in all_ends(links) {
        let Some(base) = end.base else { continue };
        let link = end.link.0 as usize;
        by_link.resize_with(by_link.len().max(link + 1), Vec::new);
        by_link[link].push((base, end.side, at));
    }
    let mut pairs = Vec::new();
    for mut of_link in by_link {
        of_link.sort();
        for of_number in of_link.chunk_by(|one, other| one.0 == other.0) {
            let last = |side: Side| of_number.iter().rfind(|of| of.1 == side).map(|of| of.2);
            pairs.extend(last(Side::Send).zip(last(Side::Receive)));
        }
    }
    pairs.sort();
    pairs
}

/// Joins launches of calls of which no message is paired, by their number and by counting.
fn count_silent(
    ranks: &[RankTimeline],
    classes: &mut Classes,
    pairs: &[(EndAt, EndAt)],
    links: &[RankLinks],
) {
    let call =
        |send: EndAt| ranks[send.0 as usize].launches[end_at(links, send).launch as usize].call;
    let mut paired: Vec<u64> = pairs.iter().map(|(send, _)| call(*send)).collect();
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
fn unnumbered_pairs(links: &[RankLinks], classes: &mut Classes) -> Vec<(EndAt, EndAt)> {
    if all_ends(links).all(|(_, end)| end.base.is_some()) {
        return Vec::new();
    }
    let mut of_launches: Vec<(usize, LinkId, Side, EndAt)> = Vec::new();
    for (at, end) in all_ends(links) {
        let node = classes.node(at.0, end.launch);
        of_launches.push((classes.root(node), end.link, end.side, at));
    }
    of_launches.sort();
    let alike = of_launches.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1));
    let pair = |ends: &[(usize, LinkId, Side, EndAt)]| match *ends {
        [(_, _, Side::Send, send), (_, _, Side::Receive, receive)] => Some((send, receive)),
        _ => None,
    };
    let is_numbered = |at: EndAt| end_at(links, at).base.is_some();
    let pairs = alike.filter_map(pair);
    pairs.filter(|(send, receive)| !is_numbered(*send) || !is_numbered(*receive)).collect()
}

/// The launches of the communicator, in the order of the first launch of a rank in each.
fn launches(ranks: &[RankTimeline], classes: &mut Classes) -> Vec<Launch> {
    const NONE: u32 = u32::MAX;
    let mut found: Vec<Launch> = Vec::new();
    let mut place_of_class = vec![NONE; classes.parent.len()];
    for (rank, of_rank) in ranks.iter().enumerate() {
        for (number, launch) in of_rank.launches.iter().enumerate() {
            let node = classes.node(rank as u32, number as u32);
            let place = &mut place_of_class[classes.root(node)];
            if *place == NONE {
                *place = found.len() as u32;
                let of_rank = vec![None; ranks.len()];
                found.push(Launch { call: launch.call, of_rank, begin_ns: 0.0, end_ns: 0.0 });
            }
            found[*place as usize].of_rank[rank].get_or_insert(number);
        }
    }
    found
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

    /// The node of a launch of a rank.
    fn node(&self, rank: u32, launch: u32) -> usize {
        self.first[rank as usize] + launch as usize
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

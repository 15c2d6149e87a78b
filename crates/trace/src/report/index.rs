//! What is looked up often in a timeline.

use super::placed::{Placed, PlacedPart};
use super::turns::Turns;
use crate::recording::StepAddress;
use crate::timeline::{BlockPlace, LinkId, Message, SpanKind, SpanRef, Timeline};

/// No message, or no launch.
const NONE: u32 = u32::MAX;

/// In this time a host thread looks at all its thread blocks once.
const LOOK_AT_ALL_NS: f64 = 10_000.0;

/// A timeline with what is looked up often. There may be tens of millions of spans, and each is
/// looked up several times.
pub(super) struct Index<'a> {
    pub timeline: &'a Timeline,
    /// By rank and span: the message that a wait for data waits for, or the first message that a
    /// move receives.
    message: Vec<Vec<u32>>,
    /// By link: the moves that receive from it, by their ends.
    receives: Vec<Vec<(f64, SpanRef)>>,
    /// By link: whether it leads to another host.
    inter_node: Vec<bool>,
    /// By rank and span: its part.
    part: Vec<Vec<u32>>,
    /// By rank and part: the launch of the rank.
    launch_of_part: Vec<Vec<u32>>,
    /// By rank: in which order a host thread moves.
    turns: Vec<Turns>,
}

impl<'a> Index<'a> {
    pub fn new(timeline: &'a Timeline) -> Self {
        let inter_node =
            timeline.links.iter().map(|of| host(timeline, of.from) != host(timeline, of.to));
        let launch_of_part = timeline.ranks.iter().map(|rank| {
            let launches = (0..).zip(&rank.launches);
            launches.flat_map(|(number, of)| of.parts.clone().map(move |_| number)).collect()
        });
        let part = timeline.ranks.iter().map(|rank| {
            let parts = (0..).zip(&rank.parts);
            parts.flat_map(|(number, of)| of.spans.clone().map(move |_| number)).collect()
        });
        Self {
            timeline,
            message: messages(timeline),
            receives: receives(timeline),
            inter_node: inter_node.collect(),
            part: part.collect(),
            launch_of_part: launch_of_part.collect(),
            turns: timeline.ranks.iter().map(Turns::of).collect(),
        }
    }

    /// The message that a wait for data waits for.
    pub fn awaited(&self, wait: SpanRef) -> Option<&'a Message> {
        let is_move = self.timeline.span(wait).kind.is_move();
        self.message_of(wait).filter(|_| !is_move)
    }

    /// The first message that a move receives.
    pub fn received(&self, at: SpanRef) -> Option<&'a Message> {
        let is_move = self.timeline.span(at).kind.is_move();
        self.message_of(at).filter(|_| is_move)
    }

    fn message_of(&self, at: SpanRef) -> Option<&'a Message> {
        let number = self.message[at.rank as usize][at.span as usize];
        self.timeline.messages.get(number as usize)
    }

    /// The last move that received from `link` before `time_ns`.
    pub fn receive_before(&self, link: LinkId, time_ns: f64) -> Option<SpanRef> {
        let of_link = self.receives.get(link.0 as usize)?;
        let count = of_link.partition_point(|(end_ns, _)| *end_ns <= time_ns);
        Some(of_link[count.checked_sub(1)?].1)
    }

    /// The position of the part of a span.
    pub fn part_of(&self, at: SpanRef) -> usize {
        self.part[at.rank as usize][at.span as usize] as usize
    }

    /// The position of the launch of a span in those of its rank; `None` for one of a named track.
    fn launch_number(&self, at: SpanRef) -> Option<usize> {
        let launch = self.launch_of_part[at.rank as usize].get(self.part_of(at))?;
        Some(*launch as usize)
    }

    /// What a span belongs to; `None` for one of a named track.
    pub fn placed(&self, at: SpanRef) -> Option<Placed<'a>> {
        let rank = &self.timeline.ranks[at.rank as usize];
        let launch = &rank.launches[self.launch_number(at)?];
        let part = &rank.parts[self.part_of(at)];
        Some(PlacedPart::new(self.timeline, at.rank, launch, part).span(at.span as usize))
    }

    /// The parts of launches, of thread blocks.
    pub fn parts<'b>(&'b self, launches: &'b [usize]) -> impl Iterator<Item = PlacedPart<'a>> + 'b {
        let launches = launches.iter().map(|number| &self.timeline.launches[*number]);
        launches.flat_map(|launch| self.timeline.rank_launches(launch)).flat_map(
            move |(rank, launch)| {
                let parts = self.timeline.ranks[rank].parts[launch.parts.clone()].iter();
                parts.map(move |part| PlacedPart::new(self.timeline, rank as u32, launch, part))
            },
        )
    }

    /// The spans of launches, of thread blocks.
    pub fn spans<'b>(&'b self, launches: &'b [usize]) -> impl Iterator<Item = Placed<'a>> + 'b {
        self.parts(launches).flat_map(PlacedPart::all)
    }

    /// The number of a rank.
    pub fn rank_number(&self, rank: u32) -> u32 {
        self.timeline.ranks[rank as usize].header.rank
    }

    /// The move that a wait for a thread block waits for: of the steps that it names, the one that
    /// ended last before `time_ns`, in the same launch, instance and round.
    pub fn awaited_step(&self, at: SpanRef, time_ns: f64) -> Option<SpanRef> {
        let placed = self.placed(at)?;
        let mut found: Option<(f64, SpanRef)> = None;
        for address in &placed.step?.waits {
            let Some(at) = self.last_move(&placed, *address, time_ns) else { continue };
            let end_ns = self.timeline.span(at).end_ns;
            if found.is_none_or(|(known_ns, _)| known_ns < end_ns) {
                found = Some((end_ns, at));
            }
        }
        found.map(|(_, at)| at)
    }

    /// The last move of a thread block before `time_ns` that is of a step or one before it, in the
    /// launch, instance and round of `wait`. A thread block does what a round has before it begins
    /// the next; so of a launch with many rounds, only the spans of one are looked at.
    fn last_move(&self, wait: &Placed<'_>, of: StepAddress, time_ns: f64) -> Option<SpanRef> {
        let StepAddress { thread_block, step } = of;
        let (rank, round) = (&self.timeline.ranks[wait.at.rank as usize], wait.span.round);
        let place = BlockPlace { thread_block, ..wait.part.place? };
        let mut parts = rank.parts[wait.launch.parts.clone()].iter();
        let part = parts.find(|part| part.place == Some(place))?;
        let spans = &rank.spans[part.spans.clone()];
        // What stands behind the last move is in no round.
        let moved = &spans[..=spans.iter().rposition(|span| span.kind.is_move())?];
        let first = moved.partition_point(|span| span.round < round);
        let of_round = &moved[first..];
        let of_round = &of_round[..of_round.partition_point(|span| span.round <= round)];
        let ended = &of_round[..of_round.partition_point(|span| span.end_ns <= time_ns)];
        let at = ended.iter().rposition(|span| span.kind.is_move() && span.step <= step)?;
        let span = (part.spans.start + first + at) as u32;
        Some(SpanRef { rank: wait.at.rank, span })
    }

    /// Why a wait of a host thread ends no sooner, if what it waits for was there before: the
    /// thread had this move of another thread block to do. A message from another host may have
    /// been on its way meanwhile.
    pub fn turn_of_another(&self, wait: SpanRef) -> Option<SpanRef> {
        let span = self.timeline.span(wait);
        let (end_ns, other) = self.last_turn(wait, span.end_ns)?;
        let has_come_back = span.end_ns - end_ns < LOOK_AT_ALL_NS;
        if !has_come_back || self.part_of(other) == self.part_of(wait) {
            return None;
        }
        let there_ns = match span.kind {
            SpanKind::WaitData => {
                let sent = self.awaited(wait).filter(|of| !self.is_inter_node(of.link))?.send;
                self.timeline.span(sent).end_ns
            }
            SpanKind::WaitRoom => {
                let link = span.link.filter(|link| !self.is_inter_node(*link))?;
                self.timeline.span(self.receive_before(link, span.end_ns)?).end_ns
            }
            SpanKind::WaitBlock => self.signalled_ns(wait)?,
            SpanKind::Copy | SpanKind::Reduce | SpanKind::Finish => return None,
        };
        (there_ns <= self.timeline.span(other).begin_ns).then_some(other)
    }

    /// The last move of a host thread before `time_ns`, which is in the launch of a span.
    fn last_turn(&self, at: SpanRef, time_ns: f64) -> Option<(f64, SpanRef)> {
        let rank = &self.timeline.ranks[at.rank as usize];
        let span = self.turns[at.rank as usize].last(rank, self.launch_number(at), time_ns)?;
        Some((rank.spans[span as usize].end_ns, SpanRef { rank: at.rank, span }))
    }

    /// The last move that a host thread made in the same launch before `begin_ns`, when the thread
    /// block of a span began.
    pub fn turn_before(&self, at: SpanRef, begin_ns: f64) -> Option<SpanRef> {
        let (end_ns, other) = self.last_turn(at, begin_ns)?;
        let launch = self.placed(at)?.launch;
        (end_ns >= launch.begin_ns && self.part_of(other) != self.part_of(at)).then_some(other)
    }

    /// Whether a link leads to another host.
    pub fn is_inter_node(&self, link: LinkId) -> bool {
        self.inter_node[link.0 as usize]
    }

    /// When what a wait for a thread block waits for had ended.
    pub fn signalled_ns(&self, at: SpanRef) -> Option<f64> {
        let end_ns = self.timeline.span(at).end_ns;
        Some(self.timeline.span(self.awaited_step(at, end_ns)?).end_ns)
    }
}

/// By rank and span, the message that it waits for, or the first that it receives.
fn messages(timeline: &Timeline) -> Vec<Vec<u32>> {
    let ranks = timeline.ranks.iter();
    let mut of_spans: Vec<Vec<u32>> = ranks.map(|rank| vec![NONE; rank.spans.len()]).collect();
    for (number, message) in (0..).zip(&timeline.messages) {
        if let Some(wait) = message.wait {
            of_spans[wait.rank as usize][wait.span as usize] = number;
        }
        let SpanRef { rank, span } = message.receive;
        let of_receive = &mut of_spans[rank as usize][span as usize];
        *of_receive = (*of_receive).min(number);
    }
    of_spans
}

/// By link, the moves that receive from it, by their ends.
fn receives(timeline: &Timeline) -> Vec<Vec<(f64, SpanRef)>> {
    let mut receives = vec![Vec::new(); timeline.links.len()];
    for Message { link, receive, .. } in &timeline.messages {
        receives[link.0 as usize].push((timeline.span(*receive).end_ns, *receive));
    }
    for of_link in &mut receives {
        of_link.sort_by(|one: &(f64, SpanRef), other| one.0.total_cmp(&other.0));
    }
    receives
}

/// The host of the rank with a number, if it has a recording.
fn host(timeline: &Timeline, number: u32) -> Option<&str> {
    let rank = timeline.ranks.iter().find(|rank| rank.header.rank == number)?;
    Some(&rank.header.host)
}

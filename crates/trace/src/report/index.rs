//! What is looked up often in a timeline.

use std::collections::HashMap;

use crate::recording::{Engine, StepAddress, StepDescription};
use crate::timeline::{
    BlockPlace, LinkId, LinkName, Message, Part, RankLaunch, SpanKind, SpanRef, Timeline,
};

/// No message.
const NONE: u32 = u32::MAX;

/// In this time a host thread looks at all its thread blocks once.
const LOOK_AT_ALL_NS: f64 = 10_000.0;

/// A timeline with what is looked up often.
pub(super) struct Index<'a> {
    pub timeline: &'a Timeline,
    /// By rank and span: the message that a wait for data waits for.
    message_of_wait: Vec<Vec<u32>>,
    /// By rank and span: the first message that a move receives.
    message_of_receive: Vec<Vec<u32>>,
    /// By link: the moves that receive from it, by their ends.
    receives: HashMap<LinkId, Vec<(f64, SpanRef)>>,
    /// By rank and part: the launch of the rank.
    launch_of_part: Vec<Vec<u32>>,
    /// By rank: if host threads execute it, its moves by their ends.
    turns: Vec<Vec<(f64, SpanRef)>>,
}

/// A span with all that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub launch: &'a RankLaunch,
    pub part: &'a Part,
    pub step: Option<&'a StepDescription>,
}

impl<'a> Index<'a> {
    pub fn new(timeline: &'a Timeline) -> Self {
        let spans = || timeline.ranks.iter().map(|rank| vec![NONE; rank.spans.len()]).collect();
        let (mut message_of_wait, mut message_of_receive): (Vec<Vec<u32>>, Vec<Vec<u32>>) =
            (spans(), spans());
        let mut receives: HashMap<LinkId, Vec<(f64, SpanRef)>> = HashMap::new();
        for (number, message) in (0..).zip(&timeline.messages) {
            let Message { link, send: _, receive, wait, bytes: _ } = message;
            if let Some(wait) = wait {
                message_of_wait[wait.rank as usize][wait.span as usize] = number;
            }
            let of_receive = &mut message_of_receive[receive.rank as usize][receive.span as usize];
            *of_receive = (*of_receive).min(number);
            let end_ns = timeline.span(*receive).end_ns;
            receives.entry(*link).or_default().push((end_ns, *receive));
        }
        for of_link in receives.values_mut() {
            of_link.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
        let launch_of_part = timeline.ranks.iter().map(|rank| {
            let launches = (0..).zip(&rank.launches);
            launches.flat_map(|(number, of)| of.parts.clone().map(move |_| number)).collect()
        });
        let launch_of_part = launch_of_part.collect();
        let turns = (0..timeline.ranks.len()).map(|rank| turns(timeline, rank)).collect();
        Self { timeline, message_of_wait, message_of_receive, receives, launch_of_part, turns }
    }

    /// The message that a wait for data waits for.
    pub fn awaited(&self, wait: SpanRef) -> Option<&'a Message> {
        let number = self.message_of_wait[wait.rank as usize][wait.span as usize];
        self.timeline.messages.get(number as usize)
    }

    /// The first message that a move receives.
    pub fn received(&self, at: SpanRef) -> Option<&'a Message> {
        let number = self.message_of_receive[at.rank as usize][at.span as usize];
        self.timeline.messages.get(number as usize)
    }

    /// The last move that received from `link` before `time_ns`.
    pub fn receive_before(&self, link: LinkId, time_ns: f64) -> Option<SpanRef> {
        let of_link = self.receives.get(&link)?;
        let count = of_link.partition_point(|(end_ns, _)| *end_ns <= time_ns);
        Some(of_link[count.checked_sub(1)?].1)
    }

    /// The position of the part of a span.
    pub fn part_of(&self, at: SpanRef) -> usize {
        let parts = &self.timeline.ranks[at.rank as usize].parts;
        parts.partition_point(|part| part.spans.end <= at.span as usize)
    }

    /// The position of the launch of a span in those of its rank; `None` for one of a named track.
    pub fn launch_number(&self, at: SpanRef) -> Option<usize> {
        let launch = self.launch_of_part[at.rank as usize].get(self.part_of(at))?;
        Some(*launch as usize)
    }

    /// What a span belongs to; `None` for one of a named track.
    pub fn placed(&self, at: SpanRef) -> Option<Placed<'a>> {
        let rank = &self.timeline.ranks[at.rank as usize];
        let launch = &rank.launches[self.launch_number(at)?];
        let part = &rank.parts[self.part_of(at)];
        let span = &rank.spans[at.span as usize];
        let step = match span.kind {
            SpanKind::Finish => None,
            _ => rank.step(launch, part, span.step),
        };
        Some(Placed { launch, part, step })
    }

    /// The host of the rank with a number, if it has a recording.
    pub fn host(&self, number: u32) -> Option<&'a str> {
        let rank = self.timeline.ranks.iter().find(|rank| rank.header.rank == number)?;
        Some(&rank.header.host)
    }

    /// The number of a rank.
    pub fn rank_number(&self, rank: u32) -> u32 {
        self.timeline.ranks[rank as usize].header.rank
    }

    /// The move that a wait for a thread block waits for: of the steps that it names, the one that
    /// ended last before `time_ns`, in the same launch, instance and round.
    pub fn awaited_step(&self, at: SpanRef, time_ns: f64) -> Option<SpanRef> {
        let placed = self.placed(at)?;
        let rank = &self.timeline.ranks[at.rank as usize];
        let (span, place) = (self.timeline.span(at), placed.part.place?);
        let mut found: Option<(f64, SpanRef)> = None;
        for StepAddress { thread_block, step } in &placed.step?.waits {
            let parts = rank.parts[placed.launch.parts.clone()].iter();
            let is_awaited =
                |of: &BlockPlace| (of.instance, of.thread_block) == (place.instance, *thread_block);
            let part = parts.filter(|part| part.place.as_ref().is_some_and(is_awaited));
            let moves = part.flat_map(|part| part.spans.clone()).filter_map(|other| {
                let of = &rank.spans[other];
                let is_step = of.kind.is_move() && of.step <= *step && of.round == span.round;
                let at = SpanRef { rank: at.rank, span: other as u32 };
                (is_step && of.end_ns <= time_ns).then_some((of.end_ns, at))
            });
            found = moves.chain(found).max_by(|one, other| one.0.total_cmp(&other.0));
        }
        found.map(|(_, at)| at)
    }

    /// Why a wait of a host thread ends no sooner, if what it waits for was there before: the
    /// thread had this move of another thread block to do. A message from another host may have
    /// been on its way meanwhile.
    pub fn turn_of_another(&self, wait: SpanRef) -> Option<SpanRef> {
        let span = self.timeline.span(wait);
        let turns = &self.turns[wait.rank as usize];
        let count = turns.partition_point(|(end_ns, _)| *end_ns <= span.end_ns);
        let (end_ns, other) = *turns.get(count.checked_sub(1)?)?;
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

    /// The last move that a host thread made in the same launch before `begin_ns`, when the thread
    /// block of a span began.
    pub fn turn_before(&self, at: SpanRef, begin_ns: f64) -> Option<SpanRef> {
        let turns = &self.turns[at.rank as usize];
        let count = turns.partition_point(|(end_ns, _)| *end_ns <= begin_ns);
        let (end_ns, other) = *turns.get(count.checked_sub(1)?)?;
        let launch = self.placed(at)?.launch;
        (end_ns >= launch.begin_ns && self.part_of(other) != self.part_of(at)).then_some(other)
    }

    /// Whether a link leads to another host.
    pub fn is_inter_node(&self, link: LinkId) -> bool {
        let LinkName { from, to, protocol: _, wire: _ } = self.timeline.link(link);
        self.host(*from) != self.host(*to)
    }

    /// When what a wait for a thread block waits for had ended.
    pub fn signalled_ns(&self, at: SpanRef) -> Option<f64> {
        let end_ns = self.timeline.span(at).end_ns;
        Some(self.timeline.span(self.awaited_step(at, end_ns)?).end_ns)
    }
}

/// The moves of a rank that host threads execute, by their ends.
fn turns(timeline: &Timeline, rank: usize) -> Vec<(f64, SpanRef)> {
    let of_rank = &timeline.ranks[rank];
    if of_rank.header.engine != Engine::Host {
        return Vec::new();
    }
    let spans = (0..).zip(&of_rank.spans).filter(|(_, span)| span.kind.is_move());
    let at = |span| SpanRef { rank: rank as u32, span };
    let mut turns: Vec<_> = spans.map(|(number, span)| (span.end_ns, at(number))).collect();
    turns.sort_by(|one, other| one.0.total_cmp(&other.0));
    turns
}

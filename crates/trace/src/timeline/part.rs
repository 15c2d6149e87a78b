//! One part: from its records to spans, and to moves at the ends of links.

use super::ends::{EndMove, LinkEndMoves, OpenWaits, RankLinks};
use super::numbers::Side;
use super::raw::RawPart;
use super::steps::{BlockSteps, StepFacts};
use super::{LinkId, Part, Span, SpanKind};
use crate::record::{Record, RecordKind};

/// Reads the parts of a rank, one after the other.
pub(super) struct PartBuild {
    epoch_ns: u64,
    pub spans: Vec<Span>,
    links: RankLinks,
    part: PartState,
}

/// What is known of a part while its records are read. Its memory is used again for the next part:
/// a recording may have millions of parts.
#[derive(Default)]
struct PartState {
    /// By position of a step in the thread block: its moves so far.
    moves: Vec<u32>,
    /// Waits of the step at hand.
    waits: Vec<Wait>,
    ends: LinkEnds,
}

/// A wait of the step at hand: the position of the span, its kind, and the number of the message.
#[derive(Clone, Copy)]
struct Wait {
    at: usize,
    kind: SpanKind,
    message: u32,
}

/// The ends of links in the part at hand.
#[derive(Default)]
struct LinkEnds {
    /// What they had before the launch, as far as that was recorded.
    counts: Vec<((LinkId, Side), u32)>,
    /// Of those behind the first `used`, memory alone is of use.
    ends: Vec<EndState>,
    used: usize,
}

/// The end of a link in the part at hand.
struct EndState {
    link: LinkId,
    side: Side,
    /// The number of the message before the first, if records show it.
    base: Option<u32>,
    moves: Vec<EndMove>,
}

impl PartState {
    fn begin(&mut self, steps: &BlockSteps) {
        self.moves.clear();
        self.moves.resize(steps.steps.len(), 0);
        self.waits.clear();
        self.ends.clear();
    }
}

impl LinkEnds {
    fn clear(&mut self) {
        self.counts.clear();
        self.used = 0;
    }

    fn of(&mut self, link: LinkId, side: Side) -> &mut EndState {
        let mut known = self.ends[..self.used].iter();
        if let Some(at) = known.position(|end| (end.link, end.side) == (link, side)) {
            return &mut self.ends[at];
        }
        let mut counts = self.counts.iter().rev();
        let base = counts.find(|(end, _)| *end == (link, side)).map(|(_, count)| *count);
        let at = self.used;
        self.used += 1;
        match self.ends.get_mut(at) {
            Some(end) => {
                end.moves.clear();
                (end.link, end.side, end.base) = (link, side, base);
            }
            None => self.ends.push(EndState { link, side, base, moves: Vec::new() }),
        }
        &mut self.ends[at]
    }

    /// Hands the ends of a part of `launch` over.
    fn put(&self, launch: u32, links: &mut RankLinks) {
        for EndState { link, side, base, moves } in &self.ends[..self.used] {
            let first = links.moves.len();
            links.moves.extend_from_slice(moves);
            let (link, side, base, moves) = (*link, *side, *base, first..links.moves.len());
            links.ends.push(LinkEndMoves { link, side, launch, base, moves });
        }
    }
}

impl EndState {
    /// One message more, of which records show the number, or not.
    fn push(&mut self, moved: EndMove, shown: Option<u32>) {
        // 0 is no number: it was not recorded.
        if let (None, Some(number @ 1..)) = (self.base, shown) {
            self.base = Some(number.wrapping_sub(self.moves.len() as u32 + 1));
        }
        self.moves.push(moved);
    }
}

impl PartBuild {
    /// For these parts.
    pub fn new<'a>(epoch_ns: u64, parts: impl Iterator<Item = &'a RawPart<'a>>) -> Self {
        let records = parts.map(|part| part.records.len()).sum();
        Self {
            epoch_ns,
            spans: Vec::with_capacity(records),
            links: RankLinks::default(),
            part: PartState::default(),
        }
    }

    /// All spans, and what was done at the ends of links.
    pub fn finish(self) -> (Vec<Span>, RankLinks) {
        (self.spans, self.links)
    }

    /// The next part, of the launch with this number.
    pub fn part(&mut self, raw: &RawPart<'_>, launch: u32, steps: &BlockSteps) -> Part {
        self.part.begin(steps);
        let first = self.spans.len();
        let begin_ns = self.time_ns(raw.begin_ns);
        let mut last_ns = begin_ns;
        for record in raw.records {
            last_ns = self.record(record, last_ns, steps);
        }
        self.part.ends.put(launch, &mut self.links);
        Part {
            track: raw.track,
            place: steps.place,
            spans: first..self.spans.len(),
            begin_ns,
            end_ns: last_ns,
            completeness: raw.completeness,
        }
    }

    fn time_ns(&self, time_ns: u64) -> f64 {
        time_ns.saturating_sub(self.epoch_ns) as f64
    }

    /// Reads a record behind one at `last_ns`; when its span ends.
    fn record(&mut self, record: &Record, last_ns: f64, steps: &BlockSteps) -> f64 {
        if record.kind == RecordKind::Count {
            let end = steps.link(record.step);
            self.part.ends.counts.extend(end.map(|end| (end, record.message)));
            return last_ns;
        }
        // A clock that is read by several threads may step back by a tick.
        let end_ns = self.time_ns(record.time_ns).max(last_ns);
        let (kind, message) = match record.kind {
            RecordKind::WaitRoom => (SpanKind::WaitRoom, record.message),
            RecordKind::WaitData => (SpanKind::WaitData, record.message),
            RecordKind::WaitBlock => (SpanKind::WaitBlock, 0),
            RecordKind::Move => (SpanKind::Copy, record.message),
            RecordKind::Begin | RecordKind::End | RecordKind::Count => (SpanKind::Finish, 0),
        };
        let (step, at) = (record.step, self.spans.len());
        self.spans.push(Span {
            begin_ns: last_ns,
            end_ns,
            kind,
            step,
            round: 0,
            link: None,
            bytes: 0,
        });
        if kind.is_wait() {
            self.part.waits.push(Wait { at, kind, message });
        } else if kind.is_move() {
            self.end_move(at, message, steps);
            self.part.waits.clear();
        }
        end_ns
    }

    /// Fills in the span of a move, and those of the waits before it.
    fn end_move(&mut self, at: usize, message: u32, steps: &BlockSteps) {
        let Some(position) = steps.position(self.spans[at].step) else { return };
        let step = &steps.steps[position];
        let facts = step.move_facts(self.part.moves[position]);
        self.part.moves[position] += 1;
        let span = &mut self.spans[at];
        span.kind = if step.reduces { SpanKind::Reduce } else { SpanKind::Copy };
        (span.round, span.bytes) = (facts.round, facts.bytes);
        span.link = step.sends.first().or(step.receives.first()).copied();
        for side in [Side::Receive, Side::Send] {
            self.advance(step, side, at as u32, message);
        }
        for wait in &self.part.waits {
            self.spans[wait.at].round = facts.round;
        }
    }

    /// One message more on each link of one side of a step, which a move at `moved` ends.
    fn advance(&mut self, step: &StepFacts, side: Side, moved: u32, message: u32) {
        let (links, kind, has_number) = match side {
            Side::Receive => (&step.receives, SpanKind::WaitData, step.sends.is_empty()),
            Side::Send => (&step.sends, SpanKind::WaitRoom, true),
        };
        let waits = self.part.waits.iter().filter(|wait| wait.kind == kind).copied();
        let (count, last) = (waits.clone().count(), waits.clone().last());
        // All waits were recorded, or those that did not have to wait were left out.
        let is_complete = count == links.len();
        if !is_complete && links.len() > 1 && count > 0 {
            let (waits, links) = (waits.clone().map(|wait| wait.at as u32), links.clone());
            self.links.open.push(OpenWaits { side, waits: waits.collect(), links, moved });
        }
        let single = last.filter(|_| links.len() == 1);
        let mut in_order = waits.filter(|_| is_complete);
        for (position, &link) in links.iter().enumerate() {
            let wait = in_order.next().or(single);
            if let Some(wait) = wait {
                self.spans[wait.at].link = Some(link);
            }
            let own = (position == 0 && has_number).then_some(message);
            let shown = wait.map(|wait| wait.message).or(own);
            let wait = wait.map(|wait| wait.at as u32).filter(|_| side == Side::Receive);
            self.part.ends.of(link, side).push(EndMove { span: moved, wait }, shown);
        }
    }
}

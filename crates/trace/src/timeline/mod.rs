//! What all ranks of a communicator did, by one clock: the recordings, joined.
//!
//! A [`Timeline`] has the launches of a communicator; a launch has a part for each thread block of
//! each rank; a part has spans, one behind the other. A span is a wait, the move of one message, or
//! the end of a part. Sends are matched with receives.
//!
//! # Guarantees
//!
//! * The spans of a part follow each other without gap or overlap, from the begin of the part to
//!   its end.
//! * What was recorded without a begin (after a loss) belongs to no part, and is counted.
//! * Launches of a rank do not overlap.

mod align;
mod arrivals;
mod devices;
mod ends;
mod error;
mod host_times;
mod join;
mod numbers;
mod open_waits;
mod pairing;
mod part;
mod raw;
mod steps;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use crate::clock::{Contradiction, DeviceClock};
use crate::recording::{
    Call, CallShapeDescription, Ending, Header, NamedTrack, PlanDescription, Recording,
    StepDescription, Work,
};

pub(crate) use devices::Devices;
pub use error::JoinError;

/// What all ranks of a communicator did.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// The ranks with a recording, in order.
    pub ranks: Vec<RankTimeline>,
    /// The launches, in the order of their begins.
    pub launches: Vec<Launch>,
    /// The links that [`LinkId`] numbers.
    pub links: Vec<LinkName>,
    /// The matched messages.
    pub messages: Vec<Message>,
    /// UNIX time at which all times are 0.
    pub origin_unix_ns: u64,
    /// How well the clocks agree.
    pub clock: ClockSummary,
}

/// What one rank did.
#[derive(Clone, PartialEq, Debug)]
pub struct RankTimeline {
    /// Who recorded.
    pub header: Header,
    /// The plans, by id.
    pub plans: BTreeMap<u32, PlanDescription>,
    /// The call shapes, by id.
    pub shapes: BTreeMap<u32, CallShapeDescription>,
    /// The calls, by number.
    pub calls: BTreeMap<u64, Call>,
    /// The tracks, in order.
    pub tracks: Vec<TrackSummary>,
    /// The launches of this rank, in order.
    pub launches: Vec<RankLaunch>,
    /// Parts of launches: those of one launch together, in the order of their tracks; then what
    /// named tracks did.
    pub parts: Vec<Part>,
    /// Spans of parts: those of one part together, in order.
    pub spans: Vec<Span>,
    /// How its recording ends.
    pub ending: Ending,
    /// Its clock before causality.
    pub clock: DeviceClock,
}

/// A track, and what of it is not in the timeline.
#[derive(Clone, PartialEq, Debug)]
pub struct TrackSummary {
    /// Its number.
    pub track: u32,
    /// Its description, if it is no thread block of a launch.
    pub named: Option<NamedTrack>,
    /// Records that were overwritten before they were read.
    pub lost: u64,
    /// Records between a loss and the next begin.
    pub unassigned: u64,
}

/// A launch of all ranks.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// The number of the call.
    pub call: u64,
    /// By rank, as in [`Timeline::ranks`]: its launch, if it was recorded.
    pub of_rank: Vec<Option<usize>>,
    /// When the first thread block of any rank begins.
    pub begin_ns: f64,
    /// When the last one ends.
    pub end_ns: f64,
}

/// The part of one rank in a launch.
#[derive(Clone, PartialEq, Debug)]
pub struct RankLaunch {
    /// The number of the call.
    pub call: u64,
    /// The shape of the call, if it is known.
    pub shape: Option<u32>,
    /// Its parts.
    pub parts: Range<usize>,
    /// When its first thread block begins.
    pub begin_ns: f64,
    /// When its last thread block ends.
    pub end_ns: f64,
}

/// What one thread block did in one launch, or a named track without a loss.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// Its track.
    pub track: u32,
    /// Where it belongs in the plan, if that is known.
    pub place: Option<BlockPlace>,
    /// Its spans.
    pub spans: Range<usize>,
    /// When it begins.
    pub begin_ns: f64,
    /// When it ends.
    pub end_ns: f64,
    /// Whether its end was recorded.
    pub completeness: Completeness,
}

/// A thread block of an instance of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockPlace {
    /// The instance.
    pub instance: u32,
    /// The thread block of the plan.
    pub thread_block: u32,
}

/// Whether all of a part was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completeness {
    /// From begin to end.
    Whole,
    /// Its end was lost, or had not come when the recording ended.
    Cut,
}

/// What a thread block did without a change.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span {
    /// When it begins.
    pub begin_ns: f64,
    /// When it ends.
    pub end_ns: f64,
    /// What it is.
    pub kind: SpanKind,
    /// The number of its step in the plan; in an exchange, of its transfer.
    pub step: u32,
    /// The round of its step.
    pub round: u32,
    /// The link that it waits for, or that it moves a message of: the first that it sends by, else
    /// the first that it receives from.
    pub link: Option<LinkId>,
    /// Bytes of the move; of one operand.
    pub bytes: u64,
}

/// What a span is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SpanKind {
    /// A wait for room in a link.
    WaitRoom,
    /// A wait for data of a link.
    WaitData,
    /// A wait for another thread block of the rank.
    WaitBlock,
    /// The move of one message that does not add.
    Copy,
    /// The move of one message that adds.
    Reduce,
    /// What comes behind the last step.
    Finish,
}

/// The position of a link in [`Timeline::links`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

/// What makes a link, alike at both ends.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkName {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// The protocol of its messages.
    pub protocol: String,
    /// The wire of the pair.
    pub wire: u32,
}

/// A span of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpanRef {
    /// The position of the rank in [`Timeline::ranks`].
    pub rank: u32,
    /// The position in [`RankTimeline::spans`].
    pub span: u32,
}

/// A message: a send and its receive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Message {
    /// The link.
    pub link: LinkId,
    /// The move that sends it.
    pub send: SpanRef,
    /// The move that receives it.
    pub receive: SpanRef,
    /// The wait for it, if one was recorded. Of a step with several links, waits that had nothing
    /// to wait for leave no record; then each wait is taken for that for the message that was sent
    /// last before it ended. Low-latency kernels record no waits; then the move is cut where the
    /// last of its messages was sent, and that is the end of a wait.
    pub wait: Option<SpanRef>,
    /// Its bytes.
    pub bytes: u64,
}

/// How well the clocks agree.
#[derive(Clone, PartialEq, Debug)]
pub struct ClockSummary {
    /// By rank: a bound of the error against the first rank, in ns.
    pub errors_ns: Vec<f64>,
    /// By rank: what causality added, in ns.
    pub corrections_ns: Vec<f64>,
    /// What could not be met. Clocks are positions in [`Timeline::ranks`], and behind them hosts.
    pub contradictions: Vec<Contradiction>,
    /// Ranks with a GPU without a reading of its clock: theirs is taken for UNIX time.
    pub without_readings: Vec<u32>,
}

impl Timeline {
    /// Joins the recordings of the ranks of one communicator. Some may be missing.
    ///
    /// # Errors
    ///
    /// There is none, or they do not belong together.
    pub fn join(recordings: Vec<Recording>) -> Result<Self, JoinError> {
        let recordings = in_order(recordings)?;
        let mut links = numbers::LinkTable::default();
        let mut ranks = Vec::new();
        let mut of_links = Vec::new();
        let mut clocks = Vec::new();
        for recording in recordings.into_iter().map(host_times::move_near) {
            clocks.push(align::RankReadings::of(&recording));
            let (rank, of_rank) = join::join(recording, &mut links);
            ranks.push(rank);
            of_links.push(of_rank);
        }
        let pairing::Paired { launches, messages } = pairing::pair(&ranks, &of_links);
        let open: Vec<_> = of_links.into_iter().map(|of_rank| of_rank.open).collect();
        let mut timeline = Self {
            ranks,
            launches,
            links: links.names,
            messages,
            origin_unix_ns: 0,
            clock: ClockSummary {
                errors_ns: Vec::new(),
                corrections_ns: Vec::new(),
                contradictions: Vec::new(),
                without_readings: Vec::new(),
            },
        };
        align::align(&mut timeline, &clocks);
        open_waits::assign(&mut timeline, &open);
        arrivals::cut(&mut timeline);
        Ok(timeline)
    }

    /// The span at a place, which must exist.
    pub fn span(&self, at: SpanRef) -> &Span {
        &self.ranks[at.rank as usize].spans[at.span as usize]
    }

    /// A link, which must exist.
    pub fn link(&self, link: LinkId) -> &LinkName {
        &self.links[link.0 as usize]
    }

    /// The rank launches of a launch, each with the position of its rank.
    pub fn rank_launches(&self, launch: &Launch) -> impl Iterator<Item = (usize, &RankLaunch)> {
        let of_rank = launch.of_rank.iter().enumerate();
        of_rank.filter_map(|(rank, number)| Some((rank, &self.ranks[rank].launches[(*number)?])))
    }
}

impl Part {
    /// The thread block of its plan; in an exchange, that of its launch.
    pub fn thread_block(&self) -> u32 {
        self.place.map_or(self.track, |place| place.thread_block)
    }
}

impl RankTimeline {
    /// The shape of a launch, if it is known.
    pub fn shape(&self, launch: &RankLaunch) -> Option<&CallShapeDescription> {
        self.shapes.get(&launch.shape?)
    }

    /// The plan of a launch, if it has one that is known.
    pub fn plan(&self, launch: &RankLaunch) -> Option<&PlanDescription> {
        match &self.shape(launch)?.work {
            Work::Plan { plan, kernel: _, cut: _ } => self.plans.get(plan),
            Work::Exchange { .. } => None,
        }
    }

    /// The spans of a launch: those of all its parts.
    pub fn spans_of(&self, launch: &RankLaunch) -> Range<usize> {
        match &self.parts[launch.parts.clone()] {
            [] => 0..0,
            [first, ..] => first.spans.start..self.parts[launch.parts.end - 1].spans.end,
        }
    }

    /// The steps of the thread block of a part of a launch, as far as its plan is known.
    pub fn steps(&self, launch: &RankLaunch, part: &Part) -> &[StepDescription] {
        let block = self
            .plan(launch)
            .zip(part.place)
            .and_then(|(plan, place)| plan.thread_blocks.get(place.thread_block as usize));
        block.map_or(&[], |block| &block.steps)
    }

    /// The step of a span of a part of a launch, if it is known.
    pub fn step(&self, launch: &RankLaunch, part: &Part, step: u32) -> Option<&StepDescription> {
        let steps = self.steps(launch, part);
        StepDescription::position(steps, step).map(|position| &steps[position])
    }
}

impl SpanKind {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitRoom => "wait for room",
            Self::WaitData => "wait for data",
            Self::WaitBlock => "wait for a block",
            Self::Copy => "copy",
            Self::Reduce => "reduce",
            Self::Finish => "finish",
        }
    }

    /// Whether it moves a message.
    pub fn is_move(self) -> bool {
        match self {
            Self::Copy | Self::Reduce => true,
            Self::WaitRoom | Self::WaitData | Self::WaitBlock | Self::Finish => false,
        }
    }

    /// Whether it waits.
    pub fn is_wait(self) -> bool {
        match self {
            Self::WaitRoom | Self::WaitData | Self::WaitBlock => true,
            Self::Copy | Self::Reduce | Self::Finish => false,
        }
    }
}

impl Span {
    /// How long it takes.
    pub fn duration_ns(&self) -> f64 {
        self.end_ns - self.begin_ns
    }
}

impl fmt::Display for LinkName {
    /// `0→1`, without the wire.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, protocol: _, wire: _ } = self;
        write!(f, "{from}→{to}")
    }
}

/// Recordings of one communicator, by rank.
fn in_order(mut recordings: Vec<Recording>) -> Result<Vec<Recording>, JoinError> {
    recordings.sort_by_key(|recording| recording.header.rank);
    let first = recordings.first().ok_or(JoinError::Nothing)?;
    let other = recordings.iter().map(|recording| &recording.header.communicator);
    let communicator = &first.header.communicator;
    if let Some(other) = other.into_iter().find(|other| *other != communicator) {
        let (first, other) = (communicator.clone(), other.clone());
        return Err(JoinError::Communicators { first, other });
    }
    let twice = recordings.windows(2).find(|two| two[0].header.rank == two[1].header.rank);
    match twice {
        Some(two) => Err(JoinError::Twice { rank: two[0].header.rank }),
        None => Ok(recordings),
    }
}

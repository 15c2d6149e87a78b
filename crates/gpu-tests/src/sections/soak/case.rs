//! What ranks do in a soak, as drawn: nothing here has bytes or addresses yet.

use std::fmt;
use std::ops::Range;

use crate::case::Case;
use crate::sections::point_to_point::Message;

/// Calls with buffers of their own, made in one round or in several, each time with other inputs
/// and in another order. A rank waits only at the end of a round.
pub struct SoakCase {
    /// Its number, from which together with the seed all else follows.
    pub number: u64,
    /// By communicator, what is called on it.
    pub pieces: Vec<Vec<Piece>>,
    /// What is submitted at once.
    pub acts: Vec<SoakStep>,
    /// How often, and in which order.
    pub rounds: Vec<Round>,
    /// Whether every rank interleaves the two communicators as it likes, each in a stream of its
    /// own.
    pub apart: bool,
    /// Whether buffers lie in memory that was just allocated.
    pub in_new_memory: bool,
}

/// One collective, or messages that go together.
pub enum Piece {
    /// A collective.
    Collective(Case),
    /// Sends and receives of one group.
    Messages(Vec<Message>),
}

/// One group of calls.
pub struct SoakStep {
    /// The communicators that it calls, and which of their pieces.
    pub batches: Vec<(usize, Range<usize>)>,
    /// Which of the rank's streams it goes to.
    pub stream: usize,
    /// Another stream, to which every second piece goes.
    pub other_stream: Option<usize>,
    /// If it is captured and launched as a graph in every round: when it is captured.
    pub graph: Option<Capture>,
    /// If one way to serve it is forced: a number that picks it among all.
    pub pin: Option<u64>,
    /// How often it is made in a round, without anybody waiting between.
    pub times: usize,
}

/// When an act is captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capture {
    /// Before the first round, while nobody calls.
    Before,
    /// In the first round, so many places ahead of its first launch, while calls are under way.
    Within {
        /// How many.
        ahead: usize,
    },
}

/// All acts once more, with new inputs.
pub struct Round {
    /// What the inputs follow from.
    pub seed: u64,
    /// For every rank of the first communicator, the acts in its order.
    pub orders: Vec<Vec<usize>>,
    /// A rank that waits before one of its acts.
    pub late: Option<Late>,
    /// Whether ranks look at their results while others may still be calling.
    pub checks_early: bool,
}

/// A rank that is late.
pub struct Late {
    /// A rank of the first communicator.
    pub rank: usize,
    /// Before which place of its order it waits.
    pub place: usize,
    /// How long, in microseconds.
    pub wait_us: u64,
}

impl Piece {
    /// Whether it leaves its inputs as they are, so that it may be made again at once.
    pub fn keeps_its_input(&self) -> bool {
        match self {
            Piece::Collective(case) => !case.in_place,
            Piece::Messages(_) => true,
        }
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = match self {
            Piece::Collective(case) => return f.write_str(&case.describe()),
            Piece::Messages(messages) => messages,
        };
        f.write_str("messages")?;
        messages
            .iter()
            .try_for_each(|Message { from, to, bytes }| write!(f, " r{from}→r{to}:{bytes}"))
    }
}

impl SoakCase {
    /// The pieces of `act`, each with the number of its communicator.
    pub fn pieces_of<'a>(&'a self, act: &'a SoakStep) -> impl Iterator<Item = (usize, &'a Piece)> {
        act.batches.iter().flat_map(|(communicator, range)| {
            self.pieces[*communicator][range.clone()].iter().map(|piece| (*communicator, piece))
        })
    }

    /// The only collective of `act`, with the number of its communicator, if it has one and nothing
    /// else.
    pub fn only_collective<'a>(&'a self, act: &'a SoakStep) -> Option<(usize, &'a Case)> {
        let mut pieces = self.pieces_of(act);
        match (pieces.next(), pieces.next()) {
            (Some((communicator, Piece::Collective(case))), None) => Some((communicator, case)),
            _ => None,
        }
    }
}

/// Every act on a line, and the order of every round.
impl fmt::Display for SoakCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, act) in self.acts.iter().enumerate() {
            let SoakStep { batches: _, stream, other_stream, graph, pin, times } = act;
            let other = other_stream.map_or_else(String::new, |other| format!(" and {other}"));
            let how = match graph {
                None => "eagerly".to_owned(),
                Some(Capture::Before) => "in a graph".to_owned(),
                Some(Capture::Within { ahead }) => {
                    format!("in a graph captured {ahead} places ahead")
                }
            };
            let pinned = if pin.is_some() { ", pinned" } else { "" };
            write!(
                f,
                "\n        act {number}, {how} in stream {stream}{other}, {times} times{pinned}:"
            )?;
            for (communicator, piece) in self.pieces_of(act) {
                write!(f, "\n            communicator {communicator}: {piece}")?;
            }
        }
        for (number, round) in self.rounds.iter().enumerate() {
            let orders = if self.apart { &round.orders[..] } else { &round.orders[..1] };
            write!(f, "\n        round {number}, seed {}, acts in order {orders:?}", round.seed)?;
            if let Some(Late { rank, place, wait_us }) = round.late {
                write!(f, ", r{rank} waits {wait_us} us before place {place}")?;
            }
        }
        Ok(())
    }
}

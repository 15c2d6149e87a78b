//! What changes while a call is simulated.

use std::collections::VecDeque;

use crate::model::result::Cause;

/// A time in ns that is not NaN and not negative, as an ordered number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time(pub u64);

impl Time {
    pub fn of(ns: f64) -> Self {
        // The bits of non-negative floats are ordered as the floats are.
        Self(ns.max(0.0).to_bits())
    }

    pub fn ns(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// What happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A thread block has all that its next message needs.
    Begin(usize),
    /// It has prepared the move.
    Move(usize),
    /// Its message is done.
    Finish(usize),
    /// The proxy of a link looks for a message.
    Carry(usize),
}

#[derive(Default)]
pub(super) struct BlockState {
    pub round: u32,
    pub op: usize,
    /// Chunks of the op that are done.
    pub chunks: u32,
    pub free_ns: f64,
    /// When each op ended, round after round.
    pub ends_ns: Vec<f64>,
    /// Who waits for an op to end: its number in `ends_ns`, and the waiter.
    pub waiters: Vec<(usize, usize)>,
    /// Whether its next message waits for nothing that it has to look for again.
    pub begun: bool,
    /// Until when packets of its message arrive, where the receiver follows.
    pub tail_ns: f64,
    /// Incoming links whose sender has not ended its message yet.
    pub tails: usize,
    pub moved: bool,
    /// What its message waits for last.
    pub cause: Cause,
    /// When the first message of its op began, and since when it could have.
    pub span: Option<SpanStart>,
}

/// How a span begins.
#[derive(Clone, Copy)]
pub(super) struct SpanStart {
    pub wait_ns: f64,
    pub start_ns: f64,
    pub cause: Cause,
}

#[derive(Default)]
pub(super) struct LinkState {
    /// When messages arrive, or their first packets do.
    pub arrivals_ns: VecDeque<f64>,
    /// When the last packets of messages arrive, as far as that is known.
    pub tails_ns: VecDeque<f64>,
    /// When free slots became so.
    pub credits_ns: VecDeque<f64>,
    pub sender_parked: bool,
    pub receiver_parked: bool,
    pub tail_parked: bool,
    /// Messages that wait for the proxy: when they are there, and their bytes.
    pub staged: VecDeque<(f64, f64)>,
    pub carrying: bool,
}

/// Owners of flows: thread blocks first, then the proxies of links.
#[derive(Clone, Copy)]
pub(super) enum Owner {
    Block(usize),
    Proxy(usize),
}

/// Something that is not there yet.
pub(super) enum Missing {
    Op(usize, usize),
    Message(usize),
    Room(usize),
}

//! Whoever follows calls while they are executed: profilers, metrics.
//!
//! A [`CallObserver`] sees one rank of one communicator ([`Settings::observer`]). It is called on
//! the path of calls, so it must not wait. Where nobody observes, calls pay one comparison.
//!
//! [`Settings::observer`]: crate::Settings::observer

mod spans;

use msccl_collective::{DataType, Protocol, Rank};

use crate::call::CallTag;
use crate::error::Error;

pub(crate) use spans::BlockSpans;

/// Follows the calls of one rank. Calls that move nothing between ranks are not seen: those of one
/// rank, of no elements, and of a rank with itself.
pub trait CallObserver: Send + Sync {
    /// The ranks have met. Called once, before everything else.
    fn joined(&self, rank: &ObservedRank<'_>);

    /// Whether it wants [`CallObserver::block`]. Host threads then note when thread blocks begin
    /// and end; on GPUs that needs a recording.
    fn wants_blocks(&self) -> bool;

    /// A collective begins: host threads execute it, or a GPU is given it.
    fn collective_begins(&self, call: &ObservedCollective<'_>);

    /// The sends and receives of a group begin.
    fn transfers_begin(&self, call: &ObservedTransfers<'_>);

    /// What began last has been executed by host threads, or is in its stream on a GPU; or failed.
    fn ends(&self, number: u64, outcome: &Result<(), Error>);

    /// A thread block has ended its part of a call; on GPUs some ms ago.
    fn block(&self, span: &BlockSpan);
}

/// Who is observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObservedRank<'a> {
    /// The number of the communicator, which all its ranks share.
    pub communicator: u64,
    /// This rank.
    pub rank: Rank,
    /// How many there are.
    pub ranks: u32,
    /// On how many nodes.
    pub nodes: u32,
    /// The host of this rank.
    pub host: &'a str,
    /// Where it runs.
    pub place: ObservedPlace,
}

/// Where a rank runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObservedPlace {
    /// On host threads: a call [ends](CallObserver::ends) when it is done.
    Host,
    /// On a GPU: a call ends when it is in its stream.
    Gpu,
}

/// A collective that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObservedCollective<'a> {
    /// The number of the call on its communicator.
    pub number: u64,
    /// What the front end gave it.
    pub tag: CallTag,
    /// Name of the collective.
    pub collective: &'static str,
    /// The type of every element.
    pub data_type: DataType,
    /// Bytes of the larger buffer.
    pub bytes: u64,
    /// The algorithm that serves it.
    pub algorithm: &'a str,
    /// How messages are laid out.
    pub protocol: Protocol,
    /// Thread blocks of this rank, all instances counted.
    pub thread_blocks: u32,
    /// Threads of a thread block of a GPU.
    pub threads: u32,
}

/// Sends and receives that begin together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObservedTransfers<'a> {
    /// The number of the call on its communicator, which they share.
    pub number: u64,
    /// Each of them, in the order of the calls. Thread blocks of [`BlockSpan`] are counted by peer,
    /// then by direction, sends first.
    pub transfers: &'a [ObservedTransfer],
}

/// A send or a receive that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObservedTransfer {
    /// What the front end gave it.
    pub tag: CallTag,
    /// With whom.
    pub peer: Rank,
    /// Which way.
    pub way: TransferWay,
    /// How much.
    pub bytes: u64,
}

/// Which way a transfer goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TransferWay {
    /// To the peer.
    Send,
    /// From the peer.
    Receive,
}

/// When a thread block did its part of a call, and how it spent the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSpan {
    /// The low 32 bits of the number of the call. A replay of a CUDA graph has the number of the
    /// captured call.
    pub call: u32,
    /// Which thread block, counted through all instances.
    pub block: u32,
    /// By the clock of records: `CLOCK_MONOTONIC` of a host, globaltimer of a GPU.
    pub begin_ns: u64,
    /// By the same clock.
    pub end_ns: u64,
    /// How long it waited: for data, for room, for other thread blocks.
    pub waiting_ns: u64,
    /// How long it copied and reduced.
    pub moving_ns: u64,
}

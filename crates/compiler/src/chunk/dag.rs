//! The chunk DAG: copies and reductions in program order.
//!
//! Nothing here says who sends, when, or on which thread block. Two ops conflict exactly if they
//! touch one slot of one rank and one of them writes it; the order of `ops` then decides.

use std::fmt;

use msccl_collective::{Collective, Placement, Protocol, Rank, SizeRange, Slot};
use msccl_syntax::{Diagnostic, Span};
use smallvec::SmallVec;

use super::OrderClaim;

/// A program, evaluated.
#[derive(Clone, PartialEq, Debug)]
pub struct ChunkDag {
    /// Name of the algorithm.
    pub name: String,
    /// What it computes.
    pub collective: Collective,
    /// Ranks on one node, as launched; all, if the launch names no nodes.
    pub per_node: u32,
    /// The calls it serves: in place or out of place. Slots are memory slots: in place, a slot of
    /// the aliased buffer is already replaced by the one that stands for it
    /// ([`Collective::in_place`]); out of place, no op writes an input slot.
    pub placement: Placement,
    /// How messages are laid out.
    pub protocol: Protocol,
    /// Message sizes served.
    pub sizes: SizeRange,
    /// Threads per thread block requested.
    pub threads: Option<u32>,
    /// Copies of every op, each on its part of every chunk: slot `s` of the text has become slots
    /// `s * instances ..`, one for each copy. 1 unless [`super::instances`] was applied.
    pub instances: u32,
    /// Copies of everything that the engine is to make, which are not here. 1 unless the launch
    /// leaves them to the engine.
    pub engine_instances: u32,
    /// Parts of every chunk that thread blocks are to handle by turns. Nothing is cut yet: that is
    /// done to the finished schedule.
    pub interleaved: u32,
    /// The order in which the program claims to add. Nothing here depends on it: whoever has the
    /// algorithm proved has this proved as well.
    pub order_claim: Option<OrderClaim>,
    /// Scratch chunks of every rank.
    pub scratch_chunks: Vec<u32>,
    /// The ops, in program order.
    pub ops: Vec<Op>,
    /// Distinct placement hints; [`HintsId`] 0 is "no hints".
    pub hints: Vec<Hints>,
    /// Where statements stand in the text; by [`StatementId`]. The first is the algorithm's head,
    /// to which the copies belong that finish an in-place program out of place.
    pub statements: Vec<Origin>,
    /// What is allowed in the text, but hardly meant.
    pub warnings: Vec<Diagnostic>,
}

/// `to = Σ sources`, chunk by chunk over `count` slots. `+=` lists `to` itself as first source.
///
/// No two operands overlap in part: a source equals `to` or is disjoint from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// First slot written.
    pub to: At,
    /// First slots read, in the order in which they are combined; at least one.
    pub sources: SmallVec<[At; 2]>,
    /// Chunks in every operand; at least one.
    pub count: u32,
    /// Placement hints.
    pub hints: HintsId,
    /// The statement that requested it.
    pub statement: StatementId,
}

/// A slot of a rank; prints as `r3.i[4]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// The rank.
    pub rank: Rank,
    /// The slot.
    pub slot: Slot,
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.rank, self.slot)
    }
}

/// Index into [`ChunkDag::hints`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct HintsId(pub u32);

/// Index into [`ChunkDag::statements`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StatementId(pub u32);

/// Where the author wants an op placed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Hints {
    /// The channel of its links.
    pub channel: Option<u32>,
    /// The thread block on a sending rank.
    pub send_tb: Option<u32>,
    /// The thread block on the receiving rank; also that of local ops.
    pub receive_tb: Option<u32>,
    /// Which copy of the program the op belongs to, below [`ChunkDag::instances`]. Copies share no
    /// slots, and are there to run on channels and thread blocks of their own.
    pub instance: u32,
}

/// What decides which messages may share a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkKey {
    /// The author requested this channel.
    Requested {
        /// The channel.
        channel: u32,
    },
    /// The compiler chooses a channel for this copy of the program.
    Open {
        /// The copy.
        instance: u32,
    },
}

impl Hints {
    /// The channel requested, or the freedom to choose. A thread block belongs to one channel, so
    /// asking for a thread block without a channel asks for channel 0.
    pub fn link_key(&self) -> LinkKey {
        let asks_tb = self.send_tb.is_some() || self.receive_tb.is_some();
        match self.channel.or(asks_tb.then_some(self.instance)) {
            Some(channel) => LinkKey::Requested { channel },
            None => LinkKey::Open { instance: self.instance },
        }
    }
}

/// Where a statement stands in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The statement.
    pub span: Span,
    /// The call statements through which it was reached, innermost first.
    pub called_from: Vec<Span>,
}

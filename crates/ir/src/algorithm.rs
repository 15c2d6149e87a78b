//! The types of the waist.

use std::fmt;

use msccl_collective::{
    Channel, Collective, Placement, Protocol, Rank, Region, SizeRange, Slot, StepIndex, TbIndex,
};
use smallvec::SmallVec;

/// A collective algorithm, scheduled: what every thread block of every rank does, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Algorithm {
    /// Its name, for people.
    pub name: String,
    /// What it computes; `collective.ranks` equals `ranks.len()`.
    pub collective: Collective,
    /// Which calls it serves.
    pub placement: Placement,
    /// How its links' messages are laid out.
    pub protocol: Protocol,
    /// Which message sizes it serves.
    pub sizes: SizeRange,
    /// Threads per thread block that the author requested.
    pub threads: Option<u32>,
    /// The program of each rank.
    pub ranks: Vec<RankProgram>,
}

/// What one rank does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RankProgram {
    /// Size of the scratch buffer, in chunks.
    pub scratch_chunks: u32,
    /// The thread blocks, all resident at once.
    pub thread_blocks: Vec<ThreadBlock>,
}

/// A sequence of steps on one channel, with the link ends it owns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadBlock {
    /// The channel of all its links.
    pub channel: Channel,
    /// The ranks it sends to, ascending.
    pub sends: Vec<Rank>,
    /// The ranks it receives from, ascending.
    pub receives: Vec<Rank>,
    /// What it does, in order.
    pub steps: Vec<Step>,
}

/// Up to two operands are stored in place; most steps have no more.
pub type Operands = SmallVec<[Place; 2]>;

/// Up to two waits are stored in place.
pub type Waits = SmallVec<[Wait; 2]>;

/// One step: Σ sources → destinations, after waits.
///
/// A step with `count` 0 has no sources and no destinations and only waits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// Steps of the same rank that must have finished first. For an earlier step of the same thread
    /// block that is so in any case; a step that waits for itself or a later one never runs.
    pub waits: Waits,
    /// What is read, in the order in which it is combined. At most one message per link.
    pub sources: Operands,
    /// Where the result goes. At most one message per link.
    pub destinations: Operands,
    /// Chunks in every operand.
    pub count: u32,
}

/// What a step reads or writes: a run of slots of its own rank, or the next message of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The slots `start .. start + count` of the step's own rank.
    Local(Slot),
    /// As a source: the next message from that rank. As a destination: the next message to it.
    Link(Rank),
}

/// The end of step `step` of thread block `tb` of the same rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    /// Whose step.
    pub tb: TbIndex,
    /// Which step.
    pub step: StepIndex,
}

/// The address of a step in an algorithm; prints as `r3 tb2 s17`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepRef {
    /// The rank.
    pub rank: Rank,
    /// The thread block on that rank.
    pub tb: TbIndex,
    /// The step in that thread block.
    pub step: StepIndex,
}

/// The field's name for the shape of a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StepKind {
    /// Only waits.
    Nop,
    /// Local → link.
    Send,
    /// Link → local.
    Recv,
    /// Local → local.
    Copy,
    /// Local + local → the first of them.
    Reduce,
    /// Link → local + link.
    RecvCopySend,
    /// Link + local → local.
    RecvReduceCopy,
    /// Link + local → link.
    RecvReduceSend,
    /// Link + local → local + link.
    RecvReduceCopySend,
    /// Any other mix of sources and destinations: only the native target has it.
    Many,
}

impl Algorithm {
    /// Number of steps of all thread blocks of all ranks.
    pub fn step_count(&self) -> usize {
        self.thread_blocks().map(|(_, _, block)| block.steps.len()).sum()
    }

    /// Every thread block with its address.
    pub fn thread_blocks(&self) -> impl Iterator<Item = (Rank, TbIndex, &ThreadBlock)> {
        self.ranks.iter().enumerate().flat_map(|(rank, program)| {
            let blocks = program.thread_blocks.iter().enumerate();
            blocks.map(move |(tb, block)| (Rank::from(rank), TbIndex::from(tb), block))
        })
    }

    /// Channels in use: one more than the highest channel.
    pub fn channel_count(&self) -> u32 {
        self.thread_blocks().map(|(_, _, block)| block.channel.0 + 1).max().unwrap_or(0)
    }

    /// The thread block at that address; it must exist.
    pub fn thread_block(&self, rank: Rank, tb: TbIndex) -> &ThreadBlock {
        &self.ranks[rank.index()].thread_blocks[tb.index()]
    }

    /// The step at that address; it must exist.
    pub fn step(&self, at: StepRef) -> &Step {
        &self.thread_block(at.rank, at.tb).steps[at.step.index()]
    }
}

impl Step {
    /// The field's name for this shape.
    ///
    /// MSCCL's reductions read the message first and then the local operand, and its `re` reads the
    /// destination first; a step that combines in another order is [`StepKind::Many`], since the
    /// order is part of the meaning of a floating-point sum.
    pub fn kind(&self) -> StepKind {
        use Place::{Link, Local};
        match (self.sources.as_slice(), self.destinations.as_slice()) {
            ([], []) => StepKind::Nop,
            ([Local(_)], [Link(_)]) => StepKind::Send,
            ([Link(_)], [Local(_)]) => StepKind::Recv,
            ([Local(_)], [Local(_)]) => StepKind::Copy,
            ([Local(first), Local(_)], [Local(to)]) if first == to => StepKind::Reduce,
            ([Link(_)], [Local(_), Link(_)]) => StepKind::RecvCopySend,
            ([Link(_), Local(_)], [Local(_)]) => StepKind::RecvReduceCopy,
            ([Link(_), Local(_)], [Link(_)]) => StepKind::RecvReduceSend,
            ([Link(_), Local(_)], [Local(_), Link(_)]) => StepKind::RecvReduceCopySend,
            _ => StepKind::Many,
        }
    }

    /// The local regions it reads.
    pub fn reads(&self) -> impl Iterator<Item = Region> {
        local_regions(&self.sources, self.count)
    }

    /// The local regions it writes.
    pub fn writes(&self) -> impl Iterator<Item = Region> {
        local_regions(&self.destinations, self.count)
    }

    /// The ranks it takes a message from.
    pub fn receives(&self) -> impl Iterator<Item = Rank> {
        links(&self.sources)
    }

    /// The ranks it sends a message to.
    pub fn sends(&self) -> impl Iterator<Item = Rank> {
        links(&self.destinations)
    }
}

fn local_regions(places: &Operands, count: u32) -> impl Iterator<Item = Region> {
    places.iter().filter_map(move |&place| match place {
        Place::Local(slot) => Some(slot.run(count)),
        Place::Link(_) => None,
    })
}

fn links(places: &Operands) -> impl Iterator<Item = Rank> {
    places.iter().filter_map(|&place| match place {
        Place::Local(_) => None,
        Place::Link(peer) => Some(peer),
    })
}

impl StepKind {
    /// MSCCL's abbreviation; `*` for the shapes it does not have.
    pub fn abbreviation(self) -> &'static str {
        match self {
            StepKind::Nop => "nop",
            StepKind::Send => "s",
            StepKind::Recv => "r",
            StepKind::Copy => "cpy",
            StepKind::Reduce => "re",
            StepKind::RecvCopySend => "rcs",
            StepKind::RecvReduceCopy => "rrc",
            StepKind::RecvReduceSend => "rrs",
            StepKind::RecvReduceCopySend => "rrcs",
            StepKind::Many => "*",
        }
    }
}

impl fmt::Display for StepRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.rank, self.tb, self.step)
    }
}

impl fmt::Debug for StepRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tb, self.step)
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Local(slot) => write!(f, "{slot}"),
            Place::Link(peer) => write!(f, "{peer}"),
        }
    }
}

// Two million steps must fit comfortably in memory.
const _: () = assert!(size_of::<Place>() == 8);
const _: () = assert!(size_of::<Step>() <= 80);

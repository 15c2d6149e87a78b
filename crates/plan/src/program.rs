//! A plan, taken apart: what its words say, with names.
//!
//! A [`Program`] carries no proof. It is what [`crate::decode`] gives, for people, tests and the
//! host executor; only a [`crate::Plan`] stands for a proved algorithm.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use msccl_collective::{Buffer, Channel, DataType, Placement, Protocol, Rank, Slot, TbIndex};
use msccl_ir::{LinkShape, Packing, StepKind, Wait};
use msccl_verify::Delivery;

use crate::layout;

/// Everything one rank needs to run its part of an algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Whose program it is.
    pub rank: Rank,
    /// Ranks in the collective.
    pub ranks: u32,
    /// How links' messages are laid out.
    pub protocol: Protocol,
    /// Which calls are served.
    pub placement: Placement,
    /// How in-place buffers lie.
    pub alias: Alias,
    /// How buffers divide into chunks.
    pub geometry: Geometry,
    /// Threads per thread block that the author asked for.
    pub threads: Option<u32>,
    /// The links for which the algorithm is proved.
    pub links: LinkLimits,
    /// What an average needs; `None` where sums have different numbers of contributions.
    pub average: Option<Average>,
    /// Which counts are served.
    pub counts: Counts,
    /// The thread blocks.
    pub thread_blocks: Vec<ThreadBlock>,
}

/// Where an average can be computed on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Average {
    /// How many contributions every complete sum has.
    pub of: u32,
    /// Whether the steps that are said to complete sums are all that do: an average of integers
    /// divides there.
    pub completes: bool,
    /// Whether the sources that are said to be raw are all in which contributions are combined: an
    /// average of floats scales there.
    pub raw: bool,
}

/// Which counts are served: numbers of elements of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counts {
    /// Those that the chunks of a block divide: some value stands on its way in a chunk that may be
    /// shorter than the one it is for.
    Divisible,
    /// Every count.
    Any,
}

/// How the buffers of a rank divide into chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Chunks in a block of input or output; at least one.
    pub block_chunks: u32,
    /// Chunks in the input.
    pub input_chunks: u32,
    /// Chunks in the output.
    pub output_chunks: u32,
    /// Chunks in the scratch buffer.
    pub scratch_chunks: u32,
}

/// What a link holds, and how much goes into a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkLimits {
    /// Messages in flight before a sender waits; at least one.
    pub depth: u32,
    /// What a message may hold, in bytes; at least one.
    pub message_bytes: u32,
    /// The longest slice of a chunk that one round handles, in bytes; at least one.
    pub slice_bytes: u32,
    /// How a counted step becomes messages.
    pub packing: Packing,
    /// Most chunks in one message; at least one.
    pub count_limit: u32,
}

/// Which part of one buffer is the other when a call is in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alias {
    /// Input and output are disjoint on this rank.
    None,
    /// Input chunk `c` is output chunk `c`.
    Same,
    /// The input is block `rank` of the output.
    InputInOutput,
    /// The output is block `rank` of the input.
    OutputInInput,
}

/// A sequence of steps with the link ends it owns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadBlock {
    /// The channel of all its links.
    pub channel: Channel,
    /// The ranks it receives from: its links `0 .. receives.len()`.
    pub receives: Vec<Rank>,
    /// The ranks it sends to: its links from `receives.len()` on.
    pub sends: Vec<Rank>,
    /// How each of its links may deliver, in the order of their numbers.
    pub deliveries: Vec<Delivery>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step: Σ sources → destinations, after waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The field's name for its shape.
    pub kind: StepKind,
    /// Whether the result is complete, so that `avg` of integers divides it here.
    pub completes: bool,
    /// Whether another thread block waits for it.
    pub signals: bool,
    /// Steps of other thread blocks that must have finished first.
    pub waits: Vec<Wait>,
    /// What is read, in the order in which it is combined.
    pub sources: Vec<Operand>,
    /// For each source, whether it is a raw contribution, which `avg` of floats scales here. Empty
    /// if none is.
    pub raw: Vec<bool>,
    /// Where the result goes.
    pub destinations: Vec<Operand>,
    /// Chunks in every operand.
    pub count: u32,
    /// Whether it runs as one with the step before it: a *bundle*, of copies of one chunk.
    pub bundled: bool,
    /// For each operand, sources first: where the peer's region begins, if it is a link that this
    /// rank may serve directly. Empty if there is none.
    pub far: Vec<Option<Slot>>,
}

/// What a step reads or writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A run of slots of this rank.
    Local(Slot),
    /// Link number `0 ..` of the thread block: incoming ones first, then outgoing ones.
    Link(u32),
}

/// What binding resolves to an address. Words name a symbol by its ordinal only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symbol {
    /// The input buffer.
    Input,
    /// The output buffer.
    Output,
    /// The scratch buffer.
    Scratch,
    /// The signal counters, one per thread block.
    Signals,
    /// One end of a link.
    Link(LinkEnd),
}

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkEnd {
    /// The rank at the other end.
    pub peer: Rank,
    /// The channel.
    pub channel: Channel,
    /// Which end this is.
    pub direction: Direction,
    /// The thread block that owns it.
    pub tb: TbIndex,
}

/// Which way messages go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// Messages come in.
    In,
    /// Messages go out.
    Out,
}

impl Program {
    /// Whether an average of elements of `data_type` can be computed on the way: of floats where
    /// they are raw, of integers where sums are complete.
    pub fn averages(&self, data_type: DataType) -> bool {
        let known = |average: Average| {
            if data_type.is_float() { average.raw } else { average.completes }
        };
        self.average.is_some_and(known)
    }

    /// Why an average of elements of `data_type` cannot, where it cannot.
    pub fn no_average(&self, data_type: DataType) -> &'static str {
        if self.average.is_none() {
            "does not support avg: its sums have different numbers of contributions"
        } else if data_type.is_float() {
            "does not support avg of floats: a step adds contributions and sums of several in the \
             chunks of one source"
        } else {
            "does not support avg of integers: no single set of steps produces the final sums"
        }
    }

    /// The link ends of all thread blocks, in the order of the link table.
    pub fn link_ends(&self) -> impl Iterator<Item = LinkEnd> {
        self.thread_blocks
            .iter()
            .enumerate()
            .flat_map(|(tb, block)| block.link_ends(TbIndex::from(tb)))
    }

    /// The numbers of the link ends, in the order of the link table: among the links of the same
    /// two ranks in the same direction, by ascending channel. Both ranks number a link alike, since
    /// a verified algorithm has both ends of every link.
    pub fn link_numbers(&self) -> impl Iterator<Item = u32> {
        let mut channels: BTreeMap<(Rank, Direction), BTreeSet<Channel>> = BTreeMap::new();
        for end in self.link_ends() {
            channels.entry((end.peer, end.direction)).or_default().insert(end.channel);
        }
        self.link_ends().map(move |end| {
            let of_pair = channels.get(&(end.peer, end.direction));
            of_pair.map_or(0, |channels| channels.range(..end.channel).count() as u32)
        })
    }

    /// The symbols, by ordinal: what must be bound before the plan can run.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol> {
        [Symbol::Input, Symbol::Output, Symbol::Scratch, Symbol::Signals]
            .into_iter()
            .chain(self.link_ends().map(Symbol::Link))
    }

    /// Whether calls on blocks of `count` elements are served.
    pub fn serves(&self, count: usize) -> bool {
        match self.counts {
            Counts::Any => true,
            Counts::Divisible => count.is_multiple_of(self.geometry.block_chunks.max(1) as usize),
        }
    }

    /// Whether links may deliver to or from this rank's input, and its output, by the hand of
    /// peers.
    pub fn exports_buffers(&self) -> [bool; 2] {
        let steps = self.thread_blocks.iter().flat_map(|block| {
            let exporting = block.steps.iter().filter(|step| step.exports_buffers(block));
            exporting.map(move |step| step.exported_regions(block))
        });
        let mut exports = [false; 2];
        for slot in steps.flatten() {
            match slot.buffer {
                Buffer::Input => exports[0] = true,
                Buffer::Output => exports[1] = true,
                Buffer::Scratch => {}
            }
        }
        exports
    }

    /// What a signal counter advances by in one round: the end of step `s` in round `k` brings it
    /// to `k * stride + s + 1`. All thread blocks of the rank share it, so that a waiter need not
    /// know how many steps the other one has.
    pub fn signal_stride(&self) -> u32 {
        let longest = self.thread_blocks.iter().map(|block| block.steps.len()).max();
        u32::try_from(longest.unwrap_or(0)).unwrap_or(u32::MAX)
    }
}

impl LinkLimits {
    /// How many chunks of a counted step one message carries when a chunk has `chunk_bytes` bytes.
    pub fn chunks_per_message(self, chunk_bytes: u64) -> u32 {
        let LinkLimits { depth, message_bytes, slice_bytes: _, packing, count_limit } = self;
        let shape = LinkShape { depth, message_bytes: u64::from(message_bytes), packing };
        shape.chunks_per_message(chunk_bytes, count_limit)
    }
}

impl ThreadBlock {
    /// The steps, with those together that run as one: each entry is one in the words.
    pub fn bundles(&self) -> impl Iterator<Item = &[Step]> {
        self.steps.chunk_by(|_, next| next.bundled)
    }

    /// How link number `link` may deliver.
    pub fn delivery(&self, link: u32) -> Delivery {
        self.deliveries.get(link as usize).copied().unwrap_or_default()
    }

    /// Its link ends, in the order of their numbers, if it is thread block `tb`.
    pub fn link_ends(&self, tb: TbIndex) -> impl Iterator<Item = LinkEnd> {
        let channel = self.channel;
        let end = move |direction| move |&peer| LinkEnd { peer, channel, direction, tb };
        let receives = self.receives.iter().map(end(Direction::In));
        receives.chain(self.sends.iter().map(end(Direction::Out)))
    }
}

/// Words from the start of steps that run as one, or of one step alone, to the start of the next.
pub(crate) fn words_of(bundle: &[Step]) -> usize {
    let sum = |of: fn(&Step) -> usize| -> usize { bundle.iter().map(of).sum() };
    let (sources, destinations) =
        (sum(|step| step.sources.len()), sum(|step| step.destinations.len()));
    let far = if sum(|step| step.far.len()) == 0 { 0 } else { sources + destinations };
    layout::step_words(sum(|step| step.waits.len()), sources, destinations, far)
}

impl Step {
    /// Whether source number `source` is a raw contribution that is combined with others.
    pub fn is_raw(&self, source: usize) -> bool {
        self.raw.get(source).copied().unwrap_or(false)
    }

    /// Whether it takes messages.
    pub fn receives(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, Operand::Link(_)))
    }

    /// Whether some operand is a link of `block`, its thread block, by which the peer may store or
    /// load in this rank's buffers.
    pub fn exports_buffers(&self, block: &ThreadBlock) -> bool {
        let delivery = |operand: &Operand| match *operand {
            Operand::Local(_) => Delivery::Staged,
            Operand::Link(link) => block.delivery(link),
        };
        let pushed = self.sources.iter().any(|source| delivery(source) == Delivery::Push);
        let pulled = |to: &Operand| matches!(delivery(to), Delivery::Pull { .. });
        pushed || self.destinations.iter().any(pulled)
    }

    /// Where the regions begin that peers store to or load from.
    fn exported_regions(&self, block: &ThreadBlock) -> Vec<Slot> {
        let local = |operand: &Operand| match *operand {
            Operand::Local(slot) => Some(slot),
            Operand::Link(_) => None,
        };
        let pulled = |to: &Operand| match *to {
            Operand::Local(_) => false,
            Operand::Link(link) => matches!(block.delivery(link), Delivery::Pull { .. }),
        };
        let first = self.destinations.iter().find_map(local);
        let only = self.sources.first().filter(|_| self.sources.len() == 1).and_then(local);
        // A message that is stored here lies at the first destination; one that is loaded from here
        // at the only source, or else at the first destination.
        match self.destinations.iter().any(pulled) {
            true => only.into_iter().chain(first).collect(),
            false => first.into_iter().collect(),
        }
    }

    /// Whether it posts messages.
    pub fn sends(&self) -> bool {
        self.destinations.iter().any(|destination| matches!(destination, Operand::Link(_)))
    }

    /// Whether it writes to buffers.
    pub fn stores(&self) -> bool {
        self.destinations.iter().any(|destination| matches!(destination, Operand::Local(_)))
    }
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Local(slot) => write!(f, "{slot}"),
            Operand::Link(link) => write!(f, "link{link}"),
        }
    }
}

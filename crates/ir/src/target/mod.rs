//! Targets: what runs an algorithm, its limits and its rules.
//!
//! [`runtimes`] describes each of them as data, with the source of every row; [`rules`] says what
//! the rows mean.

mod rules;
mod runtimes;

use std::fmt;

use msccl_collective::{Kind, Protocol, Rank};

pub use rules::{
    FileLimits, Merging, MessageOrder, Proxies, RootedCall, Rounds, Rules, SmallerMessages, Threads,
};

/// What will run the algorithm: the step shapes it has, its limits, the depth of its links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The name used on the command line.
    pub name: &'static str,
    /// Which steps exist.
    pub form: StepForm,
    /// Sizes that must not be exceeded.
    pub limits: Limits,
    /// Where scratch is set aside for the largest call that a schedule serves: the largest call of
    /// a schedule with scratch that names none, in bytes.
    pub scratch_call_bytes_max: Option<u64>,
    /// Links under [`Protocol::Simple`].
    pub simple: LinkShape,
    /// Links under [`Protocol::Ll`].
    pub ll: LinkShape,
    /// Links under [`Protocol::Ll128`].
    pub ll128: LinkShape,
    /// What the runtime does beside executing steps.
    pub rules: Rules,
    /// Ranks of a node, where ranks are spread over several; `None` if one node has them all.
    pub ranks_per_node: Option<u32>,
}

/// Which steps a target has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepForm {
    /// The nine kinds of MSCCL; one send peer and one receive peer per thread block; one wait per
    /// step, so further waits stand in no-op steps before it.
    Msccl,
    /// Any number of sources, destinations, links per thread block and waits.
    Native,
}

/// Sizes that must not be exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Steps in one thread block.
    pub steps_per_tb: u32,
    /// Thread blocks on one rank.
    pub tbs_per_rank: u32,
    /// Channels.
    pub channels: u32,
    /// Thread blocks of one rank that send (and that receive) on one channel.
    pub peers_per_channel: u32,
    /// Chunks in one step.
    pub count: u32,
    /// Thread blocks that can be waited for: those with a smaller index than this.
    pub waitable_tbs: u32,
    /// Highest slot index, plus one.
    pub slots: u32,
}

/// How much a link holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkShape {
    /// Messages in flight before a sender waits.
    pub depth: u32,
    /// Largest message, in bytes.
    pub message_bytes: u64,
    /// How a counted step becomes messages.
    pub packing: Packing,
}

/// How a step over several chunks becomes messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// A slice of a chunk has at most `message_bytes`, and a message carries as many whole slices
    /// of the step's chunks as fit: the number of messages of a step depends on the size of the
    /// call.
    Fitting,
    /// Every step is one message. The runtime cuts chunks into slices of at most `message_bytes`
    /// divided by the largest count of the algorithm, so the number of messages of a step never
    /// depends on the size of the call, and what is proved for one size holds for all.
    Whole,
}

impl Target {
    /// The target of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::msccl(), Self::executor(), Self::native()]
            .into_iter()
            .find(|target| target.name == name)
    }

    /// The same where every `ranks_per_node` ranks share a node.
    pub fn on_nodes(self, ranks_per_node: u32) -> Self {
        Self { ranks_per_node: Some(ranks_per_node), ..self }
    }

    /// Whether two ranks are on different nodes.
    pub fn crosses_nodes(&self, one: Rank, other: Rank) -> bool {
        let node = |rank: Rank, size: u32| rank.0 / size.max(1);
        self.ranks_per_node.is_some_and(|size| node(one, size) != node(other, size))
    }

    /// The link under `protocol` as counted steps of `kind` are cut for it: some collectives have
    /// smaller messages than others.
    pub fn packing_link(&self, kind: &Kind, protocol: Protocol) -> LinkShape {
        let link = self.link(protocol);
        let divisor = self.rules.message_divisor(kind, protocol);
        LinkShape { message_bytes: link.message_bytes / divisor, ..link }
    }

    /// How much a link holds under `protocol`.
    pub fn link(&self, protocol: Protocol) -> LinkShape {
        match protocol {
            Protocol::Simple => self.simple,
            Protocol::Ll => self.ll,
            Protocol::Ll128 => self.ll128,
        }
    }
}

impl LinkShape {
    /// How many chunks of a counted step one message carries when a chunk has `chunk_bytes` bytes,
    /// and no step counts more than `count_limit` chunks.
    pub fn chunks_per_message(self, chunk_bytes: u64, count_limit: u32) -> u32 {
        let limit = count_limit.max(1);
        match self.packing {
            Packing::Whole => limit,
            Packing::Fitting => {
                let fitting = self.message_bytes / chunk_bytes.max(1);
                u32::try_from(fitting).unwrap_or(u32::MAX).clamp(1, limit)
            }
        }
    }

    /// The longest slice of a chunk that one round handles, in bytes, for an algorithm whose steps
    /// count at most `count_max` chunks.
    pub fn slice_bytes(self, count_max: u32) -> u64 {
        match self.packing {
            Packing::Whole => (self.message_bytes / u64::from(count_max.max(1))).max(16),
            Packing::Fitting => self.message_bytes,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

//! What a recording says beside records.

use serde::{Deserialize, Serialize};

/// Who recorded, and when the recording began.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Name of the host. Ranks of one host share `CLOCK_MONOTONIC`.
    pub host: String,
    /// Number of the process on its host.
    pub process: u32,
    /// The rank in its communicator.
    pub rank: u32,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// The identity of the communicator, the same on all its ranks and no other in the run.
    pub communicator: String,
    /// Name that a user gave the communicator, or nothing.
    pub name: String,
    /// What executes the calls.
    pub engine: Engine,
    /// When the recording began.
    pub start: Moment,
}

/// What executes the calls of a rank.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Host threads; records have the time of `CLOCK_MONOTONIC`.
    Host,
    /// A GPU; records have the time of its `globaltimer`.
    Gpu {
        /// The name of the GPU.
        name: String,
        /// Its address on its host, which ranks that share it have alike; or nothing.
        bus_id: String,
    },
}

/// One moment by two clocks of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// Since 1970-01-01 UTC.
    pub unix_ns: u64,
    /// By `CLOCK_MONOTONIC`.
    pub monotonic_ns: u64,
}

/// One rank's part of an algorithm.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanDescription {
    /// The number by which call shapes name it; unique in its recording.
    pub id: u32,
    /// Name of the algorithm.
    pub algorithm: String,
    /// Name of the text that [`StepDescription::line`] is about, if there is one.
    pub source: Option<String>,
    /// The thread blocks of one instance. Thread block `b` of instance `i` of a launch is track
    /// `i * thread_blocks.len() + b`.
    pub thread_blocks: Vec<ThreadBlockDescription>,
}

/// One thread block of a plan.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ThreadBlockDescription {
    /// The channel of its links.
    pub channel: u32,
    /// The links that it receives from.
    pub receives: Vec<LinkEnd>,
    /// The links that it sends by.
    pub sends: Vec<LinkEnd>,
    /// Its steps, in order. Several that run as one are one entry.
    pub steps: Vec<StepDescription>,
}

/// A link as its thread block sees it. Instance `i` of `k` has wire `number * k + i` of the pair of
/// ranks; wires of different protocols are different links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkEnd {
    /// The rank at the other end.
    pub peer: u32,
    /// Its number among the links of the pair in this direction, the same at both ends.
    pub number: u32,
}

/// A step of a thread block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepDescription {
    /// Its number in the thread block; of several that run as one, that of the first.
    pub index: u32,
    /// How many steps run as one; 1 for a step alone.
    pub bundled: u32,
    /// Its shape.
    pub shape: StepShape,
    /// Chunks in every operand.
    pub count: u32,
    /// By message: the positions in [`ThreadBlockDescription::receives`] of the links from which
    /// it takes one.
    pub receives: Vec<u32>,
    /// By message: the positions in [`ThreadBlockDescription::sends`] of the links on which it puts
    /// one.
    pub sends: Vec<u32>,
    /// The steps of other thread blocks of its rank that must have ended before.
    pub waits: Vec<StepAddress>,
    /// What it reads of buffers of its rank.
    pub reads: Vec<SlotRange>,
    /// What it writes of buffers of its rank.
    pub writes: Vec<SlotRange>,
    /// The line of the source from which it comes, from 1.
    pub line: Option<u32>,
    /// The step as text, such as `r1 + i[0] -> o[0]`.
    pub text: String,
}

impl StepDescription {
    /// The position of the step with a number among those of a thread block; most have their number
    /// as position.
    pub(crate) fn position(steps: &[Self], number: u32) -> Option<usize> {
        match steps.get(number as usize) {
            Some(step) if step.index == number => Some(number as usize),
            _ => steps.binary_search_by_key(&number, |step| step.index).ok(),
        }
    }
}

/// The place of a step in a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct StepAddress {
    /// The thread block.
    pub thread_block: u32,
    /// The step in it.
    pub step: u32,
}

/// Chunks of a buffer of a rank.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SlotRange {
    /// The buffer: `i`, `o` or `s`. Where a call is in place, `i` and `o` may be one memory.
    pub buffer: String,
    /// The first chunk.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// The shape of a step, named as in `msccl_ir::StepKind`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepShape {
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
    /// Any other mix that does not add.
    ManyCopy,
    /// Any other mix that adds.
    ManyReduce,
}

impl StepShape {
    /// Whether it adds.
    pub fn reduces(self) -> bool {
        match self {
            Self::Nop | Self::Send | Self::Recv | Self::Copy => false,
            Self::RecvCopySend | Self::ManyCopy => false,
            Self::Reduce | Self::RecvReduceCopy | Self::RecvReduceSend => true,
            Self::RecvReduceCopySend | Self::ManyReduce => true,
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nop => "nop",
            Self::Send => "send",
            Self::Recv => "receive",
            Self::Copy => "copy",
            Self::Reduce => "reduce",
            Self::RecvCopySend => "receive, copy, send",
            Self::RecvReduceCopy => "receive, reduce, copy",
            Self::RecvReduceSend => "receive, reduce, send",
            Self::RecvReduceCopySend => "receive, reduce, copy, send",
            Self::ManyCopy => "copy of several",
            Self::ManyReduce => "reduce of several",
        }
    }
}

/// What calls of one shape have in common.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallShapeDescription {
    /// The number by which calls name it; unique in its recording.
    pub id: u32,
    /// Name of the collective, such as `allreduce`, or `exchange` for sends and receives.
    pub collective: String,
    /// Name of the data type.
    pub data_type: String,
    /// Name of the reduction, where there is one.
    pub reduction: Option<String>,
    /// Elements of a block.
    pub count: u64,
    /// Bytes of the larger buffer.
    pub bytes: u64,
    /// Whether input and output share memory: `in place` or `out of place`.
    pub placement: String,
    /// Why this algorithm and this kernel, as `msccl explain` says it.
    pub reason: String,
    /// What the thread blocks do.
    pub work: Work,
}

/// What the thread blocks of a launch do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A plan.
    Plan {
        /// The [`PlanDescription::id`].
        plan: u32,
        /// What executes it.
        kernel: KernelDescription,
        /// How buffers are cut.
        cut: CallCut,
    },
    /// Sends and receives; the steps of a thread block are transfers. They may take several
    /// launches, one behind the other.
    Exchange {
        /// What executes it.
        kernel: KernelDescription,
        /// The transfers, launch by launch; records name them by position.
        transfers: Vec<Transfer>,
    },
}

impl CallShapeDescription {
    /// Whether links may deliver straight from and to the buffers of callers.
    pub fn delivers_directly(&self) -> bool {
        let (Work::Plan { kernel, .. } | Work::Exchange { kernel, .. }) = &self.work;
        kernel.delivery == "direct"
    }
}

/// What executes a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelDescription {
    /// The kind of kernel, such as `interpreter`, `low-latency` or `specialised`.
    pub kind: String,
    /// The protocol of its links: `Simple`, `LL` or `LL128`.
    pub protocol: String,
    /// How messages are delivered, such as `staged` or `direct`.
    pub delivery: String,
    /// Threads of a thread block.
    pub threads: u32,
}

/// How a call cuts its buffers, as `msccl_plan::cut::Cut` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallCut {
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes of a chunk that one instance handles; the last part may be shorter.
    pub part_bytes: u64,
    /// Bytes of a part that one round handles; the last slice may be shorter.
    pub slice_bytes: u64,
    /// How often the plan runs.
    pub rounds: u32,
    /// Copies of the plan that run side by side.
    pub instances: u32,
    /// Chunks of a counted step that share one message.
    pub chunks_per_message: u32,
}

/// A send or a receive of a group. Part `p` moves over wire `wire + p`, on track `track + p`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transfer {
    /// The other rank; the own one for a copy within the rank.
    pub peer: u32,
    /// In which direction.
    pub direction: TransferDirection,
    /// Bytes, of all thread blocks that work on it.
    pub bytes: u64,
    /// Parts, as `msccl_plan::exchange::part` cuts them, each of one thread block.
    pub parts: u32,
    /// Bytes of a part that one message carries; the last may be shorter.
    pub message_bytes: u64,
    /// The protocol of its wires: `Simple` or `LL`.
    pub protocol: String,
    /// The wire of the pair of ranks over which its first part moves, equal at both ends.
    pub wire: u32,
    /// The place of that wire among the links of its thread block, as
    /// [`RecordKind::Count`](crate::record::RecordKind::Count) names it.
    pub link: u32,
    /// The track of its first part.
    pub track: u32,
}

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferDirection {
    /// This rank sends.
    Out,
    /// This rank receives.
    In,
    /// This rank copies within its memory.
    Local,
}

/// One call, or one that a CUDA graph has captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its number in the communicator, the same on all ranks.
    pub number: u64,
    /// The [`CallShapeDescription::id`].
    pub shape: u32,
    /// How it is launched.
    pub launch: LaunchKind,
    /// When the caller made it, by `CLOCK_MONOTONIC`.
    pub enqueue_ns: u64,
}

/// How a call is launched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchKind {
    /// Once, in a stream.
    Stream,
    /// By every replay of a CUDA graph that has captured it.
    Captured,
}

/// A reading of the device's clock between two readings of the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockSample {
    /// `CLOCK_MONOTONIC` before.
    pub before_ns: u64,
    /// The clock of the records.
    pub device_ns: u64,
    /// `CLOCK_MONOTONIC` after.
    pub after_ns: u64,
}

/// A reading of the `CLOCK_MONOTONIC` of a rank of another host, between two of the own one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerClockSample {
    /// The rank on the other host.
    pub peer: u32,
    /// The own clock before.
    pub before_ns: u64,
    /// The clock of the peer's host.
    pub peer_ns: u64,
    /// The own clock after.
    pub after_ns: u64,
}

/// A track that is no thread block of a launch, such as a proxy. Its records stand in launches as
/// those of thread blocks do, without `Begin` and `End`; their steps count its messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NamedTrack {
    /// Its number, [`NAMED_TRACKS`](super::NAMED_TRACKS) or greater.
    pub track: u32,
    /// What people call it.
    pub name: String,
    /// The link that it carries messages of, if it is one link.
    pub link: Option<TrackLink>,
    /// Whose time its records have.
    #[serde(default)]
    pub clock: TrackClock,
}

/// Whose time the records of a named track have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrackClock {
    /// That of all other records of the rank.
    #[default]
    Records,
    /// The host's: `CLOCK_MONOTONIC`.
    Host,
}

/// The link of a named track.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TrackLink {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// The protocol of its messages.
    pub protocol: String,
    /// The wire of the pair.
    pub wire: u32,
}

//! What an interpreter does beside executing steps: the rules that decide what a proof may rest on.
//!
//! Each rule is one field, and the verifier, the validation and the writers are functions of them.
//! Where the values come from stands beside them in [`super::runtimes`].

use msccl_collective::{Collective, Kind, Protocol, SizeRange};

/// The rules of one runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// How the runtime is called in messages.
    pub runtime: &'static str,
    /// What a message orders, under Simple, LL and LL128.
    pub message_order: [MessageOrder; 3],
    /// Collectives whose counted steps are cut into smaller messages than others under Simple.
    pub smaller_messages: Option<SmallerMessages>,
    /// What the threads count that carry messages between nodes.
    pub proxies: Proxies,
    /// What the size of a call is for gather and scatter.
    pub rooted_call: RootedCall,
    /// How consecutive `re` become one, if they do.
    pub merging: Option<Merging>,
    /// How many rounds a waiter distinguishes, if not without limit.
    pub rounds: Option<Rounds>,
    /// Threads that look after waits, if their number matters.
    pub threads: Option<Threads>,
    /// Limits of the reader of files, if algorithms come from files.
    pub file: Option<FileLimits>,
    /// An all-to-all of this name runs code of the runtime instead of the file.
    pub all_to_all_of_its_own: Option<&'static str>,
}

/// Which accesses a message orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageOrder {
    /// All that its sender has done before it comes before all that its receiver does after it;
    /// within a message, chunk `i` comes before chunk `j` for `i ≤ j`.
    Memory,
    /// Only loads of its sender, and within a message chunk `i` before chunk `i` alone. What the
    /// sender has stored may be seen later than the message.
    Loads,
}

/// Counted steps of some collectives are cut as if a message were smaller than it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallerMessages {
    /// By what the largest message is divided before chunks are packed.
    pub divisor: u64,
}

/// How many steps of a link proxies, the threads that carry messages between nodes, expect of a
/// call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proxies {
    /// Those that kernels post.
    CountAsKernels,
    /// In collectives with [smaller messages](SmallerMessages) one step for a slice, for which
    /// kernels post two. The second is never announced, so a proxy waits for it for ever.
    CountSmallerSlices,
}

/// What the size of a gather or scatter counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RootedCall {
    /// The blocks of all ranks.
    AllBlocks,
    /// One block.
    OneBlock,
}

/// Consecutive `re` with one destination, sources in one buffer and no waits of the followers run
/// as one. A step that signals ends such a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Merging {
    /// The `re` of this number in a thread block ends its chain as well; no later one does.
    pub cut_at: u32,
    /// Sources that a chain may have under Simple, LL and LL128.
    pub sources_max: [u32; 3],
    /// Under which protocols the destination is added last rather than first, in calls large
    /// enough.
    pub destination_last: [bool; 3],
}

/// Rounds are counted in a field of a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// Rounds that a waiter distinguishes.
    pub max: u64,
    /// Longest slice of a chunk in one round, in bytes, under Simple, LL and LL128.
    pub slice_bytes: [u64; 3],
}

/// Thread `i` waits for wait `i` of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threads {
    /// Threads where the file names none, the least that the runtime takes by itself, under Simple,
    /// LL and LL128.
    pub default: [u32; 3],
    /// Most threads that a file can have, under Simple, LL and LL128.
    pub most: [u32; 3],
    /// Threads beyond those that the file names, under Simple, LL and LL128.
    pub extra: [u32; 3],
    /// Under Simple, the bytes of a round must be a multiple of the bytes that this many bytes a
    /// thread make; otherwise every call fails.
    pub simple_bytes_per_thread: u64,
}

/// What a reader of files has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileLimits {
    /// Elements kept: `<algo>`, every `<gpu>`, and the `<tb>` and `<step>` of the own rank.
    pub elements: u64,
    /// Children of one element.
    pub children: u32,
}

/// The position of a protocol in the tables above.
fn position(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Simple => 0,
        Protocol::Ll => 1,
        Protocol::Ll128 => 2,
    }
}

/// Whether a runtime with [`SmallerMessages`] has those for `kind`.
fn is_smaller(kind: &Kind, protocol: Protocol) -> bool {
    match kind {
        Kind::Broadcast { .. } | Kind::Reduce { .. } => protocol == Protocol::Simple,
        Kind::AllReduce
        | Kind::AllGather
        | Kind::ReduceScatter
        | Kind::AllToAll
        | Kind::Gather { .. }
        | Kind::Scatter { .. }
        | Kind::Custom(_) => false,
    }
}

impl Rules {
    /// What a message under `protocol` orders.
    pub fn message_order(&self, protocol: Protocol) -> MessageOrder {
        self.message_order[position(protocol)]
    }

    /// By what the largest message is divided before counted steps of `kind` are cut.
    pub fn message_divisor(&self, kind: &Kind, protocol: Protocol) -> u64 {
        let smaller = self.smaller_messages.filter(|_| is_smaller(kind, protocol));
        smaller.map_or(1, |smaller| smaller.divisor.max(1))
    }

    /// Whether messages of `kind` between nodes never arrive.
    pub fn stalls_between_nodes(&self, kind: &Kind, protocol: Protocol) -> bool {
        match self.proxies {
            Proxies::CountAsKernels => false,
            Proxies::CountSmallerSlices => is_smaller(kind, protocol),
        }
    }

    /// How many blocks make what the runtime calls the size of a call, as a divisor of the size in
    /// [`msccl_collective::SizeRange`], which counts all blocks.
    pub fn call_divisor(&self, collective: &Collective) -> u64 {
        match (&collective.kind, self.rooted_call) {
            (Kind::Gather { .. } | Kind::Scatter { .. }, RootedCall::OneBlock) => {
                u64::from(collective.ranks.max(1))
            }
            _ => 1,
        }
    }

    /// The sizes of calls as the runtime counts them: a call has whole blocks.
    pub fn call_sizes(&self, collective: &Collective, sizes: SizeRange) -> SizeRange {
        let divisor = self.call_divisor(collective);
        let SizeRange { min_bytes, max_bytes } = sizes;
        SizeRange {
            min_bytes: min_bytes.div_ceil(divisor),
            max_bytes: max_bytes.map(|bytes| bytes / divisor),
        }
    }

    /// The most bytes of a chunk for which waits work under `protocol`, if there is such a bound.
    pub fn waited_chunk_bytes_max(&self, protocol: Protocol) -> Option<u64> {
        self.rounds.map(|rounds| rounds.max.saturating_mul(rounds.slice_bytes[position(protocol)]))
    }

    /// Sources that a merged `re` has room for under `protocol`, if any are merged.
    pub fn merged_sources_max(&self, protocol: Protocol) -> Option<u32> {
        self.merging.map(|merging| merging.sources_max[position(protocol)])
    }

    /// Whether a merged `re` adds its destination last under `protocol`.
    pub fn adds_destination_last(&self, protocol: Protocol) -> bool {
        self.merging.is_some_and(|merging| merging.destination_last[position(protocol)])
    }

    /// Waits that one step may have under `protocol` if the file asks for `threads` threads.
    pub fn waits_max(&self, protocol: Protocol, threads: Option<u32>) -> Option<u32> {
        let table = self.threads?;
        let default = table.default[position(protocol)];
        let own = threads.filter(|&threads| threads > 0).map_or(default, |own| own.min(default));
        Some(own + table.extra[position(protocol)])
    }
}

//! The launch ABI: what a kernel is given by value, and the records in memory that it shares with
//! the host.
//!
//! `kernels/include/msccl_plan.h` declares the same records, generated from this file
//! ([`crate::abi`]) with an assertion for the size of each. All addresses are as the device sees
//! them.

use std::fmt;

use msccl_collective::{Protocol, TbIndex};

use crate::cut::Cut;
use crate::program::{Program, ThreadBlock};
use crate::record::records;

records! {
    "Where a peer sees the buffers of this rank."
    View = "msccl_view", 16 bytes {
        input: u64, "the input, or 0";
        output: u64, "the output, or 0; both are 0 if the peer is to use slots";
    }

    "What an interpreter kernel is given by value."
    Launch = "msccl_launch", 1424 bytes {
        plan: u64, "all words of the plan, 16-byte aligned, in device memory";
        links: u64,
            "`msccl_wire_end[2][ranks][wires]`: this rank's ends of its wires under the plan's \
             protocol";
        input: u64, "the input buffer; in place as the plan's `ALIAS` says";
        output: u64, "the output buffer";
        scratch: u64, "the scratch buffer, 16-byte aligned; no need to clear it";
        offers: u64,
            "`msccl_offer[2][ranks][wires]`: what goes with those ends, as far from `links` on \
             every rank; 0: nothing is delivered directly";
        longest_step: u32, "the plan's `LONGEST_STEP`";
        most_messages: u32, "the plan's `MOST_MESSAGES`";
        signals: u64,
            "`u64[]` in device memory, zero before the first launch: at least \
             `[instances][tb_count]`; all equal between launches";
        signals_end: u64, "where `signals` end";
        control: u64, "`msccl_control` in memory that host and device map";
        progress: u64,
            "`msccl_progress[instances][tb_count]` in memory that host and device map, zero \
             before the first launch";
        notice: u64, "`msccl_notice` in device memory, zero before the first launch";
        call: u64, "number of the call on its communicator; the kernel copies it to `progress`";
        block_bytes: u64, "bytes of one block of input or output: the count of the call";
        chunk_bytes: u64,
            "bytes of a chunk at full length; chunks of scratch start at multiples of 16 bytes";
        part_bytes: u64,
            "bytes of a chunk that one instance handles, a multiple of 16; the last instance's \
             part may be shorter";
        slice_bytes: u64,
            "bytes of a part that one round handles, a multiple of 16; the last round's slice may \
             be shorter";
        rounds: u32, "how often the program runs; 0 does nothing";
        instances: u32,
            "copies of the program that run side by side, at least 1: the grid is `tb_count` wide \
             and so many blocks high";
        chunks_per_message: u32, "most chunks of a counted step that share a message, at least 1";
        ranks: u32, "ranks that `links` has entries for";
        wires: u32,
            "wires from any rank to any other: more than any link's `NUMBER * instances + \
             instance`";
        link_depth: u32, "slots of a wire, a power of two";
        slot_bytes: u32, "bytes of a slot as the protocol lays out messages, a multiple of 128";
        reduction: u32, "a `MSCCL_REDUCTION_` value";
        divisor: u32,
            "of `avg`: contributions to a complete sum; completing steps divide integers by it, \
             raw sources of floats are multiplied by one over it. Otherwise 0";
        flags: u32, "`MSCCL_LAUNCH_` bits";
        tb_count: u32, "the plan's `TB_COUNT`";
        link_table: u32, "the plan's `LINK_TABLE`";
        signal_stride: u32, "the plan's `SIGNAL_STRIDE`";
        block_chunks: u32, "the plan's `BLOCK_CHUNKS`";
        views: [View; DIRECT_RANKS_MAX as usize], "by rank: where it may find this rank's buffers";
        words: [u32; PLAN_WORDS],
            "the first words of the plan after its header: what lies here need not be fetched";
    }

    "One end of a wire, in memory of the rank that owns this end; 32-byte aligned. The slots lie \
     with the receiver; of a wire to another host, in memory of this one."
    WireEnd = "msccl_wire_end", 32 bytes {
        slots: u64,
            "the first of `link_depth` slots, 128-byte aligned; 0: this is not the end, which \
             lies at `far`";
        far: u64,
            "where the other end's `seen` lies, a multiple of 8; with bit 0 set, it is followed \
             by `u64[link_depth]` for the lengths of messages, in bytes";
        seen: u64,
            "messages posted (at the receiver, protocol Simple only) or taken (at the sender); \
             only the other end writes it";
        count: u64,
            "messages taken or posted by this end over the life of the wire; only this end \
             touches it";
    }

    "What the two ends of a wire exchange for direct delivery, in memory of the rank that \
     owns this end; 32-byte aligned. The owner of a region writes where the other end sees it."
    Offer = "msccl_offer", 32 bytes {
        input: u64,
            "where the other rank's input lies, as this rank sees it, or 0; in the bits from \
             `OFFER_SHIFT` on, the number of the launch among those of its kind";
        output: u64, "the same of its output";
        pushes: u64, "launches of this end that could push; bit 32: declined the next";
        pulls: u64, "the same of those that could pull";
    }

    "What the host has kernels do, and what they report; 16-byte aligned."
    Control = "msccl_control", 16 bytes {
        state: u32, "the host writes it: a `MSCCL_CONTROL_` value";
        report_after_us: u32, "a wait that lasts longer shows in `msccl_progress`";
        held: u32,
            "a kernel writes 1: some thread block holds or gave up, so memory and links hold \
             anything";
        reserved: u32, "0";
    }

    "What kernels of a communicator leave for those behind them; 16-byte aligned."
    Notice = "msccl_notice", 16 bytes {
        stopped: u64, "anything but zero once a kernel gave up: those behind it do nothing";
        looked_ns: u64,
            "the GPU's clock before a kernel last looked at the control's `state` and found \
             `RUN`";
    }

    "What a thread block has been waiting for, longer than the control's `report_after_us`. Read \
     `kind` last and again: the entry is written while others read it."
    Progress = "msccl_progress", 32 bytes {
        kind: u32,
            "a `MSCCL_WAITING_` value; the other fields mean something unless it is `NOTHING`";
        step: u32,
            "the step at which the thread block stands; in an exchange, the number of the \
             transfer in the launch";
        round: u32, "the round; in an exchange, the part, which is also the number of the wire";
        subject: u32,
            "the link's number in the thread block, or the other thread block; in an exchange, \
             the peer";
        number: u64,
            "the message, counted from 0 over the life of the link, or the step waited for";
        call: u64, "the launch's `call`";
    }

    "One half of a point-to-point transfer."
    Transfer = "msccl_transfer", 24 bytes {
        address: u64, "the first byte: read where the transfer goes out, written where it comes in";
        bytes: u64, "how many there are";
        peer: u32, "the other rank, never this one";
        traits: u32, "number of parts, and `MSCCL_TRANSFER_` bits";
    }

    "A copy within the rank. `from` and `to` are disjoint."
    LocalCopy = "msccl_local_copy", 24 bytes {
        from: u64, "the first byte to read";
        to: u64, "the first byte to write";
        bytes: u64, "how many there are";
    }

    "What one thread block does in an exchange."
    Lane = "msccl_lane", 8 bytes {
        first: u16, "the first of its transfers, all with one peer in one way; or of its copies";
        count: u16, "how many there are; it handles them in order";
        part: u16, "which part of each it handles; of transfers, over the wire of that number";
        copies: u16, "1: of copies; 0: of transfers";
    }

    "What the kernel of point-to-point exchanges is given by value."
    Exchange = "msccl_exchange_launch", 3832 bytes {
        links_simple: u64,
            "`msccl_wire_end[2][ranks][simple_wires]`: this rank's ends of its wires under \
             protocol Simple";
        links_ll: u64, "`msccl_wire_end[2][ranks][ll_wires]`: the same under LL";
        control: u64, "`msccl_control` in memory that host and device map";
        progress: u64,
            "`msccl_progress[lane_count]` in memory that host and device map, zero before the \
             first launch";
        notice: u64, "`msccl_notice`, the same as that of the communicator's other kernels";
        call: u64, "number of the call on its communicator; the kernel copies it to `progress`";
        ranks: u32, "ranks that the tables of wires have entries for";
        first_transfer: u32,
            "the number of its first transfer among those of the call, which may take several \
             launches";
        simple_wires: u32, "wires from any rank to any other under protocol Simple";
        simple_depth: u32, "slots of such a wire, a power of two";
        simple_slot_bytes: u32, "bytes of such a slot, a multiple of 128";
        ll_wires: u32, "wires from any rank to any other under LL";
        ll_depth: u32, "slots of such a wire, a power of two";
        ll_slot_bytes: u32, "bytes of such a slot, a multiple of 128";
        lane_count: u32, "thread blocks of the grid";
        copy_parts: u32, "parts of each copy";
        transfers: [Transfer; EXCHANGE_TRANSFERS],
            "those with one peer in one way are neighbours, in order";
        copies: [LocalCopy; EXCHANGE_COPIES], "copies within the rank";
        lanes: [Lane; EXCHANGE_LANES], "one for each thread block";
    }

    "What the kernel that scales an array is given by value: `to[i] = from[i] * scalar`, rounded \
     once, or `to[i] = from[i] / divisor`. `from` and `to` are the same or disjoint."
    Scale = "msccl_scale", 48 bytes {
        from: u64, "the first element to read";
        to: u64, "the first element to write";
        elements: u64, "how many there are";
        scalar: u64, "the scalar's bits, if `scalar_address` is 0";
        scalar_address: u64, "where the scalar lies in memory that the device reads, or 0";
        divisor: u64,
            "below 2^32: what elements are divided by, as `avg` divides; 0: they are multiplied";
    }
}

/// A constant of the launch ABI, for the generated header.
pub type Constant = (&'static str, u32, &'static str);

/// Declares constants and the table of them.
macro_rules! constants {
    ($($name:ident = $value:expr, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: u32 = $value;)*

        /// Every constant.
        pub const CONSTANTS: &[Constant] = &[$((stringify!($name), $name, $meaning)),*];
    };
}

constants! {
    REDUCTION_SUM = 0, "sum; also `avg` of integers, which has a divisor";
    REDUCTION_PROD = 1, "product";
    REDUCTION_MIN = 2, "smallest";
    REDUCTION_MAX = 3, "largest";
    REDUCTION_AVERAGE = 4,
        "`avg` of floats: the sum of contributions of which each is multiplied before, where a \
         source is `RAW`";
    LAUNCH_LINKS_ORDER_MEMORY = 1,
        "bit of `flags`: thread blocks of one rank may count on links alone to order their \
         memory, so packets wait for earlier stores";
    LAUNCH_SIGNALS = 2,
        "bit of `flags`: some step waits for another thread block, so signals are kept; no two \
         kernels that share them may run at once";
    LAUNCH_LEAVES_ROOM = 4,
        "bit of `flags`: there is room for the thread blocks of the next launch beside those of \
         this one, so it may begin, and wait, while this one runs";
    TRANSFER_PARTS_MASK = 0xffff, "bits of a transfer's `traits`: the number of parts";
    TRANSFER_OUT = 1 << 16, "bit of a transfer's `traits`: it goes to the peer";
    TRANSFER_LL = 1 << 17,
        "bit of a transfer's `traits`: over the wires of LL, not those of Simple";
    CONTROL_RUN = 0, "the communicator is well";
    CONTROL_HOLD = 1, "it has failed: kernels stay until the state is another one";
    CONTROL_TRAP = 2, "it has failed: kernels fault";
    CONTROL_RELEASE = 3,
        "its owner has given it up: kernels end, and report nothing as done";
    LOOK_PERIOD_US = 1000, "how long a kernel takes it that the state is what one before it saw";
    WAITING_NOTHING = 0, "nothing, or not for long";
    WAITING_MESSAGE = 1, "a message to come in";
    WAITING_ROOM = 2, "room on an outgoing link";
    WAITING_SIGNAL = 3, "a step of another thread block";
    WAITING_OFFER = 4, "the start of the peer's kernel, to store into its memory";
    WAITING_ACK = 5, "the peer, to have loaded a message from this rank's memory";
    THREADS_MAX_SIMPLE = 512,
        "most threads in a block under protocol Simple; every number of threads is a multiple of \
         32";
    NON_MOVER_THREADS = 64, "of the threads in a warp-specialised block, those that move no data";
    THREADS_MAX_LL = 256, "most threads in a block under protocol LL";
    THREADS_MAX_EXCHANGE = 512, "most threads in a block of an exchange";
    SHARE_BYTES = 39936,
        "shared memory of a thread block of every kernel that waits for peers, however much of it \
         the code declares";
    BULK_BUFFER_BYTES = 65536,
        "dynamic shared memory of a block of an exchange whose transfers are to be carried by \
         bulk copies; with less, its threads carry them";
    SHARE_BYTES_BULK = 66560, "shared memory of such a block, with what the code declares";
    BULK_MESSAGES_MIN = 6,
        "fewest messages of a transfer's part that bulk copies carry: all threads together move \
         fewer as fast";
    THREADS_MAX_LL128 = 256, "most threads in a block under protocol LL128";
    BLOCKS_EACH = 2, "thread blocks of every kernel that fit on a multiprocessor at once, at least";
    SOURCES_MAX = 128, "most sources of a step";
    DESTINATIONS_MAX = 128, "most destinations of a step";
    WAITS_MAX = 512, "most waits of a step";
    LINKS_MAX = 256, "most link ends of a thread block";
    PREFETCHED_OPERANDS_MAX = 512, "most operands of a thread block that are prefetched";
    DIRECT_RANKS_MAX = 16, "most ranks of a collective whose links deliver directly";
    OFFER_SHIFT = 48, "in the words of an offer, the number of the launch: the bits from here on";
}

/// How many words of a plan a launch has room for.
pub const PLAN_WORDS: usize = 244;

/// How many transfers a launch of an exchange has room for.
pub const EXCHANGE_TRANSFERS: usize = 88;

/// How many copies a launch of an exchange has room for.
pub const EXCHANGE_COPIES: usize = 8;

/// Most thread blocks of a launch of an exchange.
pub const EXCHANGE_LANES: usize = 180;

/// Most threads in a block of the kernels for `protocol`.
pub fn threads_max(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Simple => THREADS_MAX_SIMPLE,
        Protocol::Ll => THREADS_MAX_LL,
        Protocol::Ll128 => THREADS_MAX_LL128,
    }
}

impl Launch {
    /// With the fields that follow from how a call is cut.
    #[must_use]
    pub fn with_cut(self, cut: &Cut) -> Self {
        let Cut {
            block_bytes,
            chunk_bytes,
            part_bytes,
            slice_bytes,
            rounds,
            instances,
            chunks_per_message,
        } = *cut;
        Self {
            block_bytes,
            chunk_bytes,
            part_bytes,
            slice_bytes,
            rounds,
            instances,
            chunks_per_message,
            ..self
        }
    }

    /// With operands that are found step by step, whatever the plan would allow: as if a link had
    /// more messages than slots.
    #[must_use]
    pub fn step_by_step(self) -> Self {
        Self { most_messages: u32::MAX, ..self }
    }
}

/// A thread block that no kernel can hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooWide {
    /// Which one.
    pub tb: TbIndex,
    /// What it has too many of.
    pub what: &'static str,
    /// How many.
    pub found: usize,
    /// How many a kernel can hold.
    pub limit: u32,
}

impl fmt::Display for TooWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tb, what, found, limit } = self;
        write!(f, "{tb} has {found} {what}; kernels can hold {limit}")
    }
}

impl std::error::Error for TooWide {}

/// Whether kernels can hold every step and thread block of `program`.
///
/// # Errors
///
/// The first thread block that they cannot.
pub fn holds(program: &Program) -> Result<(), TooWide> {
    let blocks = program.thread_blocks.iter().enumerate();
    let mut faults = blocks.filter_map(|(tb, block)| too_wide(TbIndex::from(tb), block));
    faults.next().map_or(Ok(()), Err)
}

fn too_wide(tb: TbIndex, block: &ThreadBlock) -> Option<TooWide> {
    let most = |of: fn(&crate::Step) -> usize| block.steps.iter().map(of).max().unwrap_or(0);
    let widths = [
        ("link ends", block.receives.len() + block.sends.len(), LINKS_MAX),
        ("sources in a step", most(|step| step.sources.len()), SOURCES_MAX),
        ("destinations in a step", most(|step| step.destinations.len()), DESTINATIONS_MAX),
        ("waits in a step", most(|step| step.waits.len()), WAITS_MAX),
    ];
    let beyond = widths.into_iter().find(|&(_, found, limit)| found > limit as usize);
    beyond.map(|(what, found, limit)| TooWide { tb, what, found, limit })
}

#[cfg(test)]
mod tests {
    use msccl_collective::{Channel, Rank};

    use super::*;

    fn check(receives: u32, sends: u32, expected: Option<&str>) {
        let peers = |count| (0..count).map(Rank).collect();
        let (channel, steps) = (Channel(0), Vec::new());
        let (receives, sends) = (peers(receives), peers(sends));
        let block = ThreadBlock { channel, receives, sends, deliveries: Vec::new(), steps };
        let fault = too_wide(TbIndex(3), &block).map(|fault| fault.to_string());
        assert_eq!(fault.as_deref(), expected);
    }

    #[test]
    fn thread_blocks_beyond_the_kernels_are_named() {
        check(128, 128, None);
        check(128, 129, Some("tb3 has 257 link ends; kernels can hold 256"));
    }
}

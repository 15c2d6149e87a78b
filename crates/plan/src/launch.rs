//! The launch ABI: what a kernel is given by value, and the records in memory that it shares with
//! the host.
//!
//! `kernels/include/msccl_plan.h` declares the same records, generated from this file
//! ([`crate::abi`]) with an assertion for the size of each. All addresses are as the device sees them.

use std::fmt;

use msccl_collective::{Protocol, TbIndex};

use crate::cut::Cut;
use crate::program::{Program, ThreadBlock};

/// A field of a record, for the generated header.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name, the same in both languages.
    pub name: &'static str,
    /// Its type in C.
    pub c_type: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// A record, for the generated header.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its name in C.
    pub c_name: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// Its size.
    pub bytes: usize,
    /// Its fields, in order.
    pub fields: &'static [Field],
}

/// Declares records and the table of them.
macro_rules! records {
    ($($meaning:literal $name:ident = $c_name:literal, $bytes:literal bytes {
        $($field:ident: $type:ident, $doc:literal;)*
    })*) => {
        $(
            #[doc = $meaning]
            #[repr(C)]
            #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
            pub struct $name { $(#[doc = $doc] pub $field: $type,)* }

            // No padding, so the fields lie alike in every language.
            const _: () = assert!(size_of::<$name>() == $bytes);
            const _: () = assert!($bytes == 0 $(+ size_of::<$type>())*);
        )*

        /// Every record, in an order in which C may declare them.
        pub const RECORDS: &[Record] = &[$(Record {
            c_name: $c_name,
            meaning: $meaning,
            bytes: $bytes,
            fields: &[$(Field {
                name: stringify!($field),
                c_type: c_type(stringify!($type)),
                meaning: $doc,
            }),*],
        }),*];
    };
}

/// The name in C of a Rust integer type.
const fn c_type(rust: &str) -> &'static str {
    match rust.as_bytes() {
        b"u64" => "unsigned long long",
        _ => "unsigned",
    }
}

records! {
    "What an interpreter kernel is given by value."
    Launch = "msccl_launch", 152 bytes {
        plan: u64, "the words of the plan, 16-byte aligned, in device memory";
        links: u64, "`msccl_link_end[instances][LINK_COUNT]`, in device memory";
        input: u64, "the input buffer; in place as the plan's `ALIAS` says";
        output: u64, "the output buffer";
        scratch: u64, "the scratch buffer, 16-byte aligned; no need to clear it";
        signals: u64, "`u64[instances][TB_COUNT]` in device memory, zero before the first launch";
        clock: u64, "`msccl_clock` in device memory, zero before the first launch";
        control: u64, "`msccl_control` in memory that host and device map";
        progress: u64, "`msccl_progress[instances][TB_COUNT]` in memory that host and device map, zero before the first launch";
        block_bytes: u64, "bytes of one block of input or output: the count of the call";
        chunk_bytes: u64, "bytes of a chunk at full length; chunks of scratch start at multiples of 16 bytes";
        part_bytes: u64, "bytes of a chunk that one instance handles, a multiple of 16; the last instance's part may be shorter";
        slice_bytes: u64, "bytes of a part that one round handles, a multiple of 16; the last round's slice may be shorter";
        rounds: u32, "how often the program runs; 0 does nothing";
        instances: u32, "copies of the program that run side by side, at least 1: the grid has `instances * TB_COUNT` blocks";
        chunks_per_message: u32, "most chunks of a counted step that share a message, at least 1";
        link_depth: u32, "slots of a link, at least 1";
        slot_bytes: u32, "bytes of a slot as the protocol lays out messages, a multiple of 128";
        reduction: u32, "a `MSCCL_REDUCTION_` value";
        divisor: u32, "completing steps divide by this; 0 for every reduction but `avg`";
        flags: u32, "`MSCCL_LAUNCH_` bits";
        report_after_us: u32, "a wait that lasts longer shows in `progress`";
        reserved: u32, "0";
        call: u64, "number of the call on its communicator; the kernel copies it to `progress`";
    }

    "One end of a link, as one instance of one rank sees it. The slots and the tail lie with the receiver, the head lies with the sender."
    LinkEnd = "msccl_link_end", 32 bytes {
        slots: u64, "the first of `link_depth` slots, 128-byte aligned";
        tail: u64, "`u64`: messages posted, written by the sender (protocol Simple only)";
        head: u64, "`u64`: messages taken, written by the receiver";
        counter: u64, "`u64` in the memory of this end: messages posted or taken by it, kept from launch to launch";
    }

    "Where the signals of one stream of calls stand; no two kernels that share it may run at once."
    Clock = "msccl_clock", 16 bytes {
        base: u64, "what this launch adds to its signals; the last thread block to end raises it above all of them";
        finished: u32, "thread blocks of this launch that have ended; 0 between launches";
        reserved: u32, "0";
    }

    "How host and kernels stop one another."
    Control = "msccl_control", 8 bytes {
        abort: u32, "the host writes anything but 0: every wait gives up and the kernel ends";
        aborted: u32, "a kernel writes 1: some thread block gave up, so memory and links hold anything";
    }

    "What a thread block has been waiting for, longer than `report_after_us`. Read `kind` last and again: the entry is written while others read it."
    Progress = "msccl_progress", 32 bytes {
        kind: u32, "a `MSCCL_WAITING_` value; the other fields mean something unless it is `NOTHING`";
        step: u32, "the step at which the thread block stands";
        round: u32, "the round";
        subject: u32, "the link's number in the thread block, or the other thread block";
        number: u64, "the message, counted from 0 over the life of the link, or the step waited for";
        call: u64, "the launch's `call`";
    }

    "What the kernel that scales an input is given by value: `to[i] = from[i] * scalar`, rounded once. `from` and `to` are the same or disjoint."
    Scale = "msccl_scale", 40 bytes {
        from: u64, "the first element to read";
        to: u64, "the first element to write";
        elements: u64, "how many there are";
        scalar: u64, "the scalar's bits, if `scalar_address` is 0";
        scalar_address: u64, "where the scalar lies in memory that the device reads, or 0";
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
    REDUCTION_SUM = 0, "sum; also `avg`, which has a divisor";
    REDUCTION_PROD = 1, "product";
    REDUCTION_MIN = 2, "smallest";
    REDUCTION_MAX = 3, "largest";
    LAUNCH_LINKS_ORDER_MEMORY = 1, "bit of `flags`: thread blocks of one rank may count on links alone to order their memory, so packets wait for earlier stores";
    WAITING_NOTHING = 0, "nothing, or not for long";
    WAITING_MESSAGE = 1, "a message to come in";
    WAITING_ROOM = 2, "room on an outgoing link";
    WAITING_SIGNAL = 3, "a step of another thread block";
    THREADS_MAX_SIMPLE = 512, "most threads in a block under protocol Simple; every number of threads is a multiple of 32";
    THREADS_MAX_LL = 1024, "most threads in a block under protocol LL";
    THREADS_MAX_LL128 = 512, "most threads in a block under protocol LL128";
    SOURCES_MAX = 128, "most sources of a step";
    DESTINATIONS_MAX = 128, "most destinations of a step";
    WAITS_MAX = 512, "most waits of a step";
    LINKS_MAX = 256, "most link ends of a thread block";
}

/// Most threads in a block of the kernels for `protocol`.
pub fn threads_max(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Simple => THREADS_MAX_SIMPLE,
        Protocol::Ll => THREADS_MAX_LL,
        Protocol::Ll128 => THREADS_MAX_LL128,
    }
}

impl Launch {
    /// The fields that follow from how a call is cut; all others are 0.
    pub fn of(cut: &Cut) -> Self {
        let Cut { block_bytes, chunk_bytes, part_bytes, slice_bytes, rounds, instances, .. } = *cut;
        Self {
            block_bytes,
            chunk_bytes,
            part_bytes,
            slice_bytes,
            rounds,
            instances,
            chunks_per_message: cut.chunks_per_message,
            ..Self::default()
        }
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
        let block = ThreadBlock { channel, receives, sends, steps };
        let fault = too_wide(TbIndex(3), &block).map(|fault| fault.to_string());
        assert_eq!(fault.as_deref(), expected);
    }

    #[test]
    fn thread_blocks_beyond_the_kernels_are_named() {
        check(128, 128, None);
        check(128, 129, Some("tb3 has 257 link ends; kernels can hold 256"));
    }
}

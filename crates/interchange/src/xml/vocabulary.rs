//! The elements' attributes, once: reader, writer and XSD all take names, order and domains from
//! these tables, so that they cannot drift apart.
//!
//! The domains are what the reader takes. They are wider than the limits of any runtime, which are
//! a target's affair and checked where an algorithm is validated.

use super::Dialect;

/// One attribute of an element.
pub(super) struct Attribute {
    /// Its name.
    pub name: &'static str,
    /// What stands before its value: ` name="`.
    pub opening: &'static str,
    /// Which values the reader takes.
    pub domain: Domain,
    /// Whether the first runtime demands it.
    pub msccl: Need,
    /// Whether the executor demands it.
    pub executor: Need,
}

/// Whether an interpreter demands an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// A file without it is refused.
    Required,
    /// It has a default, or means something to our reader only.
    Optional,
    /// We never write it in this dialect.
    Absent,
}

/// Which values an attribute takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Domain {
    /// A name of at most [`NAME_BYTES`] bytes, free of markup.
    Name,
    /// An integer within bounds, both included.
    Integer(i64, i64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The name of a collective: one of [`collectives`].
    Collective,
}

impl Attribute {
    /// Whether an interpreter of `dialect` demands it.
    pub(super) fn need(&self, dialect: Dialect) -> Need {
        match dialect {
            Dialect::Msccl => self.msccl,
            Dialect::Executor => self.executor,
        }
    }
}

/// Whether the interpreters pass over elements of this name.
pub(super) fn is_ours(element: &str) -> bool {
    [CONTRACT, given::NAME, promise::NAME].contains(&element)
}

/// Longest name that the first runtime keeps.
pub(super) const NAME_BYTES: usize = 63;

/// Whether every interpreter reads this name whole.
pub(super) fn is_plain_name(name: &str) -> bool {
    let plain = |c: char| !c.is_control() && !matches!(c, '"' | '\'' | '<' | '>' | '&');
    name.len() <= NAME_BYTES && name.chars().all(plain)
}

/// The largest number of chunks, steps or thread blocks that a file may claim. Far above the limits
/// of every runtime, and small enough that no table sized by it can exhaust memory.
pub(super) const MOST: i64 = 1 << 24;

/// The largest number of ranks that a file may claim.
pub(super) const MOST_RANKS: i64 = 1 << 16;

/// The collectives that the interpreters of a dialect know.
pub(super) fn collectives(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Msccl => &[
            "allreduce",
            "allgather",
            "reduce",
            "broadcast",
            "alltoall",
            "reduce_scatter",
            "custom",
        ],
        Dialect::Executor => &[
            "reduce",
            "broadcast",
            "allreduce",
            "reducescatter",
            "allgather",
            "send",
            "recv",
            "gather",
            "scatter",
            "alltoall",
            "alltoallv",
        ],
    }
}

const FLAG: Domain = Domain::Integer(0, 1);
const COUNT: Domain = Domain::Integer(0, MOST);
const INDEX: Domain = Domain::Integer(0, MOST);
const INDEX_OR_NONE: Domain = Domain::Integer(-1, MOST);
const BYTES: Domain = Domain::Integer(0, i64::MAX);
const BUFFER: Domain = Domain::OneOf(&["i", "o", "s"]);
const PROTOCOL: Domain = Domain::OneOf(&["Simple", "LL", "LL128"]);
const STEP_TYPE: Domain =
    Domain::OneOf(&["s", "r", "rcs", "rrc", "rrs", "rrcs", "cpy", "re", "nop"]);

/// Declares the attributes of an element: their table, in the order in which they are written, and
/// the position of each in it.
macro_rules! element {
    ($(#[$doc:meta])* $module:ident, $element:literal, $count:literal:
        $($position:ident $name:literal $domain:expr, $msccl:ident $executor:ident;)*) => {
        $(#[$doc])*
        pub(super) mod $module {
            use super::*;
            use super::Need::*;

            /// The element's name.
            pub const NAME: &str = $element;

            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Order { $($position),* }

            $(#[doc = concat!("Position of `", $name, "` in the table.")]
            pub const $position: usize = Order::$position as usize;)*

            /// The attributes, in the order in which they are written.
            pub static TABLE: [Attribute; $count] = [
                $(Attribute {
                    name: $name,
                    opening: concat!(" ", $name, "=\""),
                    domain: $domain,
                    msccl: $msccl,
                    executor: $executor,
                }),*
            ];
        }
    };
}

element! {
    /// `<algo>`: the whole algorithm.
    algo, "algo", 14:
    LABEL "name" Domain::Name, Required Optional;
    PROTO "proto" PROTOCOL, Required Required;
    NCHANNELS "nchannels" INDEX, Required Required;
    NCHUNKSPERLOOP "nchunksperloop" COUNT, Required Required;
    NGPUS "ngpus" Domain::Integer(1, MOST_RANKS), Required Required;
    COLL "coll" Domain::Collective, Required Required;
    INPLACE "inplace" FLAG, Required Required;
    OUTOFPLACE "outofplace" FLAG, Absent Required;
    MIN_BYTES "minBytes" BYTES, Optional Required;
    MAX_BYTES "maxBytes" BYTES, Optional Required;
    NTHREADS "nthreads" Domain::Integer(0, 1 << 16), Optional Absent;
    ROOT "root" INDEX, Optional Optional;
    CUSTOM "custom" Domain::Name, Optional Absent;
    CHUNKS "chunks" Domain::Integer(1, MOST), Optional Absent;
}

element! {
    /// `<gpu>`: the program of one rank.
    gpu, "gpu", 4:
    ID "id" INDEX, Required Required;
    I_CHUNKS "i_chunks" COUNT, Required Required;
    O_CHUNKS "o_chunks" COUNT, Required Required;
    S_CHUNKS "s_chunks" COUNT, Required Required;
}

element! {
    /// `<tb>`: one thread block.
    tb, "tb", 4:
    ID "id" INDEX, Required Required;
    SEND "send" INDEX_OR_NONE, Required Required;
    RECV "recv" INDEX_OR_NONE, Required Required;
    CHAN "chan" INDEX_OR_NONE, Required Required;
}

element! {
    /// `<step>`: one step.
    step, "step", 10:
    S "s" INDEX, Required Required;
    TYPE "type" STEP_TYPE, Required Required;
    SRCBUF "srcbuf" BUFFER, Required Required;
    SRCOFF "srcoff" INDEX_OR_NONE, Required Required;
    DSTBUF "dstbuf" BUFFER, Required Required;
    DSTOFF "dstoff" INDEX_OR_NONE, Required Required;
    CNT "cnt" COUNT, Required Required;
    DEPID "depid" INDEX_OR_NONE, Required Required;
    DEPS "deps" INDEX_OR_NONE, Required Required;
    HASDEP "hasdep" FLAG, Required Required;
}

element! {
    /// `<given>`: an input slot that holds a value at the start of a custom collective.
    given, "given", 2:
    GPU "gpu" INDEX, Required Required;
    INDEX_OF "index" INDEX, Required Required;
}

element! {
    /// `<promise>`: one contribution to what an output slot must hold at the end of a custom
    /// collective. The contributions of one slot stand in several such elements.
    promise, "promise", 4:
    GPU "gpu" INDEX, Required Required;
    INDEX_OF "index" INDEX, Required Required;
    FROM "from" INDEX, Required Required;
    AT "at" INDEX, Required Required;
}

/// The element that holds `<given>` and `<promise>`; interpreters ignore elements that they do not
/// know.
pub(super) const CONTRACT: &str = "contract";

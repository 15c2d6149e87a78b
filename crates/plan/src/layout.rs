//! The numbers of the plan ABI: word positions, bit fields, opcodes. They stand here and nowhere
//! else.
//!
//! `kernels/include/msccl_plan.h` and the tables of `docs/PLAN.md` are generated from this file
//! ([`crate::abi`]); a test keeps them fresh.

use msccl_ir::StepKind;

/// One word or one constant of the ABI, for the generated texts.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, upper case.
    pub name: &'static str,
    /// Word position, or value.
    pub value: u32,
    /// What it means.
    pub meaning: &'static str,
}

/// Declares constants and, beside them, the table from which the texts are generated.
macro_rules! entries {
    ($(#[$table_doc:meta])* $table:ident { $($name:ident = $value:expr, $meaning:literal;)* }) => {
        $(#[doc = $meaning] pub const $name: u32 = $value;)*

        $(#[$table_doc])*
        pub const $table: &[Entry] =
            &[$(Entry { name: stringify!($name), value: $name, meaning: $meaning }),*];
    };
}

/// Words of the header.
pub mod header {
    use super::Entry;

    entries! {
        /// The header, word by word.
        WORDS {
            MAGIC = 0, "`MAGIC`";
            VERSION = 1, "`VERSION`";
            TOTAL = 2, "words in the plan";
            RANK = 3, "the rank whose plan this is";
            RANKS = 4, "ranks in the collective";
            PROTOCOL = 5, "a `PROTOCOL_` value";
            PLACEMENT = 6, "`PLACEMENT_` bits";
            ALIAS = 7, "an `ALIAS_` value: how in-place buffers lie";
            BLOCK_CHUNKS = 8, "chunks in a block of input or output, at least one";
            INPUT_CHUNKS = 9, "chunks in this rank's input";
            OUTPUT_CHUNKS = 10, "chunks in this rank's output";
            SCRATCH_CHUNKS = 11, "chunks in this rank's scratch buffer";
            THREADS = 12,
                "threads per thread block that the author requested; 0: as the runtime sees fit";
            SIGNAL_STRIDE = 13, "what a signal counter advances by in one round";
            LINK_DEPTH = 14, "messages that a link holds, at least one";
            MESSAGE_BYTES = 15, "what a message may hold, at least one";
            SLICE_BYTES = 16, "the longest slice of a chunk in one round, at least one";
            PACKING = 17, "a `PACKING_` value: how a counted step becomes messages";
            COUNT_LIMIT = 18, "most chunks in one message, at least one";
            TB_COUNT = 19, "thread blocks";
            TB_TABLE = 20, "first word of the thread block table";
            LINK_COUNT = 21, "link ends";
            LINK_TABLE = 22, "first word of the link table";
            STEPS = 23, "first word of the first step";
            AVERAGE_OF = 24,
                "contributions to a complete sum, and what is known of where: the `AVERAGE_` \
                 fields";
            COUNTS = 25, "a `COUNTS_` value: which counts are served";
            LONGEST_STEP = 26, "chunks in the longest step";
            MOST_MESSAGES = 27,
                "most messages that a link carries in a round where each of its steps is one";
        }
    }

    entries! {
        /// The fields of word `AVERAGE_OF`.
        AVERAGE_FIELDS {
            AVERAGE_COUNT_MASK = (1 << 30) - 1,
                "contributions to a complete sum: the low bits; 0: no average is served";
            AVERAGE_COMPLETES = 1 << 30,
                "bit: steps with `COMPLETES` are all that complete a sum, so an average can \
                 divide there";
            AVERAGE_RAW = 1 << 31,
                "bit: sources with `RAW` are all in which contributions are combined as they were \
                 given, so an average can scale there";
        }
    }

    /// Words in the header.
    pub const LENGTH: usize = WORDS.len();
}

/// Words of an entry of the thread block table.
pub mod tb {
    use super::Entry;

    entries! {
        /// A thread block, word by word.
        WORDS {
            FIRST_STEP = 0, "first word of its first step";
            STEP_WORDS = 1, "words of all its steps";
            STEPS = 2, "steps";
            CHANNEL = 3, "the channel of all its links";
            FIRST_LINK = 4, "its first entry in the link table";
            LINKS = 5,
                "incoming links: the entries from `FIRST_LINK` on (low half), and outgoing ones: \
                 those after them (high half)";
            FIRST_OPERAND = 6, "first word of its operand table; 0: it has none";
            OPERANDS = 7, "words of its operand table";
        }
    }

    entries! {
        /// The fields of word `LINKS`.
        FIELDS {
            SENDS_SHIFT = 16, "number of outgoing links: the bits of `LINKS` from here on";
        }
    }

    /// Words in an entry.
    pub const LENGTH: usize = WORDS.len();
}

/// Words of an entry of the link table.
pub mod link {
    use super::Entry;

    entries! {
        /// A link end, word by word.
        WORDS {
            PEER = 0, "the rank at the other end";
            MESSAGES = 1, "messages that it carries in a round where each of its steps is one";
            TRAITS = 2, "`LINK_` bits";
            NUMBER = 3,
                "its number among the links of the two ranks in this direction, by ascending \
                 channel";
        }
    }

    entries! {
        /// The bits of word `TRAITS`.
        TRAIT_BITS {
            OUT = 1, "bit of `TRAITS`: messages go out; else they come in";
            PUSH = 1 << 1, "bit of `TRAITS`: the sender may store messages where they go";
            PULL = 1 << 2, "bit of `TRAITS`: the receiver may load messages from where they lie";
            ACK = 1 << 3,
                "bit of `TRAITS`: a sender whose messages are pulled must have an \
                 acknowledgement";
        }
    }

    /// Words in an entry.
    pub const LENGTH: usize = WORDS.len();
}

/// Words and bit fields of a step.
pub mod step {
    use super::Entry;

    entries! {
        /// The fixed words of a step.
        WORDS {
            HEAD = 0, "opcode, flags and number of waits: the `STEP_` fields";
            OPERANDS = 1, "number of sources (low half) and of destinations (high half)";
            COUNT = 2, "chunks in every operand; 0 where there is none";
        }
    }

    entries! {
        /// The fields of words `HEAD` and `OPERANDS`.
        FIELDS {
            OPCODE_BITS = 8, "opcode: the low bits of `HEAD`";
            COMPLETES = 1 << 8,
                "bit of `HEAD`: the result is complete, so `avg` of integers divides here";
            SIGNALS = 1 << 9, "bit of `HEAD`: someone waits for this step, so its end is signalled";
            RECEIVES = 1 << 10, "bit of `HEAD`: some source is a link";
            SENDS = 1 << 11, "bit of `HEAD`: some destination is a link";
            STORES = 1 << 12, "bit of `HEAD`: some destination is a slot";
            FAR = 1 << 13,
                "bit of `HEAD`: some operand is a link that this rank may serve directly, and a \
                 word for each operand says where";
            LENDS = 1 << 14,
                "bit of `HEAD`: some operand is a link by which the peer may serve itself, or \
                 this rank";
            BUNDLE = 1 << 15,
                "bit of `HEAD`: several steps that run as one, as many as sources: each source \
                 goes to the destination of its number; waits are those of the first step, and \
                 `SIGNALS` is of the last";
            WAITS_SHIFT = 16, "number of waits: the bits of `HEAD` from here on";
            DESTINATIONS_SHIFT = 16, "number of destinations: the bits of `OPERANDS` from here on";
        }
    }

    /// Fixed words of a step; waits, sources and destinations follow in this order, one word each.
    pub const LENGTH: usize = WORDS.len();

    /// Steps start at multiples of this many words (16 bytes); the words between are 0.
    pub const ALIGNMENT: usize = 4;
}

/// Bit fields of an operand and of a wait.
pub mod operand {
    use super::Entry;

    entries! {
        /// An operand's buffer, or that it is a link.
        PLACES {
            PLACE_SHIFT = 30, "an operand's place: the bits from here on";
            PLACE_INPUT = 0, "a slot of the input";
            PLACE_OUTPUT = 1, "a slot of the output";
            PLACE_SCRATCH = 2, "a slot of the scratch buffer";
            PLACE_LINK = 3, "a link: its number among those of the thread block";
            RAW = 1 << 29,
                "bit of a source that is combined with others: it is one contribution as its rank \
                 gave it, so `avg` of floats scales it here";
            INDEX_MASK = (1 << 29) - 1, "the slot, or the number of the link";
            NOT_FAR = 0xffff_ffff, "a far word: nothing of the peer's is read or written";
        }
    }

    entries! {
        /// The fields of a link in an operand table.
        TABLE {
            TABLE_LINK_BITS = 8, "its number: the low bits";
            TABLE_MESSAGE_BITS = 10,
                "which of the link's messages in a round, counted from 0: the bits after those";
            TABLE_POSITION_BITS = 11,
                "which chunk of the message, counted from 0: the bits up to `RAW`";
        }
    }

    entries! {
        /// A wait: for the end of a step of another thread block.
        WAIT {
            WAIT_TB_SHIFT = 20, "the thread block: the bits from here on";
            WAIT_STEP_MASK = (1 << 20) - 1, "the step";
        }
    }
}

entries! {
    /// Values of the header.
    VALUES {
        MAGIC = 0x4e4c_504d, "`MPLN` in little-endian bytes";
        VERSION = 7, "raised whenever a word changes its meaning";
        PROTOCOL_SIMPLE = 0, "plain data, a flag apart";
        PROTOCOL_LL = 1, "eight-byte packets, half flag";
        PROTOCOL_LL128 = 2, "128-byte packets, eight bytes flag";
        PLACEMENT_IN_PLACE = 1, "calls in place are served";
        PLACEMENT_OUT_OF_PLACE = 2, "calls out of place are served";
        PACKING_FITTING = 0, "as many whole slices of a step's chunks as fit share a message";
        PACKING_WHOLE = 1, "every step is one message";
        COUNTS_DIVISIBLE = 0, "counts that `BLOCK_CHUNKS` divides";
        COUNTS_ANY = 1, "every count";
        ALIAS_NONE = 0, "in place, this rank's input and output are disjoint all the same";
        ALIAS_SAME = 1, "in place, input chunk c is output chunk c";
        ALIAS_INPUT_IN_OUTPUT = 2, "in place, the input is block `RANK` of the output";
        ALIAS_OUTPUT_IN_INPUT = 3, "in place, the output is block `RANK` of the input";
    }
}

entries! {
    /// Symbols: what binding resolves to an address. Link `k` of the link table is `SYMBOL_LINKS +
    /// k`.
    SYMBOLS {
        SYMBOL_INPUT = 0, "the input buffer";
        SYMBOL_OUTPUT = 1, "the output buffer";
        SYMBOL_SCRATCH = 2, "the scratch buffer";
        SYMBOL_SIGNALS = 3, "the signal counters, one per thread block";
        SYMBOL_LINKS = 4, "the first link end";
    }
}

entries! {
    /// Opcodes: the shape of a step, so that a kernel can dispatch before it has read the operands.
    OPCODES {
        OP_NOP = 0, "only waits";
        OP_SEND = 1, "local → link";
        OP_RECV = 2, "link → local";
        OP_COPY = 3, "local → local";
        OP_REDUCE = 4, "local + local → the first of them";
        OP_RECV_COPY_SEND = 5, "link → local, link";
        OP_RECV_REDUCE_COPY = 6, "link + local → local";
        OP_RECV_REDUCE_SEND = 7, "link + local → link";
        OP_RECV_REDUCE_COPY_SEND = 8, "link + local → local, link";
        OP_MANY = 9, "any other shape";
    }
}

/// The opcode of a step of shape `kind`.
pub fn opcode(kind: StepKind) -> u32 {
    match kind {
        StepKind::Nop => OP_NOP,
        StepKind::Send => OP_SEND,
        StepKind::Recv => OP_RECV,
        StepKind::Copy => OP_COPY,
        StepKind::Reduce => OP_REDUCE,
        StepKind::RecvCopySend => OP_RECV_COPY_SEND,
        StepKind::RecvReduceCopy => OP_RECV_REDUCE_COPY,
        StepKind::RecvReduceSend => OP_RECV_REDUCE_SEND,
        StepKind::RecvReduceCopySend => OP_RECV_REDUCE_COPY_SEND,
        StepKind::Many => OP_MANY,
    }
}

/// Words from the start of a step to the start of the next, where `far` operands have a far word.
pub fn step_words(waits: usize, sources: usize, destinations: usize, far: usize) -> usize {
    (step::LENGTH + waits + sources + destinations + far).next_multiple_of(step::ALIGNMENT)
}

const _: () = assert!(header::LENGTH.is_multiple_of(step::ALIGNMENT));
const _: () = assert!(tb::LENGTH.is_multiple_of(step::ALIGNMENT));
const _: () = assert!(link::LENGTH.is_multiple_of(step::ALIGNMENT));

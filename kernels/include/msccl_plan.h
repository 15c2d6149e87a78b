// The words of a plan; docs/PLAN.md explains them.
// Generated from crates/plan/src/layout.rs: do not edit. Regenerate with
//     MSCCL_BLESS=1 cargo test -p msccl-plan
#pragma once

enum : unsigned {
    // Words of the header.
    MSCCL_PLAN_HEADER_MAGIC              = 0,  // `MAGIC`
    MSCCL_PLAN_HEADER_VERSION            = 1,  // `VERSION`
    MSCCL_PLAN_HEADER_TOTAL              = 2,  // words in the plan
    MSCCL_PLAN_HEADER_RANK               = 3,  // the rank whose plan this is
    MSCCL_PLAN_HEADER_RANKS              = 4,  // ranks in the collective
    MSCCL_PLAN_HEADER_PROTOCOL           = 5,  // a `PROTOCOL_` value
    MSCCL_PLAN_HEADER_PLACEMENT          = 6,  // `PLACEMENT_` bits
    MSCCL_PLAN_HEADER_ALIAS              = 7,  // an `ALIAS_` value: how in-place buffers lie
    MSCCL_PLAN_HEADER_BLOCK_CHUNKS       = 8,  // chunks in a block of input or output, at least one
    MSCCL_PLAN_HEADER_INPUT_CHUNKS       = 9,  // chunks in this rank's input
    MSCCL_PLAN_HEADER_OUTPUT_CHUNKS      = 10,  // chunks in this rank's output
    MSCCL_PLAN_HEADER_SCRATCH_CHUNKS     = 11,  // chunks in this rank's scratch buffer
    MSCCL_PLAN_HEADER_THREADS            = 12,  // threads per thread block that the author asked for; 0 is no wish
    MSCCL_PLAN_HEADER_SIGNAL_STRIDE      = 13,  // what a signal counter advances by in one round
    MSCCL_PLAN_HEADER_LINK_DEPTH         = 14,  // messages that a link holds, at least one
    MSCCL_PLAN_HEADER_MESSAGE_BYTES      = 15,  // what a message may hold, at least one
    MSCCL_PLAN_HEADER_SLICE_BYTES        = 16,  // the longest slice of a chunk in one round, at least one
    MSCCL_PLAN_HEADER_PACKING            = 17,  // a `PACKING_` value: how a counted step becomes messages
    MSCCL_PLAN_HEADER_COUNT_LIMIT        = 18,  // most chunks in one message, at least one
    MSCCL_PLAN_HEADER_TB_COUNT           = 19,  // thread blocks
    MSCCL_PLAN_HEADER_TB_TABLE           = 20,  // first word of the thread block table
    MSCCL_PLAN_HEADER_LINK_COUNT         = 21,  // link ends
    MSCCL_PLAN_HEADER_LINK_TABLE         = 22,  // first word of the link table
    MSCCL_PLAN_HEADER_STEPS              = 23,  // first word of the first step; steps run to the end of the plan
    MSCCL_PLAN_HEADER_AVERAGE_OF         = 24,  // contributions to a complete sum; 0 where `avg` cannot be served
    MSCCL_PLAN_HEADER_COUNTS             = 25,  // a `COUNTS_` value: which counts are served
    MSCCL_PLAN_HEADER_RESERVED_0         = 26,  // 0
    MSCCL_PLAN_HEADER_RESERVED_1         = 27,  // 0
    MSCCL_PLAN_HEADER_LENGTH             = 28,  // words

    // Values in the header.
    MSCCL_PLAN_MAGIC                     = 0x4e4c504d,  // `MPLN` in little-endian bytes
    MSCCL_PLAN_VERSION                   = 2,  // raised whenever a word changes its meaning
    MSCCL_PLAN_PROTOCOL_SIMPLE           = 0,  // plain data, a flag apart
    MSCCL_PLAN_PROTOCOL_LL               = 1,  // eight-byte packets, half flag
    MSCCL_PLAN_PROTOCOL_LL128            = 2,  // 128-byte packets, eight bytes flag
    MSCCL_PLAN_PLACEMENT_IN_PLACE        = 1,  // calls in place are served
    MSCCL_PLAN_PLACEMENT_OUT_OF_PLACE    = 2,  // calls out of place are served
    MSCCL_PLAN_PACKING_FITTING           = 0,  // as many whole slices of a step's chunks as fit share a message
    MSCCL_PLAN_PACKING_WHOLE             = 1,  // every step is one message
    MSCCL_PLAN_COUNTS_DIVISIBLE          = 0,  // counts that `BLOCK_CHUNKS` divides
    MSCCL_PLAN_COUNTS_ANY                = 1,  // every count
    MSCCL_PLAN_ALIAS_NONE                = 0,  // in place, this rank's input and output are disjoint all the same
    MSCCL_PLAN_ALIAS_SAME                = 1,  // in place, input chunk c is output chunk c
    MSCCL_PLAN_ALIAS_INPUT_IN_OUTPUT     = 2,  // in place, the input is block `RANK` of the output
    MSCCL_PLAN_ALIAS_OUTPUT_IN_INPUT     = 3,  // in place, the output is block `RANK` of the input

    // Words of a thread block's entry.
    MSCCL_PLAN_TB_FIRST_STEP             = 0,  // first word of its first step
    MSCCL_PLAN_TB_STEP_WORDS             = 1,  // words of all its steps
    MSCCL_PLAN_TB_STEPS                  = 2,  // steps
    MSCCL_PLAN_TB_CHANNEL                = 3,  // the channel of all its links
    MSCCL_PLAN_TB_FIRST_LINK             = 4,  // its first entry in the link table
    MSCCL_PLAN_TB_RECEIVES               = 5,  // incoming links: the entries from `FIRST_LINK` on
    MSCCL_PLAN_TB_SENDS                  = 6,  // outgoing links: the entries after those
    MSCCL_PLAN_TB_RESERVED               = 7,  // 0
    MSCCL_PLAN_TB_LENGTH                 = 8,  // words

    // Words of a link end's entry.
    MSCCL_PLAN_LINK_PEER                 = 0,  // the rank at the other end
    MSCCL_PLAN_LINK_CHANNEL              = 1,  // the channel
    MSCCL_PLAN_LINK_DIRECTION            = 2,  // 0: messages come in; 1: messages go out
    MSCCL_PLAN_LINK_TB                   = 3,  // the thread block that owns this end
    MSCCL_PLAN_LINK_LENGTH               = 4,  // words

    // Fixed words of a step.
    MSCCL_PLAN_STEP_HEAD                 = 0,  // opcode, flags and number of waits: the `STEP_` fields
    MSCCL_PLAN_STEP_OPERANDS             = 1,  // number of sources (low half) and of destinations (high half)
    MSCCL_PLAN_STEP_COUNT                = 2,  // chunks in every operand; 0 where there is none
    MSCCL_PLAN_STEP_LENGTH               = 3,  // words

    // Fields of a step's words.
    MSCCL_PLAN_STEP_OPCODE_BITS          = 8,  // opcode: the low bits of `HEAD`
    MSCCL_PLAN_STEP_COMPLETES            = 0x100,  // bit of `HEAD`: the result is complete, so `avg` divides here
    MSCCL_PLAN_STEP_SIGNALS              = 0x200,  // bit of `HEAD`: someone waits for this step, so its end is signalled
    MSCCL_PLAN_STEP_WAITS_SHIFT          = 16,  // number of waits: the bits of `HEAD` from here on
    MSCCL_PLAN_STEP_DESTINATIONS_SHIFT   = 16,  // number of destinations: the bits of `OPERANDS` from here on

    // Opcodes.
    MSCCL_PLAN_OP_NOP                    = 0,  // only waits
    MSCCL_PLAN_OP_SEND                   = 1,  // local → link
    MSCCL_PLAN_OP_RECV                   = 2,  // link → local
    MSCCL_PLAN_OP_COPY                   = 3,  // local → local
    MSCCL_PLAN_OP_REDUCE                 = 4,  // local + local → the first of them
    MSCCL_PLAN_OP_RECV_COPY_SEND         = 5,  // link → local, link
    MSCCL_PLAN_OP_RECV_REDUCE_COPY       = 6,  // link + local → local
    MSCCL_PLAN_OP_RECV_REDUCE_SEND       = 7,  // link + local → link
    MSCCL_PLAN_OP_RECV_REDUCE_COPY_SEND  = 8,  // link + local → local, link
    MSCCL_PLAN_OP_MANY                   = 9,  // any other shape

    // Fields of an operand.
    MSCCL_PLAN_PLACE_SHIFT               = 30,  // an operand's place: the bits from here on
    MSCCL_PLAN_PLACE_INPUT               = 0,  // a slot of the input
    MSCCL_PLAN_PLACE_OUTPUT              = 1,  // a slot of the output
    MSCCL_PLAN_PLACE_SCRATCH             = 2,  // a slot of the scratch buffer
    MSCCL_PLAN_PLACE_LINK                = 3,  // a link: its number among those of the thread block
    MSCCL_PLAN_INDEX_MASK                = 0x3fffffff,  // the slot, or the number of the link

    // Fields of a wait.
    MSCCL_PLAN_WAIT_TB_SHIFT             = 20,  // the thread block: the bits from here on
    MSCCL_PLAN_WAIT_STEP_MASK            = 0xfffff,  // the step

    // Symbols.
    MSCCL_PLAN_SYMBOL_INPUT              = 0,  // the input buffer
    MSCCL_PLAN_SYMBOL_OUTPUT             = 1,  // the output buffer
    MSCCL_PLAN_SYMBOL_SCRATCH            = 2,  // the scratch buffer
    MSCCL_PLAN_SYMBOL_SIGNALS            = 3,  // the signal counters, one per thread block
    MSCCL_PLAN_SYMBOL_LINKS              = 4,  // the first link end

    // Steps start at multiples of this many words.
    MSCCL_PLAN_STEP_ALIGNMENT            = 4,
};

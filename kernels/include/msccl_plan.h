// The words of a plan; docs/PLAN.md explains them. What a launch is given.
// Generated from layout.rs and launch.rs of crates/plan/src: do not edit. Regenerate with
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
    MSCCL_PLAN_HEADER_THREADS            = 12,  // threads per thread block that the author requested; 0: as the runtime sees fit
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
    MSCCL_PLAN_HEADER_STEPS              = 23,  // first word of the first step
    MSCCL_PLAN_HEADER_AVERAGE_OF         = 24,  // contributions to a complete sum, and what is known of where: the `AVERAGE_` fields
    MSCCL_PLAN_HEADER_COUNTS             = 25,  // a `COUNTS_` value: which counts are served
    MSCCL_PLAN_HEADER_LONGEST_STEP       = 26,  // chunks in the longest step
    MSCCL_PLAN_HEADER_MOST_MESSAGES      = 27,  // most messages that a link carries in a round where each of its steps is one
    MSCCL_PLAN_HEADER_LENGTH             = 28,  // words

    // Values in the header.
    MSCCL_PLAN_MAGIC                     = 0x4e4c504d,  // `MPLN` in little-endian bytes
    MSCCL_PLAN_VERSION                   = 7,  // raised whenever a word changes its meaning
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

    // Fields of `AVERAGE_OF`.
    MSCCL_PLAN_HEADER_AVERAGE_COUNT_MASK = 0x3fffffff,  // contributions to a complete sum: the low bits; 0: no average is served
    MSCCL_PLAN_HEADER_AVERAGE_COMPLETES  = 0x40000000,  // bit: steps with `COMPLETES` are all that complete a sum, so an average can divide there
    MSCCL_PLAN_HEADER_AVERAGE_RAW        = 0x80000000,  // bit: sources with `RAW` are all in which contributions are combined as they were given, so an average can scale there

    // Words of a thread block's entry.
    MSCCL_PLAN_TB_FIRST_STEP             = 0,  // first word of its first step
    MSCCL_PLAN_TB_STEP_WORDS             = 1,  // words of all its steps
    MSCCL_PLAN_TB_STEPS                  = 2,  // steps
    MSCCL_PLAN_TB_CHANNEL                = 3,  // the channel of all its links
    MSCCL_PLAN_TB_FIRST_LINK             = 4,  // its first entry in the link table
    MSCCL_PLAN_TB_LINKS                  = 5,  // incoming links: the entries from `FIRST_LINK` on (low half), and outgoing ones: those after them (high half)
    MSCCL_PLAN_TB_FIRST_OPERAND          = 6,  // first word of its operand table; 0: it has none
    MSCCL_PLAN_TB_OPERANDS               = 7,  // words of its operand table
    MSCCL_PLAN_TB_LENGTH                 = 8,  // words

    // Fields of a thread block's words.
    MSCCL_PLAN_TB_SENDS_SHIFT            = 16,  // number of outgoing links: the bits of `LINKS` from here on

    // Words of a link end's entry.
    MSCCL_PLAN_LINK_PEER                 = 0,  // the rank at the other end
    MSCCL_PLAN_LINK_MESSAGES             = 1,  // messages that it carries in a round where each of its steps is one
    MSCCL_PLAN_LINK_TRAITS               = 2,  // `LINK_` bits
    MSCCL_PLAN_LINK_NUMBER               = 3,  // its number among the links of the two ranks in this direction, by ascending channel
    MSCCL_PLAN_LINK_LENGTH               = 4,  // words

    // Bits of a link end's traits.
    MSCCL_PLAN_LINK_OUT                  = 1,  // bit of `TRAITS`: messages go out; else they come in
    MSCCL_PLAN_LINK_PUSH                 = 2,  // bit of `TRAITS`: the sender may store messages where they go
    MSCCL_PLAN_LINK_PULL                 = 4,  // bit of `TRAITS`: the receiver may load messages from where they lie
    MSCCL_PLAN_LINK_ACK                  = 8,  // bit of `TRAITS`: a sender whose messages are pulled must have an acknowledgement

    // Fixed words of a step.
    MSCCL_PLAN_STEP_HEAD                 = 0,  // opcode, flags and number of waits: the `STEP_` fields
    MSCCL_PLAN_STEP_OPERANDS             = 1,  // number of sources (low half) and of destinations (high half)
    MSCCL_PLAN_STEP_COUNT                = 2,  // chunks in every operand; 0 where there is none
    MSCCL_PLAN_STEP_LENGTH               = 3,  // words

    // Fields of a step's words.
    MSCCL_PLAN_STEP_OPCODE_BITS          = 8,  // opcode: the low bits of `HEAD`
    MSCCL_PLAN_STEP_COMPLETES            = 0x100,  // bit of `HEAD`: the result is complete, so `avg` of integers divides here
    MSCCL_PLAN_STEP_SIGNALS              = 0x200,  // bit of `HEAD`: someone waits for this step, so its end is signalled
    MSCCL_PLAN_STEP_RECEIVES             = 0x400,  // bit of `HEAD`: some source is a link
    MSCCL_PLAN_STEP_SENDS                = 0x800,  // bit of `HEAD`: some destination is a link
    MSCCL_PLAN_STEP_STORES               = 0x1000,  // bit of `HEAD`: some destination is a slot
    MSCCL_PLAN_STEP_FAR                  = 0x2000,  // bit of `HEAD`: some operand is a link that this rank may serve directly, and a word for each operand says where
    MSCCL_PLAN_STEP_LENDS                = 0x4000,  // bit of `HEAD`: some operand is a link by which the peer may serve itself, or this rank
    MSCCL_PLAN_STEP_BUNDLE               = 0x8000,  // bit of `HEAD`: several steps that run as one, as many as sources: each source goes to the destination of its number; waits are those of the first step, and `SIGNALS` is of the last
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
    MSCCL_PLAN_RAW                       = 0x20000000,  // bit of a source that is combined with others: it is one contribution as its rank gave it, so `avg` of floats scales it here
    MSCCL_PLAN_INDEX_MASK                = 0x1fffffff,  // the slot, or the number of the link
    MSCCL_PLAN_NOT_FAR                   = 0xffffffff,  // a far word: nothing of the peer's is read or written

    // Fields of a link in an operand table.
    MSCCL_PLAN_TABLE_LINK_BITS           = 8,  // its number: the low bits
    MSCCL_PLAN_TABLE_MESSAGE_BITS        = 10,  // which of the link's messages in a round, counted from 0: the bits after those
    MSCCL_PLAN_TABLE_POSITION_BITS       = 11,  // which chunk of the message, counted from 0: the bits up to `RAW`

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

// What a launch is given.
enum : unsigned {
    MSCCL_REDUCTION_SUM                  = 0,  // sum; also `avg` of integers, which has a divisor
    MSCCL_REDUCTION_PROD                 = 1,  // product
    MSCCL_REDUCTION_MIN                  = 2,  // smallest
    MSCCL_REDUCTION_MAX                  = 3,  // largest
    MSCCL_REDUCTION_AVERAGE              = 4,  // `avg` of floats: the sum of contributions of which each is multiplied before, where a source is `RAW`
    MSCCL_LAUNCH_LINKS_ORDER_MEMORY      = 1,  // bit of `flags`: thread blocks of one rank may count on links alone to order their memory, so packets wait for earlier stores
    MSCCL_LAUNCH_SIGNALS                 = 2,  // bit of `flags`: some step waits for another thread block, so signals are kept; no two kernels that share them may run at once
    MSCCL_LAUNCH_LEAVES_ROOM             = 4,  // bit of `flags`: there is room for the thread blocks of the next launch beside those of this one, so it may begin, and wait, while this one runs
    MSCCL_TRANSFER_PARTS_MASK            = 65535,  // bits of a transfer's `traits`: the number of parts
    MSCCL_TRANSFER_OUT                   = 65536,  // bit of a transfer's `traits`: it goes to the peer
    MSCCL_TRANSFER_LL                    = 131072,  // bit of a transfer's `traits`: over the wires of LL, not those of Simple
    MSCCL_CONTROL_RUN                    = 0,  // the communicator is well
    MSCCL_CONTROL_HOLD                   = 1,  // it has failed: kernels stay until the state is another one
    MSCCL_CONTROL_TRAP                   = 2,  // it has failed: kernels fault
    MSCCL_CONTROL_RELEASE                = 3,  // its owner has given it up: kernels end, and report nothing as done
    MSCCL_LOOK_PERIOD_US                 = 1000,  // how long a kernel takes it that the state is what one before it saw
    MSCCL_WAITING_NOTHING                = 0,  // nothing, or not for long
    MSCCL_WAITING_MESSAGE                = 1,  // a message to come in
    MSCCL_WAITING_ROOM                   = 2,  // room on an outgoing link
    MSCCL_WAITING_SIGNAL                 = 3,  // a step of another thread block
    MSCCL_WAITING_OFFER                  = 4,  // the start of the peer's kernel, to store into its memory
    MSCCL_WAITING_ACK                    = 5,  // the peer, to have loaded a message from this rank's memory
    MSCCL_THREADS_MAX_SIMPLE             = 512,  // most threads in a block under protocol Simple; every number of threads is a multiple of 32
    MSCCL_NON_MOVER_THREADS              = 64,  // of the threads in a warp-specialised block, those that move no data
    MSCCL_THREADS_MAX_LL                 = 256,  // most threads in a block under protocol LL
    MSCCL_THREADS_MAX_EXCHANGE           = 512,  // most threads in a block of an exchange
    MSCCL_SHARE_BYTES                    = 39936,  // shared memory of a thread block of every kernel that waits for peers, however much of it the code declares
    MSCCL_BULK_BUFFER_BYTES              = 65536,  // dynamic shared memory of a block of an exchange whose transfers are to be carried by bulk copies; with less, its threads carry them
    MSCCL_SHARE_BYTES_BULK               = 66560,  // shared memory of such a block, with what the code declares
    MSCCL_BULK_MESSAGES_MIN              = 6,  // fewest messages of a transfer's part that bulk copies carry: all threads together move fewer as fast
    MSCCL_THREADS_MAX_LL128              = 256,  // most threads in a block under protocol LL128
    MSCCL_BLOCKS_EACH                    = 2,  // thread blocks of every kernel that fit on a multiprocessor at once, at least
    MSCCL_SOURCES_MAX                    = 128,  // most sources of a step
    MSCCL_DESTINATIONS_MAX               = 128,  // most destinations of a step
    MSCCL_WAITS_MAX                      = 512,  // most waits of a step
    MSCCL_LINKS_MAX                      = 256,  // most link ends of a thread block
    MSCCL_PREFETCHED_OPERANDS_MAX        = 512,  // most operands of a thread block that are prefetched
    MSCCL_DIRECT_RANKS_MAX               = 16,  // most ranks of a collective whose links deliver directly
    MSCCL_OFFER_SHIFT                    = 48,  // in the words of an offer, the number of the launch: the bits from here on
    MSCCL_PLAN_WORDS                     = 244,  // words
};

// Where a peer sees the buffers of this rank.
struct msccl_view {
    unsigned long long input;  // the input, or 0
    unsigned long long output;  // the output, or 0; both are 0 if the peer is to use slots
};
static_assert(sizeof(msccl_view) == 16, "msccl_view");

// What an interpreter kernel is given by value.
struct msccl_launch {
    unsigned long long plan;  // all words of the plan, 16-byte aligned, in device memory
    unsigned long long links;  // `msccl_wire_end[2][ranks][wires]`: this rank's ends of its wires under the plan's protocol
    unsigned long long input;  // the input buffer; in place as the plan's `ALIAS` says
    unsigned long long output;  // the output buffer
    unsigned long long scratch;  // the scratch buffer, 16-byte aligned; no need to clear it
    unsigned long long offers;  // `msccl_offer[2][ranks][wires]`: what goes with those ends, as far from `links` on every rank; 0: nothing is delivered directly
    unsigned longest_step;  // the plan's `LONGEST_STEP`
    unsigned most_messages;  // the plan's `MOST_MESSAGES`
    unsigned long long signals;  // `u64[]` in device memory, zero before the first launch: at least `[instances][tb_count]`; all equal between launches
    unsigned long long signals_end;  // where `signals` end
    unsigned long long control;  // `msccl_control` in memory that host and device map
    unsigned long long progress;  // `msccl_progress[instances][tb_count]` in memory that host and device map, zero before the first launch
    unsigned long long notice;  // `msccl_notice` in device memory, zero before the first launch
    unsigned long long call;  // number of the call on its communicator; the kernel copies it to `progress`
    unsigned long long block_bytes;  // bytes of one block of input or output: the count of the call
    unsigned long long chunk_bytes;  // bytes of a chunk at full length; chunks of scratch start at multiples of 16 bytes
    unsigned long long part_bytes;  // bytes of a chunk that one instance handles, a multiple of 16; the last instance's part may be shorter
    unsigned long long slice_bytes;  // bytes of a part that one round handles, a multiple of 16; the last round's slice may be shorter
    unsigned rounds;  // how often the program runs; 0 does nothing
    unsigned instances;  // copies of the program that run side by side, at least 1: the grid is `tb_count` wide and so many blocks high
    unsigned chunks_per_message;  // most chunks of a counted step that share a message, at least 1
    unsigned ranks;  // ranks that `links` has entries for
    unsigned wires;  // wires from any rank to any other: more than any link's `NUMBER * instances + instance`
    unsigned link_depth;  // slots of a wire, a power of two
    unsigned slot_bytes;  // bytes of a slot as the protocol lays out messages, a multiple of 128
    unsigned reduction;  // a `MSCCL_REDUCTION_` value
    unsigned divisor;  // of `avg`: contributions to a complete sum; completing steps divide integers by it, raw sources of floats are multiplied by one over it. Otherwise 0
    unsigned flags;  // `MSCCL_LAUNCH_` bits
    unsigned tb_count;  // the plan's `TB_COUNT`
    unsigned link_table;  // the plan's `LINK_TABLE`
    unsigned signal_stride;  // the plan's `SIGNAL_STRIDE`
    unsigned block_chunks;  // the plan's `BLOCK_CHUNKS`
    msccl_view views[16];  // by rank: where it may find this rank's buffers
    unsigned words[244];  // the first words of the plan after its header: what lies here need not be fetched
};
static_assert(sizeof(msccl_launch) == 1424, "msccl_launch");

// One end of a wire, in memory of the rank that owns this end; 32-byte aligned. The slots lie with the receiver; of a wire to another host, in memory of this one.
struct msccl_wire_end {
    unsigned long long slots;  // the first of `link_depth` slots, 128-byte aligned; 0: this is not the end, which lies at `far`
    unsigned long long far;  // where the other end's `seen` lies, a multiple of 8; with bit 0 set, it is followed by `u64[link_depth]` for the lengths of messages, in bytes
    unsigned long long seen;  // messages posted (at the receiver, protocol Simple only) or taken (at the sender); only the other end writes it
    unsigned long long count;  // messages taken or posted by this end over the life of the wire; only this end touches it
};
static_assert(sizeof(msccl_wire_end) == 32, "msccl_wire_end");

// What the two ends of a wire exchange for direct delivery, in memory of the rank that owns this end; 32-byte aligned. The owner of a region writes where the other end sees it.
struct msccl_offer {
    unsigned long long input;  // where the other rank's input lies, as this rank sees it, or 0; in the bits from `OFFER_SHIFT` on, the number of the launch among those of its kind
    unsigned long long output;  // the same of its output
    unsigned long long pushes;  // launches of this end that could push; bit 32: declined the next
    unsigned long long pulls;  // the same of those that could pull
};
static_assert(sizeof(msccl_offer) == 32, "msccl_offer");

// What the host has kernels do, and what they report; 16-byte aligned.
struct msccl_control {
    unsigned state;  // the host writes it: a `MSCCL_CONTROL_` value
    unsigned report_after_us;  // a wait that lasts longer shows in `msccl_progress`
    unsigned held;  // a kernel writes 1: some thread block holds or gave up, so memory and links hold anything
    unsigned reserved;  // 0
};
static_assert(sizeof(msccl_control) == 16, "msccl_control");

// What kernels of a communicator leave for those behind them; 16-byte aligned.
struct msccl_notice {
    unsigned long long stopped;  // anything but zero once a kernel gave up: those behind it do nothing
    unsigned long long looked_ns;  // the GPU's clock before a kernel last looked at the control's `state` and found `RUN`
};
static_assert(sizeof(msccl_notice) == 16, "msccl_notice");

// What a thread block has been waiting for, longer than the control's `report_after_us`. Read `kind` last and again: the entry is written while others read it.
struct msccl_progress {
    unsigned kind;  // a `MSCCL_WAITING_` value; the other fields mean something unless it is `NOTHING`
    unsigned step;  // the step at which the thread block stands; in an exchange, the number of the transfer in the launch
    unsigned round;  // the round; in an exchange, the part, which is also the number of the wire
    unsigned subject;  // the link's number in the thread block, or the other thread block; in an exchange, the peer
    unsigned long long number;  // the message, counted from 0 over the life of the link, or the step waited for
    unsigned long long call;  // the launch's `call`
};
static_assert(sizeof(msccl_progress) == 32, "msccl_progress");

// One half of a point-to-point transfer.
struct msccl_transfer {
    unsigned long long address;  // the first byte: read where the transfer goes out, written where it comes in
    unsigned long long bytes;  // how many there are
    unsigned peer;  // the other rank, never this one
    unsigned traits;  // number of parts, and `MSCCL_TRANSFER_` bits
};
static_assert(sizeof(msccl_transfer) == 24, "msccl_transfer");

// A copy within the rank. `from` and `to` are disjoint.
struct msccl_local_copy {
    unsigned long long from;  // the first byte to read
    unsigned long long to;  // the first byte to write
    unsigned long long bytes;  // how many there are
};
static_assert(sizeof(msccl_local_copy) == 24, "msccl_local_copy");

// What one thread block does in an exchange.
struct msccl_lane {
    unsigned short first;  // the first of its transfers, all with one peer in one way; or of its copies
    unsigned short count;  // how many there are; it handles them in order
    unsigned short part;  // which part of each it handles; of transfers, over the wire of that number
    unsigned short copies;  // 1: of copies; 0: of transfers
};
static_assert(sizeof(msccl_lane) == 8, "msccl_lane");

// What the kernel of point-to-point exchanges is given by value.
struct msccl_exchange_launch {
    unsigned long long links_simple;  // `msccl_wire_end[2][ranks][simple_wires]`: this rank's ends of its wires under protocol Simple
    unsigned long long links_ll;  // `msccl_wire_end[2][ranks][ll_wires]`: the same under LL
    unsigned long long control;  // `msccl_control` in memory that host and device map
    unsigned long long progress;  // `msccl_progress[lane_count]` in memory that host and device map, zero before the first launch
    unsigned long long notice;  // `msccl_notice`, the same as that of the communicator's other kernels
    unsigned long long call;  // number of the call on its communicator; the kernel copies it to `progress`
    unsigned ranks;  // ranks that the tables of wires have entries for
    unsigned first_transfer;  // the number of its first transfer among those of the call, which may take several launches
    unsigned simple_wires;  // wires from any rank to any other under protocol Simple
    unsigned simple_depth;  // slots of such a wire, a power of two
    unsigned simple_slot_bytes;  // bytes of such a slot, a multiple of 128
    unsigned ll_wires;  // wires from any rank to any other under LL
    unsigned ll_depth;  // slots of such a wire, a power of two
    unsigned ll_slot_bytes;  // bytes of such a slot, a multiple of 128
    unsigned lane_count;  // thread blocks of the grid
    unsigned copy_parts;  // parts of each copy
    msccl_transfer transfers[88];  // those with one peer in one way are neighbours, in order
    msccl_local_copy copies[8];  // copies within the rank
    msccl_lane lanes[180];  // one for each thread block
};
static_assert(sizeof(msccl_exchange_launch) == 3832, "msccl_exchange_launch");

// What the kernel that scales an array is given by value: `to[i] = from[i] * scalar`, rounded once, or `to[i] = from[i] / divisor`. `from` and `to` are the same or disjoint.
struct msccl_scale {
    unsigned long long from;  // the first element to read
    unsigned long long to;  // the first element to write
    unsigned long long elements;  // how many there are
    unsigned long long scalar;  // the scalar's bits, if `scalar_address` is 0
    unsigned long long scalar_address;  // where the scalar lies in memory that the device reads, or 0
    unsigned long long divisor;  // below 2^32: what elements are divided by, as `avg` divides; 0: they are multiplied
};
static_assert(sizeof(msccl_scale) == 48, "msccl_scale");

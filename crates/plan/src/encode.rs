//! From a [`Program`] to words. Total on programs that fit the ABI's fields; decides nothing.

use std::fmt;
use std::ops::Range;

use msccl_collective::{Buffer, Placement, Protocol, Slot};
use msccl_ir::{Packing, StepKind, Wait};
use msccl_verify::Delivery;

use crate::layout::{self, header, link, operand, step, tb};
use crate::program::{
    Alias, Average, Counts, Direction, Geometry, LinkEnd, LinkLimits, Operand, Program, Step,
    ThreadBlock, words_of,
};
use crate::table::{self, Found, FoundPlace, Table};

/// A number that its field in the words cannot hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooLarge {
    what: String,
    found: u64,
    limit: u64,
}

impl TooLarge {
    /// `what` does not fit a word.
    pub(crate) fn word(what: &str, found: u64) -> Self {
        Self { what: what.to_owned(), found, limit: u64::from(u32::MAX) }
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLarge { what, found, limit } = self;
        write!(f, "{what}: {found} exceeds {limit}, the most that a plan can hold; ")?;
        f.write_str("compile for a target with smaller limits")
    }
}

impl std::error::Error for TooLarge {}

/// The words of `program`.
///
/// # Errors
///
/// The first number that its field cannot hold. Targets as this project ships them stay below.
pub fn encode(program: &Program) -> Result<Vec<u32>, TooLarge> {
    let ends: Vec<_> = program.link_ends().collect();
    let blocks = &program.thread_blocks;
    let parts = blocks.iter().map(Part::of).collect::<Result<Vec<_>, _>>()?;
    let first_step = header::LENGTH + blocks.len() * tb::LENGTH + ends.len() * link::LENGTH;
    let first_operand = first_step + parts.iter().map(|part| part.steps.len()).sum::<usize>();
    let total = first_operand + parts.iter().map(|part| part.table.len()).sum::<usize>();

    let mut words = Vec::with_capacity(total);
    words.extend(encode_header(program, ends.len(), &parts, first_step, total)?);
    let mut at = FirstWords { first_step, first_link: 0, first_operand };
    for (block, part) in blocks.iter().zip(&parts) {
        words.extend(encode_tb(block, part, &at)?);
        at.first_step += part.steps.len();
        at.first_link += block.receives.len() + block.sends.len();
        at.first_operand += part.table.len();
    }
    let of_links = blocks.iter().zip(&parts).flat_map(|(block, part)| {
        let messages = part.messages.iter().enumerate();
        messages.map(|(link, &messages)| (messages, block.delivery(link as u32)))
    });
    let links = ends.iter().zip(program.link_numbers()).zip(of_links);
    words.extend(links.flat_map(|((end, number), of_link)| encode_link(end, number, of_link)));
    parts.iter().for_each(|part| words.extend(&part.steps));
    parts.iter().for_each(|part| words.extend(&part.table));
    Ok(words)
}

/// The words that belong to one thread block alone.
struct Part {
    steps: Vec<u32>,
    /// Its operand table.
    table: Vec<u32>,
    /// For each of its links, the messages that it carries in a round where each of its steps is
    /// one.
    messages: Vec<u32>,
}

/// Where those begin, and its links.
struct FirstWords {
    first_step: usize,
    first_link: usize,
    first_operand: usize,
}

impl Part {
    fn of(block: &ThreadBlock) -> Result<Self, TooLarge> {
        let mut steps = Vec::with_capacity(block.bundles().map(words_of).sum());
        block.bundles().try_for_each(|bundle| encode_steps(bundle, block, &mut steps))?;
        let Table { operands, messages } = Table::of(block);
        let table = operands.into_iter().map(encode_found).collect::<Result<_, _>>()?;
        Ok(Self { steps, table, messages })
    }
}

fn encode_header(
    program: &Program,
    link_count: usize,
    parts: &[Part],
    first_step: usize,
    total: usize,
) -> Result<[u32; header::LENGTH], TooLarge> {
    let Program {
        rank,
        ranks,
        protocol,
        placement,
        alias,
        geometry,
        threads,
        links,
        average,
        counts,
        thread_blocks,
    } = program;
    let Geometry { block_chunks, input_chunks, output_chunks, scratch_chunks } = *geometry;
    let LinkLimits { depth, message_bytes, slice_bytes, packing, count_limit } = *links;
    let link_table = header::LENGTH + thread_blocks.len() * tb::LENGTH;

    let mut words = [0; header::LENGTH];
    let mut set = |word: u32, value: u32| words[word as usize] = value;
    set(header::MAGIC, layout::MAGIC);
    set(header::VERSION, layout::VERSION);
    set(header::TOTAL, fit("words", total)?);
    set(header::RANK, rank.0);
    set(header::RANKS, *ranks);
    set(header::PROTOCOL, protocol_value(*protocol));
    set(header::PLACEMENT, placement_bits(*placement));
    set(header::ALIAS, alias_value(*alias));
    set(header::BLOCK_CHUNKS, block_chunks);
    set(header::INPUT_CHUNKS, input_chunks);
    set(header::OUTPUT_CHUNKS, output_chunks);
    set(header::SCRATCH_CHUNKS, scratch_chunks);
    set(header::THREADS, threads.unwrap_or(0));
    set(header::SIGNAL_STRIDE, program.signal_stride());
    set(header::LINK_DEPTH, depth);
    set(header::MESSAGE_BYTES, message_bytes);
    set(header::SLICE_BYTES, slice_bytes);
    set(header::PACKING, packing_value(packing));
    set(header::COUNT_LIMIT, count_limit);
    set(header::TB_COUNT, fit("thread blocks", thread_blocks.len())?);
    set(header::TB_TABLE, fit("thread block table", header::LENGTH)?);
    set(header::LINK_COUNT, fit("links", link_count)?);
    set(header::LINK_TABLE, fit("link table", link_table)?);
    set(header::STEPS, fit("steps", first_step)?);
    set(header::AVERAGE_OF, average_word(*average)?);
    set(header::COUNTS, counts_value(*counts));
    set(header::LONGEST_STEP, table::longest_step(thread_blocks));
    let most_messages = parts.iter().flat_map(|part| &part.messages).copied().max();
    set(header::MOST_MESSAGES, most_messages.unwrap_or(0));
    Ok(words)
}

fn encode_tb(
    block: &ThreadBlock,
    part: &Part,
    first: &FirstWords,
) -> Result<[u32; tb::LENGTH], TooLarge> {
    let ThreadBlock { channel, receives, sends, deliveries: _, steps } = block;
    let Part { steps: step_words, table, messages: _ } = part;
    let FirstWords { first_step, first_link, first_operand } = *first;
    let half = |what, length: usize| within(what, length as u64, u64::from(u16::MAX));
    let receive_count = half("incoming links", receives.len())?;
    let send_count = half("outgoing links", sends.len())?;
    let first_operand = if table.is_empty() { 0 } else { first_operand };

    let mut words = [0; tb::LENGTH];
    let mut set = |word: u32, value: u32| words[word as usize] = value;
    set(tb::FIRST_STEP, fit("first step", first_step)?);
    set(tb::STEP_WORDS, fit("step words", step_words.len())?);
    set(tb::STEPS, fit("steps", steps.len())?);
    set(tb::CHANNEL, channel.0);
    set(tb::FIRST_LINK, fit("first link", first_link)?);
    set(tb::LINKS, receive_count | send_count << tb::SENDS_SHIFT);
    set(tb::FIRST_OPERAND, fit("first operand", first_operand)?);
    set(tb::OPERANDS, fit("operands", table.len())?);
    Ok(words)
}

/// `of_link`: the messages that it carries in a round where each of its steps is one, and how it
/// may deliver.
fn encode_link(
    end: &LinkEnd,
    number: u32,
    (messages, delivery): (u32, Delivery),
) -> [u32; link::LENGTH] {
    // Thread block and channel are those of the entry that names this link.
    let LinkEnd { peer, channel: _, direction, tb: _ } = *end;
    let direction = match direction {
        Direction::In => 0,
        Direction::Out => link::OUT,
    };
    [peer.0, messages, direction | delivery_bits(delivery), number]
}

fn delivery_bits(delivery: Delivery) -> u32 {
    match delivery {
        Delivery::Staged => 0,
        Delivery::Push => link::PUSH,
        Delivery::Pull { acknowledgement: false } => link::PULL,
        Delivery::Pull { acknowledgement: true } => link::PULL | link::ACK,
    }
}

/// One step, or several that run as one.
fn encode_steps(steps: &[Step], block: &ThreadBlock, words: &mut Vec<u32>) -> Result<(), TooLarge> {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return Ok(()) };
    let any = |of: fn(&Step) -> bool| steps.iter().any(of);
    let half = |what, length: usize| within(what, length as u64, u64::from(u16::MAX));
    let flag = |set: bool, bit: u32| if set { bit } else { 0 };
    let bundle = steps.len() > 1;

    let waits: Vec<_> = steps.iter().flat_map(|step| &step.waits).collect();
    let sources: Vec<_> = steps.iter().flat_map(sources_of).collect();
    let destinations: Vec<_> = steps.iter().flat_map(|step| &step.destinations).collect();
    let wait_count = half("waits of a step", waits.len())?;
    words.push(
        layout::opcode(if bundle { StepKind::Many } else { first.kind })
            | flag(first.completes, step::COMPLETES)
            | flag(last.signals, step::SIGNALS)
            | flag(any(Step::receives), step::RECEIVES)
            | flag(any(Step::sends), step::SENDS)
            | flag(any(Step::stores), step::STORES)
            | flag(any(|step| !step.far.is_empty()), step::FAR)
            | flag(steps.iter().any(|step| step.exports_buffers(block)), step::LENDS)
            | flag(bundle, step::BUNDLE)
            | wait_count << step::WAITS_SHIFT,
    );
    let source_count = half("sources of a step", sources.len())?;
    let destination_count = half("destinations of a step", destinations.len())?;
    words.push(source_count | destination_count << step::DESTINATIONS_SHIFT);
    words.push(first.count);
    for wait in waits {
        words.push(encode_wait(wait)?);
    }
    for (source, raw) in sources {
        words.push(encode_operand(source)? | flag(raw, operand::RAW));
    }
    for destination in destinations {
        words.push(encode_operand(*destination)?);
    }
    for slot in far_of(steps) {
        let word = slot.map_or(Ok(operand::NOT_FAR), |slot| encode_operand(Operand::Local(slot)));
        words.push(word?);
    }
    words.resize(words.len().next_multiple_of(step::ALIGNMENT), 0);
    Ok(())
}

/// The sources of a step, and whether each is raw.
fn sources_of(step: &Step) -> impl Iterator<Item = (Operand, bool)> {
    step.sources.iter().enumerate().map(|(at, source)| (*source, step.is_raw(at)))
}

/// The far words of steps that run as one, sources first; none if none of them has any.
fn far_of(steps: &[Step]) -> Vec<Option<Slot>> {
    if steps.iter().all(|step| step.far.is_empty()) {
        return Vec::new();
    }
    let of = |step: &Step, operands: Range<usize>| -> Vec<Option<Slot>> {
        operands.map(|at| step.far.get(at).copied().flatten()).collect()
    };
    let ends = |step: &Step| (step.sources.len(), step.sources.len() + step.destinations.len());
    let sources = steps.iter().flat_map(|step| of(step, 0..ends(step).0));
    let destinations = steps.iter().flat_map(|step| of(step, ends(step).0..ends(step).1));
    sources.chain(destinations).collect()
}

fn encode_wait(wait: &Wait) -> Result<u32, TooLarge> {
    let Wait { tb, step } = *wait;
    let most_tb = u32::MAX >> operand::WAIT_TB_SHIFT;
    let tb = within("thread block waited for", u64::from(tb.0), u64::from(most_tb))?;
    let most_step = u64::from(operand::WAIT_STEP_MASK);
    let step = within("step waited for", u64::from(step.0), most_step)?;
    Ok(tb << operand::WAIT_TB_SHIFT | step)
}

fn encode_operand(operand: Operand) -> Result<u32, TooLarge> {
    let (place, what, index) = match operand {
        Operand::Local(Slot { buffer, index }) => (place_value(buffer), "slot", index),
        Operand::Link(index) => (operand::PLACE_LINK, "link of a thread block", index),
    };
    let index = within(what, u64::from(index), u64::from(operand::INDEX_MASK))?;
    Ok(place << operand::PLACE_SHIFT | index)
}

/// An operand in a table.
fn encode_found(found: Found) -> Result<u32, TooLarge> {
    let Found { place, raw } = found;
    let word = match place {
        FoundPlace::Local(slot) => encode_operand(Operand::Local(slot))?,
        FoundPlace::Link { link, message, position } => {
            let message_shift = operand::TABLE_LINK_BITS;
            let position_shift = message_shift + operand::TABLE_MESSAGE_BITS;
            let fields = position << position_shift | message << message_shift | link;
            operand::PLACE_LINK << operand::PLACE_SHIFT | fields
        }
    };
    Ok(word | if raw { operand::RAW } else { 0 })
}

fn place_value(buffer: Buffer) -> u32 {
    match buffer {
        Buffer::Input => operand::PLACE_INPUT,
        Buffer::Output => operand::PLACE_OUTPUT,
        Buffer::Scratch => operand::PLACE_SCRATCH,
    }
}

fn average_word(average: Option<Average>) -> Result<u32, TooLarge> {
    let Some(Average { of, completes, raw }) = average else { return Ok(0) };
    let most = u64::from(header::AVERAGE_COUNT_MASK);
    let of = within("contributions to a sum", u64::from(of), most)?;
    let flag = |set: bool, bit: u32| if set { bit } else { 0 };
    Ok(of | flag(completes, header::AVERAGE_COMPLETES) | flag(raw, header::AVERAGE_RAW))
}

fn counts_value(counts: Counts) -> u32 {
    match counts {
        Counts::Divisible => layout::COUNTS_DIVISIBLE,
        Counts::Any => layout::COUNTS_ANY,
    }
}

fn protocol_value(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Simple => layout::PROTOCOL_SIMPLE,
        Protocol::Ll => layout::PROTOCOL_LL,
        Protocol::Ll128 => layout::PROTOCOL_LL128,
    }
}

fn placement_bits(placement: Placement) -> u32 {
    match placement {
        Placement::InPlace => layout::PLACEMENT_IN_PLACE,
        Placement::OutOfPlace => layout::PLACEMENT_OUT_OF_PLACE,
        Placement::Both => layout::PLACEMENT_IN_PLACE | layout::PLACEMENT_OUT_OF_PLACE,
    }
}

fn packing_value(packing: Packing) -> u32 {
    match packing {
        Packing::Fitting => layout::PACKING_FITTING,
        Packing::Whole => layout::PACKING_WHOLE,
    }
}

fn alias_value(alias: Alias) -> u32 {
    match alias {
        Alias::None => layout::ALIAS_NONE,
        Alias::Same => layout::ALIAS_SAME,
        Alias::InputInOutput => layout::ALIAS_INPUT_IN_OUTPUT,
        Alias::OutputInInput => layout::ALIAS_OUTPUT_IN_INPUT,
    }
}

fn fit(what: &str, value: usize) -> Result<u32, TooLarge> {
    within(what, value as u64, u64::from(u32::MAX))
}

/// `value` as a word, if it is at most `limit` (which is at most `u32::MAX`).
fn within(what: &str, value: u64, limit: u64) -> Result<u32, TooLarge> {
    let error = || TooLarge { what: what.to_owned(), found: value, limit };
    if value > limit {
        return Err(error());
    }
    u32::try_from(value).map_err(|_| error())
}

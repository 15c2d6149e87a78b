//! From words to a [`Program`]: every word is checked, and none can cause a panic.
//!
//! The encoding is canonical: the words that decode are exactly those that [`encode`] gives.
//! Decoding therefore reads what it needs, checks what a reader of the program relies on (indices
//! in bounds, shapes that fit opcodes), and compares all words with the encoding of what it read.

use std::fmt;

use msccl_collective::{Buffer, Channel, Placement, Protocol, Rank, Slot, StepIndex, TbIndex};
use msccl_ir::{Packing, StepKind, Wait};
use msccl_verify::Delivery;

use crate::encode;
use crate::layout::{self, header, link, operand, step, tb};
use crate::program::{
    Alias, Counts, Geometry, LinkLimits, Operand, Program, Step, ThreadBlock, words_of,
};
use crate::shape;

/// Words that no program encodes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt {
    /// The first word found wrong.
    pub word: usize,
    /// What was expected there, and what was found.
    pub message: String,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan word {}: {}", self.word, self.message)
    }
}

impl std::error::Error for Corrupt {}

/// The program that encodes to `words`.
///
/// # Errors
///
/// The first word that is wrong, and why.
pub fn decode(words: &[u32]) -> Result<Program, Corrupt> {
    let words = Words(words);
    words.expect(header::MAGIC as usize, "the magic number", layout::MAGIC)?;
    words.expect(header::VERSION as usize, "the version", layout::VERSION)?;
    let total = u32::try_from(words.0.len()).unwrap_or(u32::MAX);
    words.expect(header::TOTAL as usize, "the number of words", total)?;

    let mut program = decode_header(words)?;
    let tables = decode_tables(words, &mut program)?;
    let mut cursor = tables.first_step;
    for tb in 0..tables.steps.len() {
        program.thread_blocks[tb].steps = decode_steps(words, &program, &tables, tb, &mut cursor)?;
    }
    check_signals(&program, &tables)?;
    check_canonical(words, &program)?;
    Ok(program)
}

/// What the tables say beside what a [`ThreadBlock`] holds.
struct Tables {
    /// The word at which the steps of the first thread block start.
    first_step: usize,
    /// Steps of each thread block.
    steps: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Words<'a>(&'a [u32]);

impl Words<'_> {
    fn get(self, at: usize) -> Result<u32, Corrupt> {
        let cut = || corrupt(at, format!("the plan ends after {} words", self.0.len()));
        self.0.get(at).copied().ok_or_else(cut)
    }

    fn expect(self, at: usize, what: &str, expected: u32) -> Result<(), Corrupt> {
        match self.get(at)? {
            found if found == expected => Ok(()),
            found => Err(corrupt(at, format!("{what} is {expected:#x}, found {found:#x}"))),
        }
    }

    /// The word at `at`, if it is less than `bound`.
    fn below(self, at: usize, what: &str, bound: u32) -> Result<u32, Corrupt> {
        match self.get(at)? {
            found if found < bound => Ok(found),
            found => Err(corrupt(at, format!("expected {what} below {bound}, found {found}"))),
        }
    }

    fn positive(self, at: u32, what: &str) -> Result<u32, Corrupt> {
        match self.get(at as usize)? {
            0 => Err(corrupt(at as usize, format!("expected {what} of at least 1, found 0"))),
            found => Ok(found),
        }
    }

    /// Where a table of `count` entries ends, if that is inside the plan. Keeps a false count from
    /// claiming memory.
    fn table_end(self, first: usize, count: u32, length: usize) -> Result<usize, Corrupt> {
        let end = first.saturating_add((count as usize).saturating_mul(length));
        if end > self.0.len() {
            let message =
                format!("{count} entries of {length} words do not fit {} words", self.0.len());
            return Err(corrupt(first, message));
        }
        Ok(end)
    }
}

fn corrupt(word: usize, message: String) -> Corrupt {
    Corrupt { word, message }
}

fn decode_header(words: Words<'_>) -> Result<Program, Corrupt> {
    let get = |at: u32| words.get(at as usize);
    let ranks = words.positive(header::RANKS, "a number of ranks")?;
    let wish = |at: u32| get(at).map(|word| (word != 0).then_some(word));
    Ok(Program {
        rank: Rank(words.below(header::RANK as usize, "a rank", ranks)?),
        ranks,
        protocol: decode_protocol(words)?,
        placement: decode_placement(words)?,
        alias: decode_alias(words)?,
        geometry: Geometry {
            block_chunks: words.positive(header::BLOCK_CHUNKS, "a block")?,
            input_chunks: get(header::INPUT_CHUNKS)?,
            output_chunks: get(header::OUTPUT_CHUNKS)?,
            scratch_chunks: get(header::SCRATCH_CHUNKS)?,
        },
        threads: wish(header::THREADS)?,
        links: LinkLimits {
            depth: words.positive(header::LINK_DEPTH, "a link depth")?,
            message_bytes: words.positive(header::MESSAGE_BYTES, "a message size")?,
            slice_bytes: words.positive(header::SLICE_BYTES, "a slice size")?,
            packing: decode_packing(words)?,
            count_limit: words.positive(header::COUNT_LIMIT, "a count limit")?,
        },
        average_of: wish(header::AVERAGE_OF)?,
        counts: decode_counts(words)?,
        thread_blocks: Vec::new(),
    })
}

fn decode_counts(words: Words<'_>) -> Result<Counts, Corrupt> {
    let at = header::COUNTS as usize;
    match words.get(at)? {
        layout::COUNTS_DIVISIBLE => Ok(Counts::Divisible),
        layout::COUNTS_ANY => Ok(Counts::Any),
        found => Err(corrupt(at, format!("expected a value for counts, found {found}"))),
    }
}

fn decode_protocol(words: Words<'_>) -> Result<Protocol, Corrupt> {
    let at = header::PROTOCOL as usize;
    match words.get(at)? {
        layout::PROTOCOL_SIMPLE => Ok(Protocol::Simple),
        layout::PROTOCOL_LL => Ok(Protocol::Ll),
        layout::PROTOCOL_LL128 => Ok(Protocol::Ll128),
        found => Err(corrupt(at, format!("expected a protocol, found {found}"))),
    }
}

fn decode_placement(words: Words<'_>) -> Result<Placement, Corrupt> {
    const BOTH: u32 = layout::PLACEMENT_IN_PLACE | layout::PLACEMENT_OUT_OF_PLACE;
    let at = header::PLACEMENT as usize;
    match words.get(at)? {
        layout::PLACEMENT_IN_PLACE => Ok(Placement::InPlace),
        layout::PLACEMENT_OUT_OF_PLACE => Ok(Placement::OutOfPlace),
        BOTH => Ok(Placement::Both),
        found => Err(corrupt(at, format!("expected placement bits, found {found}"))),
    }
}

fn decode_packing(words: Words<'_>) -> Result<Packing, Corrupt> {
    let at = header::PACKING as usize;
    match words.get(at)? {
        layout::PACKING_FITTING => Ok(Packing::Fitting),
        layout::PACKING_WHOLE => Ok(Packing::Whole),
        found => Err(corrupt(at, format!("expected a packing, found {found}"))),
    }
}

fn decode_alias(words: Words<'_>) -> Result<Alias, Corrupt> {
    let at = header::ALIAS as usize;
    match words.get(at)? {
        layout::ALIAS_NONE => Ok(Alias::None),
        layout::ALIAS_SAME => Ok(Alias::Same),
        layout::ALIAS_INPUT_IN_OUTPUT => Ok(Alias::InputInOutput),
        layout::ALIAS_OUTPUT_IN_INPUT => Ok(Alias::OutputInInput),
        found => Err(corrupt(at, format!("expected an alias value, found {found}"))),
    }
}

/// Reads the thread block table and the link table; leaves the steps empty.
fn decode_tables(words: Words<'_>, program: &mut Program) -> Result<Tables, Corrupt> {
    let tb_count = words.get(header::TB_COUNT as usize)?;
    let link_count = words.get(header::LINK_COUNT as usize)?;
    let link_table = words.table_end(header::LENGTH, tb_count, tb::LENGTH)?;
    let first_step = words.table_end(link_table, link_count, link::LENGTH)?;

    let mut steps = Vec::with_capacity(tb_count as usize);
    let mut first_link = 0_usize;
    for at in (header::LENGTH..link_table).step_by(tb::LENGTH) {
        let links = words.get(at + tb::LINKS as usize)?;
        let mut peers = |count: u32| {
            let first = first_link;
            first_link = first_link.saturating_add(count as usize);
            if first_link > link_count as usize {
                let message = format!("{count} links go beyond the table of {link_count}");
                return Err(corrupt(at + tb::LINKS as usize, message));
            }
            (first..first_link).map(|k| peer(words, link_table, k, program.ranks)).collect()
        };
        let receives: Vec<Rank> = peers(links & u32::from(u16::MAX))?;
        let sends: Vec<Rank> = peers(links >> tb::SENDS_SHIFT)?;
        let own = first_link - receives.len() - sends.len()..first_link;
        let deliveries = own.map(|link| delivery(words, link_table, link));
        let deliveries = deliveries.collect::<Result<_, _>>()?;
        let channel = Channel(words.get(at + tb::CHANNEL as usize)?);
        let block = ThreadBlock { channel, receives, sends, deliveries, steps: Vec::new() };
        program.thread_blocks.push(block);
        steps.push(words.get(at + tb::STEPS as usize)? as usize);
    }
    Ok(Tables { first_step, steps })
}

fn peer(words: Words<'_>, table: usize, link: usize, ranks: u32) -> Result<Rank, Corrupt> {
    let at = table + link * link::LENGTH + link::PEER as usize;
    words.below(at, "a peer", ranks).map(Rank)
}

fn delivery(words: Words<'_>, table: usize, link: usize) -> Result<Delivery, Corrupt> {
    let at = table + link * link::LENGTH + link::TRAITS as usize;
    match words.get(at)? & !link::OUT {
        0 => Ok(Delivery::Staged),
        link::PUSH => Ok(Delivery::Push),
        link::PULL => Ok(Delivery::Pull { receipt: false }),
        bits if bits == link::PULL | link::RECEIPT => Ok(Delivery::Pull { receipt: true }),
        other => Err(corrupt(at, format!("expected one way of delivery, found {other:#x}"))),
    }
}

/// Reads the steps of thread block `tb` from `cursor` on, and moves it behind them. Thread blocks
/// follow one another without a gap, whatever the table says; it is compared at the end.
fn decode_steps(
    words: Words<'_>,
    program: &Program,
    tables: &Tables,
    tb: usize,
    cursor: &mut usize,
) -> Result<Vec<Step>, Corrupt> {
    let mut steps = Vec::new();
    while steps.len() < tables.steps[tb] {
        let bundle = decode_bundle(words, program, tables, tb, *cursor)?;
        *cursor += words_of(&bundle);
        steps.extend(bundle);
    }
    if steps.len() > tables.steps[tb] {
        let message = format!("expected {} steps, found more in a bundle", tables.steps[tb]);
        return Err(corrupt(*cursor, message));
    }
    Ok(steps)
}

/// The steps that `step` stands for, which has the first word `head`: several that run as one, or itself.
fn unbundled(head: u32, whole: Step) -> Result<Vec<Step>, String> {
    if head & step::BUNDLE == 0 {
        return match shape::fault(&whole) {
            Some(fault) => Err(fault),
            None => Ok(vec![whole]),
        };
    }
    let Step { kind: _, completes, signals, waits, sources, destinations, count, bundled: _, far } =
        whole;
    let fits = sources.len() == destinations.len() && sources.len() > 1 && count == 1;
    if !fits || completes {
        return Err(format!(
            "expected a bundle of at least two copies of one chunk, each from one place to one other; found {} \
             sources and {} destinations of {count} chunks",
            sources.len(),
            destinations.len()
        ));
    }
    let (count_of_all, mut waits) = (sources.len(), Some(waits));
    let far_of = |at: usize| {
        let far = [at, count_of_all + at].map(|at| far.get(at).copied().flatten());
        if far.iter().any(Option::is_some) { far.to_vec() } else { Vec::new() }
    };
    let pairs = sources.into_iter().zip(destinations).enumerate();
    Ok(pairs
        .map(|(at, (source, destination))| {
            let (sources, destinations) = (vec![source], vec![destination]);
            Step {
                kind: shape::kind(&sources, &destinations),
                completes,
                signals: signals && at + 1 == count_of_all,
                waits: waits.take().unwrap_or_default(),
                sources,
                destinations,
                count,
                bundled: at > 0,
                far: far_of(at),
            }
        })
        .collect())
}

/// Several steps that run as one, or one alone.
fn decode_bundle(
    words: Words<'_>,
    program: &Program,
    tables: &Tables,
    tb: usize,
    at: usize,
) -> Result<Vec<Step>, Corrupt> {
    const LOW: u32 = u16::MAX as u32;
    let head = words.get(at + step::HEAD as usize)?;
    let operands = words.get(at + step::OPERANDS as usize)?;
    let count = words.get(at + step::COUNT as usize)?;
    let first_wait = at + step::LENGTH;
    let first_source = first_wait + (head >> step::WAITS_SHIFT) as usize;
    let first_destination = first_source + (operands & LOW) as usize;
    let end = first_destination + (operands >> step::DESTINATIONS_SHIFT) as usize;

    let far_words = if head & step::FAR == 0 { 0 } else { end - first_source };
    let far = (end..end + far_words).map(|at| decode_far(words, at));

    let block = &program.thread_blocks[tb];
    let operand = |at, sends| decode_operand(words, program, block, at, count, sends);
    let waits = (first_wait..first_source).map(|at| decode_wait(words, tables, tb, at));
    let step = Step {
        kind: StepKind::Nop,
        completes: head & step::COMPLETES != 0,
        signals: head & step::SIGNALS != 0,
        waits: waits.collect::<Result<_, _>>()?,
        sources: (first_source..first_destination)
            .map(|at| operand(at, false))
            .collect::<Result<_, _>>()?,
        destinations: (first_destination..end)
            .map(|at| operand(at, true))
            .collect::<Result<_, _>>()?,
        count,
        bundled: false,
        far: far.collect::<Result<_, _>>()?,
    };
    let kind = shape::kind(&step.sources, &step.destinations);
    unbundled(head, Step { kind, ..step }).map_err(|fault| corrupt(at, fault))
}

/// A slot of a peer: how many it has is not known here.
fn decode_far(words: Words<'_>, at: usize) -> Result<Option<Slot>, Corrupt> {
    let word = words.get(at)?;
    let slot = |buffer| Some(Slot::new(buffer, word & operand::INDEX_MASK));
    match word >> operand::PLACE_SHIFT {
        _ if word == operand::NOT_FAR => Ok(None),
        operand::PLACE_INPUT => Ok(slot(Buffer::Input)),
        operand::PLACE_OUTPUT => Ok(slot(Buffer::Output)),
        _ => Err(corrupt(at, format!("expected a slot of input or output, found {word:#x}"))),
    }
}

fn decode_wait(words: Words<'_>, tables: &Tables, own: usize, at: usize) -> Result<Wait, Corrupt> {
    let word = words.get(at)?;
    let tb = (word >> operand::WAIT_TB_SHIFT) as usize;
    let step = (word & operand::WAIT_STEP_MASK) as usize;
    let exists = tables.steps.get(tb).is_some_and(|&steps| step < steps);
    let wait = Wait { tb: TbIndex::from(tb), step: StepIndex::from(step) };
    if tb == own || !exists {
        let message = format!("expected a step of another thread block, found {wait}");
        return Err(corrupt(at, message));
    }
    Ok(wait)
}

fn decode_operand(
    words: Words<'_>,
    program: &Program,
    block: &ThreadBlock,
    at: usize,
    count: u32,
    sends: bool,
) -> Result<Operand, Corrupt> {
    let word = words.get(at)?;
    let index = word & operand::INDEX_MASK;
    let geometry = &program.geometry;
    let (buffer, chunks) = match word >> operand::PLACE_SHIFT {
        operand::PLACE_INPUT => (Buffer::Input, geometry.input_chunks),
        operand::PLACE_OUTPUT => (Buffer::Output, geometry.output_chunks),
        operand::PLACE_SCRATCH => (Buffer::Scratch, geometry.scratch_chunks),
        _ => return decode_link(block, at, index, sends),
    };
    let slot = Slot::new(buffer, index);
    if u64::from(index) + u64::from(count) > u64::from(chunks) {
        let message = format!("{} exceeds the buffer's {chunks} chunks", slot.run(count));
        return Err(corrupt(at, message));
    }
    Ok(Operand::Local(slot))
}

fn decode_link(block: &ThreadBlock, at: usize, link: u32, sends: bool) -> Result<Operand, Corrupt> {
    let first = if sends { block.receives.len() } else { 0 };
    let end = if sends { first + block.sends.len() } else { block.receives.len() };
    if !(first..end).contains(&(link as usize)) {
        let way = if sends { "an outgoing" } else { "an incoming" };
        let message = format!("expected {way} link in {first}..{end}, found link{link}");
        return Err(corrupt(at, message));
    }
    Ok(Operand::Link(link))
}

/// A step is flagged as signalling exactly if some step waits for it.
fn check_signals(program: &Program, tables: &Tables) -> Result<(), Corrupt> {
    let awaited = shape::awaited(&program.thread_blocks);
    let mut awaited = awaited.into_iter().flatten();
    let mut at = tables.first_step;
    for bundle in program.thread_blocks.iter().flat_map(ThreadBlock::bundles) {
        for (step, awaited) in bundle.iter().zip(&mut awaited) {
            if step.signals != awaited {
                let message = format!("expected signal flag {awaited}, found {}", step.signals);
                return Err(corrupt(at, message));
            }
        }
        at += words_of(bundle);
    }
    Ok(())
}

fn check_canonical(words: Words<'_>, program: &Program) -> Result<(), Corrupt> {
    let canonical = encode(program).map_err(|error| corrupt(0, error.to_string()))?;
    let differing = words.0.iter().zip(&canonical).position(|(found, expected)| found != expected);
    if let Some(at) = differing {
        let (found, expected) = (words.0[at], canonical[at]);
        return Err(corrupt(at, format!("expected {expected:#x}, found {found:#x}")));
    }
    if words.0.len() != canonical.len() {
        let message = format!("expected {} words, found {}", canonical.len(), words.0.len());
        return Err(corrupt(canonical.len().min(words.0.len()), message));
    }
    Ok(())
}

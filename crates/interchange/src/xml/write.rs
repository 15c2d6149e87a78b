//! The writer: one pass that looks for what the dialect cannot say, and one that writes.
//!
//! It decides nothing. Ranks, thread blocks and steps are written in their own order with their own
//! numbers; `hasdep` says whether some step waits for this one; informational pairs repeat the
//! place that the step does use. Attributes stand in the order of
//! [`vocabulary`](super::vocabulary), which is the public toolkit's.

mod head;
mod merged;

use std::fmt;
use std::io;

use msccl_collective::{Buffer, Kind, Rank, Slot, StepIndex, TbIndex};
use msccl_ir::{Algorithm, Place, RankProgram, StepKind, StepRef, ThreadBlock, Wait};

use merged::Merged;

use super::markup::{Markup, Value};
use super::row::{Row, Type};
use super::vocabulary::{MOST, algo, gpu, step, tb};
use super::{Dialect, contract, hazard};

/// Why an algorithm was not written.
#[derive(Debug)]
pub enum WriteError {
    /// The dialect has no way to say it.
    Inexpressible {
        /// The step that cannot be said, if it is one.
        at: Option<StepRef>,
        /// What cannot be said, and what to do.
        message: String,
    },
    /// The output failed.
    Io(io::Error),
}

impl WriteError {
    fn whole(message: impl Into<String>) -> Self {
        Self::Inexpressible { at: None, message: message.into() }
    }

    fn step(at: StepRef, message: impl Into<String>) -> Self {
        Self::Inexpressible { at: Some(at), message: message.into() }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Inexpressible { at: Some(at), message } => write!(f, "{at}: {message}"),
            WriteError::Inexpressible { at: None, message } => f.write_str(message),
            WriteError::Io(error) => write!(f, "cannot write the XML: {error}"),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}

/// The algorithm as MSCCL XML.
///
/// # Errors
///
/// [`WriteError::Inexpressible`] where the dialect cannot say what the algorithm says.
pub fn write(algorithm: &Algorithm, dialect: Dialect) -> Result<String, WriteError> {
    let mut bytes = Vec::new();
    write_to(algorithm, dialect, &mut bytes)?;
    String::from_utf8(bytes)
        .map_err(|error| WriteError::Io(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// Writes the algorithm as MSCCL XML to `out`, in pieces of some tens of KiB: `out` needs no buffer
/// of its own. Nothing is written if the dialect cannot say what the algorithm says.
///
/// # Errors
///
/// As [`write()`], and [`WriteError::Io`] where `out` fails.
pub fn write_to(
    algorithm: &Algorithm,
    dialect: Dialect,
    out: &mut impl io::Write,
) -> Result<(), WriteError> {
    let head = head(algorithm, dialect)?;
    let merged = Merged::new(algorithm, dialect);
    let mut rows = Vec::new();
    for (rank, program) in ranks(algorithm) {
        each_block(rank, program, &mut rows, |tb, block, signals, rows| {
            refuse_no_ops(rank, tb, rows)?;
            merged.check(rank, tb, block, signals)
        })?;
    }
    let mut markup = Markup::new(out);
    markup.open(0, algo::NAME, &algo::TABLE, &head)?;
    for (rank, program) in ranks(algorithm) {
        markup.open(1, gpu::NAME, &gpu::TABLE, &gpu_values(algorithm, rank, program))?;
        each_block(rank, program, &mut rows, |tb, block, _, rows| {
            write_block(&mut markup, tb, block, rows)
        })?;
        markup.close(1, gpu::NAME)?;
    }
    contract::write(&algorithm.collective, &mut markup)?;
    markup.close(0, algo::NAME)?;
    Ok(markup.finish()?)
}

fn ranks(algorithm: &Algorithm) -> impl Iterator<Item = (Rank, &RankProgram)> {
    algorithm.ranks.iter().enumerate().map(|(rank, program)| (Rank::from(rank), program))
}

fn write_block(
    markup: &mut Markup<impl io::Write>,
    tb_index: TbIndex,
    block: &ThreadBlock,
    rows: &[Row],
) -> Result<(), WriteError> {
    markup.open(2, tb::NAME, &tb::TABLE, &tb_values(tb_index, block))?;
    for (number, row) in rows.iter().enumerate() {
        markup.single(3, step::NAME, &step::TABLE, &step_values(number, row))?;
    }
    Ok(markup.close(2, tb::NAME)?)
}

fn head(
    algorithm: &Algorithm,
    dialect: Dialect,
) -> Result<[Value<'_>; algo::TABLE.len()], WriteError> {
    let Algorithm { name, collective, placement, protocol, sizes, threads, ranks } = algorithm;
    if ranks.len() != collective.ranks as usize {
        let (has, wants) = (ranks.len(), collective.ranks);
        return Err(WriteError::whole(format!("{has} rank programs, but {wants} ranks")));
    }
    let coll = head::collective(collective, dialect)?;
    let (in_place, out_of_place) = head::placement(*placement, dialect)?;
    let sizes = head::of_one_call(*sizes, dialect, collective);
    let (min_bytes, max_bytes) = head::sizes(sizes, dialect, uses_scratch(algorithm))?;
    let (custom, chunks) = match &collective.kind {
        Kind::Custom(custom) => {
            let name = Some(custom.name.as_str()).filter(|&name| name != coll);
            (name.map(head::label).transpose()?, Some(collective.chunks).filter(|&one| one != 1))
        }
        _ => (None, None),
    };
    let root = collective.root().filter(|root| root.0 != 0);
    let mut values = [Value::Absent; algo::TABLE.len()];
    values[algo::LABEL] = Value::Text(head::label(name)?);
    values[algo::PROTO] = Value::Text(protocol.name());
    values[algo::NCHANNELS] = Value::from(algorithm.channel_count());
    values[algo::NCHUNKSPERLOOP] = Value::Integer(head::loop_chunks(collective)?);
    values[algo::NGPUS] = Value::from(collective.ranks);
    values[algo::COLL] = Value::Text(coll);
    values[algo::INPLACE] = in_place;
    values[algo::OUTOFPLACE] = out_of_place;
    values[algo::MIN_BYTES] = Value::Integer(min_bytes);
    values[algo::MAX_BYTES] = Value::Integer(max_bytes);
    values[algo::NTHREADS] = head::threads(*threads, dialect)?;
    values[algo::ROOT] = root.map_or(Value::Absent, |root| Value::from(root.0));
    values[algo::CUSTOM] = custom.map_or(Value::Absent, Value::Text);
    values[algo::CHUNKS] = chunks.map_or(Value::Absent, Value::from);
    Ok(values)
}

fn uses_scratch(algorithm: &Algorithm) -> bool {
    algorithm.ranks.iter().any(|program| program.scratch_chunks > 0)
}

fn gpu_values(
    algorithm: &Algorithm,
    rank: Rank,
    program: &RankProgram,
) -> [Value<'static>; gpu::TABLE.len()] {
    let collective = &algorithm.collective;
    let mut values = [Value::Absent; gpu::TABLE.len()];
    values[gpu::ID] = Value::from(rank.0);
    values[gpu::I_CHUNKS] = Value::from(collective.input_chunks(rank));
    values[gpu::O_CHUNKS] = Value::from(collective.output_chunks(rank));
    values[gpu::S_CHUNKS] = Value::from(program.scratch_chunks);
    values
}

fn tb_values(index: TbIndex, block: &ThreadBlock) -> [Value<'static>; tb::TABLE.len()] {
    let ThreadBlock { channel, sends, receives, steps: _ } = block;
    let peer = |peers: &[Rank]| peers.first().map_or(Value::NONE, |peer| Value::from(peer.0));
    let mut values = [Value::Absent; tb::TABLE.len()];
    values[tb::ID] = Value::from(index.0);
    values[tb::SEND] = peer(sends);
    values[tb::RECV] = peer(receives);
    values[tb::CHAN] = Value::from(channel.0);
    values
}

fn step_values(number: usize, row: &Row) -> [Value<'static>; step::TABLE.len()] {
    let Row { kind, src, dst, count, wait, signals } = row;
    let nop = *kind == Type::Nop;
    let offset = |slot: &Slot| if nop { Value::NONE } else { Value::from(slot.index) };
    let mut values = [Value::Absent; step::TABLE.len()];
    values[step::S] = Value::Integer(number as i64);
    values[step::TYPE] = Value::Text(kind.name());
    values[step::SRCBUF] = Value::Text(letter(src.buffer));
    values[step::SRCOFF] = offset(src);
    values[step::DSTBUF] = Value::Text(letter(if nop { Buffer::Output } else { dst.buffer }));
    values[step::DSTOFF] = offset(dst);
    values[step::CNT] = Value::from(*count);
    values[step::DEPID] = wait.map_or(Value::NONE, |wait| Value::from(wait.tb.0));
    values[step::DEPS] = wait.map_or(Value::NONE, |wait| Value::from(wait.step.0));
    values[step::HASDEP] = Value::from(u32::from(*signals));
    values
}

fn letter(buffer: Buffer) -> &'static str {
    match buffer {
        Buffer::Input => "i",
        Buffer::Output => "o",
        Buffer::Scratch => "s",
    }
}

/// Calls `write` with every thread block of a rank, which of its steps signal, and its rows.
fn each_block(
    rank: Rank,
    program: &RankProgram,
    rows: &mut Vec<Row>,
    mut write: impl FnMut(TbIndex, &ThreadBlock, &[bool], &[Row]) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    within(rank, "scratch chunks", program.scratch_chunks)?;
    let signals = signalling_steps(rank, program)?;
    for (index, block) in program.thread_blocks.iter().enumerate() {
        let tb = TbIndex::from(index);
        block_rows(rank, tb, block, rows)?;
        for (row, &signals) in rows.iter_mut().zip(&signals[index]) {
            row.signals = signals;
        }
        write(tb, block, &signals[index], rows)?;
    }
    Ok(())
}

/// For every step of every thread block, whether some step waits for it.
fn signalling_steps(rank: Rank, program: &RankProgram) -> Result<Vec<Vec<bool>>, WriteError> {
    let blocks = &program.thread_blocks;
    let mut signals: Vec<_> = blocks.iter().map(|block| vec![false; block.steps.len()]).collect();
    for (tb, block) in blocks.iter().enumerate() {
        for (number, step) in block.steps.iter().enumerate() {
            for wait in &step.waits {
                let target = blocks
                    .get(wait.tb.index())
                    .and_then(|block| block.steps.get(wait.step.index()));
                let at = StepRef { rank, tb: TbIndex::from(tb), step: StepIndex::from(number) };
                match target {
                    Some(target) if target.kind() != StepKind::Nop => {
                        signals[wait.tb.index()][wait.step.index()] = true;
                    }
                    Some(_) => return Err(WriteError::step(at, waits_for_nop(wait))),
                    None => {
                        let message = format!("waits for {wait}, which does not exist");
                        return Err(WriteError::step(at, message));
                    }
                }
            }
        }
    }
    Ok(signals)
}

fn waits_for_nop(wait: &Wait) -> String {
    format!(
        "waits for {wait}, a no-op, which cannot signal in MSCCL XML; wait for a step that moves \
         data"
    )
}

fn block_rows(
    rank: Rank,
    tb: TbIndex,
    block: &ThreadBlock,
    rows: &mut Vec<Row>,
) -> Result<(), WriteError> {
    let ThreadBlock { channel, sends, receives, steps } = block;
    within(rank, "channel", channel.0)?;
    if sends.len() > 1 || receives.len() > 1 {
        return Err(WriteError::whole(format!(
            "{rank} {tb} has {} links out and {} in; a thread block of MSCCL XML has one of each \
             at most; compile for the target `msccl`",
            sends.len(),
            receives.len()
        )));
    }
    rows.clear();
    for (number, step) in steps.iter().enumerate() {
        let at = StepRef { rank, tb, step: StepIndex::from(number) };
        rows.push(Row::from_step(step).map_err(|message| WriteError::step(at, message))?);
        for &place in step.destinations.iter() {
            own_link(at, place, sends, "sends to")?;
        }
        for &place in step.sources.iter() {
            own_link(at, place, receives, "receives from")?;
        }
    }
    Ok(())
}

fn within(rank: Rank, what: &str, number: u32) -> Result<(), WriteError> {
    if i64::from(number) <= MOST {
        return Ok(());
    }
    Err(WriteError::whole(format!("{rank} has {what} {number}; at most {MOST} can be read")))
}

fn own_link(at: StepRef, place: Place, peers: &[Rank], verb: &str) -> Result<(), WriteError> {
    match place {
        Place::Link(peer) if !peers.contains(&peer) => Err(WriteError::step(
            at,
            format!("{verb} {peer}, but its thread block has no such link"),
        )),
        Place::Link(_) | Place::Local(_) => Ok(()),
    }
}

fn refuse_no_ops(rank: Rank, tb: TbIndex, rows: &[Row]) -> Result<(), WriteError> {
    let mut first = Ok(());
    hazard::find(rows, |number, message| {
        if first.is_ok() {
            let step = StepIndex::from(number);
            first = Err(WriteError::step(StepRef { rank, tb, step }, message));
        }
    });
    first
}

//! The parser.

use std::fmt::Display;
use std::iter::Peekable;
use std::sync::Arc;

use msccl_collective::{
    Buffer, Channel, Collective, CollectiveKind, Contract, Contribution, Custom, Kind, Placement,
    Protocol, Rank, SizeRange, Slot, StepIndex, TbIndex,
};

use super::print::{placement_name, protocol_name};
use super::scan::{Line, Scan, TextError, ends_before, lines};
use crate::{Algorithm, Place, RankProgram, Step, ThreadBlock, Wait};

/// Reads the text form of an algorithm.
///
/// # Errors
///
/// At the first line that has another form, with what was expected and found.
pub fn parse(text: &str) -> Result<Algorithm, TextError> {
    let mut parser = Parser { text, lines: lines(text).peekable() };
    let name = parser.header("algorithm", Line::quoted)?;
    let mut collective = parser.header("collective", collective)?;
    parser.contract(&mut collective)?;
    let placement = parser.header("placement", placement)?;
    let protocol = parser.header("protocol", protocol)?;
    let sizes = parser.header("bytes", sizes)?;
    let threads = match parser.next_if(|line| line.starts_with_word("threads")) {
        Some(line) => Some(rest_of(line, "threads", |line| line.number(""))?),
        None => None,
    };
    let ranks = parser.ranks()?;
    Ok(Algorithm { name, collective, placement, protocol, sizes, threads, ranks })
}

struct Parser<'a, I: Iterator<Item = Line<'a>>> {
    text: &'a str,
    lines: Peekable<I>,
}

impl<'a, I: Iterator<Item = Line<'a>>> Parser<'a, I> {
    fn next_if(&mut self, is_next: impl Fn(&Line<'a>) -> bool) -> Option<Line<'a>> {
        self.lines.next_if(is_next)
    }

    /// The line that must come next: `word`, and what `read` takes.
    fn header<T>(&mut self, word: &str, read: impl FnOnce(&mut Line<'a>) -> Scan<T>) -> Scan<T> {
        match self.lines.next() {
            Some(line) => rest_of(line, word, read),
            None => Err(ends_before(self.text, &format!("`{word}`"))),
        }
    }

    /// The lines of a custom collective's contract, if there are any.
    fn contract(&mut self, collective: &mut Collective) -> Scan<()> {
        let Kind::Custom(custom) = &mut collective.kind else { return Ok(()) };
        let Some(line) = self.next_if(|line| line.starts_with_word("contract")) else {
            return Ok(());
        };
        rest_of(line, "contract", |_| Ok(()))?;
        let mut contract = Contract::default();
        while let Some(line) = self.next_if(|line| line.starts_with_word("given")) {
            contract.given.insert(rest_of(line, "given", contribution)?);
        }
        while let Some(line) = self.next_if(|line| line.starts_with_word("promise")) {
            let (slot, mut sum) = rest_of(line, "promise", promise)?;
            sum.sort_unstable();
            if contract.promised.insert(slot, sum).is_some() {
                return Err(line.error("one promise for each slot"));
            }
        }
        Arc::make_mut(custom).contract = Some(contract);
        Ok(())
    }

    fn ranks(&mut self) -> Scan<Vec<RankProgram>> {
        let mut ranks = Vec::new();
        while let Some(mut line) = self.next_if(|line| line.starts_with_number("r")) {
            in_order(&mut line, "r", Rank::from(ranks.len()))?;
            line.word("scratch")?;
            let scratch_chunks = line.number("")?;
            line.end()?;
            ranks.push(RankProgram { scratch_chunks, thread_blocks: self.thread_blocks()? });
        }
        match self.lines.next() {
            None => Ok(ranks),
            Some(line) => Err(line.error(
                "a rank (`r0 scratch 0`), a thread block (`tb0 ch0 …`) or a step (`s0: …`) in its \
                 place",
            )),
        }
    }

    fn thread_blocks(&mut self) -> Scan<Vec<ThreadBlock>> {
        let mut blocks = Vec::new();
        while let Some(mut line) = self.next_if(|line| line.starts_with_number("tb")) {
            in_order(&mut line, "tb", TbIndex::from(blocks.len()))?;
            let channel = Channel(line.number("ch")?);
            let sends = peers(&mut line, "send")?;
            let receives = peers(&mut line, "receive")?;
            line.end()?;
            blocks.push(ThreadBlock { channel, sends, receives, steps: self.steps()? });
        }
        Ok(blocks)
    }

    fn steps(&mut self) -> Scan<Vec<Step>> {
        let mut steps = Vec::new();
        while let Some(mut line) = self.next_if(|line| line.starts_with_number("s")) {
            in_order(&mut line, "s", StepIndex::from(steps.len()))?;
            steps.push(step(&mut line)?);
            line.end()?;
        }
        Ok(steps)
    }
}

/// Reads a line that starts with `word`.
fn rest_of<'a, T>(
    mut line: Line<'a>,
    word: &str,
    read: impl FnOnce(&mut Line<'a>) -> Scan<T>,
) -> Scan<T> {
    line.word(word)?;
    let value = read(&mut line)?;
    line.end()?;
    Ok(value)
}

/// Takes an index that must be the next in order.
fn in_order(line: &mut Line<'_>, prefix: &str, expected: impl Display) -> Scan<()> {
    let start = *line;
    let found: u32 = line.number(prefix)?;
    let expected = expected.to_string();
    if format!("{prefix}{found}") == expected {
        return Ok(());
    }
    Err(start.error(format!("`{expected}`, the next in order")))
}

fn collective(line: &mut Line<'_>) -> Scan<Collective> {
    if line.takes_word("custom") {
        return custom(line);
    }
    let kind = line.one_of(&CollectiveKind::ALL.map(|kind| (kind.name(), kind)))?;
    let (ranks, chunks) = ranks_and_chunks(line)?;
    let mut collective = Collective { kind: kind.into(), ranks, chunks };
    if collective.root().is_some() {
        line.word("root")?;
        collective.kind = kind.rooted_at(Rank(line.number("r")?)).into();
    }
    Ok(collective)
}

fn custom(line: &mut Line<'_>) -> Scan<Collective> {
    let name = line.quoted()?;
    let (ranks, chunks) = ranks_and_chunks(line)?;
    line.word("input")?;
    let input_chunks = line.number("")?;
    line.word("output")?;
    let output_chunks = line.number("")?;
    let custom = Custom { name, input_chunks, output_chunks, contract: None };
    Ok(Collective { kind: Kind::Custom(Arc::new(custom)), ranks, chunks })
}

fn ranks_and_chunks(line: &mut Line<'_>) -> Scan<(u32, u32)> {
    line.word("ranks")?;
    let ranks = line.number("")?;
    line.word("chunks")?;
    Ok((ranks, line.number("")?))
}

fn placement(line: &mut Line<'_>) -> Scan<Placement> {
    line.one_of(&Placement::ALL.map(|placement| (placement_name(placement), placement)))
}

fn protocol(line: &mut Line<'_>) -> Scan<Protocol> {
    line.one_of(&Protocol::ALL.map(|protocol| (protocol_name(protocol), protocol)))
}

fn sizes(line: &mut Line<'_>) -> Scan<SizeRange> {
    let min_bytes = line.number("")?;
    line.mark("..")?;
    let max_bytes = if line.takes("=") { Some(line.number("")?) } else { None };
    Ok(SizeRange { min_bytes, max_bytes })
}

fn contribution(line: &mut Line<'_>) -> Scan<Contribution> {
    let (rank, index) = place_of(line, "i")?;
    Ok(Contribution { rank, index })
}

fn promise(line: &mut Line<'_>) -> Scan<((Rank, u32), Vec<Contribution>)> {
    let slot = place_of(line, "o")?;
    line.mark("=")?;
    Ok((slot, line.list("+", contribution)?))
}

/// A slot with its rank: `r3.i[4]`.
fn place_of(line: &mut Line<'_>, buffer: &str) -> Scan<(Rank, u32)> {
    let rank = Rank(line.number("r")?);
    line.mark(".")?;
    line.word(buffer)?;
    Ok((rank, index(line)?))
}

fn index(line: &mut Line<'_>) -> Scan<u32> {
    line.mark("[")?;
    let index = line.number("")?;
    line.mark("]")?;
    Ok(index)
}

fn peers(line: &mut Line<'_>, word: &str) -> Scan<Vec<Rank>> {
    if line.takes_word(word) {
        line.list(",", |line| Ok(Rank(line.number("r")?)))
    } else {
        Ok(Vec::new())
    }
}

/// What follows the number of a step.
fn step(line: &mut Line<'_>) -> Scan<Step> {
    let mut step = Step::default();
    if line.takes_word("after") {
        step.waits = line.list(",", wait)?.into_iter().collect();
    }
    line.mark(":")?;
    if !line.takes_word("nop") {
        step.sources = places(line, "+")?.into_iter().collect();
        line.mark("->")?;
        step.destinations = places(line, ",")?.into_iter().collect();
        step.count = 1;
    }
    if line.starts_with_number("x") {
        step.count = line.number("x")?;
    }
    Ok(step)
}

fn wait(line: &mut Line<'_>) -> Scan<Wait> {
    Ok(Wait { tb: TbIndex(line.number("tb")?), step: StepIndex(line.number("s")?) })
}

fn places(line: &mut Line<'_>, mark: &str) -> Scan<Vec<Place>> {
    if line.takes("_") { Ok(Vec::new()) } else { line.list(mark, place) }
}

fn place(line: &mut Line<'_>) -> Scan<Place> {
    for buffer in Buffer::ALL {
        if line.takes_word(buffer.letter().encode_utf8(&mut [0; 4])) {
            return Ok(Place::Local(Slot::new(buffer, index(line)?)));
        }
    }
    if line.starts_with_number("r") {
        return Ok(Place::Link(Rank(line.number("r")?)));
    }
    Err(line.error("a place (`i[0]`, `o[0]`, `s[0]`) or a link (`r0`)"))
}

//! The printer.

use std::fmt::{self, Write};

use msccl_collective::{
    Collective, Contract, Custom, Kind, Placement, Protocol, Rank, SizeRange, StepIndex, TbIndex,
};

use crate::{Algorithm, Place, RankProgram, Step, ThreadBlock};

/// The text form of `algorithm`.
pub fn print(algorithm: &Algorithm) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_algorithm(&mut text, algorithm);
    text
}

fn write_algorithm(out: &mut String, algorithm: &Algorithm) -> fmt::Result {
    let Algorithm { name, collective, placement, protocol, sizes, threads, ranks } = algorithm;
    writeln!(out, "algorithm {}", Quoted(name))?;
    write_collective(out, collective)?;
    writeln!(out, "placement {}", placement_name(*placement))?;
    writeln!(out, "protocol {}", protocol_name(*protocol))?;
    match *sizes {
        SizeRange { min_bytes, max_bytes: Some(max) } => {
            writeln!(out, "bytes {min_bytes}..={max}")?
        }
        SizeRange { min_bytes, max_bytes: None } => writeln!(out, "bytes {min_bytes}..")?,
    }
    if let Some(threads) = threads {
        writeln!(out, "threads {threads}")?;
    }
    for (rank, program) in ranks.iter().enumerate() {
        write_rank(out, Rank::from(rank), program)?;
    }
    Ok(())
}

pub(super) fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::InPlace => "in place",
        Placement::OutOfPlace => "out of place",
        Placement::Both => "both",
    }
}

pub(super) fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Simple => "Simple",
        Protocol::Ll => "LL",
        Protocol::Ll128 => "LL128",
    }
}

fn write_collective(out: &mut String, collective: &Collective) -> fmt::Result {
    let Collective { kind, ranks, chunks } = collective;
    let custom = match kind {
        Kind::Custom(custom) => custom,
        Kind::AllReduce
        | Kind::AllGather
        | Kind::ReduceScatter
        | Kind::AllToAll
        | Kind::Broadcast { .. }
        | Kind::Reduce { .. }
        | Kind::Gather { .. }
        | Kind::Scatter { .. } => {
            write!(out, "collective {} ranks {ranks} chunks {chunks}", collective.name())?;
            if let Some(root) = collective.root() {
                write!(out, " root {root}")?;
            }
            return out.write_char('\n');
        }
    };
    let Custom { name, input_chunks, output_chunks, contract } = &**custom;
    write!(out, "collective custom {} ranks {ranks} chunks {chunks}", Quoted(name))?;
    writeln!(out, " input {input_chunks} output {output_chunks}")?;
    contract.as_ref().map_or(Ok(()), |contract| write_contract(out, contract))
}

fn write_contract(out: &mut String, contract: &Contract) -> fmt::Result {
    let Contract { given, promised } = contract;
    out.write_str("contract\n")?;
    for slot in given {
        writeln!(out, "  given {slot}")?;
    }
    for ((rank, index), sum) in promised {
        write!(out, "  promise {rank}.o[{index}] =")?;
        separated(out, sum, " +")?;
        out.write_char('\n')?;
    }
    Ok(())
}

fn write_rank(out: &mut String, rank: Rank, program: &RankProgram) -> fmt::Result {
    let RankProgram { scratch_chunks, thread_blocks } = program;
    writeln!(out, "\n{rank} scratch {scratch_chunks}")?;
    for (tb, block) in thread_blocks.iter().enumerate() {
        let ThreadBlock { channel, sends, receives, steps } = block;
        write!(out, "  {} {channel}", TbIndex::from(tb))?;
        peers(out, " send", sends)?;
        peers(out, " receive", receives)?;
        out.write_char('\n')?;
        for (number, step) in steps.iter().enumerate() {
            write_step(out, StepIndex::from(number), step)?;
        }
    }
    Ok(())
}

fn peers(out: &mut String, word: &str, peers: &[Rank]) -> fmt::Result {
    if peers.is_empty() {
        return Ok(());
    }
    out.write_str(word)?;
    separated(out, peers, ",")
}

fn write_step(out: &mut String, number: StepIndex, step: &Step) -> fmt::Result {
    let Step { waits, sources, destinations, count } = step;
    write!(out, "    {number}")?;
    if !waits.is_empty() {
        out.write_str(" after")?;
        separated(out, waits, ",")?;
    }
    out.write_char(':')?;
    let usual_count = if sources.is_empty() && destinations.is_empty() {
        out.write_str(" nop")?;
        0
    } else {
        places(out, sources, " +")?;
        out.write_str(" ->")?;
        places(out, destinations, ",")?;
        1
    };
    if *count != usual_count {
        write!(out, " x{count}")?;
    }
    out.write_char('\n')
}

fn places(out: &mut String, places: &[Place], separator: &str) -> fmt::Result {
    if places.is_empty() {
        return out.write_str(" _");
    }
    separated(out, places.iter().map(|place| Shown(*place)), separator)
}

/// Each item after a space, with the separator between.
fn separated<T: fmt::Display>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    separator: &str,
) -> fmt::Result {
    for (position, item) in items.into_iter().enumerate() {
        if position > 0 {
            out.write_str(separator)?;
        }
        write!(out, " {item}")?;
    }
    Ok(())
}

struct Shown(Place);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Place::Local(slot) => write!(f, "{slot}"),
            Place::Link(peer) => write!(f, "{peer}"),
        }
    }
}

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

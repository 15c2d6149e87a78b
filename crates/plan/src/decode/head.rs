//! The header.

use msccl_collective::{Placement, Protocol, Rank};
use msccl_ir::Packing;

use super::Corrupt;
use super::words::{Words, corrupt};
use crate::layout::{self, header};
use crate::program::{Alias, Average, Counts, Geometry, LinkLimits, Program};

/// A program without thread blocks.
pub(super) fn decode_header(words: Words<'_>) -> Result<Program, Corrupt> {
    let get = |at: u32| words.get(at as usize);
    let ranks = words.positive(header::RANKS, "a number of ranks")?;
    let requested = |at: u32| get(at).map(|word| (word != 0).then_some(word));
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
        threads: requested(header::THREADS)?,
        links: LinkLimits {
            depth: words.positive(header::LINK_DEPTH, "a link depth")?,
            message_bytes: words.positive(header::MESSAGE_BYTES, "a message size")?,
            slice_bytes: words.positive(header::SLICE_BYTES, "a slice size")?,
            packing: decode_packing(words)?,
            count_limit: words.positive(header::COUNT_LIMIT, "a count limit")?,
        },
        average: decode_average(get(header::AVERAGE_OF)?),
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

/// Bits that mean nothing where there is no count are found when the words are compared.
fn decode_average(word: u32) -> Option<Average> {
    let of = word & header::AVERAGE_COUNT_MASK;
    let average = Average {
        of,
        completes: word & header::AVERAGE_COMPLETES != 0,
        raw: word & header::AVERAGE_RAW != 0,
    };
    (of != 0).then_some(average)
}

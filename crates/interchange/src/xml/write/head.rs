//! What `<algo>` can say about the whole algorithm in each dialect.

use msccl_collective::{Collective, Kind, Placement, SizeRange};

use super::WriteError;
use crate::xml::markup::Value;
use crate::xml::vocabulary::{self, MOST, MOST_RANKS, NAME_BYTES};
use crate::xml::{Dialect, collective as names};

/// A name that every interpreter reads whole.
pub(super) fn label(name: &str) -> Result<&str, WriteError> {
    if vocabulary::is_plain_name(name) {
        return Ok(name);
    }
    Err(WriteError::whole(format!(
        "the name {name:?} cannot stand in MSCCL XML: at most {NAME_BYTES} bytes, without \
         control characters and any of \" ' < > &; rename it"
    )))
}

pub(super) fn collective(
    collective: &Collective,
    dialect: Dialect,
) -> Result<&'static str, WriteError> {
    let kind = &collective.kind;
    names::name_in(dialect, kind).ok_or_else(|| {
        let advice = match kind {
            Kind::Custom(_) => "; only the dialect `msccl` has custom collectives",
            Kind::Gather { .. } | Kind::Scatter { .. } => "; write the dialect `executor`",
            _ => "",
        };
        let name = collective.name();
        WriteError::whole(format!("the {dialect} dialect has no collective `{name}`{advice}"))
    })
}

/// `inplace` and `outofplace`.
pub(super) fn placement(
    placement: Placement,
    dialect: Dialect,
) -> Result<(Value<'static>, Value<'static>), WriteError> {
    let flag = |set: bool| Value::from(u32::from(set));
    let inside = flag(placement.serves_in_place());
    match (dialect, placement) {
        (Dialect::Executor, _) => Ok((inside, flag(placement.serves_out_of_place()))),
        (Dialect::Msccl, Placement::InPlace | Placement::OutOfPlace) => Ok((inside, Value::Absent)),
        (Dialect::Msccl, Placement::Both) => Err(WriteError::whole(
            "a file of the msccl dialect serves calls in place or out of place, not both; \
             compile for one of them, or write the dialect `executor`",
        )),
    }
}

/// The range as the dialect counts sizes: for gather and scatter the executor counts one block. A
/// call has whole blocks, so a range that ends within one serves no more calls than one that ends
/// before it.
pub(super) fn of_one_call(
    sizes: SizeRange,
    dialect: Dialect,
    collective: &Collective,
) -> SizeRange {
    let SizeRange { min_bytes, max_bytes } = sizes;
    let blocks = names::call_blocks(dialect, collective.name(), collective.ranks);
    SizeRange {
        min_bytes: min_bytes.div_ceil(blocks),
        max_bytes: max_bytes.map(|bytes| bytes / blocks),
    }
}

/// `minBytes` and `maxBytes`.
///
/// The first runtime excludes `maxBytes`, the executor includes it and takes 0 for no limit. In the
/// first, no limit is the largest integer, which no call reaches; but it allocates scratch for
/// the largest call up front, so an algorithm with scratch must state a limit.
pub(super) fn sizes(
    sizes: SizeRange,
    dialect: Dialect,
    scratch: bool,
) -> Result<(i64, i64), WriteError> {
    let SizeRange { min_bytes, max_bytes } = sizes;
    let max = match (dialect, max_bytes) {
        (Dialect::Msccl, None) if scratch => {
            return Err(WriteError::whole(
                "no upper limit of its message size, but scratch chunks: the first runtime \
                 allocates scratch for the largest size up front; state a size range",
            ));
        }
        (Dialect::Msccl, None) => Some(i64::MAX),
        (Dialect::Msccl, Some(max)) => {
            max.checked_add(1).and_then(signed).filter(|&max| max < i64::MAX)
        }
        (Dialect::Executor, None) => Some(0),
        (Dialect::Executor, Some(max)) => signed(max).filter(|&max| max > 0),
    };
    match (signed(min_bytes), max) {
        (Some(min), Some(max)) => Ok((min, max)),
        _ => Err(WriteError::whole(format!(
            "the {dialect} dialect cannot say the size range {sizes}; choose another"
        ))),
    }
}

fn signed(bytes: u64) -> Option<i64> {
    i64::try_from(bytes).ok()
}

/// `nthreads`.
pub(super) fn threads(
    threads: Option<u32>,
    dialect: Dialect,
) -> Result<Value<'static>, WriteError> {
    match (dialect, threads) {
        (_, None) => Ok(Value::Absent),
        (Dialect::Msccl, Some(threads @ 1..=65_536)) if threads % 32 == 0 => {
            Ok(Value::from(threads))
        }
        (Dialect::Msccl, Some(threads)) => Err(WriteError::whole(format!(
            "{threads} threads: the first runtime takes a multiple of 32 up to 65536"
        ))),
        (Dialect::Executor, Some(threads)) => Err(WriteError::whole(format!(
            "{threads} threads: the executor takes no number of threads; leave it out"
        ))),
    }
}

/// `nchunksperloop`.
pub(super) fn loop_chunks(collective: &Collective) -> Result<i64, WriteError> {
    let Collective { kind, ranks, chunks: _ } = collective;
    if let Kind::Custom(custom) = kind
        && custom.input_chunks.min(custom.output_chunks) > 0
        && custom.input_chunks != custom.output_chunks
    {
        return Err(WriteError::whole(format!(
            "{} input and {} output chunks: the first runtime takes equal numbers, or 0, in a \
             custom collective",
            custom.input_chunks, custom.output_chunks
        )));
    }
    let most_ranks = MOST_RANKS as u64;
    if u64::from(*ranks) > most_ranks {
        return Err(WriteError::whole(format!("{ranks} ranks; at most {most_ranks} can be read")));
    }
    let chunks = names::loop_chunks(collective);
    match i64::try_from(chunks) {
        Ok(chunks @ 1..=MOST) => Ok(chunks),
        _ => Err(WriteError::whole(format!(
            "{chunks} chunks in a loop: MSCCL XML takes at least 1, and our reader {MOST} at most"
        ))),
    }
}

//! Collectives by name, and their sizes from and to `nchunksperloop`.

use msccl_collective::{Collective, CollectiveKind, Kind, Rank};

use super::Dialect;
use super::vocabulary::collectives;

/// The kind that both dialects' names stand for; `None` for `custom` and names that mean no
/// collective of ours.
pub(super) fn kind_by_name(name: &str, root: Rank) -> Option<Kind> {
    let name = if name == REDUCE_SCATTER_OF_MSCCL { "reducescatter" } else { name };
    let kind: CollectiveKind = name.parse().ok()?;
    Some(kind.rooted_at(root).into())
}

/// What dialect MSCCL calls a reduce-scatter.
const REDUCE_SCATTER_OF_MSCCL: &str = "reduce_scatter";

/// What `dialect` calls the collective; `None` where it has no such thing.
pub(super) fn name_in(dialect: Dialect, kind: &Kind) -> Option<&'static str> {
    match (dialect, CollectiveKind::of(kind)) {
        (Dialect::Executor, kind) => kind.map(CollectiveKind::name),
        (Dialect::Msccl, None) => Some("custom"),
        (Dialect::Msccl, Some(CollectiveKind::ReduceScatter)) => Some(REDUCE_SCATTER_OF_MSCCL),
        (Dialect::Msccl, Some(CollectiveKind::Gather(_) | CollectiveKind::Scatter(_))) => None,
        (Dialect::Msccl, Some(kind)) => Some(kind.name()),
    }
}

/// Whether a name belongs to the executor only.
pub(super) fn is_executors(name: &str) -> bool {
    collectives(Dialect::Executor).contains(&name) && !collectives(Dialect::Msccl).contains(&name)
}

/// How many blocks `nchunksperloop` counts: the interpreters divide the size of a call by it, and
/// take that size to be the number of elements given to the call, times the number of ranks for
/// all-gather, reduce-scatter and all-to-all, but not for gather and scatter.
pub(super) fn loop_blocks(kind: &Kind, ranks: u32) -> u32 {
    match kind {
        Kind::AllReduce
        | Kind::Broadcast { .. }
        | Kind::Reduce { .. }
        | Kind::Gather { .. }
        | Kind::Scatter { .. }
        | Kind::Custom(_) => 1,
        Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => ranks,
    }
}

/// By what a size of the file is multiplied to count all blocks of a call: for gather and scatter
/// the executor counts one.
pub(super) fn call_blocks(dialect: Dialect, name: &str, ranks: u32) -> u64 {
    match (dialect, name) {
        (Dialect::Executor, "gather" | "scatter") => u64::from(ranks.max(1)),
        _ => 1,
    }
}

/// `nchunksperloop` of a collective.
pub(super) fn loop_chunks(collective: &Collective) -> u64 {
    let Collective { kind, ranks, chunks } = collective;
    match kind {
        Kind::Custom(custom) => u64::from(custom.input_chunks.max(custom.output_chunks)),
        _ => u64::from(loop_blocks(kind, *ranks)) * u64::from(*chunks),
    }
}

/// By what the first runtime multiplies `i_chunks` and `o_chunks` before it compares them with
/// `nchunksperloop`.
pub(super) fn multipliers(kind: &Kind, ranks: u32) -> (u64, u64) {
    match kind {
        Kind::AllGather => (u64::from(ranks), 1),
        Kind::ReduceScatter => (1, u64::from(ranks)),
        Kind::AllReduce
        | Kind::AllToAll
        | Kind::Broadcast { .. }
        | Kind::Reduce { .. }
        | Kind::Gather { .. }
        | Kind::Scatter { .. }
        | Kind::Custom(_) => (1, 1),
    }
}

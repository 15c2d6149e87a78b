//! The algorithms that are always there: `.msccl` programs like any other.
//!
//! Of a collective with a root, only the root has both buffers and knows whether the call is in
//! place. So its programs serve both placements, and what they say over links is the same in both;
//! a rank that is not the root is the same altogether.
//!
//! Several nodes have programs of their own beside those of one node. Programs that grow too fast
//! with the ranks are [unsuited](unsuited) where there are many: compiling and proving them would
//! take longer than they ever save, and on several nodes every pair of ranks that talk costs a
//! connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use msccl_collective::{CollectiveKind, Placement, Rank};
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_compiler::schedule::Schedule;
use msccl_ir::Target;
use msccl_syntax::SourceMap;
use msccl_verify::verify_claim;

use crate::{Entry, Shape};

/// Above this many ranks, no program in which every rank has a link to every other, where another
/// serves.
const PAIRS_RANKS_MAX: u32 = 128;
/// Above this many ranks on several nodes, no program whose steps grow with the square of the
/// ranks, where another serves.
const SQUARE_RANKS_MAX: u32 = 256;
/// Above this many nodes, no program in which every rank has a link to every other node, where
/// another serves.
const NODES_MAX: u32 = 8;

struct Program {
    name: &'static str,
    text: &'static str,
    growth: Growth,
    /// The placement for which it is there, if another program is better in the other.
    placement: Placement,
    purpose: Purpose,
}

/// For which calls a program is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// All.
    Any,
    /// Those whose additions must have an order that no other program has; others are faster.
    Order,
}

/// What of a program grows so fast that there is a bound.
#[derive(Clone, Copy)]
enum Growth {
    /// Nothing; or nothing else would serve.
    Unbounded,
    /// The links of a rank, with the ranks.
    Pairs,
    /// The links of a rank, with the nodes.
    Nodes,
    /// The steps of a rank, with the ranks, where there is something better on several nodes.
    Square,
}

macro_rules! program {
    ($name:literal) => {
        program!($name, Unbounded)
    };
    ($name:literal, $growth:ident) => {
        program!($name, $growth, Both)
    };
    ($name:literal, $growth:ident, $placement:ident) => {
        Program {
            name: $name,
            text: include_str!(concat!("../../../../dsl-examples/", $name, ".msccl")),
            growth: Growth::$growth,
            placement: Placement::$placement,
            purpose: Purpose::Any,
        }
    };
}

/// A program that is there for the order in which it adds.
macro_rules! ordered {
    ($name:literal, $growth:ident) => {
        Program { purpose: Purpose::Order, ..program!($name, $growth) }
    };
}

const ALL_REDUCE: &[Program] = &[
    program!("allreduce/ring"),
    program!("allreduce/ring_interleaved"),
    program!("allreduce/double_binary_tree"),
    program!("allreduce/two_shot", Pairs),
    program!("allreduce/two_shot_block", Pairs),
    program!("allreduce/one_shot", Pairs),
    program!("allreduce/one_step", Pairs),
    program!("allreduce/one_block", Pairs),
    ordered!("allreduce/two_shot_balanced", Pairs),
    ordered!("allreduce/one_block_balanced", Pairs),
];
const ALL_GATHER: &[Program] = &[
    program!("allgather/ring"),
    program!("allgather/ring_interleaved"),
    program!("allgather/allpairs", Pairs),
    program!("allgather/one_sender", Pairs),
    program!("allgather/one_block", Pairs),
    program!("allgather/one_block_fused", Pairs),
];
const REDUCE_SCATTER: &[Program] = &[
    program!("reducescatter/ring"),
    program!("reducescatter/ring_interleaved"),
    program!("reducescatter/direct", Pairs),
    program!("reducescatter/one_block", Pairs),
    ordered!("reducescatter/direct_balanced", Pairs),
];
const ALL_TO_ALL: &[Program] = &[
    program!("alltoall/allpairs"),
    program!("alltoall/in_place"),
    program!("alltoall/one_block", Pairs),
    program!("alltoall/one_block_in_place", Pairs, InPlace),
];
const BROADCAST: &[Program] =
    &[program!("broadcast/chain"), program!("broadcast/tree"), program!("broadcast/direct")];
const REDUCE: &[Program] = &[
    program!("reduce/chain"),
    program!("reduce/tree"),
    program!("reduce/direct"),
    ordered!("reduce/direct_balanced", Pairs),
];
const GATHER: &[Program] = &[program!("gather/direct"), program!("gather/one_block", Pairs)];
const SCATTER: &[Program] = &[program!("scatter/direct"), program!("scatter/one_block", Pairs)];

const ALL_REDUCE_OF_NODES: &[Program] = &[
    program!("allreduce/hierarchical"),
    program!("allreduce/hierarchical_low_latency"),
    program!("allreduce/hierarchical_doubling"),
    program!("allreduce/multinode_allpairs", Nodes),
    program!("allreduce/double_binary_tree"),
    program!("allreduce/ring", Square),
    ordered!("allreduce/two_shot", Pairs),
    ordered!("allreduce/one_step", Pairs),
    ordered!("allreduce/hierarchical_balanced", Nodes),
    ordered!("allreduce/two_shot_balanced", Pairs),
];
const ALL_GATHER_OF_NODES: &[Program] = &[
    program!("allgather/hierarchical"),
    program!("allgather/hierarchical_low_latency"),
    program!("allgather/ring", Square),
    program!("allgather/allpairs", Pairs),
];
const REDUCE_SCATTER_OF_NODES: &[Program] = &[
    program!("reducescatter/hierarchical"),
    program!("reducescatter/hierarchical_low_latency"),
    program!("reducescatter/ring", Square),
    program!("reducescatter/direct", Pairs),
    ordered!("reducescatter/direct_balanced", Pairs),
];
const ALL_TO_ALL_OF_NODES: &[Program] = &[
    program!("alltoall/rail_first"),
    program!("alltoall/rail_first_in_place", Unbounded, InPlace),
    program!("alltoall/allpairs", Pairs),
    program!("alltoall/in_place", Pairs, InPlace),
    program!("alltoall/bruck", Square),
];
const BROADCAST_OF_NODES: &[Program] = &[
    program!("broadcast/hierarchical"),
    program!("broadcast/hierarchical_low_latency"),
    program!("broadcast/chain"),
    program!("broadcast/tree"),
];
const REDUCE_OF_NODES: &[Program] = &[
    program!("reduce/hierarchical"),
    program!("reduce/hierarchical_low_latency"),
    program!("reduce/chain"),
    program!("reduce/tree"),
    ordered!("reduce/direct", Pairs),
    ordered!("reduce/direct_balanced", Pairs),
];
const GATHER_OF_NODES: &[Program] =
    &[program!("gather/hierarchical"), program!("gather/direct", Pairs)];
const SCATTER_OF_NODES: &[Program] =
    &[program!("scatter/hierarchical"), program!("scatter/direct", Pairs)];

/// The programs for `kind`, on one node and on several, best for large messages first.
fn programs_of(kind: CollectiveKind) -> [&'static [Program]; 2] {
    match kind {
        CollectiveKind::AllReduce => [ALL_REDUCE, ALL_REDUCE_OF_NODES],
        CollectiveKind::AllGather => [ALL_GATHER, ALL_GATHER_OF_NODES],
        CollectiveKind::ReduceScatter => [REDUCE_SCATTER, REDUCE_SCATTER_OF_NODES],
        CollectiveKind::AllToAll => [ALL_TO_ALL, ALL_TO_ALL_OF_NODES],
        CollectiveKind::Broadcast(_) => [BROADCAST, BROADCAST_OF_NODES],
        CollectiveKind::Reduce(_) => [REDUCE, REDUCE_OF_NODES],
        CollectiveKind::Gather(_) => [GATHER, GATHER_OF_NODES],
        CollectiveKind::Scatter(_) => [SCATTER, SCATTER_OF_NODES],
    }
}

/// Those for such nodes.
fn programs(kind: CollectiveKind, shape: Shape) -> &'static [Program] {
    let [on_one, on_several] = programs_of(kind);
    if shape.nodes() > 1 { on_several } else { on_one }
}

/// The built-in programs, each with its name and its text, in the order of their names.
pub fn built_in_programs() -> BTreeMap<&'static str, &'static str> {
    // Which rank is the root makes no difference to the programs.
    let all = CollectiveKind::all(Rank(0)).into_iter().flat_map(programs_of).flatten();
    all.map(|program| (program.name, program.text)).collect()
}

impl Growth {
    /// Why a program that grows so is not for `shape`.
    fn excess(self, shape: Shape) -> Option<String> {
        let (found, most, what) = match self {
            Growth::Unbounded => return None,
            Growth::Pairs => (shape.ranks, PAIRS_RANKS_MAX, "ranks, each linked with each"),
            Growth::Square => (shape.ranks, SQUARE_RANKS_MAX, "ranks, with steps for each"),
            Growth::Nodes => (shape.nodes(), NODES_MAX, "nodes, each linked with each"),
        };
        (found > most).then(|| format!("it is for at most {most} {what}; there are {found}"))
    }
}

/// A built-in algorithm that is not for a shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsuited {
    /// Its name.
    pub name: &'static str,
    /// Why, in a phrase.
    pub reason: String,
}

/// The built-in programs for `kind` and `purpose` that are not compiled because they grow too fast
/// for `shape`.
pub fn unsuited(shape: Shape, kind: CollectiveKind, purpose: Purpose) -> Vec<Unsuited> {
    let programs = programs(kind, shape).iter().filter(|program| program.purpose == purpose);
    let unsuited = programs.filter_map(|program| {
        program.growth.excess(shape).map(|reason| Unsuited { name: program.name, reason })
    });
    unsuited.collect()
}

/// The built-in algorithms for `kind` in `placement`, best for large messages first. A program that
/// does not serve the placement or is [unsuited](unsuited) is not among them; tests show that one
/// always is.
pub fn built_ins(shape: Shape, kind: CollectiveKind, placement: Placement) -> Vec<Entry> {
    let programs = suited(shape, kind, placement);
    programs.filter_map(|program| entry(program, shape, kind, placement)).collect()
}

/// The names of the programs for `purpose` of which [`built_ins`] are made, in the same order. A
/// program that does not serve the placement is among them.
pub fn names(
    shape: Shape,
    kind: CollectiveKind,
    placement: Placement,
    purpose: Purpose,
) -> impl Iterator<Item = &'static str> {
    let programs = suited(shape, kind, placement);
    programs.filter(move |program| program.purpose == purpose).map(|program| program.name)
}

/// That of [`built_ins`] which has this name.
pub fn built_in(
    shape: Shape,
    kind: CollectiveKind,
    placement: Placement,
    name: &str,
) -> Option<Entry> {
    let program = suited(shape, kind, placement).find(|program| program.name == name)?;
    entry(program, shape, kind, placement)
}

/// The programs that are there for the placement, and do not grow too fast.
fn suited(
    shape: Shape,
    kind: CollectiveKind,
    placement: Placement,
) -> impl Iterator<Item = &'static Program> {
    programs(kind, shape).iter().filter(move |program| {
        let placed = [placement, Placement::Both].contains(&program.placement);
        placed && program.growth.excess(shape).is_none()
    })
}

fn entry(
    program: &Program,
    shape: Shape,
    kind: CollectiveKind,
    placement: Placement,
) -> Option<Entry> {
    let target = Target::native();
    let mut sources = SourceMap::new();
    let file = sources.add(program.name, program.text);
    let root = kind.root().map(|root| ("R".to_owned(), i64::from(root.0)));
    let launch = Launch {
        ranks: Some(shape.ranks),
        per_node: Some(shape.per_node),
        params: root.into_iter().collect(),
        placement: Some(placement),
        ..Launch::default()
    };
    let compiled = compile(&mut sources, file, &NoFiles, &launch, &target).ok()?;
    let claim = compiled.chunks.order_claim.map(|claim| claim.order);
    let Schedule { algorithm, origins } = compiled.schedule;
    let verified = verify_claim(algorithm, &target, claim).ok()?;
    let lines = origins.into_lines(&sources, file);
    Some(Entry::new(program.name, false, verified).with_source(Some(Arc::new(lines))))
}

#[cfg(test)]
mod tests;

//! What is best for which size: tables of built-in algorithms, protocols and instances.
//!
//! Figures are thresholds in bytes of the larger buffer, found by measurement (see
//! `docs/PERFORMANCE.md`); between machines they differ, so they are preferences: what cannot serve
//! is passed over.

use msccl_collective::Protocol;
use msccl_registry::Wanted;

/// What kind of machine runs the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Machine {
    /// Host threads.
    Host,
    /// GPUs that see one another's memory.
    Gpus,
}

/// A way to run an algorithm.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Way {
    /// Which; `None` in the fallback, which is for any.
    pub algorithm: Option<&'static str>,
    pub protocol: Protocol,
    pub instances: u32,
    pub threads: u32,
}

/// A row of a table: the way for calls of up to so many bytes.
type Row = (u64, &'static str, Protocol, u32, u32);

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const ANY: u64 = u64::MAX;

use Protocol::{Ll, Simple};

const ALL_REDUCE: &[Row] = &[
    (2 * KIB, "allreduce/one_shot", Ll, 1, 512),
    (8 * KIB, "allreduce/one_shot", Ll, 4, 512),
    (64 * KIB, "allreduce/one_shot", Ll, 16, 512),
    // In place, where there is no one-shot.
    (16 * KIB, "allreduce/two_shot", Ll, 4, 512),
    (256 * KIB, "allreduce/two_shot", Ll, 16, 256),
    (16 * MIB, "allreduce/two_shot", Simple, 16, 512),
    (ANY, "allreduce/ring", Simple, 64, 256),
];
const ALL_GATHER: &[Row] = &[
    (64 * KIB, "allgather/allpairs", Ll, 2, 512),
    (256 * KIB, "allgather/allpairs", Ll, 8, 512),
    (8 * MIB, "allgather/allpairs", Simple, 16, 512),
    (ANY, "allgather/ring", Simple, 64, 256),
];
const REDUCE_SCATTER: &[Row] = &[
    (16 * KIB, "reducescatter/direct", Ll, 2, 512),
    (128 * KIB, "reducescatter/direct", Ll, 16, 256),
    (256 * KIB, "reducescatter/direct", Simple, 16, 256),
    (4 * MIB, "reducescatter/direct", Simple, 16, 512),
    (ANY, "reducescatter/ring", Simple, 64, 256),
];
const ALL_TO_ALL: &[Row] = &[
    (64 * KIB, "alltoall/allpairs", Ll, 2, 512),
    (64 * KIB, "alltoall/in_place", Ll, 2, 512),
    (256 * KIB, "alltoall/allpairs", Ll, 8, 512),
    (256 * KIB, "alltoall/in_place", Ll, 8, 512),
    (ANY, "alltoall/allpairs", Simple, 16, 512),
    (ANY, "alltoall/in_place", Simple, 16, 512),
];
const BROADCAST: &[Row] = &[
    (64 * KIB, "broadcast/direct", Ll, 16, 512),
    (512 * KIB, "broadcast/direct", Simple, 16, 512),
    (ANY, "broadcast/chain", Simple, 64, 256),
];
const REDUCE: &[Row] = &[
    (64 * KIB, "reduce/direct", Ll, 16, 512),
    (MIB, "reduce/direct", Simple, 16, 512),
    (ANY, "reduce/chain", Simple, 64, 256),
];
const GATHER: &[Row] =
    &[(512 * KIB, "gather/direct", Ll, 8, 512), (ANY, "gather/direct", Simple, 16, 512)];
const SCATTER: &[Row] =
    &[(512 * KIB, "scatter/direct", Ll, 8, 512), (ANY, "scatter/direct", Simple, 16, 512)];

/// The ways that are best for calls of `bytes` bytes, best first.
pub(super) fn ways(machine: Machine, wanted: Wanted, _ranks: u32, bytes: u64) -> Vec<Way> {
    if machine == Machine::Host {
        return Vec::new();
    }
    let rows = match wanted {
        Wanted::AllReduce => ALL_REDUCE,
        Wanted::AllGather => ALL_GATHER,
        Wanted::ReduceScatter => REDUCE_SCATTER,
        Wanted::AllToAll => ALL_TO_ALL,
        Wanted::Broadcast(_) => BROADCAST,
        Wanted::Reduce(_) => REDUCE,
        Wanted::Gather(_) => GATHER,
        Wanted::Scatter(_) => SCATTER,
    };
    debug_assert!(rows.iter().all(|row| row.1.starts_with(wanted.name())));
    let best = rows.iter().filter(|row| bytes <= row.0);
    best.map(|&(_, algorithm, protocol, instances, threads)| Way {
        algorithm: Some(algorithm),
        protocol,
        instances,
        threads,
    })
    .collect()
}

/// How to run what no table names.
pub(super) fn fallback(machine: Machine) -> Way {
    let instances = match machine {
        Machine::Host => 1,
        Machine::Gpus => 4,
    };
    Way { algorithm: None, protocol: Simple, instances, threads: 512 }
}

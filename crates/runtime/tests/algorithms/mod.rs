//! Algorithms for every collective, and what they are made of.

#![allow(unused_imports, dead_code)] // Not every test that shares this file uses all of it.

use msccl_collective::Kind;
use msccl_ir::{Algorithm, Place, Step, ThreadBlock};
use msccl_testkit::by_hand::{self, StepExt};
pub use msccl_testkit::by_hand::{i as input, o as output, r as link, t as scratch, tb as block};
use msccl_testkit::collectives;
pub use msccl_testkit::collectives::{all, ring};

pub fn step(count: u32, sources: &[Place], destinations: &[Place]) -> Step {
    by_hand::step(sources, destinations).times(count)
}

/// An algorithm in which rank `r` runs the thread blocks `program(r)` with that much scratch.
pub fn algorithm(
    kind: Kind,
    ranks: u32,
    chunks: u32,
    scratch_chunks: u32,
    program: impl Fn(u32) -> Vec<ThreadBlock>,
) -> Algorithm {
    let mut algorithm = collectives::algorithm(kind, ranks, chunks, program);
    algorithm.ranks.iter_mut().for_each(|rank| rank.scratch_chunks = scratch_chunks);
    algorithm
}

//! Coarsening: chunks that always move together become one.
//!
//! ```text
//! r1.o[4..8] = r0.i[0..4]    g = 4    r1.o[1] = r0.i[0]
//! ```
//!
//! Fires only if every index and every count of every op, the scratch of every rank and the block
//! size are multiples of one number above 1; does not split ops or look at hints, and leaves custom
//! collectives alone, whose contract names chunks.

use msccl_collective::{Collective, Kind};

use super::{At, ChunkDag};

/// `dag` over the longest chunks its ops allow.
pub fn coarsen(mut dag: ChunkDag) -> ChunkDag {
    let g = common_divisor(&dag);
    if g <= 1 {
        return dag;
    }
    dag.collective.chunks /= g;
    dag.scratch_chunks.iter_mut().for_each(|chunks| *chunks /= g);
    let divide = |at: &mut At| at.slot.index /= g;
    for op in &mut dag.ops {
        divide(&mut op.to);
        op.sources.iter_mut().for_each(divide);
        op.count /= g;
    }
    dag
}

/// What all chunk numbers of the DAG are multiples of.
fn common_divisor(dag: &ChunkDag) -> u32 {
    let Collective { kind, ranks: _, chunks } = &dag.collective;
    if matches!(kind, Kind::Custom(_)) || dag.instances > 1 {
        return 1;
    }
    let scratch = dag.scratch_chunks.iter().fold(*chunks, |g, &chunks| gcd(g, chunks));
    dag.ops.iter().fold(scratch, |g, op| {
        let g = gcd(gcd(g, op.count), op.to.slot.index);
        op.sources.iter().fold(g, |g, source| gcd(g, source.slot.index))
    })
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

//! Whether two schedules of one program, for the two placements, say the same over links.
//!
//! Of a collective with a root, only the root has both buffers and knows whether a call is in
//! place; the other ranks run either schedule, and must not have to know.

use std::collections::BTreeMap;

use msccl_collective::{Channel, Rank};
use msccl_ir::{Place, RankProgram};
use msccl_verify::Verified;

/// Whether ranks that run `one` and ranks that run `other` work together, if only `root` needs to
/// know which it runs: all other ranks do the same in both, and of the root the links carry the
/// same.
pub(crate) fn same_traffic(one: &Verified, other: &Verified, root: Rank) -> bool {
    let (mine, its) = (one.algorithm(), other.algorithm());
    let (facts, other_facts) = (one.facts(), other.facts());
    let serve_the_same = mine.sizes == its.sizes
        && mine.protocol == its.protocol
        && facts.serves_any_count == other_facts.serves_any_count
        && facts.completion.is_some() == other_facts.completion.is_some()
        && facts.raw.is_some() == other_facts.raw.is_some();
    let mut pairs = mine.ranks.iter().zip(&its.ranks).enumerate();
    serve_the_same
        && pairs.all(|(rank, (mine, its))| {
            mine == its || (Rank::from(rank) == root && traffic(mine) == traffic(its))
        })
}

/// What each link carries, in order, as counts of chunks.
pub(crate) fn traffic(program: &RankProgram) -> BTreeMap<(Channel, Rank, bool), Vec<u32>> {
    let mut traffic = BTreeMap::<_, Vec<_>>::new();
    for block in &program.thread_blocks {
        for step in &block.steps {
            let sources = step.sources.iter().map(|place| (place, false));
            for (place, out) in sources.chain(step.destinations.iter().map(|to| (to, true))) {
                if let Place::Link(peer) = place {
                    let link = (block.channel, *peer, out);
                    traffic.entry(link).or_default().push(step.count);
                }
            }
        }
    }
    traffic
}

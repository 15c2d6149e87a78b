//! The algorithms that are always there: `.msccl` programs like any other.
//!
//! Of a collective with a root, only the root has both buffers and knows whether the call is in place. So
//! its programs serve both placements, and what they say over links is the same in both; a rank that is
//! not the root is the same altogether.

use std::sync::Arc;

use msccl_collective::Placement;
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_ir::Target;
use msccl_syntax::SourceMap;
use msccl_verify::{Verified, verify};

use crate::{Entry, Fingerprint, Shape, Wanted};

struct Program {
    name: &'static str,
    text: &'static str,
}

macro_rules! program {
    ($name:literal) => {
        Program {
            name: $name,
            text: include_str!(concat!("../../../dsl-examples/", $name, ".msccl")),
        }
    };
}

const ALL_REDUCE: &[Program] = &[
    program!("allreduce/ring"),
    program!("allreduce/double_binary_tree"),
    program!("allreduce/two_shot"),
    program!("allreduce/one_shot"),
    program!("allreduce/one_step"),
];
const ALL_GATHER: &[Program] = &[program!("allgather/ring"), program!("allgather/allpairs")];
const REDUCE_SCATTER: &[Program] =
    &[program!("reducescatter/ring"), program!("reducescatter/direct")];
const ALL_TO_ALL: &[Program] = &[program!("alltoall/allpairs"), program!("alltoall/in_place")];
const BROADCAST: &[Program] =
    &[program!("broadcast/chain"), program!("broadcast/tree"), program!("broadcast/direct")];
const REDUCE: &[Program] =
    &[program!("reduce/chain"), program!("reduce/tree"), program!("reduce/direct")];
const GATHER: &[Program] = &[program!("gather/direct")];
const SCATTER: &[Program] = &[program!("scatter/direct")];

fn programs(wanted: Wanted) -> &'static [Program] {
    match wanted {
        Wanted::AllReduce => ALL_REDUCE,
        Wanted::AllGather => ALL_GATHER,
        Wanted::ReduceScatter => REDUCE_SCATTER,
        Wanted::AllToAll => ALL_TO_ALL,
        Wanted::Broadcast(_) => BROADCAST,
        Wanted::Reduce(_) => REDUCE,
        Wanted::Gather(_) => GATHER,
        Wanted::Scatter(_) => SCATTER,
    }
}

/// The built-in algorithms for `wanted` in `placement`, best for large messages first. A program that
/// does not serve the shape or the placement is left out; tests show that one always does.
pub fn built_ins(shape: Shape, wanted: Wanted, placement: Placement) -> Vec<Entry> {
    let proved = programs(wanted).iter().filter_map(|program| {
        let verified = prove(program, shape, wanted, placement)?;
        Some(Entry {
            name: program.name.to_owned(),
            loaded: false,
            fingerprint: Fingerprint::of(verified.algorithm()),
            verified: Arc::new(verified),
        })
    });
    proved.collect()
}

fn prove(
    program: &Program,
    shape: Shape,
    wanted: Wanted,
    placement: Placement,
) -> Option<Verified> {
    let target = Target::native();
    let mut sources = SourceMap::new();
    let file = sources.add(program.name, program.text);
    let root = wanted.root().map(|root| ("R".to_owned(), i64::from(root.0)));
    let launch = Launch {
        ranks: Some(shape.ranks),
        params: root.into_iter().collect(),
        placement: Some(placement),
        ..Launch::default()
    };
    let compiled = compile(&mut sources, file, &NoFiles, &launch, &target).ok()?;
    verify(compiled.schedule.algorithm, &target).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use msccl_collective::{Channel, Rank};
    use msccl_ir::{Place, RankProgram};

    use super::*;

    fn wanted(ranks: u32) -> Vec<Wanted> {
        let rooted = [Rank(0), Rank(ranks - 1)].into_iter().flat_map(Wanted::with_root);
        Wanted::WITHOUT_ROOT.into_iter().chain(rooted).collect()
    }

    /// What each link carries, in order, as counts of chunks.
    fn traffic(program: &RankProgram) -> BTreeMap<(Channel, Rank, bool), Vec<u32>> {
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

    #[test]
    fn placements_of_a_rooted_collective_agree_over_links() {
        for ranks in [2, 3, 5, 8] {
            let shape = Shape { ranks, per_node: ranks };
            for wanted in wanted(ranks).into_iter().filter(|wanted| wanted.root().is_some()) {
                let [within, apart] = [Placement::InPlace, Placement::OutOfPlace]
                    .map(|placement| built_ins(shape, wanted, placement));
                assert_eq!(within.len(), apart.len(), "{wanted:?}");
                for (within, apart) in within.iter().zip(&apart) {
                    assert_eq!(within.name, apart.name);
                    let both = [within, apart].map(|of| of.verified.algorithm());
                    let pairs = both[0].ranks.iter().zip(&both[1].ranks).enumerate();
                    for (rank, (within, apart)) in pairs {
                        if wanted.root() == Some(Rank::from(rank)) {
                            assert_eq!(traffic(within), traffic(apart), "{wanted:?} {ranks}");
                        } else {
                            assert_eq!(within, apart, "{wanted:?} {ranks} r{rank}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_collective_is_served_for_every_number_of_ranks() {
        for ranks in [1, 2, 3, 4, 5, 7, 8, 13, 16, 24] {
            let shape = Shape { ranks, per_node: ranks };
            for wanted in wanted(ranks) {
                for placement in [Placement::InPlace, Placement::OutOfPlace] {
                    let entries = built_ins(shape, wanted, placement);
                    assert!(!entries.is_empty(), "{wanted:?} of {ranks} ranks {placement}");
                    for entry in entries {
                        let algorithm = entry.verified.algorithm();
                        assert!(wanted.is(&algorithm.collective.kind), "{}", entry.name);
                        assert_eq!(algorithm.placement, placement, "{}", entry.name);
                    }
                }
            }
        }
    }
}

//! Programs that synthesis writes are compiled and proved, and what the proved schedules put on
//! links is held against bounds.

mod machines;
mod proved;

use msccl_collective::{CollectiveKind, Rank};
use msccl_synthesize::Options;
use num_rational::Ratio;

use machines::machine;
use proved::Proved;

#[test]
fn explore() {
    let exact = Options { chunks_max: 1024, slack: Ratio::from_integer(0), ..Options::default() };
    for name in machines::ALL {
        for options in [Options::default(), exact] {
            for kind in [
                CollectiveKind::AllGather,
                CollectiveKind::ReduceScatter,
                CollectiveKind::AllReduce,
                CollectiveKind::Broadcast(Rank(0)),
                CollectiveKind::Reduce(Rank(1)),
            ] {
                let start = std::time::Instant::now();
                let cluster = machine(name);
                let proved = Proved::of(&cluster, kind, &options);
                eprintln!(
                    "{name:20} {kind:20} chunks {:4} trees {:4} height {:2} plan {} times bound {:.4} search {:.3} s all {:.3} s",
                    proved.plan.chunks,
                    proved.plan.forests().map(|it| it.trees.len()).sum::<usize>(),
                    proved.plan.forests().flat_map(|it| &it.trees).map(|it| it.height()).max().unwrap(),
                    proved.plan.seconds_per_byte() == proved.seconds_per_byte,
                    proved.times_bound(),
                    proved.search_s,
                    start.elapsed().as_secs_f64(),
                );
            }
        }
    }
}

//! The optimum by trying all cuts.

use msccl_topology::cluster::Cluster;
use num_rational::Ratio;

/// The least time of an all-gather for a byte of its output: over all sets that lack a GPU, the
/// blocks inside for the rate that leaves. Links must be the same both ways for this to be that of
/// a reduce-scatter, too.
pub fn gather_seconds_per_byte(cluster: &Cluster) -> Ratio<u128> {
    let vertices = cluster.vertices().len();
    assert!(vertices <= 20, "all sets of {vertices} vertices are too many");
    let gpus = cluster.gpus().fold(0_u32, |all, gpu| all | 1 << gpu.0);
    let of = |set: u32| {
        let leaving = cluster.links().iter();
        let leaving = leaving.filter(|it| set >> it.from.0 & 1 == 1 && set >> it.to.0 & 1 == 0);
        let rate: u128 = leaving.map(|it| u128::from(it.rate.mb_per_s())).sum();
        let blocks = u128::from((set & gpus).count_ones());
        Ratio::new(blocks, u128::from(gpus.count_ones()) * rate * 1_000_000)
    };
    let sets = (1..1_u32 << vertices).filter(|set| set & gpus != gpus && set & gpus != 0);
    sets.map(of).max().unwrap()
}

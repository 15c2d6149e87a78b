//! The largest bound of all cuts, by trying them.

use msccl_collective::CollectiveKind;
use msccl_topology::cluster::{Cluster, VertexKind};
use num_rational::Ratio;

/// Seconds per byte that the best cut of `cluster` shows for `kind`; `None` if data cannot leave a
/// set that it must leave.
pub fn best_cut(cluster: &Cluster, kind: CollectiveKind) -> Option<Ratio<u128>> {
    let vertices = cluster.vertices().len();
    assert!(vertices <= 16, "too many cuts");
    let links: Vec<(u32, u32, u128)> = cluster
        .links()
        .iter()
        .map(|link| (link.from.0, link.to.0, u128::from(link.rate.mb_per_s())))
        .collect();
    let gpus: Vec<u32> = (0..vertices as u32)
        .filter(|at| cluster.vertices()[*at as usize].kind == VertexKind::Gpu)
        .collect();
    let mut best = Ratio::new(0, 1);
    for set in 0_u32..1 << vertices {
        let holds = |vertex: u32| set >> vertex & 1 == 1;
        let leaving = links.iter().filter(|link| holds(link.0) && !holds(link.1));
        let rate: u128 = leaving.map(|link| link.2).sum();
        let sent = sent_bytes(kind, &gpus, holds);
        if *sent.numer() > 0 {
            if rate == 0 {
                return None;
            }
            best = best.max(sent / (rate * 1_000_000));
        }
    }
    Some(best)
}

/// What must leave a set, in calls: by going through all blocks and what each GPU needs of them.
fn sent_bytes(kind: CollectiveKind, gpus: &[u32], holds: impl Fn(u32) -> bool) -> Ratio<u128> {
    let count = gpus.len() as u128;
    let (inside, outside): (Vec<u32>, Vec<u32>) = gpus.iter().partition(|gpu| holds(**gpu));
    if inside.is_empty() || outside.is_empty() {
        return Ratio::new(0, 1);
    }
    let root = kind.root().map(|root| gpus[root.0 as usize]);
    let blocks = match kind {
        CollectiveKind::AllGather => inside.len(),
        CollectiveKind::ReduceScatter => outside.len(),
        CollectiveKind::AllReduce => gpus.len(),
        CollectiveKind::AllToAll => inside.len() * outside.len(),
        CollectiveKind::Broadcast(_) => {
            root.filter(|it| inside.contains(it)).map_or(0, |_| gpus.len())
        }
        CollectiveKind::Reduce(_) => {
            root.filter(|it| outside.contains(it)).map_or(0, |_| gpus.len())
        }
        CollectiveKind::Gather(_) => {
            root.filter(|it| outside.contains(it)).map_or(0, |_| inside.len())
        }
        CollectiveKind::Scatter(_) => {
            root.filter(|it| inside.contains(it)).map_or(0, |_| outside.len())
        }
    };
    Ratio::new(blocks as u128, count)
}

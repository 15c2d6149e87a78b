//! Random clusters, whose links have nothing even about them.

use msccl_bounds::{BoundError, SwitchModel, bound, check, check_latency, latency};
use msccl_collective::CollectiveKind;
use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, ClusterLink, Medium, VertexIndex, VertexKind};
use num_rational::Ratio;
use proptest::prelude::*;

use crate::{brute_force, kinds};

/// The ends of a link, and its rate in MB/s.
type DrawnLink = (u32, u32, u32);

/// At least two GPUs among at most nine vertices; not always with paths between all of them.
fn drawn() -> impl Strategy<Value = Cluster> {
    (2_u32..=9).prop_flat_map(|count| {
        let is_gpu = prop::collection::vec(any::<bool>(), count as usize);
        let link = (0..count, 0..count, 0_u32..30);
        let links = prop::collection::vec(link, (2 * count) as usize..(5 * count) as usize);
        (is_gpu, links).prop_map(|(is_gpu, links)| cluster(&is_gpu, &links))
    })
}

fn cluster(is_gpu: &[bool], links: &[DrawnLink]) -> Cluster {
    let mut cluster = Cluster::new("random");
    for (at, is_drawn) in is_gpu.iter().enumerate() {
        // The first and the last one are GPUs in any case.
        let kind = if *is_drawn || at == 0 || at + 1 == is_gpu.len() {
            VertexKind::Gpu
        } else {
            VertexKind::Switch
        };
        cluster.add(format!("vertex{at}"), kind, Some(at as u32 / 3));
    }
    for &(from, to, rate) in links {
        cluster.add_link(ClusterLink {
            from: VertexIndex(from),
            to: VertexIndex(to),
            rate: Bandwidth::from_mb_per_s(rate),
            latency_ns: from * 7 + to * 11,
            medium: Medium::Cable,
        });
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn bounds_of_random_clusters_are_the_best_of_all_cuts(cluster in drawn()) {
        for kind in kinds(&cluster) {
            let found = bound(&cluster, kind, SwitchModel::Compute);
            match (found, brute_force::best_cut(&cluster, kind)) {
                (Err(BoundError::NoPath { .. }), None) => {
                    prop_assert!(latency(&cluster, kind).is_err());
                }
                (Ok(found), Some(expected)) => {
                    if kind != CollectiveKind::AllToAll {
                        prop_assert_eq!(found.seconds_per_byte, expected);
                    }
                    prop_assert!(found.seconds_per_byte > Ratio::new(0, 1));
                    prop_assert_eq!(check(&cluster, &found), Ok(()));
                    if kind == CollectiveKind::AllReduce {
                        let more = bound(&cluster, kind, SwitchModel::Forward).unwrap();
                        prop_assert!(more.seconds_per_byte >= found.seconds_per_byte);
                        prop_assert_eq!(check(&cluster, &more), Ok(()));
                    }
                    let least = latency(&cluster, kind).unwrap();
                    prop_assert_eq!(check_latency(&cluster, &least), Ok(()));
                }
                (found, expected) => prop_assert!(false, "{kind}: {found:?}, not {expected:?}"),
            }
        }
    }
}

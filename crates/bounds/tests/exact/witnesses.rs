//! The checker refuses what was tampered with.

use msccl_bounds::{
    Bound, SwitchModel, Theorem, VertexSet, Witness, WitnessError, bound, check, check_latency,
    latency,
};
use msccl_collective::{CollectiveKind, Rank};
use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, ClusterLink, VertexIndex};
use num_rational::Ratio;

use crate::{clusters, kinds};

fn all_bounds(cluster: &Cluster) -> Vec<Bound> {
    let models = [SwitchModel::Forward, SwitchModel::Compute];
    let pairs =
        models.into_iter().flat_map(|model| kinds(cluster).into_iter().map(move |it| (it, model)));
    pairs.map(|(kind, model)| bound(cluster, kind, model).expect("a bound")).collect()
}

#[test]
fn another_time_is_refused() {
    for cluster in clusters::all() {
        for found in all_bounds(&cluster) {
            let time = found.seconds_per_byte;
            let (numerator, denominator) = (*time.numer(), *time.denom());
            let others = [
                Ratio::new(numerator + 1, denominator),
                Ratio::new(numerator, denominator + 1),
                Ratio::new(0, 1),
                Ratio::new_raw(1, 0),
            ];
            for other in others {
                let tampered = Bound { seconds_per_byte: other, ..found.clone() };
                let error = check(&cluster, &tampered).unwrap_err();
                assert!(matches!(error, WitnessError::Differs { .. }), "{error}");
            }
        }
    }
}

/// If a link of the witness were faster, the bound would not hold.
#[test]
fn a_bound_of_another_cluster_is_refused() {
    for cluster in clusters::all() {
        for found in all_bounds(&cluster) {
            let mut faster = Cluster::new("faster");
            for vertex in cluster.vertices() {
                faster.add(vertex.name.clone(), vertex.kind, vertex.node);
            }
            for link in cluster.links() {
                let rate = Bandwidth::from_mb_per_s(link.rate.mb_per_s() + 1);
                faster.add_link(ClusterLink { rate, ..*link });
            }
            let error = check(&faster, &found).unwrap_err();
            assert!(matches!(error, WitnessError::Differs { .. }), "{error}");
        }
    }
}

/// A vertex more or less in a cut shows another time, or nothing, or a cut that is as good.
#[test]
fn a_cut_with_another_vertex_shows_no_more() {
    for cluster in clusters::all() {
        for found in all_bounds(&cluster) {
            let Witness::Cut { inside } = &found.witness else { continue };
            for at in 0..cluster.vertices().len() as u32 {
                let other = inside ^ &VertexSet::from([VertexIndex(at)]);
                let witness = Witness::Cut { inside: other };
                let tampered = Bound {
                    seconds_per_byte: found.seconds_per_byte * Ratio::new(1001, 1000),
                    witness,
                    ..found.clone()
                };
                check(&cluster, &tampered).unwrap_err();
            }
        }
    }
}

fn refused(cluster: &Cluster, found: &Bound, witness: Witness) -> WitnessError {
    check(cluster, &Bound { witness, ..found.clone() }).expect_err("another witness")
}

#[test]
fn cuts_that_show_nothing_are_refused() {
    let cluster = clusters::switch(4);
    let find = |kind| bound(&cluster, kind, SwitchModel::Forward).unwrap();
    let [switch, gpu0, gpu1] = [0, 1, 2].map(VertexIndex);
    let all: VertexSet = (0..5).map(VertexIndex).collect();
    let gather = find(CollectiveKind::AllGather);
    for inside in [VertexSet::new(), [switch].into(), all] {
        let error = refused(&cluster, &gather, Witness::Cut { inside });
        assert_eq!(error, WitnessError::NothingToSend);
    }
    let far = VertexIndex(5);
    let error = refused(&cluster, &gather, Witness::Cut { inside: [gpu0, far].into() });
    assert_eq!(error, WitnessError::NoSuchVertex { vertex: far, vertices: 5 });
    // The root must be on the right side.
    for kind in [CollectiveKind::Broadcast, CollectiveKind::Scatter] {
        let witness = Witness::Cut { inside: [gpu1].into() };
        let error = refused(&cluster, &find(kind(Rank(0))), witness);
        assert_eq!(error, WitnessError::NothingToSend);
    }
    for kind in [CollectiveKind::Reduce, CollectiveKind::Gather] {
        let witness = Witness::Cut { inside: [gpu0].into() };
        let error = refused(&cluster, &find(kind(Rank(0))), witness);
        assert_eq!(error, WitnessError::NothingToSend);
    }
}

#[test]
fn partitions_must_be_ones() {
    let cluster = clusters::switch(4);
    let found = bound(&cluster, CollectiveKind::AllReduce, SwitchModel::Forward).unwrap();
    let groups = |groups: &[&[u32]]| {
        let group = |group: &&[u32]| group.iter().map(|at| VertexIndex(*at)).collect();
        Witness::Partition { groups: groups.iter().map(group).collect() }
    };
    let whole = groups(&[&[1], &[2], &[3], &[4]]);
    assert_eq!(found.witness, whole);
    let refused = |witness| refused(&cluster, &found, witness);
    let vertex = "gpu0".to_owned();
    assert_eq!(
        refused(groups(&[&[1], &[1, 2], &[3], &[4]])),
        WitnessError::GroupsOverlap { vertex }
    );
    let gpu = "gpu3".to_owned();
    assert_eq!(refused(groups(&[&[1], &[2], &[3]])), WitnessError::GpuLeftOut { gpu });
    let without = groups(&[&[1], &[2], &[0], &[3], &[4]]);
    assert_eq!(refused(without), WitnessError::GroupWithoutGpu { group: 2 });
    assert_eq!(refused(groups(&[&[1, 2, 3, 4]])), WitnessError::NothingToSend);
    let vertex = VertexIndex(9);
    assert_eq!(refused(groups(&[&[9]])), WitnessError::NoSuchVertex { vertex, vertices: 5 });
    // Another partition shows another time.
    let error = refused(groups(&[&[1], &[2], &[3, 4]]));
    assert!(matches!(error, WitnessError::Differs { .. }), "{error}");
    // With switches that add, it shows nothing.
    let computing = Bound { switches: SwitchModel::Compute, ..found.clone() };
    let kind = CollectiveKind::AllReduce;
    let wrong = WitnessError::WrongTheorem { theorem: Theorem::Partition, kind };
    assert_eq!(check(&cluster, &computing), Err(wrong));
}

#[test]
fn lengths_must_fit() {
    let cluster = clusters::one_way_ring(5);
    let kind = CollectiveKind::AllToAll;
    let found = bound(&cluster, kind, SwitchModel::Forward).unwrap();
    let lengths = |links: &[u32]| Witness::Lengths { links: links.to_vec() };
    // Equal lengths show the same, whatever they are.
    for links in [[1; 5], [7; 5], [u32::MAX; 5]] {
        check(&cluster, &Bound { witness: lengths(&links), ..found.clone() }).unwrap();
    }
    let error = refused(&cluster, &found, lengths(&[1; 4]));
    assert_eq!(error, WitnessError::WrongCount { expected: 5, found: 4 });
    assert_eq!(refused(&cluster, &found, lengths(&[0; 5])), WitnessError::NoRate);
    let kind = CollectiveKind::AllGather;
    let other = Bound { kind, ..found };
    let wrong = WitnessError::WrongTheorem { theorem: Theorem::Lengths, kind };
    assert_eq!(check(&cluster, &other), Err(wrong));
}

#[test]
fn latencies_that_are_not_shown_are_refused() {
    for cluster in clusters::all() {
        for kind in kinds(&cluster) {
            let found = latency(&cluster, kind).unwrap();
            let mut more = found.clone();
            more.nanoseconds += 1;
            let error = check_latency(&cluster, &more).unwrap_err();
            assert!(matches!(error, WitnessError::Differs { .. }), "{error}");
            more.distances_ns[found.to.index()] += 1;
            let error = check_latency(&cluster, &more).unwrap_err();
            assert!(matches!(error, WitnessError::TooFar { .. }), "{error}");
            let mut shifted = found.clone();
            shifted.distances_ns.iter_mut().for_each(|distance| *distance += 1);
            shifted.nanoseconds += 1;
            assert!(check_latency(&cluster, &shifted).is_err());
            let mut short = found.clone();
            short.distances_ns.pop();
            let error = check_latency(&cluster, &short).unwrap_err();
            assert!(matches!(error, WitnessError::WrongCount { .. }), "{error}");
            let mut same = found.clone();
            same.to = same.from;
            let error = check_latency(&cluster, &same).unwrap_err();
            assert!(matches!(error, WitnessError::NotNeeded { .. }), "{error}");
        }
    }
}

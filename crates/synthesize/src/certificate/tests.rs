use msccl_bounds::{Crossing, SwitchModel, VertexSet, Witness, bound};
use msccl_collective::Rank;
use msccl_topology::cluster::presets::preset;
use msccl_topology::cluster::{ClusterLink, Medium};

use super::*;

fn certificate(cluster: &Cluster, kind: CollectiveKind) -> Certificate {
    let found = bound(&routed_cluster(cluster), kind, SwitchModel::Forward).unwrap();
    let ranks = cluster.gpus().count() as u32;
    Certificate { ranks, seconds_per_byte: found.seconds_per_byte * 3 / 2, bound: found }
}

#[test]
fn what_is_written_is_read() {
    for name in ["dgx1-v100", "pcie-4", "hgx-h100-8", "gb200-nvl72"] {
        let cluster = preset(name).unwrap();
        for kind in CollectiveKind::ALL {
            let written = certificate(&cluster, kind);
            let lines = written.lines(&cluster);
            assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
            let text = format!("// A program.\n{}\nalgorithm", lines.join("\n"));
            assert!(Certificate::is_in(&text));
            assert_eq!(Certificate::read(&text, &cluster), Ok(Some(written)), "{text}");
        }
    }
}

/// Each GPU of a DGX-1 is reached by its NVLinks and by the link between its processors, and a
/// partition of the GPUs counts twice as much.
fn over_routes(cluster: &Cluster) -> Certificate {
    let gpus: Vec<VertexSet> = cluster.gpus().map(|gpu| [gpu].into()).collect();
    let all: VertexSet = cluster.gpus().collect();
    let around = |gpu: &VertexSet| all.difference(gpu).copied().collect();
    let mut crossings: Vec<Crossing> =
        gpus.iter().map(|gpu| Crossing { weight: 1, groups: vec![around(gpu)] }).collect();
    crossings.push(Crossing { weight: 2, groups: gpus });
    let is_long = |link: &&ClusterLink| matches!(link.medium, Medium::NvLink | Medium::Socket);
    let links = cluster.links().iter().map(|link| if is_long(&link) { 3 } else { 0 }).collect();
    let mut found = certificate(cluster, CollectiveKind::AllReduce);
    found.bound.witness = Witness::Routes { crossings, links };
    // 8 · S for the cuts, 2 · 14 · S for the partition, over 3 · 972 GB/s.
    found.bound.seconds_per_byte = Ratio::new(36, 3 * 972_000_000_000);
    found
}

#[test]
fn witnesses_about_routes_are_read_and_checked() {
    let cluster = preset("dgx1-v100").unwrap();
    let whole = over_routes(&cluster);
    let lines = whole.lines(&cluster);
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
    assert_eq!(Certificate::read(&lines.join("\n"), &cluster), Ok(Some(whole.clone())));
    let routes = all_routes(&cluster);
    let checked = |text: &str| {
        let bound = Certificate::read(text, &cluster).unwrap().unwrap().bound;
        check_over_routes(&routed_cluster(&cluster), &routes, &bound)
    };
    let text = lines.join("\n");
    assert_eq!(checked(&text), Ok(()));
    let refused = [
        ("weight 2\n", "weight 3\n"),
        ("weight 1\n", "weight 2\n"),
        ("length 0 3\n", "length 0 2\n"),
        ("bound 1/81", "bound 1/80"),
        ("cut gpu1 gpu2 gpu3", "cut gpu1 gpu2"),
    ];
    for (old, new) in refused {
        assert!(text.contains(old), "{old}{text}");
        assert!(checked(&text.replace(old, new)).is_err(), "{new}");
    }
    for (old, new) in [
        ("weight 2\n", "weight two\n"),
        ("weight 2\n", "weight\n"),
        ("weight 2\n", ""),
        ("cut", "weight 1\n// certificate: cut"),
        ("length 0 3\n", "length 3\n"),
    ] {
        let error = Certificate::read(&text.replace(old, new), &cluster).unwrap_err();
        assert!(error.line().is_some(), "{new}: {error}");
    }
}

#[test]
fn no_line_is_no_certificate() {
    let cluster = preset("pcie-4").unwrap();
    assert_eq!(Certificate::read("// nothing\n", &cluster), Ok(None));
    assert!(!Certificate::is_in("// nothing\n"));
}

#[test]
fn lines_that_say_nothing_are_located() {
    let cluster = preset("pcie-4").unwrap();
    let whole = certificate(&cluster, CollectiveKind::Broadcast(Rank(2))).lines(&cluster);
    let with = |at: usize, line: &str| {
        let mut lines = whole.clone();
        lines[at] = format!("// certificate: {line}");
        Certificate::read(&format!("\n{}", lines.join("\n")), &cluster)
    };
    for (at, line) in [
        (0, "broadcast over 4 ranks"),
        (0, "allgather from rank 1 over 4 ranks"),
        (0, "dance over 4 ranks"),
        (0, "broadcast from rank 2 over many ranks"),
        (1, "takes long"),
        (1, "takes 1/0 s/byte"),
        (1, "takes -1/3 s/byte"),
        (2, "takes 1/3 s/byte"),
        (2, "bound 340282366920938463463374607431768211455/7 s/byte"),
        (3, "cat gpu0"),
        (3, "cut gpu9"),
        (3, "length 0 x"),
        (3, "length 1000 1"),
        (3, "length"),
    ] {
        let error = with(at, line).unwrap_err();
        assert_eq!(error.line(), Some(at + 2), "{error}");
    }
    for kept in 1..3 {
        let text = whole[..kept].join("\n");
        assert_eq!(Certificate::read(&text, &cluster).unwrap_err().line(), Some(kept));
    }
}

#[test]
fn claims_that_are_not_true_are_refused() {
    let cluster = preset("pcie-4").unwrap();
    let kind = CollectiveKind::AllGather;
    // Every link carries one chunk of four.
    let loads = LinkLoads { chunks: vec![1; cluster.links().len()], chunks_of_call: 4 };
    let found = bound(&routed_cluster(&cluster), kind, SwitchModel::Forward).unwrap();
    let whole = Certificate::new(4, &loads, &cluster, found).unwrap();
    // The cable carries 12.5 GB/s.
    assert_eq!(whole.seconds_per_byte, Ratio::new(1, 4 * 12_500_000_000));
    let check = |it: &Certificate| it.check(kind, 4, &loads, &cluster);
    assert_eq!(check(&whole), Ok(()));
    assert!(whole.check(CollectiveKind::AllReduce, 4, &loads, &cluster).is_err());
    assert!(Certificate { ranks: 5, ..whole.clone() }.check(kind, 4, &loads, &cluster).is_err());

    let faster = Certificate { seconds_per_byte: whole.seconds_per_byte / 2, ..whole.clone() };
    assert!(matches!(check(&faster), Err(CertificateError::OtherTime { .. })));
    let mut higher = whole.clone();
    higher.bound.seconds_per_byte *= 2;
    assert!(matches!(check(&higher), Err(CertificateError::Witness(_))));
    let mut elsewhere = whole;
    elsewhere.bound.witness = Witness::Cut { inside: VertexSet::new() };
    assert!(matches!(check(&elsewhere), Err(CertificateError::Witness(_))));
}

//! All-to-alls: programs that are proved, and how near they are to the bound of linear programming.

use std::time::{Duration, Instant};

use msccl_bounds::Witness;
use msccl_collective::CollectiveKind;
use msccl_synthesize::{Ending, Options, Phase, SynthesisError, plan};
use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, Medium, VertexKind};
use num_rational::Ratio;

use crate::machines::{self, machine};
use crate::proved::Proved;
use crate::{patient, random};

/// Proves the program and its certificate, and that links carry what is planned.
fn proved(cluster: &Cluster, options: &Options) -> Proved {
    let proved = Proved::of(cluster, CollectiveKind::AllToAll, options);
    let name = cluster.name();
    assert_eq!(proved.seconds_per_byte, proved.plan.seconds_per_byte(), "{name}");
    assert!(matches!(proved.plan.phases[..], [Phase::Exchange(_)]), "{name}");
    proved
}

/// Few chunks suffice for the optimum on all these machines, and a cut or lengths show that it is
/// the optimum.
#[test]
fn blocks_are_exchanged_at_the_bound_on_every_machine() {
    let few = machines::ALL.iter().filter(|name| **name != "dgx1-v100");
    for name in few.chain(&["rails", "pcie-4"]) {
        let proved = proved(&machine(name), &patient());
        let (times, summary) = (proved.times_bound(), proved.plan.summary());
        eprintln!("{name}: {times} times the bound; {summary}");
        assert_eq!(times, 1.into(), "{name}: {summary}");
    }
}

/// A DGX-1 with the PCI links beside its NVLinks has too many sorts of links for few chunks.
#[test]
fn the_loss_of_whole_chunks_is_certified() {
    let proved = proved(&machine("dgx1-v100"), &patient());
    let times = proved.times_bound();
    assert!(times > 1.into() && times <= Ratio::new(201, 200), "{times}");
}

/// Two sets of three GPUs, and a link from each of one to each of the other set. Of the other five
/// GPUs three are one link away and two are two, and no cut shows as much.
#[test]
fn lengths_show_what_no_cut_does() {
    let mut cluster = Cluster::new("two sets of three");
    let gpus: Vec<_> =
        (0..6).map(|at| cluster.add(format!("gpu{at}"), VertexKind::Gpu, Some(0))).collect();
    for (one, other) in (0..3).flat_map(|one| (3..6).map(move |other| (one, other))) {
        let rate = Bandwidth::from_mb_per_s(1000);
        cluster.join(gpus[one], gpus[other], rate, 700, Medium::NvLink);
    }
    let proved = proved(&cluster, &patient());
    assert_eq!(proved.plan.bound.witness, Witness::Lengths { links: vec![1; 18] });
    // Seven links for each GPU's sixths, shared by the three links that leave it.
    assert_eq!(proved.plan.bound.seconds_per_byte, Ratio::new(7, 6 * 3 * 1_000_000_000));
    assert_eq!(proved.times_bound(), 1.into());
}

#[test]
fn random_graphs_are_near_to_the_bound() {
    for (vertices, seed) in [(6, 1), (8, 2), (9, 3), (11, 4), (12, 5), (16, 6)] {
        for cluster in [random::gpus(vertices, seed), random::at_switches(vertices, seed)] {
            let proved = proved(&cluster, &patient());
            let times = proved.times_bound();
            assert!(times <= Ratio::new(21, 20), "{vertices} vertices, seed {seed}: {times}");
        }
    }
}

#[test]
fn without_time_the_first_paths_must_do() {
    let none = Options { time: Duration::ZERO, ..Options::default() };
    let proved = proved(&machine("torus"), &none);
    assert_eq!(proved.plan.ending, Ending::TimeOver);
    assert!(proved.times_bound() >= 1.into());
}

#[test]
fn many_ranks_are_refused_with_a_reason() {
    let cluster = machine("hgx-h100-8*17");
    let error = plan(&cluster, CollectiveKind::AllToAll, &Options::default()).unwrap_err();
    assert!(matches!(error, SynthesisError::TooManyRanks { ranks: 136, ranks_max: 128, .. }));
    assert!(error.to_string().contains("at most 128 ranks for alltoall, found 136"), "{error}");
}

#[test]
fn gpus_that_nothing_joins_are_refused() {
    let mut ring = machine("ring");
    ring.add("gpu8", VertexKind::Gpu, Some(0));
    let error = plan(&ring, CollectiveKind::AllToAll, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("expected a path from `gpu"), "{error}");
}

/// Compiler and proof included.
#[test]
fn exchanges_are_found_fast() {
    if cfg!(debug_assertions) {
        return eprintln!("SKIPPED: times are for builds with --release");
    }
    for (name, limit_s) in [("hgx-h100-8*2", 0.3), ("hgx-h100-8*8", 3.0), ("hgx-h100-8*16", 15.0)] {
        let start = Instant::now();
        let times = proved(&machine(name), &Options::default()).times_bound();
        let took_s = start.elapsed().as_secs_f64();
        eprintln!("alltoall on {name}: {took_s:.3} s, {times} times the bound");
        assert!(took_s <= limit_s, "{name}: {took_s:.3} s, at most {limit_s} s");
    }
}

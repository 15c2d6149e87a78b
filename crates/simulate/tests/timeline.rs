//! Timelines: what must hold of the times, and the two pictures.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

use msccl_collective::Protocol;
use msccl_ir::{Algorithm, Target};
use msccl_plan::cut::Cut;
use msccl_plan::{Plan, Program};
use msccl_simulate::model::{Calibration, Cause, Execution, KernelKind, Rates, Workload, estimate};
use msccl_simulate::timeline::{self, Subject, Timeline, timeline};
use msccl_testkit::collectives;
use msccl_topology::cluster::Cluster;
use msccl_topology::cluster::presets::{hgx, preset};

const SLOT_BYTES: u64 = 128 << 10;
const DEPTH: u32 = 8;

fn programs(algorithm: &Algorithm) -> Vec<Program> {
    let verified = msccl_verify::verify(algorithm.clone(), &Target::native()).unwrap();
    let plans = Plan::all(&verified).unwrap();
    plans.iter().map(|plan| plan.program().clone()).collect()
}

/// A call of `bytes` bytes a block, by one instance of the interpreter under Simple.
fn execution(programs: &[Program], bytes: u64) -> Execution {
    let cut = Cut::within(&programs[0], bytes, 1, 1, Protocol::Simple, SLOT_BYTES).unwrap();
    Execution { kernel: KernelKind::Simple, threads: 512, cut, depth: DEPTH }
}

fn rates() -> Rates {
    Calibration::h200().rates
}

fn us(algorithm: &Algorithm, cluster: &Cluster, rates: &Rates, bytes: u64) -> f64 {
    let programs = programs(algorithm);
    let execution = execution(&programs, bytes);
    let workload = Workload::new(&programs, cluster, rates, execution).unwrap();
    estimate(&workload, rates).unwrap().total_us
}

fn of(algorithm: &Algorithm, bytes: u64) -> Timeline {
    let programs = programs(algorithm);
    let cluster = hgx(1, programs.len() as u32).unwrap();
    let rates = rates();
    let execution = execution(&programs, bytes);
    let workload = Workload::new(&programs, &cluster, &rates, execution).unwrap();
    let subject = Subject {
        name: algorithm.name.clone(),
        bytes,
        assumptions: "a test".to_owned(),
        service: "Simple".to_owned(),
    };
    timeline(subject, &workload, &rates, &cluster).unwrap()
}

#[test]
fn spans_follow_one_another_and_waiting_lies_between() {
    for algorithm in collectives::all() {
        let timeline = of(&algorithm, 1 << 20);
        assert!(timeline.rows.iter().any(|row| !row.spans.is_empty()), "{}", algorithm.name);
        for row in &timeline.rows {
            assert!(row.spans.iter().all(|span| span.wait_us <= span.start_us));
            assert!(row.spans.iter().all(|span| span.start_us < span.end_us));
            assert!(row.spans.windows(2).all(|pair| pair[0].end_us <= pair[1].start_us));
            assert!(row.spans.iter().all(|span| span.end_us <= timeline.shown_us));
        }
        assert!(timeline.shown_us <= timeline.total_us * 1.001, "{}", algorithm.name);
    }
}

#[test]
fn the_chain_of_a_ring_has_all_its_messages() {
    let timeline = of(&collectives::ring(8, 1), 8 << 10);
    let messages =
        timeline.critical.iter().filter(|step| matches!(step.cause, Cause::Message(_))).count();
    assert_eq!((timeline.critical.len(), messages), (15, 14));
    let pairs = timeline.critical.windows(2);
    assert!(pairs.into_iter().all(|pair| pair[0].start_us < pair[1].start_us));
}

#[test]
fn more_hops_and_more_bytes_take_longer() {
    let cluster = hgx(1, 8).unwrap();
    let us = |ranks: u32, bytes| us(&collectives::ring(ranks, 1), &cluster, &rates(), bytes);
    let hop_us = (us(8, 8) - us(4, 8)) / 8.0;
    assert!((2.0..6.0).contains(&hop_us), "{hop_us} µs");
    let (one, two) = (us(8, 64 << 20), us(8, 128 << 20));
    assert!((1.9..2.1).contains(&(two / one)), "{one} µs, {two} µs");
}

#[test]
fn nothing_is_faster_than_its_links() {
    // A ring of 8 sends 7/4 of the bytes over the link of each GPU.
    let bytes = 256_u64 << 20;
    let cluster = hgx(1, 8).unwrap();
    let mut fast = rates();
    fast.kernels.iter_mut().for_each(|kernel| {
        for cost in [&mut kernel.load, &mut kernel.receive, &mut kernel.store, &mut kernel.send] {
            (cost.block_ns, cost.thread_ns) = (0.0, 0.0);
        }
        (kernel.reduce.block_ns, kernel.reduce.thread_ns) = (0.0, 0.0);
        (kernel.step_ns, kernel.receive_ns, kernel.load_ns) = (0.0, 0.0, 0.0);
        (kernel.commit_ns, kernel.latency_ns, kernel.credit_ns) = (0.0, 0.0, 0.0);
    });
    fast.memory_bytes_per_ns = 1e6;
    let floor_us = 1.75 * bytes as f64 / 370.8 / 1000.0;
    let found_us = us(&collectives::ring(8, 1), &cluster, &fast, bytes);
    assert!(found_us >= floor_us && found_us < 8.0 * floor_us, "{found_us} µs, {floor_us} µs");
}

#[test]
fn a_slow_nic_is_what_a_call_between_nodes_takes() {
    let bytes = 256_u64 << 20;
    let ring = collectives::ring(4, 1);
    let two_nodes = hgx(2, 2).unwrap();
    let slow = msccl_topology::cluster::degrade::slow(&two_nodes, "node0.nic1-fabric=0.1").unwrap();
    let [usual_us, slow_us] = [&two_nodes, &slow].map(|of| us(&ring, of, &rates(), bytes));
    // 3/2 of the bytes go over 5 GB/s instead of 50.
    let floor_us = 1.5 * bytes as f64 / 5.0 / 1000.0;
    assert!(slow_us >= floor_us && slow_us < 3.0 * floor_us, "{slow_us} µs, {floor_us} µs");
    assert!(usual_us < 0.9 * slow_us, "{usual_us} µs, {slow_us} µs");
    let node = hgx(1, 4).unwrap();
    assert!(us(&ring, &node, &rates(), bytes) < usual_us);
}

#[test]
fn several_gpus_share_what_joins_them() {
    // On a PCI box all four GPUs send through links of 24 GB/s.
    let bytes = 64_u64 << 20;
    let one_shot = collectives::one_shot(4, 1);
    let pci_us = us(&one_shot, &preset("pcie-4").unwrap(), &rates(), bytes);
    let floor_us = 3.0 * bytes as f64 / 24.0 / 1000.0;
    assert!(pci_us >= floor_us, "{pci_us} µs, {floor_us} µs");
}

#[test]
fn the_text_shows_a_letter_for_each_step() {
    let timeline = of(&collectives::broadcast(3, 1, 0), 64 << 10);
    let text = timeline::text(&timeline);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "assumes a test");
    assert!(lines[1].starts_with("by_hand, 65536 bytes: "), "{text}");
    assert!(lines[1].ends_with(" µs; Simple"), "{text}");
    for (line, letter) in lines[2..5].iter().zip(['*', 'f', 'r']) {
        assert!(line.contains(letter) && line.ends_with('%'), "{text}");
    }
    // The last rank waits for the others first.
    let last = lines[4];
    assert!(last.find('.').unwrap() < last.find('r').unwrap() || last.contains("..r"), "{text}");
    assert!(text.contains("busiest link: node0.gpu"), "{text}");
    assert!(text.contains("for a message, "), "{text}");
}

#[test]
fn the_picture_has_a_rectangle_for_each_step() {
    let timeline = of(&collectives::ring(4, 1), 1 << 20);
    let svg = timeline::svg(&timeline);
    assert!(
        svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n")
    );
    let steps = timeline.rows.iter().map(|row| row.spans.len()).sum::<usize>();
    assert_eq!(svg.matches("<title>").count(), steps);
    assert!(svg.contains("<title>r0 tb0 s0 s, round 0: "));
}

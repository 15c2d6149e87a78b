//! Timelines: what must hold of the times, and the two pictures.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

use msccl_collective::Protocol;
use msccl_ir::{Algorithm, Target};
use msccl_simulate::timeline::{self, CostModel, Timeline, Untimed, timeline};
use msccl_testkit::collectives;

fn of(algorithm: &Algorithm, bytes: u64) -> Timeline {
    let cost = CostModel::nvswitch(Protocol::Simple);
    timeline(algorithm, &Target::native(), &cost, bytes).unwrap()
}

#[test]
fn every_step_has_a_span_and_spans_follow_one_another() {
    for algorithm in collectives::all() {
        let timeline = of(&algorithm, 1 << 20);
        let spans: usize = timeline.rows.iter().map(|row| row.spans.len()).sum::<usize>();
        assert_eq!(spans as u64, algorithm.step_count() as u64 * timeline.rounds);
        for row in &timeline.rows {
            assert!(row.spans.iter().all(|span| span.start_us < span.end_us));
            assert!(row.spans.windows(2).all(|pair| pair[0].end_us <= pair[1].start_us));
            assert!(row.spans.iter().all(|span| span.end_us <= timeline.total_us));
        }
    }
}

#[test]
fn a_ring_costs_its_hops_when_small_and_its_bytes_when_large() {
    let ring = collectives::ring(8, 1);
    let cost = CostModel::nvswitch(Protocol::Simple);
    let hops_us = cost.launch_us + 14.0 * cost.latency_us;
    let small_us = of(&ring, 8).total_us;
    assert!((hops_us..1.2 * hops_us).contains(&small_us), "{small_us} µs");
    // One thread block moves 2 · 7/8 of the bytes, combining two operands half of the time.
    let bytes = 64 << 20;
    let copy_us = 1.75 * bytes as f64 / cost.tb_bytes_per_us;
    let large_us = of(&ring, bytes).total_us;
    assert!((copy_us..2.5 * copy_us).contains(&large_us), "{large_us} µs");
}

#[test]
fn an_empty_call_takes_the_time_of_its_launch() {
    let timeline = of(&collectives::ring(4, 1), 0);
    assert_eq!(timeline.total_us, CostModel::nvswitch(Protocol::Simple).launch_us);
}

#[test]
fn what_crosses_the_network_takes_longer() {
    let ring = collectives::ring(8, 1);
    let one_node = CostModel::nvswitch(Protocol::Simple);
    let us =
        |cost: CostModel, bytes| timeline(&ring, &Target::native(), &cost, bytes).unwrap().total_us;
    assert_eq!(us(one_node.on_nodes(8), 8), us(one_node, 8));
    let two_nodes = one_node.on_nodes(4);
    let network = two_nodes.network.unwrap();
    // A chunk makes 14 hops, of which three or four are between nodes, and thread blocks take
    // chunks in turn.
    let slower_us = us(two_nodes, 8) - us(one_node, 8);
    let hop_us = network.latency_us - one_node.latency_us;
    assert!((2.9 * hop_us..5.1 * hop_us).contains(&slower_us), "{slower_us} µs");
    // 2 · 7/8 of the bytes leave a node by one port.
    let bytes = 256 << 20;
    let port_us = 1.75 * bytes as f64 / network.port_bytes_per_us;
    assert!(us(two_nodes, bytes) > port_us.max(us(one_node, bytes)));
    assert_eq!(timeline(&ring, &Target::native(), &two_nodes, 8).unwrap().nodes, 2);
}

#[test]
fn ports_are_shared() {
    let mut cost = CostModel::nvswitch(Protocol::Simple);
    cost.port_bytes_per_us = 1000.0;
    let bytes = 1 << 20;
    let one_shot = collectives::one_shot(4, 1);
    let timeline = timeline(&one_shot, &Target::native(), &cost, bytes).unwrap();
    // Every rank sends all its bytes to three others through one port.
    assert!(timeline.total_us > 3.0 * bytes as f64 / cost.port_bytes_per_us);
}

#[test]
fn a_standstill_has_no_timeline() {
    let mut algorithm = collectives::one_shot(2, 1);
    algorithm.ranks.iter_mut().for_each(|rank| rank.thread_blocks[0].steps.reverse());
    let cost = CostModel::nvswitch(Protocol::Ll);
    let untimed = timeline(&algorithm, &Target::native(), &cost, 64);
    assert_eq!(untimed, Err(Untimed::Stalled { blocked: 2 }));
}

#[test]
fn the_text_shows_a_letter_for_each_step() {
    let timeline = of(&collectives::broadcast(3, 1, 0), 1 << 20);
    let expected = "\
by_hand, 1048576 bytes: 87.9 µs in 2 rounds
r0 tb0 |  ************************************                                  |
r1 tb0 |                       ffffffffffffffffffffffffffffffffffff             |
r2 tb0 |                                            rrrrrrrrr         rrrrrrrrrr|
       0                                                                    87.9 µs
";
    let text = timeline::text(&timeline);
    assert!(text.starts_with(expected), "{text}");
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
    assert!(svg.contains("<title>r0 tb0 s0 s, round 0: 2.50 to"));
}

//! Measures the verifier: time and steps of some families of algorithms at growing sizes.
//!
//! `cargo run --release -p msccl-verify --example speed [FAMILY [RANKS]]`

#![deny(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::time::Instant;

use msccl_ir::{Algorithm, Target};
use msccl_testkit::families;
use msccl_verify::verify;

/// A family's name, its generator, and the numbers of ranks measured.
type Family = (&'static str, fn(u32) -> Algorithm, &'static [u32]);

const FAMILIES: [Family; 7] = [
    ("ring", |ranks| families::ring(ranks, 1), &[64, 256, 1024]),
    ("ring_8_channels", |ranks| families::ring(ranks, 8), &[64, 256, 1024]),
    ("split_ring", families::split_ring, &[64, 256, 1024]),
    ("trusting_ring", families::trusting_ring, &[64, 256, 512]),
    ("all_pairs", families::all_pairs, &[16, 64, 256]),
    ("trusting_pairs", families::trusting_pairs, &[64, 128, 192]),
    ("halving_doubling", families::halving_doubling, &[64, 256, 1024, 2048]),
];

fn main() {
    let selected: Vec<_> = std::env::args().skip(1).collect();
    println!(
        "{:18} {:>6} {:>9} {:>10} {:>10} {:>10}  verdict",
        "family", "ranks", "steps", "ms", "ns/step", "links ms"
    );
    for (name, generate, sizes) in FAMILIES {
        if selected.first().is_some_and(|selected| selected != name) {
            continue;
        }
        for &ranks in sizes {
            if selected.get(1).is_none_or(|selected| *selected == ranks.to_string()) {
                measure(name, generate(ranks));
            }
        }
    }
}

fn measure(name: &str, algorithm: Algorithm) {
    let (ranks, steps) = (algorithm.ranks.len(), algorithm.step_count());
    let target = Target { name: "speed", ..Target::native() };
    let start = Instant::now();
    let verdict = verify(algorithm, &target);
    let elapsed = start.elapsed();
    let per_step = elapsed.as_nanos() / steps.max(1) as u128;
    let ms = elapsed.as_secs_f64() * 1e3;
    let (links_ms, verdict) = match verdict {
        Ok(proved) => {
            let depth = proved.facts().least_link_depth;
            let start = Instant::now();
            let ahead = proved.link_facts().into_iter().filter_map(|link| link.messages_ahead_max);
            let ahead = ahead.max().map_or("unbounded".to_owned(), |most| most.to_string());
            let links_ms = start.elapsed().as_secs_f64() * 1e3;
            (links_ms, format!("proved, depth {depth}, ahead {ahead}"))
        }
        Err(refusal) => (0.0, refusal.to_string()),
    };
    println!(
        "{name:18} {ranks:>6} {steps:>9} {ms:>10.1} {per_step:>10} {links_ms:>10.1}  {verdict}"
    );
}

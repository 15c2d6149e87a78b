//! How long synthesis takes, compiler and proof included. Builds for debugging are slower, so they
//! skip this: `cargo test --release -p msccl-synthesize` does not.

use std::time::Instant;

use msccl_collective::CollectiveKind;
use msccl_synthesize::Options;

use crate::machines::machine;
use crate::proved::Proved;

/// A limit for each machine.
const LIMITS_S: [(&str, f64); 4] = [
    ("hgx-h100-8*2", 0.3),
    ("hgx-h100-8*8", 3.0),
    ("hgx-h100-8*16", 15.0),
    ("hgx-h100-8*128", 60.0),
];

#[test]
fn synthesis_is_fast() {
    if cfg!(debug_assertions) {
        return eprintln!("SKIPPED: times are for builds with --release");
    }
    let kinds =
        [CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce];
    for (name, limit_s) in LIMITS_S {
        let cluster = machine(name);
        for kind in kinds {
            let start = Instant::now();
            let proved = Proved::of(&cluster, kind, &Options::default());
            let took_s = start.elapsed().as_secs_f64();
            let times = proved.times_bound();
            eprintln!("{kind} on {name}: {took_s:.3} s, {times} times the bound");
            assert!(took_s <= limit_s, "{kind} on {name}: {took_s:.3} s, at most {limit_s} s");
        }
    }
}

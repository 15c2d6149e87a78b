//! What a call outside of graphs costs on the host beside the driver: the whole path from the C door to
//! the launch, over a driver that does nothing. `cargo bench -p msccl-nccl --bench eager`.

#![allow(clippy::print_stdout, reason = "it is a report")]

#[path = "../tests/null_driver/mod.rs"]
mod null_driver;

use std::time::Instant;

use msccl_gpu::Stream;
use null_driver::World;

/// Calls that are timed together.
const BATCH: u32 = 1000;

/// How often.
const BATCHES: usize = 501;

/// The median, in ns, of what `call` takes.
fn median_ns(mut call: impl FnMut()) -> f64 {
    let mut batch = || {
        let start = Instant::now();
        (0..BATCH).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    let mut times: Vec<f64> = (0..BATCHES).map(|_| batch()).collect();
    times.sort_by(f64::total_cmp);
    times[BATCHES / 2]
}

fn main() {
    let world = World::new(2);
    let rank = world.rank(0);
    let stream = Stream::new(rank.context).unwrap();
    for count in [256, 4096, 65536] {
        let before = null_driver::all_calls();
        rank.all_reduce(count, &stream);
        let warm = null_driver::all_calls();
        rank.all_reduce(count, &stream);
        let driver = null_driver::all_calls() - warm;
        let ns = median_ns(|| rank.all_reduce(count, &stream));
        println!(
            "all-reduce of {} bytes: {ns:.0} ns, {driver} calls of the driver ({} the first time)",
            4 * count,
            warm - before
        );
    }
}

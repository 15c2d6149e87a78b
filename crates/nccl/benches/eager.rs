//! What a call outside of graphs costs on the host beside the driver: the whole path from the C door to
//! the launch, over a driver that does nothing. `cargo bench -p msccl-nccl --bench eager`.

#![allow(clippy::print_stdout, reason = "it is a report")]

#[path = "../tests/null_driver/mod.rs"]
mod null_driver;

use std::time::Instant;

use msccl_gpu::Stream;
use null_driver::World;

/// Calls that are timed together: too few for the system to interrupt most of them.
const BATCH: u32 = 200;

/// How often.
const BATCHES: usize = 5001;

/// What `call` takes in ns: the fastest batch, and the median.
fn call_ns(mut call: impl FnMut()) -> [f64; 2] {
    let mut batch = || {
        let start = Instant::now();
        (0..BATCH).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    let mut times: Vec<f64> = (0..BATCHES).map(|_| batch()).collect();
    times.sort_by(f64::total_cmp);
    [times[0], times[BATCHES / 2]]
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
        let [least, median] = call_ns(|| rank.all_reduce(count, &stream));
        println!(
            "all-reduce of {} bytes: {median:.0} ns (least {least:.0}), {driver} calls of the driver ({} the first time)",
            4 * count,
            warm - before
        );
    }
}

//! What a call outside of graphs costs on the host beside the driver: the whole path from The C ABI
//! layer to the launch, over a driver that does nothing. `cargo bench -p msccl-nccl --bench eager`.
//! `cargo test` runs it, too, with few calls, to see that it can.
//!
//! An unsafe boundary, as it talks to the driver past the library. The same is measured from
//! further inside, so that differences say what each part costs.

#![deny(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is a report")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

#[path = "../tests/null_driver/mod.rs"]
mod null_driver;

use std::time::Instant;

use msccl_collective::{DataType, Rank, Reduction};
use msccl_fabric::UniqueId;
use msccl_gpu::{Context, DeviceBuffer, EnteredStream, Event, Image, Launch, Module, Stream};
use msccl_runtime::{Buffers, Call, Combine, Communicator, Operation, PlaceOfRank, Settings};
use null_driver::World;

/// Calls that are timed together: too few for the system to interrupt most of them.
const BATCH: u32 = 200;

/// How often.
const BATCHES: usize = 5001;

/// How often to see that it can.
const BATCHES_OF_TEST: usize = 5;

/// What `call` takes in ns: the fastest batch, and the median.
fn call_ns(mut call: impl FnMut()) -> [f64; 2] {
    let mut batch = || {
        let start = Instant::now();
        (0..BATCH).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    let is_benchmark = std::env::args().any(|argument| argument == "--bench");
    let batches = if is_benchmark { BATCHES } else { BATCHES_OF_TEST };
    let mut times: Vec<f64> = (0..batches).map(|_| batch()).collect();
    times.sort_by(f64::total_cmp);
    [times[0], times[batches / 2]]
}

/// Elements of a call of which protocol LL takes care, of one for Simple.
const COUNTS: [usize; 2] = [256, 65536];

/// Elements of calls of more shapes than the runtime keeps.
const MANY_COUNTS: [usize; 6] = [256, 512, 1024, 2048, 32768, 65536];

fn print_times(what: &str, [least, median]: [f64; 2]) {
    println!("{median:6.0} ns  (least {least:.0})  {what}");
}

fn main() {
    let world = World::new(2);
    let rank = world.rank(0);
    let stream = Stream::new(rank.context).unwrap();
    for count in COUNTS {
        rank.all_reduce(count, &stream);
        let before = null_driver::all_calls();
        rank.all_reduce(count, &stream);
        let calls = null_driver::all_calls() - before;
        let what = format!("ncclAllReduce of {} bytes, {calls} calls of the driver", 4 * count);
        print_times(&what, call_ns(|| rank.all_reduce(count, &stream)));
    }
    by_turns(rank, &stream, &COUNTS, "each of another shape than the one before");
    by_turns(rank, &stream, &MANY_COUNTS, "of more shapes by turns than are kept");
    at_once(&world);
    let [communicator, _other] = communicators();
    runtime(&communicator, &stream, rank.context);
    driver(rank.context, &stream);
}

/// Calls of `counts` elements by turns, one call of each.
fn by_turns(rank: &null_driver::Rank, stream: &Stream, counts: &[usize], what: &str) {
    let each = || counts.iter().for_each(|&count| rank.all_reduce(count, stream));
    let times = call_ns(each).map(|ns| ns / counts.len() as f64);
    print_times(&format!("ncclAllReduce, {what}"), times);
}

/// Both ranks, each on a thread of its own: what they share they only read.
fn at_once(world: &World) {
    let alone = |rank: &null_driver::Rank| {
        let _current = rank.context.enter().unwrap();
        let stream = Stream::new(rank.context).unwrap();
        call_ns(|| rank.all_reduce(COUNTS[0], &stream))
    };
    let (one, other) = (world.rank(0), world.rank(1));
    let times = std::thread::scope(|scope| {
        let other = scope.spawn(|| alone(other));
        [alone(one), other.join().unwrap()]
    });
    times
        .iter()
        .for_each(|times| print_times("ncclAllReduce, another rank's thread beside", *times));
}

/// The same calls without The C ABI layer.
fn runtime(communicator: &Communicator, stream: &Stream, context: &Context) {
    let buffer = DeviceBuffer::zeroed(context, 4 * COUNTS[1]).unwrap();
    let call = |count: usize| Call {
        operation: Operation::AllReduce(Combine::Plain(Reduction::Sum)),
        data_type: DataType::F32,
        count: count as u64,
        buffers: Buffers {
            send: buffer.ptr().0,
            receive: buffer.ptr().0,
            stream: stream.borrow().as_raw().expose_provenance() as u64,
        },
    };
    for count in COUNTS {
        let calls = [call(count)];
        let times = call_ns(|| communicator.submit(&calls).unwrap());
        print_times(&format!("Communicator::submit of the same {} bytes", 4 * count), times);
    }
}

/// Two ranks, as The C ABI layer makes them.
fn communicators() -> [Communicator; 2] {
    let id = UniqueId::create(&Settings::default().fabric).unwrap();
    let join = |rank: u32| {
        let place = PlaceOfRank::Gpu(null_driver::context(rank).clone());
        let settings = Settings { place, ..Settings::default() };
        Communicator::join(&[id], Rank(rank), 2, &settings).unwrap()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| join(1));
        [join(0), other.join().unwrap()]
    })
}

/// The calls of the driver alone, as this library makes them.
#[expect(unsafe_code, reason = "calls the driver past the library")]
fn driver(context: &Context, stream: &Stream) {
    // To that driver, one that waits for nobody.
    let module = Module::load(context, Image::ptx("")).unwrap();
    let kernel = module.function("msccl_scale_none").unwrap();
    let end = Event::ordering(context).unwrap();
    let shape = Launch { own_memory_domain: true, ..Launch::linear(8, 512) };
    let record = [0; 1424];
    let times = call_ns(|| {
        let entered = context.enter().unwrap();
        // SAFETY: the stream outlives this; kernels of this driver do nothing.
        unsafe {
            let stream = EnteredStream::from_raw(&entered, stream.borrow().as_raw());
            stream.capture_state().unwrap();
            kernel.launch_in(stream, &shape, &record).unwrap();
            stream.record(&end).unwrap();
        }
    });
    print_times("what is asked of the driver, the driver's doing nothing included", times);
}

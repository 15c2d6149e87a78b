//! The host side of ranks on GPUs without a GPU: the C ABI layer and the whole engine over a driver
//! that does nothing (`null_driver/libcuda.rs`), which counts its calls. An unsafe boundary: the
//! allocator counts, too.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "null_driver/copy_engines.rs"]
mod copy_engines;
#[path = "null_driver/exchange.rs"]
mod exchange;
#[path = "null_driver/launch_order.rs"]
mod launch_order;
#[path = "null_driver/low_latency.rs"]
mod low_latency;
#[path = "null_driver/mismatch.rs"]
mod mismatch;
mod null_driver;
#[path = "null_driver/one_sided.rs"]
mod one_sided;
#[path = "null_driver/push_only.rs"]
mod push_only;
#[path = "null_driver/specialised.rs"]
mod specialised;
#[path = "null_driver/suspension.rs"]
mod suspension;
#[path = "null_driver/unaligned.rs"]
mod unaligned;
#[path = "null_driver/uploads.rs"]
mod uploads;
#[path = "null_driver/warp_specialised.rs"]
mod warp_specialised;
#[path = "null_driver/windows.rs"]
mod windows;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use msccl_gpu::{CaptureMode, Stream, VmmAllocation};
use null_driver::{Rank, World};

/// The system's allocator, which counts how often a thread asks it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is the system's; counting allocates nothing.
#[expect(unsafe_code, reason = "an allocator is unsafe code")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a thread asked of the driver and of the allocator.
#[derive(PartialEq, Eq, Debug)]
struct CallCounts {
    driver: BTreeMap<&'static str, u64>,
    allocations: u64,
}

/// The driver's functions that a call may have to do with.
const WATCHED: [&str; 16] = [
    "cuCtxGetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuStreamGetCaptureInfo_v2",
    "cuLaunchKernelEx",
    "cuMemcpyAsync",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuStreamWaitEvent",
    "cuMemAlloc_v2",
    "cuPointerGetAttribute",
    "cuGraphAddEventRecordNode",
    "cuGraphAddDependencies",
    "cuGraphRemoveDependencies",
];

/// What `body` asks for; that is nothing which is not watched.
fn counted(body: impl FnOnce()) -> CallCounts {
    let counts = || WATCHED.map(null_driver::calls);
    let (before, all) = (counts(), null_driver::all_calls());
    let allocations = ALLOCATIONS.get();
    body();
    let allocations = ALLOCATIONS.get() - allocations;
    let all = null_driver::all_calls() - all;
    let counts = counts().into_iter().zip(before).map(|(after, before)| after - before);
    let counted: Vec<_> = WATCHED.into_iter().zip(counts).collect();
    let driver: BTreeMap<_, _> = counted.into_iter().filter(|(_, count)| *count != 0).collect();
    assert_eq!(driver.values().sum::<u64>(), all, "{driver:?} are not all that was asked");
    CallCounts { driver, allocations }
}

#[track_caller]
fn check(body: impl FnOnce(), expected: &[(&'static str, u64)]) {
    let driver = expected.iter().copied().collect();
    assert_eq!(counted(body), CallCounts { driver, allocations: 0 });
}

/// What an eager call asks of the driver.
const EAGER: [(&str, u64); 4] = [
    ("cuCtxGetCurrent", 1),
    ("cuStreamGetCaptureInfo_v2", 1),
    ("cuLaunchKernelEx", 1),
    ("cuEventRecord", 1),
];

fn stream(rank: &Rank) -> Stream {
    Stream::new(rank.context).unwrap()
}

/// A small all-reduce, and one that another protocol serves.
const COUNTS: [usize; 2] = [64, null_driver::ELEMENTS];

#[test]
fn a_call_like_the_one_before_is_a_launch_and_its_mark() {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    for count in COUNTS {
        rank.all_reduce(count, &stream);
        check(|| rank.all_reduce(count, &stream), &EAGER);
    }
}

#[test]
fn a_shape_that_was_seen_costs_no_more() {
    let world = World::new(3);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    COUNTS.iter().for_each(|&count| rank.all_reduce(count, &stream));
    for count in COUNTS {
        check(|| rank.all_reduce(count, &stream), &EAGER);
    }
}

#[test]
fn another_stream_waits_once() {
    let world = World::new(2);
    let rank = world.rank(0);
    let (one, other) = (stream(rank), stream(rank));
    [&one, &other].iter().for_each(|stream| rank.all_reduce(64, stream));
    let changed = [&EAGER[..], &[("cuStreamWaitEvent", 1)]].concat();
    check(|| rank.all_reduce(64, &one), &changed);
    check(|| rank.all_reduce(64, &one), &EAGER);
    check(|| rank.all_reduce(64, &other), &changed);
}

#[test]
fn a_caller_on_another_device_stays_there() {
    let world = World::new(2);
    let rank = world.rank(1);
    let stream = stream(rank);
    rank.all_reduce(64, &stream);
    // The first rank's device is current.
    let entered = [("cuCtxPushCurrent_v2", 1), ("cuCtxPopCurrent_v2", 1)];
    check(|| rank.all_reduce(64, &stream), &[&EAGER[..], &entered].concat());
}

#[test]
fn communicators_take_turns_at_no_cost() {
    let (one, other) = (World::new(2), World::new(2));
    let (one, other) = (one.rank(0), other.rank(0));
    let (first, second) = (stream(one), stream(other));
    for _ in 0..2 {
        one.all_reduce(64, &first);
        other.all_reduce(64, &second);
    }
    check(|| one.all_reduce(64, &first), &EAGER);
    check(|| other.all_reduce(64, &second), &EAGER);
}

#[test]
fn the_default_stream_is_a_stream() {
    let world = World::new(2);
    let rank = world.rank(0);
    let default = std::ptr::null_mut();
    rank.all_reduce_in(64, default);
    check(|| rank.all_reduce_in(64, default), &EAGER);
}

#[test]
fn every_thread_has_a_default_stream_of_its_own() {
    let world = World::new(2);
    let rank = world.rank(0);
    let per_thread = std::ptr::without_provenance_mut(2);
    rank.all_reduce_in(64, per_thread);
    let waits = [&EAGER[..], &[("cuStreamWaitEvent", 1)]].concat();
    check(|| rank.all_reduce_in(64, per_thread), &waits);
}

#[test]
fn a_stream_may_be_destroyed_after_its_calls() {
    let world = World::new(2);
    let rank = world.rank(0);
    let (gone, next) = (stream(rank), stream(rank));
    rank.all_reduce(64, &gone);
    // The driver refuses the handle from here on.
    drop(gone);
    rank.all_reduce(64, &next);
    drop(next);
}

/// What has links of a process deliver directly.
const DIRECT: [(&str, &str); 3] =
    [("MSCCL_DIRECT", "2"), ("MSCCL_ALGO", "allreduce/ring"), ("MSCCL_PROTO", "Simple")];

#[test]
fn the_allocation_of_an_exported_buffer_is_looked_up() {
    if !null_driver::has(&DIRECT, "the_allocation_of_an_exported_buffer_is_looked_up") {
        return;
    }
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    rank.all_reduce(null_driver::ELEMENTS, &stream);
    let counted = counted(|| rank.all_reduce(null_driver::ELEMENTS, &stream));
    assert_eq!(counted.allocations, 0);
    assert_eq!(counted.driver.get("cuPointerGetAttribute"), Some(&1), "{counted:?}");
    let marks = ["cuLaunchKernelEx", "cuEventRecord", "cuStreamGetCaptureInfo_v2"];
    marks.iter().for_each(|call| assert_eq!(counted.driver.get(call), Some(&1), "{counted:?}"));
}

/// The same of virtual memory, of which the thread that looks whether it still lives asks nothing
/// but ids, or the driver ends the process.
#[test]
fn the_id_of_exported_virtual_memory_is_looked_up() {
    if !null_driver::has(&DIRECT, "the_id_of_exported_virtual_memory_is_looked_up") {
        return;
    }
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    // Peers look at what is lent from their first call on.
    let peer_stream = self::stream(world.rank(1));
    world.rank(1).all_reduce(null_driver::ELEMENTS, &peer_stream);
    let bytes = 4 * null_driver::ELEMENTS;
    let exported = null_driver::calls("cuMemExportToShareableHandle");
    for lent in 1..=2 {
        let memory = VmmAllocation::new(rank.context, bytes).unwrap();
        let buffer = memory.map(&[rank.context.device()]).unwrap();
        drop(memory);
        let call = || {
            let stream = stream.borrow().as_raw();
            rank.all_reduce_at(buffer.ptr(), null_driver::ELEMENTS, stream);
        };
        call();
        let counted = counted(call);
        assert_eq!(counted.driver.get("cuPointerGetAttribute"), Some(&1), "{counted:?}");
        assert_eq!(null_driver::calls("cuMemExportToShareableHandle") - exported, lent);
        // Longer than it takes peers to map the piece, and its owner to look whether it lives.
        thread::sleep(Duration::from_millis(300));
    }
    thread::sleep(Duration::from_millis(300));
}

/// Runs itself again as two processes, each a rank on a host of its own as far as both know. Their
/// messages go nowhere, since kernels do nothing; links are made, and calls launched and recorded.
/// There are network cards, of which a file says how far they are, and which cannot be used for
/// more than to be chosen.
#[test]
fn ranks_on_two_hosts_launch_as_on_one() {
    const NAME: &str = "ranks_on_two_hosts_launch_as_on_one";
    const RANK: &str = "NULL_RANK";
    if let Ok(rank) = std::env::var(RANK) {
        return be_on_a_host(rank.parse().unwrap());
    }
    let cards = null_driver::compile("librdma", &[]);
    let topology = cards.with_extension("xml");
    fs::write(&topology, crossed_topology()).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = |rank: u32| {
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("null-{port}-{rank}.log"));
        null_driver::again(NAME)
            .env(RANK, rank.to_string())
            .env("NCCL_HOSTID", format!("host{rank}"))
            .env("NCCL_COMM_ID", format!("127.0.0.1:{port}"))
            .envs([("NCCL_SOCKET_IFNAME", "lo"), ("NCCL_DEBUG", "INFO")])
            .env("MSCCL_JOIN_TIMEOUT_S", "60")
            .env("NCCL_DEBUG_FILE", log)
            .env("MSCCL_RDMA_LIBRARY", &cards)
            .env("NCCL_TOPO_FILE", &topology)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for (rank, process) in [0, 1].map(start).into_iter().enumerate() {
        null_driver::passed(&process.wait_with_output().unwrap(), rank);
    }
    [cards, topology].into_iter().for_each(|path| fs::remove_file(path).unwrap());
}

/// Two GPUs, as the driver has them, each behind a switch with the card of the other's number, and
/// a slow card beside.
fn crossed_topology() -> String {
    let pci = |bus: String, class: &str, inside: &str| {
        format!("<pci busid=\"0000:{bus}:00.0\" class=\"{class}\">{inside}</pci>")
    };
    let nic = |net: u32| {
        let inside =
            format!("<nic><net name=\"mlx5_{net}\" dev=\"{net}\" speed=\"400000\"/></nic>");
        pci(format!("4{net}"), "0x020700", &inside)
    };
    let switch = |gpu: u32| {
        let inside = format!("<gpu dev=\"{gpu}\"/>");
        let gpu_there = pci(format!("0{gpu}"), "0x030200", &inside);
        pci(format!("8{gpu}"), "0x060400", &(gpu_there + &nic(1 - gpu)))
    };
    format!("<system><cpu numaid=\"0\">{}{}{}</cpu></system>", switch(0), switch(1), nic(2))
}

fn be_on_a_host(rank: u32) {
    let world = World::of_rank(rank, 2);
    let (here, stream) = (world.rank(0), stream(world.rank(0)));
    for count in COUNTS {
        here.all_reduce(count, &stream);
        // The proxy hears of it without asking the driver.
        check(|| here.all_reduce(count, &stream), &EAGER);
    }
    here.exchange(1 - rank, 64, &stream);
    stream.borrow().begin_capture(CaptureMode::Global).unwrap();
    here.all_reduce(64, &stream);
    assert_eq!(stream.borrow().end_capture().unwrap().nodes(), Ok(1 + WAIT_AND_MARK));
    let path = std::env::var("NCCL_DEBUG_FILE").unwrap();
    let expected = format!("links to r{} go over TCP", 1 - rank);
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let log = fs::read_to_string(&path).unwrap_or_default();
        if log.contains(&expected) {
            assert!(log.contains("2 nodes: r0 on "), "{log}");
            let chosen = format!(
                "this rank uses mlx5_{}:1 (nearest to GPU 0000:0{rank}:00.0: PIX; slow ones are \
                 left aside)",
                1 - rank
            );
            assert!(log.contains(&chosen), "no {chosen:?} in {log}");
            break;
        }
        assert!(Instant::now() < patience, "no {expected:?} in {log}");
        thread::sleep(Duration::from_millis(10));
    }
    fs::remove_file(path).unwrap();
}

/// The nodes of a graph that order it with other graphs, and with calls outside of it.
const WAIT_AND_MARK: usize = 2;

/// What an eager call asks of the driver once a call was captured: a graph may have run.
const AFTER_CAPTURES: [(&str, u64); 5] =
    [EAGER[0], EAGER[1], EAGER[2], EAGER[3], ("cuStreamWaitEvent", 1)];

#[test]
fn a_recorded_call_is_one_node() {
    let world = World::new(2);
    let rank = world.rank(0);
    let stream = stream(rank);
    rank.all_reduce(64, &stream);
    stream.borrow().begin_capture(CaptureMode::Global).unwrap();
    let launch =
        [("cuCtxGetCurrent", 1), ("cuStreamGetCaptureInfo_v2", 2), ("cuLaunchKernelEx", 1)];
    let wait_and_mark = [("cuStreamWaitEvent", 1), ("cuGraphAddEventRecordNode", 1)];
    let first = counted(|| rank.all_reduce(64, &stream)).driver;
    assert_eq!(first, [&launch[..], &wait_and_mark].concat().into_iter().collect());
    // The mark of the graph moves behind the call.
    let moves = [("cuGraphAddDependencies", 1), ("cuGraphRemoveDependencies", 1)];
    for _ in 0..2 {
        let next = counted(|| rank.all_reduce(64, &stream)).driver;
        assert_eq!(next, [&launch[..], &moves].concat().into_iter().collect());
    }
    let graph = stream.borrow().end_capture().unwrap();
    assert_eq!(graph.nodes(), Ok(3 + WAIT_AND_MARK));
    for _ in 0..2 {
        check(|| rank.all_reduce(64, &stream), &AFTER_CAPTURES);
    }
    // Another communicator was never captured.
    let other = World::new(2);
    let other = other.rank(0);
    other.all_reduce(64, &stream);
    check(|| other.all_reduce(64, &stream), &EAGER);
}

#[test]
fn captures_that_take_turns_have_a_wait_and_a_mark_each() {
    let world = World::new(2);
    let rank = world.rank(0);
    let streams = [stream(rank), stream(rank)];
    let each = || streams.iter().map(Stream::borrow);
    each().for_each(|stream| stream.begin_capture(CaptureMode::Relaxed).unwrap());
    for _ in 0..2 {
        streams.iter().for_each(|stream| rank.all_reduce(64, stream));
    }
    let nodes = each().map(|stream| stream.end_capture().unwrap().nodes());
    assert_eq!(nodes.collect::<Vec<_>>(), vec![Ok(2 + WAIT_AND_MARK); 2]);
}

#[test]
fn a_program_that_orders_graphs_itself_has_calls_as_ever() {
    let mixing = [("NCCL_GRAPH_MIXING_SUPPORT", "0")];
    if !null_driver::has(&mixing, "a_program_that_orders_graphs_itself_has_calls_as_ever") {
        return;
    }
    let world = World::new(2);
    let rank = world.rank(0);
    let stream = stream(rank);
    rank.all_reduce(64, &stream);
    stream.borrow().begin_capture(CaptureMode::Global).unwrap();
    let expected =
        [("cuCtxGetCurrent", 1), ("cuStreamGetCaptureInfo_v2", 1), ("cuLaunchKernelEx", 1)];
    let first = counted(|| rank.all_reduce(64, &stream)).driver;
    assert_eq!(first, expected.into_iter().collect());
    check(|| rank.all_reduce(64, &stream), &expected);
    assert_eq!(stream.borrow().end_capture().unwrap().nodes(), Ok(2));
    check(|| rank.all_reduce(64, &stream), &EAGER);
}

#[test]
fn recorded_streams_wait_for_one_another() {
    let world = World::new(2);
    let rank = world.rank(0);
    let (one, other) = (stream(rank), stream(rank));
    rank.all_reduce(64, &one);
    one.borrow().begin_capture(CaptureMode::Global).unwrap();
    rank.all_reduce(64, &one);
    // As programs fork a capture.
    let fork = msccl_gpu::Event::ordering(rank.context).unwrap();
    fork.record(one.borrow()).unwrap();
    other.borrow().wait(&fork).unwrap();
    let waits = counted(|| rank.all_reduce(64, &other)).driver.remove("cuStreamWaitEvent");
    assert_eq!(waits, Some(1), "the second call follows the first within the graph");
    fork.record(other.borrow()).unwrap();
    one.borrow().wait(&fork).unwrap();
    assert_eq!(one.borrow().end_capture().unwrap().nodes(), Ok(2 + WAIT_AND_MARK));
}

/// Allocators register what they were given, however little; the driver aligns it to less than
/// windows need.
#[test]
fn memory_that_was_given_can_be_a_window() {
    let world = World::new(1);
    for bytes in [1, 100, 4096, 5 << 20] {
        assert!(null_driver::window_of(world.rank(0), bytes).is_multiple_of(4096));
    }
}

/// Programs allocate, and make and end communicators, while they record a graph; that is forbidden
/// to those who do not say that it has nothing to do with the graph.
#[test]
fn memory_and_communicators_come_and_go_in_a_capture() {
    let world = World::new(2);
    let rank = world.rank(0);
    let stream = stream(rank);
    rank.all_reduce(64, &stream);
    stream.borrow().begin_capture(CaptureMode::Global).unwrap();
    null_driver::window_of(rank, 5 << 20);
    let comms = null_driver::join_all(2);
    rank.all_reduce(64, &stream);
    // A shape that was not seen before.
    rank.all_reduce(null_driver::ELEMENTS, &stream);
    null_driver::destroy_all(&comms);
    assert_eq!(stream.borrow().end_capture().unwrap().nodes(), Ok(2 + WAIT_AND_MARK));
}

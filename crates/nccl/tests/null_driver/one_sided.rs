//! One-sided transfers between ranks on GPUs: copies, and words that streams write and wait for.

use std::process;
use std::thread;
use std::time::Duration;

use msccl_gpu::{CaptureMode, DeviceBuffer};

use super::null_driver::{self, Call, F32, SUM, World};
use super::stream;

/// What of the driver has to do with it.
const OBSERVED: [&str; 3] = ["cuMemcpyAsync", "cuStreamWriteValue64_v2", "cuStreamWaitValue64_v2"];

fn calls_of(body: impl FnOnce()) -> [u64; 3] {
    null_driver::calls_in(OBSERVED, body)
}

/// What a rank shows: memory from a page on.
struct Shown {
    memory: DeviceBuffer,
    start: usize,
    window: *mut std::ffi::c_void,
}

#[test]
fn a_put_is_a_copy_and_a_word() {
    const BYTES: usize = 1 << 16;
    const PAGE_BYTES: usize = 4096;
    let world = World::new(2);
    let (one, other) = (world.rank(0), world.rank(1));
    let (from, to) = (stream(one), stream(other));
    let shown: Vec<_> = [one, other]
        .map(|rank| {
            let memory = DeviceBuffer::zeroed(rank.context, BYTES + PAGE_BYTES).unwrap();
            let start = memory.ptr().0.next_multiple_of(PAGE_BYTES as u64) - memory.ptr().0;
            let window = rank.open_window(memory.ptr().offset(start as usize), BYTES);
            Shown { memory, start: start as usize, window }
        })
        .into();
    let source = DeviceBuffer::zeroed(one.context, BYTES).unwrap();
    source.span().fill(7).unwrap();
    let put = |bytes, offset| one.put(source.ptr(), bytes, 1, shown[0].window, offset, &from);
    for count in 1..4 {
        assert_eq!(calls_of(|| assert_eq!(put(100, 4000), 0)), [1, 1, 0]);
        // The driver refuses to wait for more than has come.
        assert_eq!(calls_of(|| assert_eq!(other.wait_signals(1, 0, &to), 0)), [0, 0, 1], "{count}");
    }
    let mut got = [0; 102];
    let first = shown[1].start + 3999;
    shown[1].memory.span().slice(first..first + 102).unwrap().read(&mut got).unwrap();
    assert!(got[1..101].iter().all(|byte| *byte == 7) && (got[0], got[101]) == (0, 0));
    const INVALID_ARGUMENT: i32 = 4;
    const INVALID_USAGE: i32 = 5;
    assert_eq!(put(100, BYTES - 99), INVALID_ARGUMENT);
    from.borrow().begin_capture(CaptureMode::Global).unwrap();
    assert_eq!(put(100, 0), INVALID_USAGE);
    assert_eq!(from.borrow().end_capture().unwrap().nodes(), Ok(0));
    assert_eq!(one.failure(), 0);
}

const KEEPS_WAITS: [(&str, &str); 1] = [("NULL_KEEPS_WAITS", "1")];

/// A communicator that has failed ends, though a stream waits for a signal that never comes.
#[test]
fn a_wait_for_a_signal_holds_up_no_end() {
    if !null_driver::has(&KEEPS_WAITS, "one_sided::a_wait_for_a_signal_holds_up_no_end") {
        return;
    }
    let world = World::new(2);
    let ranks = [world.rank(0), world.rank(1)];
    assert_eq!(ranks[0].wait_signals(1, 1, &stream(ranks[0])), 0);
    // Ranks that call different things fail all.
    let calls =
        [Call::AllReduce { count: 64, element: F32, redop: SUM }, Call::AllGather { count: 64 }];
    for (rank, call) in ranks.iter().zip(calls) {
        let _current = rank.context.enter().unwrap();
        rank.call(call, &stream(rank));
    }
    while ranks.iter().any(|rank| rank.failure() == 0) {
        thread::sleep(Duration::from_millis(2));
    }
    thread::spawn(|| {
        thread::sleep(Duration::from_secs(20));
        // Whoever started this process sees that it did not end well.
        process::exit(1);
    });
    drop(world);
}

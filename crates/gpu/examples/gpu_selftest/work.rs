//! Checks of streams, events, kernels and graphs. A door for `unsafe`: kernels run here.

#![expect(unsafe_code, reason = "launches kernels")]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use msccl_gpu::{
    CaptureMode, CaptureModeGuard, CaptureState, CuResult, DeviceBuffer, Error, Event, Function,
    Image, Launch, Module, PinnedBuffer, Stream, StreamRef,
};

use crate::{Bench, Check, Outcome, fine, kernel, same};

pub const CHECKS: &[Check] = &[
    ("device code", device_code),
    ("device code that is refused", refused_code),
    ("launch and order", launch_and_order),
    ("streams of callers", streams_of_callers),
    ("copies in a stream", copies),
    ("call to the host", call_to_the_host),
    ("dynamic shared memory", dynamic_shared_memory),
    ("cooperative launch", cooperative_launch),
    ("cluster launch", cluster_launch),
    ("graph", graph),
    ("capture and other calls", capture_and_other_calls),
    ("cost of calls", cost_of_calls),
];

/// The first word of `buffer`.
fn first_word(buffer: &DeviceBuffer) -> Result<u32, Error> {
    let mut bytes = [0; 4];
    buffer.span().read(&mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}

fn device_code(bench: &Bench) -> Outcome {
    let begin = Instant::now();
    let add = kernel::load(&bench.context, "add")?;
    let time = begin.elapsed();
    let attributes = add.attributes()?;
    same("threads", attributes.max_threads_per_block, 1024)?;
    let each = add.blocks_per_multiprocessor(512, 0)?;
    let all = add.co_resident_blocks(512, 0)?;
    same("co-resident", all, each * bench.context.device().multiprocessors()?)?;
    Ok(format!("loaded in {time:?}, {attributes:?}, {each} blocks of 512 per multiprocessor"))
}

fn refused_code(bench: &Bench) -> Outcome {
    let broken = ".version 7.0\n.target sm_80\n.address_size 64\n.entry broken() { nonsense; }\n";
    let error = Module::load(&bench.context, Image::ptx(broken)).err().ok_or("nonsense loaded")?;
    let Error::Image { log, .. } = &error else { return Err(Box::new(error)) };
    same("log names the line", log.contains("line 4"), true)?;

    let future = ".version 99.0\n.target sm_80\n.address_size 64\n";
    let future = Module::load(&bench.context, Image::ptx(future)).err().ok_or("99.0 loaded")?;
    let module = Module::load(&bench.context, Image::ptx(include_str!("kernels.ptx")))?;
    let missing = module.function("nobody").err().and_then(|error| error.code());
    same("a kernel that is not there", missing, Some(CuResult::NOT_FOUND))?;
    Ok(format!("{error} // {future}").replace('\n', " | "))
}

/// Two streams take turns by events; a third measures.
fn launch_and_order(bench: &Bench) -> Outcome {
    const COUNT: u32 = 1 << 20;
    let add = kernel::load(&bench.context, "add")?;
    let words = DeviceBuffer::zeroed(&bench.context, 4 * COUNT as usize)?;
    let (least, greatest) = bench.context.stream_priorities()?;
    let streams = [
        Stream::with_priority(&bench.context, least)?,
        Stream::with_priority(&bench.context, greatest)?,
    ];
    let turn = Event::ordering(&bench.context)?;
    let (begin, end) = (Event::timing(&bench.context)?, Event::timing(&bench.context)?);
    begin.record(streams[0].borrow())?;
    for round in 0..100 {
        let [stream, next] = [0, 1].map(|i| streams[(round + i) % 2].borrow());
        kernel::add(&add, stream, words.ptr(), 1, COUNT)?;
        turn.record(stream)?;
        next.wait(&turn)?;
    }
    end.record(streams[0].borrow())?;
    end.synchronize()?;
    same("done", (end.is_done()?, begin.is_done()?), (true, true))?;
    let mut bytes = vec![0; 4 * COUNT as usize];
    words.span().read(&mut bytes)?;
    let hundred = 100_u32.to_ne_bytes();
    same("all words", bytes.chunks(4).all(|word| word == hundred), true)?;
    Ok(format!("{:.1} us per turn", end.elapsed_us(&begin)? / 100.0))
}

fn streams_of_callers(bench: &Bench) -> Outcome {
    let context = &bench.context;
    let add = kernel::load(context, "add")?;
    let words = DeviceBuffer::zeroed(context, 64)?;
    let owned = Stream::new(context)?;
    for raw in [0, 1, 2, owned.borrow().as_raw().addr()] {
        let raw = std::ptr::without_provenance_mut::<c_void>(raw);
        // SAFETY: the numbers are the driver's own; the last one is `owned`.
        let stream = unsafe { StreamRef::from_raw(context, raw) };
        kernel::add(&add, stream, words.ptr(), 1, 16)?;
        same("belongs", stream.belongs_to_context()?, true)?;
        same("captures", stream.capture_state()?, CaptureState::None)?;
        stream.synchronize()?;
    }
    kernel::add(&add, StreamRef::legacy(context), words.ptr(), 1, 16)?;
    kernel::add(&add, StreamRef::per_thread(context), words.ptr(), 1, 16)?;
    context.synchronize()?;
    same("word", first_word(&words)?, 6)?;
    if let Some(peer) = &bench.peer {
        // SAFETY: `owned` lives; that it is another context's is what the check is about.
        let stranger = unsafe { StreamRef::from_raw(peer, owned.borrow().as_raw()) };
        same("a stranger belongs", stranger.belongs_to_context()?, false)?;
    }
    fine()
}

fn copies(bench: &Bench) -> Outcome {
    let stream = Stream::new(&bench.context)?;
    let device = DeviceBuffer::zeroed(&bench.context, 1 << 16)?;
    let host = PinnedBuffer::new(&bench.context, 1 << 16)?;
    host.words32()[7].store(77, Ordering::Relaxed);
    // SAFETY: both buffers live until the stream is idle.
    unsafe {
        stream.borrow().copy(device.ptr(), host.ptr(), 1 << 16)?;
        stream.borrow().copy(host.ptr().offset(1 << 15), device.ptr(), 1 << 10)?;
        stream.borrow().fill(device.ptr(), 0x11, 8)?;
    }
    stream.borrow().synchronize()?;
    same("copied there and back", host.words32()[(1 << 13) + 7].load(Ordering::Acquire), 77)?;
    same("filled", first_word(&device)?, 0x1111_1111)?;
    fine()
}

extern "C" fn count_call(counter: *mut c_void) {
    // SAFETY: the check passes an `AtomicU32` that outlives the stream's work.
    let counter = unsafe { &*counter.cast::<AtomicU32>() };
    counter.fetch_add(1, Ordering::Release);
}

fn call_to_the_host(bench: &Bench) -> Outcome {
    let counter = AtomicU32::new(0);
    let stream = Stream::new(&bench.context)?;
    let data = (&raw const counter).cast_mut().cast();
    // SAFETY: `counter` outlives the stream's work, and may be counted from any thread.
    unsafe { stream.borrow().call_host(count_call, data)? };
    stream.borrow().synchronize()?;
    same("calls", counter.load(Ordering::Acquire), 1)?;
    fine()
}

fn dynamic_shared_memory(bench: &Bench) -> Outcome {
    let carry = kernel::load(&bench.context, "carry")?;
    let word = DeviceBuffer::zeroed(&bench.context, 4)?;
    let bytes = bench.context.device().max_shared_bytes_per_block()?;
    let shape = Launch { dynamic_shared_bytes: bytes, ..Launch::linear(1, 32) };
    let [low, high] = kernel::halves(word.ptr());
    let parameters = [low, high, bytes - 4, 123];
    let stream = Stream::new(&bench.context)?;
    // SAFETY: `word` outlives the stream's work; the offset lies in the shared memory asked for.
    let launch = || unsafe { kernel::launch(&carry, stream.borrow(), &shape, &parameters) };
    same("without permission", launch().map_err(|e| e.code()), Err(Some(CuResult::INVALID_VALUE)))?;
    carry.allow_dynamic_shared(bytes)?;
    launch()?;
    stream.borrow().synchronize()?;
    same("word", first_word(&word)?, 123)?;
    same("blocks that fit", carry.blocks_per_multiprocessor(32, bytes as usize)?, 1)?;
    Ok(format!("{bytes} bytes"))
}

fn cooperative_launch(bench: &Bench) -> Outcome {
    let meet = kernel::load(&bench.context, "meet")?;
    let counter = DeviceBuffer::zeroed(&bench.context, 4)?;
    let stream = Stream::new(&bench.context)?;
    let blocks = meet.co_resident_blocks(1024, 0)?;
    let [low, high] = kernel::halves(counter.ptr());
    let launch = |blocks: u32| {
        let shape = Launch { cooperative: true, ..Launch::linear(blocks, 1024) };
        // SAFETY: `counter` outlives the stream's work.
        unsafe { kernel::launch(&meet, stream.borrow(), &shape, &[low, high, kernel::POLLS, 0]) }
    };
    let too_many = launch(blocks + 1).map_err(|error| error.code());
    same("one too many", too_many, Err(Some(CuResult::COOPERATIVE_LAUNCH_TOO_LARGE)))?;
    launch(blocks)?;
    stream.borrow().synchronize()?;
    same("arrivals", first_word(&counter)?, blocks * 1024)?;
    Ok(format!("{blocks} blocks of 1024"))
}

fn cluster_launch(bench: &Bench) -> Outcome {
    let Some(cluster) = kernel::load_cluster(&bench.context)? else {
        return Ok("skipped: the device has no clusters".to_owned());
    };
    let word = DeviceBuffer::zeroed(&bench.context, 4)?;
    let stream = Stream::new(&bench.context)?;
    let cluster_of_four = Some([4, 1, 1]);
    let shape =
        Launch { cluster: cluster_of_four, own_memory_domain: true, ..Launch::linear(8, 32) };
    // SAFETY: `word` outlives the stream's work.
    unsafe { kernel::launch(&cluster, stream.borrow(), &shape, &kernel::halves(word.ptr()))? };
    stream.borrow().synchronize()?;
    same("blocks in a cluster", first_word(&word)?, 4)?;
    fine()
}

/// Three launches on two streams become a graph that runs ten times, mixed with eager launches.
fn graph(bench: &Bench) -> Outcome {
    let add = kernel::load(&bench.context, "add")?;
    let words = DeviceBuffer::zeroed(&bench.context, 4096)?;
    let (stream, side) = (Stream::new(&bench.context)?, Stream::new(&bench.context)?);
    let (stream, side) = (stream.borrow(), side.borrow());
    let (fork, join) = (Event::ordering(&bench.context)?, Event::ordering(&bench.context)?);
    stream.begin_capture(CaptureMode::ThreadLocal)?;
    kernel::add(&add, stream, words.ptr(), 1, 1024)?;
    fork.record(stream)?;
    side.wait(&fork)?;
    kernel::add(&add, side, words.ptr(), 10, 1024)?;
    let joined = (stream.capture_state()?, side.capture_state()?);
    same("one capture", joined.0, joined.1)?;
    same("active", matches!(joined.0, CaptureState::Active(_)), true)?;
    let counter = Arc::new(AtomicUsize::new(0));
    stream.count_graph(&counter)?;
    join.record(side)?;
    stream.wait(&join)?;
    kernel::add(&add, stream, words.ptr(), 100, 1024)?;
    let graph = stream.end_capture()?;
    same("state afterwards", stream.capture_state()?, CaptureState::None)?;
    same("graphs counted", counter.load(Ordering::Acquire), 1)?;
    same("nodes", graph.nodes()?, 3)?;
    same("nothing ran", first_word(&words)?, 0)?;
    let exec = graph.instantiate()?;
    drop(graph);
    for _ in 0..10 {
        // SAFETY: the words and the module are still there.
        unsafe { exec.launch(stream)? };
        kernel::add(&add, stream, words.ptr(), 1000, 1024)?;
    }
    stream.synchronize()?;
    same("word", first_word(&words)?, 11_110)?;
    same("graphs counted after use", counter.load(Ordering::Acquire), 1)?;
    drop(exec);
    let deadline = Instant::now() + Duration::from_secs(2);
    while counter.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    same("graphs counted at the end", counter.load(Ordering::Acquire), 0)?;
    same("counting without one", stream.count_graph(&counter).is_err(), true)?;
    fine()
}

/// Allocating while another stream captures globally needs the relaxed mode.
fn capture_and_other_calls(bench: &Bench) -> Outcome {
    let stream = Stream::new(&bench.context)?;
    stream.borrow().begin_capture(CaptureMode::Global)?;
    let implicit = StreamRef::legacy(&bench.context).capture_state();
    let kept = {
        let _relaxed = CaptureModeGuard::relaxed(bench.driver)?;
        DeviceBuffer::new(&bench.context, 1 << 20)?
    };
    same("still active", stream.borrow().capture_state().is_ok(), true)?;
    let graph = stream.borrow().end_capture()?;
    same("nodes", graph.nodes()?, 0)?;
    drop((graph, kept));

    stream.borrow().begin_capture(CaptureMode::Global)?;
    let forbidden = DeviceBuffer::new(&bench.context, 1 << 20).map_err(|error| error.code());
    let state = stream.borrow().capture_state()?;
    let ended = stream.borrow().end_capture().err().and_then(|error| error.code());
    Ok(format!(
        "legacy stream: {implicit:?}; allocation while capturing: {:?}, then {state:?}, ended \
         {ended:?}",
        forbidden.err()
    ))
}

/// How long a thousand calls of `call` take each, in microseconds.
fn cost_us(mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    (0..100).try_for_each(|_| call())?;
    let begin = Instant::now();
    (0..1000).try_for_each(|_| call())?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn cost_of_calls(bench: &Bench) -> Outcome {
    let add: Function = kernel::load(&bench.context, "add")?;
    let words = DeviceBuffer::zeroed(&bench.context, 4096)?;
    let stream = Stream::new(&bench.context)?;
    let event = Event::ordering(&bench.context)?;
    let enter = || bench.context.enter().map(drop);
    let launch = || kernel::add(&add, stream.borrow(), words.ptr(), 1, 1024);
    let outside = [cost_us(enter)?, cost_us(launch)?];
    let _entered = bench.context.enter()?;
    let inside = [cost_us(enter)?, cost_us(launch)?];
    let record = cost_us(|| event.record(stream.borrow()))?;
    let state = cost_us(|| stream.borrow().capture_state().map(drop))?;
    bench.context.synchronize()?;
    Ok(format!(
        "enter {:.2}, launch {:.2} us; entered already: enter {:.2}, launch {:.2}, record \
         {record:.2}, capture state {state:.2} us",
        outside[0], outside[1], inside[0], inside[1]
    ))
}

//! Ranks on GPUs that are not there: the C ABI layer, and behind it the whole engine for GPUs, over
//! a driver whose calls do nothing (`libcuda.rs` beside this file). An unsafe boundary.
//!
//! The stand-in is compiled by the compiler that compiled this, and opened before the library looks
//! for a driver; since it bears the driver's name, the loader then gives it to whoever asks for the
//! driver.

#![expect(unsafe_code, reason = "calls the C API and the driver that does nothing")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "the tests and the benchmark each use a part of it")]

mod c_api;
pub mod moves;

use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use msccl_gpu::{Context, ContextGuard, DeviceBuffer, DevicePtr, DeviceSpan, Driver, Stream};

use c_api::*;
pub use c_api::{Comm, UniqueId};

/// Elements of the buffers of a rank, all `f32`.
pub const ELEMENTS: usize = 1 << 16;

pub const F32: c_int = 7;
pub const I32: c_int = 2;
pub const SUM: c_int = 0;
pub const MAX: c_int = 2;
const COLL_SYMMETRIC: c_int = 1;

/// The stand-in for the driver.
struct NullDriver {
    calls: unsafe extern "C" fn(*const c_char) -> u64,
}

fn null_driver() -> &'static NullDriver {
    static OPEN: OnceLock<NullDriver> = OnceLock::new();
    OPEN.get_or_init(|| {
        let path = compile("libcuda", &["-C", "link-arg=-Wl,-soname,libcuda.so.1"]);
        // SAFETY: the library was made for this, and its function has that type.
        unsafe {
            let library = Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL).unwrap();
            let calls = *library.get(b"nullCalls\0").unwrap();
            // It stays open, as a driver does, and needs no name any more.
            std::mem::forget(library);
            std::fs::remove_file(path).unwrap();
            NullDriver { calls }
        }
    })
}

/// A library of the source `name` (without `.rs`) beside this file, compiled with `options`;
/// whoever asks removes it.
pub fn compile(name: &str, options: &[&str]) -> PathBuf {
    // Tests run side by side, in one process and in several.
    static COMPILED: AtomicU32 = AtomicU32::new(0);
    let number = COMPILED.fetch_add(1, Ordering::Relaxed);
    let library = format!("null-{name}-{}-{number}.so", std::process::id());
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(library);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/null_driver");
    let source = source.join(name).with_extension("rs");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(compiler)
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "stand_in"])
        .args(["-C", "opt-level=3"])
        .args(options)
        .arg("-o")
        .args([&library, &source])
        .output()
        .expect("the compiler that compiled this test can be run");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    library
}

/// What tells a process that a test which runs itself again has started it, and a number that it is
/// to find.
const EXPECTED: &str = "NULL_EXPECTED";

/// What this process is to find, if a test that runs itself again has started it.
pub fn expected() -> Option<u64> {
    std::env::var(EXPECTED).ok().map(|number| number.parse().unwrap())
}

/// As [`again`], in a process that is to find `expected`.
pub fn again_expecting(test: &str, expected: u64) -> Command {
    let mut program = again(test);
    program.env(EXPECTED, expected.to_string());
    program
}

/// Runs such a process, which has these `variables`; it must pass.
pub fn check_again(test: &str, variables: &[(&str, &str)], expected: u64) {
    let ran = again_expecting(test, expected).envs(variables.iter().copied()).output().unwrap();
    passed(&ran, variables);
}

/// The test of this program whose name is `test`, as a process of its own, for variables that a
/// process reads once.
pub fn again(test: &str) -> Command {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", test, "--nocapture"]);
    program
}

/// Whether this process has these `variables`. If not, runs the test `name` again as a process that
/// has them.
pub fn has(variables: &[(&str, &str)], name: &str) -> bool {
    let is_set = |(name, value): &(&str, &str)| std::env::var(name).is_ok_and(|of| of == *value);
    let has = variables.iter().all(is_set);
    if !has {
        passed(&again(name).envs(variables.iter().copied()).output().unwrap(), variables);
    }
    has
}

/// What such a process printed, which must have passed; `case` says which it was.
pub fn passed(ran: &Output, case: impl Debug) -> String {
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success() && text.contains("1 passed"), "{case:?}: {text}");
    text
}

/// How often this thread has called the driver's function `name`, or launched what it counts by
/// that name.
pub fn calls(name: &str) -> u64 {
    let c_name = CString::new(name).unwrap();
    // SAFETY: the name ends with a zero.
    let calls = unsafe { (null_driver().calls)(c_name.as_ptr()) };
    assert_ne!(calls, u64::MAX, "the null driver has no {name}");
    calls
}

/// How often this thread calls these functions in `body`.
pub fn calls_in<const N: usize>(names: [&str; N], body: impl FnOnce()) -> [u64; N] {
    let before = names.map(calls);
    body();
    std::array::from_fn(|index| calls(names[index]) - before[index])
}

/// How often this thread has called the driver.
pub fn all_calls() -> u64 {
    // SAFETY: null stands for all.
    unsafe { (null_driver().calls)(std::ptr::null()) }
}

/// The context of device `ordinal`.
pub fn context(ordinal: u32) -> &'static Context {
    null_driver();
    Box::leak(Box::new(Driver::load().unwrap().device(ordinal).unwrap().context().unwrap()))
}

/// All ranks of a communicator, one on each device, in this thread: nothing waits for anything.
pub struct World {
    ranks: Vec<Rank>,
    /// The first rank's device is current, as programs have it.
    _current: ContextGuard<'static>,
}

/// A call with all that ranks must say alike, of elements of four bytes; sends and receives are
/// from the first of two ranks to the second, and an all-to-all is from one byte of the buffer on
/// to another.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    AllReduce { count: usize, element: c_int, redop: c_int },
    AllGather { count: usize },
    AllToAll { count: usize, from: usize, to: usize },
    Reduce { count: usize, root: c_int },
    Send { count: usize, element: c_int },
    Receive { count: usize, element: c_int },
}

/// One rank.
pub struct Rank {
    pub context: &'static Context,
    pub comm: Comm,
    buffer: DeviceBuffer,
}

impl World {
    pub fn new(ranks: u32) -> Self {
        let contexts: Vec<_> = (0..ranks).map(context).collect();
        let comms = join_all(ranks);
        let rank = |(context, comm): (&'static Context, Comm)| {
            let buffer = DeviceBuffer::zeroed(context, 4 * ELEMENTS).unwrap();
            Rank { context, comm, buffer }
        };
        let _current = contexts[0].enter().unwrap();
        Self { ranks: contexts.into_iter().zip(comms).map(rank).collect(), _current }
    }

    /// Rank number `rank` alone; the others join elsewhere, at the address that `NCCL_COMM_ID`
    /// names.
    pub fn of_rank(rank: u32, ranks: u32) -> Self {
        let context = context(rank);
        let _current = context.enter().unwrap();
        let (mut id, mut comm) = (UniqueId([0; 128]), Comm(std::ptr::null_mut()));
        // SAFETY: there is room for both.
        let codes = unsafe {
            let (ranks, rank) = (ranks.cast_signed(), rank.cast_signed());
            [ncclGetUniqueId(&mut id), ncclCommInitRank(&mut comm, ranks, id, rank)]
        };
        assert_eq!(codes, [0, 0], "{}", last_error());
        let buffer = DeviceBuffer::zeroed(context, 4 * ELEMENTS).unwrap();
        Self { ranks: vec![Rank { context, comm, buffer }], _current }
    }

    pub fn rank(&self, rank: usize) -> &Rank {
        &self.ranks[rank]
    }

    /// All ranks give up their memory.
    pub fn suspend_all(&self) {
        // SAFETY: the communicator is alive.
        self.in_a_group(|rank| unsafe { ncclCommSuspend(rank.comm, 1) });
    }

    /// All ranks get their memory back.
    pub fn resume_all(&self) {
        // SAFETY: the communicator is alive.
        self.in_a_group(|rank| unsafe { ncclCommResume(rank.comm) });
    }

    fn in_a_group(&self, call: impl Fn(&Rank) -> c_int) {
        // SAFETY: a group can be begun anywhere.
        let begun = unsafe { ncclGroupStart() };
        let codes: Vec<_> = self.ranks.iter().map(call).collect();
        // SAFETY: one was begun.
        let ended = unsafe { ncclGroupEnd() };
        assert!(begun == 0 && ended == 0 && codes.iter().all(|of| *of == 0), "{}", last_error());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let comms: Vec<_> = self.ranks.iter().map(|rank| rank.comm).collect();
        destroy_all(&comms);
    }
}

/// A communicator of the first devices.
pub fn join_all(ranks: u32) -> Vec<Comm> {
    let mut comms = vec![Comm(std::ptr::null_mut()); ranks as usize];
    // SAFETY: there is room for as many communicators; no list stands for the first devices.
    let code =
        unsafe { ncclCommInitAll(comms.as_mut_ptr(), ranks.cast_signed(), std::ptr::null()) };
    assert_eq!(code, 0, "{}", last_error());
    comms
}

/// Ends communicators that are alive. Destroying waits for nobody.
pub fn destroy_all(comms: &[Comm]) {
    // SAFETY: they are used no more.
    let destroy = |comm: &Comm| unsafe { ncclCommDestroy(*comm) };
    let codes: Vec<_> = comms.iter().map(destroy).collect();
    let fine = codes.iter().all(|code| *code == 0);
    assert!(std::thread::panicking() || fine, "{codes:?}: {}", last_error());
}

impl Rank {
    /// An all-reduce in place of `count` elements.
    pub fn all_reduce(&self, count: usize, stream: &Stream) {
        self.all_reduce_in(count, stream.borrow().as_raw());
    }

    /// The same, in a stream as C has it.
    pub fn all_reduce_in(&self, count: usize, stream: *mut c_void) {
        assert!(count <= ELEMENTS);
        self.all_reduce_at(self.buffer.ptr(), count, stream);
    }

    /// The same of elements that begin `offset_bytes` behind the first one.
    pub fn all_reduce_from(&self, offset_bytes: usize, count: usize, stream: &Stream) {
        assert!(offset_bytes + 4 * count <= 4 * ELEMENTS);
        let buffer = self.buffer.ptr().offset(offset_bytes);
        self.all_reduce_at(buffer, count, stream.borrow().as_raw());
    }

    /// The same of other memory, which has room for as many.
    pub fn all_reduce_at(&self, buffer: DevicePtr, count: usize, stream: *mut c_void) {
        let buffer = std::ptr::with_exposed_provenance_mut(buffer.0 as usize);
        // SAFETY: the buffer has that many elements; communicator and stream are alive.
        let code = unsafe { ncclAllReduce(buffer, buffer, count, F32, SUM, self.comm, stream) };
        assert_eq!(code, 0, "{}", last_error());
    }

    /// Makes `call`, at the beginning of the rank's buffer.
    pub fn call(&self, call: Call, stream: &Stream) {
        let buffer = std::ptr::with_exposed_provenance_mut::<c_void>(self.buffer.ptr().0 as usize);
        let (comm, stream) = (self.comm, stream.borrow().as_raw());
        // SAFETY: tests make calls of few elements; communicator and stream are alive.
        let code = unsafe {
            match call {
                Call::AllReduce { count, element, redop } => {
                    ncclAllReduce(buffer, buffer, count, element, redop, comm, stream)
                }
                Call::AllGather { count } => {
                    ncclAllGather(buffer, buffer, count, F32, comm, stream)
                }
                Call::AllToAll { count, from, to } => {
                    let (from, to) = (buffer.wrapping_byte_add(from), buffer.wrapping_byte_add(to));
                    ncclAlltoAll(from, to, count, F32, comm, stream)
                }
                Call::Reduce { count, root } => {
                    ncclReduce(buffer, buffer, count, F32, SUM, root, comm, stream)
                }
                Call::Send { count, element } => ncclSend(buffer, count, element, 1, comm, stream),
                Call::Receive { count, element } => {
                    ncclRecv(buffer, count, element, 0, comm, stream)
                }
            }
        };
        assert_eq!(code, 0, "{call:?}: {}", last_error());
    }

    /// Memory of `ncclMemAlloc`, which nobody frees.
    pub fn allocate(&self, bytes: usize) -> DeviceSpan<'static> {
        let _current = self.context.enter().unwrap();
        let mut memory = std::ptr::null_mut();
        // SAFETY: there is room for the address.
        let code = unsafe { ncclMemAlloc(&mut memory, bytes) };
        assert_eq!(code, 0, "{}", last_error());
        let memory = DevicePtr(memory.expose_provenance() as u64);
        // SAFETY: that is how much there is, for good.
        unsafe { DeviceSpan::from_raw(self.context, memory, bytes) }
    }

    /// Shows `bytes` bytes of `memory` to all ranks, as each of them does.
    pub fn open_window(&self, memory: DevicePtr, bytes: usize) -> *mut c_void {
        let memory = std::ptr::with_exposed_provenance_mut(memory.0 as usize);
        let mut window = std::ptr::null_mut();
        // SAFETY: there is room for the window; the memory outlives the communicator's calls.
        let code = unsafe {
            ncclCommWindowRegister(self.comm, memory, bytes, &mut window, COLL_SYMMETRIC)
        };
        assert_eq!(code, 0, "{}", last_error());
        window
    }

    /// Takes a window back.
    pub fn close_window(&self, window: *mut c_void) {
        // SAFETY: the communicator is alive, and whatever the window is, it is a handle.
        assert_eq!(unsafe { ncclCommWindowDeregister(self.comm, window) }, 0, "{}", last_error());
    }

    /// Puts bytes into the window of `peer`; what that answers.
    pub fn put(
        &self,
        from: DevicePtr,
        bytes: usize,
        peer: c_int,
        window: *mut c_void,
        offset: usize,
        stream: &Stream,
    ) -> c_int {
        const BYTE: c_int = 1;
        let from = std::ptr::with_exposed_provenance(from.0 as usize);
        let stream = stream.borrow().as_raw();
        // SAFETY: the buffer has as many bytes; the windows are open, and all else is alive.
        unsafe {
            ncclPutSignal(from, bytes, BYTE, peer, window, offset, 0, 0, 0, self.comm, stream)
        }
    }

    /// Waits for `count` signals of `peer`; what that answers.
    pub fn wait_signals(&self, count: c_int, peer: c_int, stream: &Stream) -> c_int {
        // SAFETY: there is one description; communicator and stream are alive.
        unsafe { ncclWaitSignal(1, &[count, peer, 0, 0], self.comm, stream.borrow().as_raw()) }
    }

    /// A figure of the memory that the communicator holds.
    pub fn memory(&self, figure: c_int) -> u64 {
        let mut value = 0;
        // SAFETY: the communicator is alive, and there is room for the figure.
        let code = unsafe { ncclCommMemStats(self.comm, figure, &mut value) };
        assert_eq!(code, 0, "{}", last_error());
        value
    }

    /// What the communicator has failed of; 0 if it has not.
    pub fn failure(&self) -> c_int {
        let mut failure = 0;
        // SAFETY: the communicator is alive.
        let code = unsafe { ncclCommGetAsyncError(self.comm, &mut failure) };
        assert_eq!(code, 0, "{}", last_error());
        failure
    }

    /// Sends to `peer`, and receives as much from it.
    pub fn exchange(&self, peer: u32, count: usize, stream: &Stream) {
        assert!(2 * count <= ELEMENTS);
        let address = |elements: usize| {
            let ptr = self.buffer.ptr().offset(4 * elements);
            std::ptr::with_exposed_provenance_mut(ptr.0 as usize)
        };
        let (peer, stream) = (peer.cast_signed(), stream.borrow().as_raw());
        // SAFETY: both halves of the buffer have that many elements; all else is alive.
        let codes = unsafe {
            [
                ncclGroupStart(),
                ncclSend(address(0), count, F32, peer, self.comm, stream),
                ncclRecv(address(count), count, F32, peer, self.comm, stream),
                ncclGroupEnd(),
            ]
        };
        assert_eq!(codes, [0; 4], "{}", last_error());
    }
}

/// Memory as `ncclMemAlloc` gives it on the current device, registered as a window of `rank`, taken
/// back and freed; its address.
pub fn window_of(rank: &Rank, bytes: usize) -> usize {
    let (mut memory, mut window) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: there is room for both; the memory is freed when nothing names it any more.
    let codes = unsafe {
        [
            ncclMemAlloc(&mut memory, bytes),
            ncclCommWindowRegister(rank.comm, memory, bytes, &mut window, COLL_SYMMETRIC),
            ncclCommWindowDeregister(rank.comm, window),
            ncclMemFree(memory),
        ]
    };
    assert_eq!(codes, [0; 4], "{}", last_error());
    assert!(!window.is_null());
    memory.addr()
}

fn last_error() -> String {
    // SAFETY: no communicator is a legal one; the text ends with a zero.
    let text = unsafe { std::ffi::CStr::from_ptr(ncclGetLastError(Comm(std::ptr::null_mut()))) };
    text.to_string_lossy().into_owned()
}

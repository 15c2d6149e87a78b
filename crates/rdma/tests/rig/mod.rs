//! An unsafe boundary: the library as its users see it, through the table of functions, made safe
//! for tests.
//!
//! Nothing here knows the library from inside. Tests that need devices begin with [`rig`].

#![expect(unsafe_code, reason = "calls the library through its table of functions")]
#![allow(dead_code, reason = "each test file uses a part")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use msccl_proxy::rdma::abi;

/// Runs tests one after the other: they pull each other's wires. None, said aloud, where there is
/// no rig or it has too few devices.
pub fn rig(devices: usize) -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    let there: usize =
        std::env::var("RDMA_RIG_DEVICES").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    if there >= devices {
        return Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner));
    }
    let required = std::env::var("RDMA_REQUIRED").is_ok_and(|value| value == "1");
    assert!(!required, "RDMA_REQUIRED=1, and there are {there} of {devices} devices of a rig");
    println!("SKIPPED: needs tests/rdma-rig/run --devices {devices}");
    None
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    pub status: abi::Status,
    pub why: String,
}

fn text(call: impl FnOnce(*mut abi::Text) -> i32) -> Result<i32, Failed> {
    let mut room = [0_u8; 4096];
    let mut text = abi::Text { bytes: room.as_mut_ptr(), room: room.len() as u64, used: 0 };
    let answer = call(&raw mut text);
    let why = String::from_utf8(room[..text.used as usize].to_vec()).unwrap();
    if answer < 0 { Err(Failed { status: answer, why }) } else { Ok(answer) }
}

fn api() -> &'static abi::Api {
    assert!(msccl_rdma::msccl_rdma_api(abi::VERSION + 1).is_null());
    // SAFETY: the table is static.
    unsafe { msccl_rdma::msccl_rdma_api(abi::VERSION).as_ref() }.unwrap()
}

/// What users set. By default nothing, but a device gives up in the end, after seven tries of 1.07
/// s.
#[derive(Clone, Debug)]
pub struct Setting {
    pub hca: String,
    pub gid_index: i32,
    pub timeout: i32,
    pub retry_count: i32,
}

impl Default for Setting {
    fn default() -> Self {
        Self { hca: "rxe".into(), gid_index: -1, timeout: 18, retry_count: 6 }
    }
}

impl Setting {
    /// For tests of failures: seven tries of 67 ms.
    pub fn hasty() -> Self {
        Self { timeout: 14, ..Self::default() }
    }
}

/// An open context.
pub struct Context(*mut abi::Context);

// SAFETY: the contract lets any thread use it.
unsafe impl Send for Context {}
// SAFETY: its handle is used for calls that the contract lets run at the same time here: tests set
// up one by one.
unsafe impl Sync for Context {}

impl Context {
    pub fn open(setting: &Setting) -> Result<Arc<Self>, Failed> {
        let Setting { hca, gid_index, timeout, retry_count } = setting;
        let config = abi::VerbsConfig {
            hca: hca.as_ptr(),
            hca_bytes: hca.len() as u64,
            gid_index: *gid_index,
            timeout: *timeout,
            retry_count: *retry_count,
            traffic_class: -1,
            service_level: -1,
        };
        let mut context = ptr::null_mut();
        // SAFETY: all places live during the call.
        text(|text| unsafe { (api().open)(&raw const config, &raw mut context, text) })?;
        Ok(Arc::new(Self(context)))
    }

    pub fn devices(&self) -> Vec<abi::Device> {
        // SAFETY: the context is open; no room is given.
        let count = unsafe { (api().devices)(self.0, ptr::null_mut(), 0) };
        let mut devices = Vec::with_capacity(count as usize);
        // SAFETY: there is room for `count`, all of which are filled.
        unsafe {
            assert_eq!((api().devices)(self.0, devices.as_mut_ptr(), count), count);
            devices.set_len(count as usize);
        }
        devices
    }

    pub fn register(self: &Arc<Self>, device: u32, bytes: usize) -> Result<Arc<Memory>, Failed> {
        let cells: Box<[UnsafeCell<u8>]> = (0..bytes).map(|_| UnsafeCell::new(0)).collect();
        let mut handle = ptr::null_mut();
        let at = cells.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the memory lives as long as the registration (`Memory`).
        text(|text| unsafe {
            (api().register)(self.0, device, at, bytes as u64, &raw mut handle, text)
        })?;
        Ok(Arc::new(Memory { handle, cells, context: Arc::clone(self) }))
    }

    /// Asks for a dma-buf and gives it back at once.
    pub fn try_dmabuf(&self, descriptor: i32) -> Result<(), Failed> {
        let mut handle = ptr::null_mut();
        // SAFETY: the kernel checks the descriptor; the handle is ended at once.
        text(|text| unsafe {
            (api().register_dmabuf)(self.0, 0, descriptor, 0, 4096, 1 << 20, &raw mut handle, text)
        })?;
        // SAFETY: as above.
        unsafe { (api().deregister)(handle) };
        Ok(())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: all that was made of it holds it by an `Arc`.
        unsafe { (api().close)(self.0) }
    }
}

/// Registered memory of this process.
pub struct Memory {
    handle: *mut abi::Registration,
    cells: Box<[UnsafeCell<u8>]>,
    context: Arc<Context>,
}

// SAFETY: the contract lets any thread use the handle; who uses which bytes when is what the tests
// test.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn bytes(&self) -> usize {
        self.cells.len()
    }

    pub fn read(&self, at: usize, bytes: usize) -> Vec<u8> {
        let cells = &self.cells[at..at + bytes];
        // SAFETY: they are that many bytes; devices may write them, but not after what the test has
        // waited for.
        (0..bytes).map(|index| unsafe { cells[index].get().read_volatile() }).collect()
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        for (cell, byte) in self.cells[at..at + bytes.len()].iter().zip(bytes) {
            // SAFETY: it is a byte that no device uses now.
            unsafe { cell.get().write_volatile(*byte) };
        }
    }

    /// One end of a rail, and its address.
    pub fn rail(self: &Arc<Self>) -> Result<(Rail, abi::Address), Failed> {
        let mut handle = ptr::null_mut();
        let mut address = abi::Address { bytes: [0; 128] };
        let context = self.context.0;
        // SAFETY: all places live during the call, and the registration as long as the rail
        // (`Rail`).
        text(|text| unsafe {
            (api().rail)(context, self.handle, &raw mut handle, &raw mut address, text)
        })?;
        Ok((Rail { handle, memory: Arc::clone(self) }, address))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: rails hold their memory by an `Arc`.
        unsafe { (api().deregister)(self.handle) }
    }
}

/// One end of a rail.
pub struct Rail {
    handle: *mut abi::RailHandle,
    pub memory: Arc<Memory>,
}

// SAFETY: the contract lets any thread use it.
unsafe impl Send for Rail {}

/// What has happened, with names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Sent,
    Arrived { tag: u32, bytes: u32 },
}

impl Rail {
    pub fn connect(&mut self, address: &abi::Address) -> Result<(), Failed> {
        // SAFETY: the rail is alive, and all places live during the call.
        text(|text| unsafe { (api().connect)(self.handle, address, text) })?;
        Ok(())
    }

    pub fn describe(&mut self) -> String {
        let mut room = [0_u8; 512];
        let mut text = abi::Text { bytes: room.as_mut_ptr(), room: room.len() as u64, used: 0 };
        // SAFETY: as in `connect`.
        unsafe { (api().describe)(self.handle, &raw mut text) };
        String::from_utf8(room[..text.used as usize].to_vec()).unwrap()
    }

    /// False if there is no room.
    pub fn post(&mut self, from: usize, to: usize, bytes: usize, tag: u32) -> Result<bool, Failed> {
        let write = abi::RawWrite { from: from as u64, to: to as u64, bytes: bytes as u32, tag };
        // SAFETY: as in `connect`.
        let status = text(|text| unsafe { (api().post)(self.handle, &raw const write, text) })?;
        Ok(status == abi::OK)
    }

    pub fn poll(&mut self, room: usize) -> Result<Vec<Event>, Failed> {
        let mut happened = [abi::RawRailEvent { kind: 9, tag: 0, bytes: 0, reserved: 0 }; 64];
        let room = room.min(happened.len()) as u32;
        let into = happened.as_mut_ptr();
        // SAFETY: as in `connect`.
        let count = text(|text| unsafe { (api().poll)(self.handle, into, room, text) })?;
        let event = |happened: &abi::RawRailEvent| match happened.kind {
            0 => Event::Sent,
            1 => Event::Arrived { tag: happened.tag, bytes: happened.bytes },
            kind => panic!("kind {kind}"),
        };
        Ok(happened[..count as usize].iter().map(event).collect())
    }

    pub fn fail(&mut self) {
        // SAFETY: the rail is alive.
        unsafe { (api().fail)(self.handle) }
    }

    /// Polls until `done` says so of all that has happened.
    pub fn until(&mut self, mut done: impl FnMut(&[Event]) -> bool) -> Result<Vec<Event>, Failed> {
        let begun = Instant::now();
        let mut all = Vec::new();
        while !done(&all) {
            all.extend(self.poll(64)?);
            assert!(begun.elapsed() < PATIENCE, "{}: only {} events", self.describe(), all.len());
            std::thread::yield_now();
        }
        Ok(all)
    }

    /// Polls, and gives `step` what has happened, until it says that it is done.
    pub fn until_moved(&mut self, mut step: impl FnMut(&mut Self, &[Event]) -> bool) {
        let mut begun = Instant::now();
        loop {
            let happened = self.poll(64).unwrap();
            if !happened.is_empty() {
                begun = Instant::now();
            }
            if step(self, &happened) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{}: nothing happens", self.describe());
            std::thread::yield_now();
        }
    }

    /// Polls until the rail fails; answers why.
    pub fn failure(&mut self) -> String {
        match self.until(|_| false) {
            Err(Failed { status, why }) => {
                assert_eq!(status, abi::FAILED);
                why
            }
            Ok(_) => unreachable!(),
        }
    }
}

/// No test waits longer for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

impl Drop for Rail {
    fn drop(&mut self) {
        // SAFETY: the rail is alive and not used any more.
        unsafe { (api().end)(self.handle) }
    }
}

/// Two ends that are connected, of devices `a` and `b`, with memory of `bytes` each.
pub fn pair(setting: &Setting, a: u32, b: u32, bytes: usize) -> (Rail, Rail) {
    let context = Context::open(setting).unwrap();
    pair_of(&context.register(a, bytes).unwrap(), &context.register(b, bytes).unwrap())
}

/// Two ends that are connected, of these memories.
pub fn pair_of(a: &Arc<Memory>, b: &Arc<Memory>) -> (Rail, Rail) {
    let ((mut near, near_address), (mut far, far_address)) = (a.rail().unwrap(), b.rail().unwrap());
    near.connect(&far_address).unwrap();
    far.connect(&near_address).unwrap();
    (near, far)
}

/// Bytes that are different at every place and of every seed.
pub fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 7 + (at >> 8) * 31 + seed * 131) % 251) as u8).collect()
}

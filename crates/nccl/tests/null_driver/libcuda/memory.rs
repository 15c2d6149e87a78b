//! Memory of devices, which is memory of the host, and what is known of each allocation. An unsafe
//! boundary.

use std::alloc::{self, Layout};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, process, ptr};

use super::{CONTEXT, INVALID_VALUE, PAGE_BYTES, SUCCESS, current};

/// A plain allocation, or a mapping of virtual memory.
#[derive(Clone, Copy)]
pub struct Allocation {
    pub bytes: usize,
    pub device: i32,
    pub id: u64,
    /// What is mapped, of virtual memory.
    pub handle: Option<u64>,
}

/// By address.
static ALLOCATIONS: Mutex<BTreeMap<u64, Allocation>> = Mutex::new(BTreeMap::new());

pub fn allocations<T>(body: impl FnOnce(&mut BTreeMap<u64, Allocation>) -> T) -> T {
    body(&mut ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner))
}

pub fn enter_allocation(address: u64, bytes: usize, handle: Option<u64>) {
    static IDS: AtomicU64 = AtomicU64::new(1);
    let device = current().map_or(0, |context| (context - CONTEXT) as i32);
    let allocation = Allocation { bytes, device, id: IDS.fetch_add(1, SeqCst), handle };
    allocations(|all| all.insert(address, allocation));
}

/// The allocation in which `address` lies, and where that begins.
pub fn allocation_of(address: u64) -> Option<(u64, Allocation)> {
    let last = allocations(|all| all.range(..=address).next_back().map(|(at, of)| (*at, *of)));
    last.filter(|(base, of)| address - base < of.bytes as u64)
}

/// How often each handle of virtual memory is held, by callers and mappings. It is a descriptor of
/// ours.
static HANDLES: Mutex<BTreeMap<u64, u32>> = Mutex::new(BTreeMap::new());

fn handles<T>(body: impl FnOnce(&mut BTreeMap<u64, u32>) -> T) -> T {
    body(&mut HANDLES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Holds `handle` once more.
pub fn hold(handle: u64) {
    handles(|all| *all.entry(handle).or_default() += 1);
}

/// Holds `handle` once less; it ends with that, maybe.
pub fn release(handle: u64) -> u32 {
    handles(|all| {
        let Some(holds) = all.get_mut(&handle) else { return INVALID_VALUE };
        *holds -= 1;
        if *holds == 0 {
            all.remove(&handle);
            // SAFETY: the handle is a descriptor of ours, closed once.
            unsafe { system::close(handle as c_int) };
        }
        SUCCESS
    })
}

/// The thread that looks whether buffers still live must not ask what a driver does not bear while
/// they are freed.
pub fn check_asker(question: &str) {
    // The library that this one is loaded into has threads of its own, of which names are known to
    // the system alone.
    let asker = fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    if asker.starts_with("msccl-lend") {
        eprintln!("{} asks {question} about memory that its caller may be freeing", asker.trim());
        process::abort();
    }
}

/// Allocations begin so far into a page: drivers promise no more than such alignment.
const LEAD_BYTES: usize = 512;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(LEAD_BYTES)?, PAGE_BYTES).ok()
}

pub fn allocate(bytes: usize) -> *mut u8 {
    let Some(layout) = layout(bytes) else { return ptr::null_mut() };
    // SAFETY: the layout is of at least one byte.
    let page = unsafe { alloc::alloc_zeroed(layout) };
    if page.is_null() { page } else { page.wrapping_add(LEAD_BYTES) }
}

pub fn free(address: u64) -> u32 {
    let Some(allocation) = allocations(|all| all.remove(&address)) else { return INVALID_VALUE };
    let Some(layout) = layout(allocation.bytes) else { return INVALID_VALUE };
    let page = ptr::with_exposed_provenance_mut(address as usize - LEAD_BYTES);
    // SAFETY: `allocate` got it with this layout, and the table had it once.
    unsafe { alloc::dealloc(page, layout) };
    SUCCESS
}

pub fn copy(to: u64, from: u64, bytes: usize) {
    let (to, from) = (to as usize, from as usize);
    let to = ptr::with_exposed_provenance_mut::<u8>(to);
    // SAFETY: callers of a driver name memory that is theirs to copy.
    unsafe { ptr::copy(ptr::with_exposed_provenance::<u8>(from), to, bytes) };
}

/// The eight bytes at `address`.
pub fn word(address: u64) -> &'static AtomicU64 {
    let place = ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: callers of a driver name memory that is theirs, as an aligned word.
    unsafe { AtomicU64::from_ptr(place) }
}

/// Words for which streams wait, and what they are to be at least.
static WAITS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Notes that a stream waits for a word, if this process keeps such waits.
pub fn keep_wait(address: u64, value: u64) -> bool {
    let keeps = std::env::var_os("NULL_KEEPS_WAITS").is_some();
    if keeps {
        WAITS.lock().unwrap_or_else(PoisonError::into_inner).push((address, value));
    }
    keeps
}

/// Whether some stream still waits.
pub fn has_waits() -> bool {
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    waits.retain(|(address, value)| word(*address).load(SeqCst) < *value);
    !waits.is_empty()
}

/// What a stream does with a word, as the driver is given it.
#[repr(C)]
pub struct WordOperation {
    kind: u32,
    address: u64,
    value: u64,
    flags: u32,
    alias: u64,
    unused: u64,
}

impl WordOperation {
    const WRITE: u32 = 5;
    const WRITE_32: u32 = 2;

    /// Writes the word, or waits until it has the value; whether that came within a minute.
    pub fn run(&self) -> bool {
        let Self { kind, address, value, flags: _, alias: _, unused: _ } = *self;
        if kind == Self::WRITE {
            word(address).store(value, SeqCst);
            return true;
        }
        if kind == Self::WRITE_32 {
            let place = ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: callers of a driver name words of their own, which live as long as the call.
            unsafe { AtomicU32::from_ptr(place) }.store(value as u32, SeqCst);
            return true;
        }
        let since = Instant::now();
        while word(address).load(SeqCst) != value && since.elapsed() < Duration::from_secs(60) {
            thread::yield_now();
        }
        word(address).load(SeqCst) == value
    }
}

/// The system's calls for memory with a descriptor.
pub mod system {
    use super::{c_char, c_int, c_void};

    pub const READ_WRITE: c_int = 3;
    pub const NONE: c_int = 0;
    pub const SHARED_FIXED: c_int = 0x01 | 0x10;
    pub const PRIVATE_ANONYMOUS: c_int = 0x02 | 0x20;

    unsafe extern "C" {
        pub fn memfd_create(name: *const c_char, flags: u32) -> c_int;
        pub fn ftruncate(descriptor: c_int, bytes: i64) -> c_int;
        pub fn dup(descriptor: c_int) -> c_int;
        pub fn close(descriptor: c_int) -> c_int;
        pub fn mmap(
            at: *mut c_void,
            bytes: usize,
            protection: c_int,
            flags: c_int,
            descriptor: c_int,
            offset: i64,
        ) -> *mut c_void;
        pub fn munmap(at: *mut c_void, bytes: usize) -> c_int;
    }
}

/// Whether `device` is to have no memory of others like that behind `descriptor`.
pub fn refuses_import(device: i32, descriptor: c_int) -> bool {
    let Ok(refused) = std::env::var("NULL_REFUSES_IMPORTS") else { return false };
    // SAFETY: the caller's descriptor is open.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    let length_bytes = file.metadata().map_or(0, |of| of.len());
    refused == format!("{device}:{length_bytes}")
}

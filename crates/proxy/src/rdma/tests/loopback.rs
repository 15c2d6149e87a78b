//! A library whose queue pairs reach one another within this process, by copying: a door with `unsafe`,
//! since what it stands in for is C. It has two devices; `NCCL_IB_HCA` makes those of a context refuse to
//! connect, with some or with all, or reach dma-bufs, for which any file stands that can be mapped.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::{Mutex, MutexGuard};

use msccl_fabric::Rings;

use crate::port::{Copies, DmaBuf, Memory};
use crate::rdma::abi::{self, Api, Status};

/// Posts that may wait to be reported.
const ROOM: usize = 16;

/// The word of `NCCL_IB_HCA` with which connecting fails.
pub const REFUSES: &str = "refuses";

/// The word of `NCCL_IB_HCA` with which devices of different numbers cannot be connected.
pub const STRAIGHT: &str = "straight";

/// The word of `NCCL_IB_HCA` with which dma-bufs can be registered.
pub const MAPS: &str = "maps";

/// Memory that is not the host's, as far as proxies know: it has no address, a dma-buf, and can be copied.
pub struct OfDevice(pub Rings);

impl Memory for OfDevice {
    fn address(&self) -> *mut u8 {
        ptr::null_mut()
    }

    fn bytes(&self) -> u64 {
        self.0.memory().len() as u64
    }

    fn dmabuf(&self) -> Option<DmaBuf<'_>> {
        Some(DmaBuf { descriptor: self.0.memory().as_fd(), offset: 0 })
    }

    fn copies(&self) -> Option<&dyn Copies> {
        Some(self)
    }

    fn story(&self) -> Option<String> {
        Some("memory of a device".to_owned())
    }
}

impl Copies for OfDevice {
    fn fetch(&self, from: u64, into: &mut [u8]) -> Result<(), String> {
        let start = self.place(from, into.len());
        // SAFETY: the place lies inside the memory, and the proxy owns it.
        unsafe { start.copy_to(into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn put(&self, to: u64, bytes: &[u8]) -> Result<(), String> {
        let start = self.place(to, bytes.len());
        // SAFETY: as above.
        unsafe { start.copy_from(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

impl OfDevice {
    fn place(&self, offset: u64, bytes: usize) -> *mut u8 {
        assert!(offset as usize + bytes <= self.0.memory().len());
        self.0.memory().as_ptr().wrapping_add(offset as usize)
    }
}

/// All queue pairs of the process, by number.
static PAIRS: Mutex<BTreeMap<u64, Pair>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Pair {
    context: usize,
    device: u32,
    base: usize,
    bytes: u64,
    peer: u64,
    /// Takes nothing in and sends nothing out.
    failed: bool,
    /// What polling will say instead of anything else.
    broken: bool,
    outstanding: usize,
    events: VecDeque<abi::Happened>,
}

struct Context {
    refuses: bool,
    straight: bool,
    maps: bool,
}

struct Registration {
    device: u32,
    base: usize,
    bytes: u64,
    /// Whether it was mapped for this.
    mapped: bool,
}

fn pairs() -> MutexGuard<'static, BTreeMap<u64, Pair>> {
    PAIRS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Lets all queue pairs of a device break that were made by the context of `address`.
pub fn break_device(device: u32, bases: &[usize]) -> usize {
    let mut pairs = pairs();
    let broken =
        pairs.values_mut().filter(|pair| pair.device == device && bases.contains(&pair.base));
    broken.map(|pair| pair.broken = true).count()
}

unsafe fn say(text: *mut abi::Text, words: &str) {
    // SAFETY: callers give a text with room.
    unsafe {
        let used = words.len().min((*text).room as usize);
        words.as_ptr().copy_to_nonoverlapping((*text).bytes, used);
        (*text).used = used as u64;
    }
}

unsafe extern "C" fn open(
    config: *const abi::Config,
    context: *mut *mut abi::Context,
    _text: *mut abi::Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe {
        let word = match (*config).hca_bytes {
            0 => &[],
            bytes => std::slice::from_raw_parts((*config).hca, bytes as usize),
        };
        let [refuses, straight, maps] =
            [REFUSES, STRAIGHT, MAPS].map(|known| word == known.as_bytes());
        *context = Box::into_raw(Box::new(Context { refuses, straight, maps })).cast();
    }
    abi::OK
}

unsafe extern "C" fn close(context: *mut abi::Context) {
    // SAFETY: as the ABI says.
    drop(unsafe { Box::from_raw(context.cast::<Context>()) });
}

unsafe extern "C" fn devices(_: *mut abi::Context, devices: *mut abi::Device, room: u32) -> u32 {
    assert!(room >= 2);
    for index in 0..2 {
        let mut name = [0; 64];
        name[..5].copy_from_slice(&[b'l', b'o', b'o', b'p', b'0' + index]);
        let (pci_path, mtu_bytes, gbit_per_s) = ([0; 256], 4096, 100);
        let device = abi::Device { name, pci_path, port: 1, mtu_bytes, gbit_per_s, ethernet: 1 };
        // SAFETY: there is room for two.
        unsafe { *devices.add(usize::from(index)) = device };
    }
    2
}

unsafe extern "C" fn register(
    _: *mut abi::Context,
    device: u32,
    address: *mut c_void,
    bytes: u64,
    registration: *mut *mut abi::Registration,
    _text: *mut abi::Text,
) -> Status {
    assert!(!address.is_null(), "it is no memory of the host");
    let made = Registration { device, base: address as usize, bytes, mapped: false };
    // SAFETY: as the ABI says.
    unsafe { *registration = Box::into_raw(Box::new(made)).cast() };
    abi::OK
}

unsafe extern "C" fn register_dmabuf(
    context: *mut abi::Context,
    device: u32,
    descriptor: i32,
    offset: u64,
    bytes: u64,
    _address: u64,
    registration: *mut *mut abi::Registration,
    text: *mut abi::Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe {
        if !(*context.cast::<Context>()).maps {
            say(text, "EOPNOTSUPP");
            return abi::UNSUPPORTED;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (length, offset) = (bytes as usize, offset as libc::off_t);
        let base =
            libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, descriptor, offset);
        assert_ne!(base, libc::MAP_FAILED);
        let made = Registration { device, base: base as usize, bytes, mapped: true };
        *registration = Box::into_raw(Box::new(made)).cast();
    }
    abi::OK
}

unsafe extern "C" fn deregister(registration: *mut abi::Registration) {
    // SAFETY: as the ABI says.
    let Registration { base, bytes, mapped, .. } =
        *unsafe { Box::from_raw(registration.cast::<Registration>()) };
    if mapped {
        // SAFETY: it was mapped for this registration, of which no queue pair is left.
        assert_eq!(unsafe { libc::munmap(base as *mut c_void, bytes as usize) }, 0);
    }
}

unsafe extern "C" fn rail(
    context: *mut abi::Context,
    registration: *mut abi::Registration,
    rail: *mut *mut abi::Rail,
    address: *mut abi::Address,
    _text: *mut abi::Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe {
        let Registration { device, base, bytes, .. } = *registration.cast::<Registration>();
        let mut pairs = pairs();
        let number = pairs.last_key_value().map_or(1, |(last, _)| last + 1);
        let pair = Pair { context: context as usize, device, base, bytes, ..Pair::default() };
        pairs.insert(number, pair);
        let mut found = abi::Address { bytes: [0; 128] };
        found.bytes[..8].copy_from_slice(&number.to_le_bytes());
        *address = found;
        *rail = number as *mut abi::Rail;
    }
    abi::OK
}

unsafe extern "C" fn connect(
    rail: *mut abi::Rail,
    address: *const abi::Address,
    text: *mut abi::Text,
) -> Status {
    let mut pairs = pairs();
    // SAFETY: as the ABI says.
    let abi::Address { bytes } = unsafe { *address };
    let peer = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    let there = pairs.get(&peer).map(|peer| peer.device);
    let pair = pairs.get_mut(&(rail as u64)).unwrap();
    // SAFETY: the context outlives its queue pairs.
    unsafe {
        let Context { refuses, straight, maps: _ } = *(pair.context as *const Context);
        if refuses || (straight && there != Some(pair.device)) {
            say(text, "no path to that GID");
            return abi::FAILED;
        }
    }
    pair.peer = peer;
    abi::OK
}

unsafe extern "C" fn story(rail: *mut abi::Rail, text: *mut abi::Text) {
    let pairs = pairs();
    let Pair { device, peer, .. } = &pairs[&(rail as u64)];
    let there = pairs[peer].device;
    // SAFETY: as the ABI says.
    unsafe { say(text, &format!("loop{device}:1 → loop{there}:1")) }
}

unsafe extern "C" fn post(
    rail: *mut abi::Rail,
    write: *const abi::Write,
    text: *mut abi::Text,
) -> Status {
    let mut pairs = pairs();
    let pair = pairs.get_mut(&(rail as u64)).unwrap();
    if pair.failed || pair.broken {
        // SAFETY: as the ABI says.
        unsafe { say(text, "the queue pair is in its error state") };
        return abi::FAILED;
    }
    if pair.outstanding >= ROOM {
        return abi::FULL;
    }
    // SAFETY: as the ABI says.
    let abi::Write { from, to, bytes, tag } = unsafe { *write };
    assert!(from + u64::from(bytes) <= pair.bytes);
    pair.outstanding += 1;
    let (source, peer) = (pair.base + from as usize, pair.peer);
    let event = |kind| abi::Happened { kind, tag, bytes, reserved: 0 };
    let landed = match pairs.get_mut(&peer) {
        Some(peer) if !peer.failed && !peer.broken => {
            assert!(to + u64::from(bytes) <= peer.bytes);
            let target = peer.base + to as usize;
            // SAFETY: both places lie inside of registrations, which are mapped as long as their queue
            // pairs exist.
            unsafe { (source as *const u8).copy_to(target as *mut u8, bytes as usize) };
            peer.events.push_back(event(1));
            true
        }
        _ => false,
    };
    let pair = pairs.get_mut(&(rail as u64)).unwrap();
    match landed {
        true => pair.events.push_back(event(0)),
        false => pair.broken = true,
    }
    abi::OK
}

unsafe extern "C" fn poll(
    rail: *mut abi::Rail,
    events: *mut abi::Happened,
    room: u32,
    text: *mut abi::Text,
) -> i32 {
    let mut pairs = pairs();
    let pair = pairs.get_mut(&(rail as u64)).unwrap();
    if pair.broken {
        // SAFETY: as the ABI says.
        unsafe { say(text, "retries exceeded (status 12)") };
        return abi::FAILED;
    }
    let mut count = 0;
    while count < room as usize {
        let Some(event) = pair.events.pop_front() else { break };
        pair.outstanding -= usize::from(event.kind == 0);
        // SAFETY: there is room.
        unsafe { *events.add(count) = event };
        count += 1;
    }
    count as i32
}

unsafe extern "C" fn fail(rail: *mut abi::Rail) {
    pairs().get_mut(&(rail as u64)).unwrap().failed = true;
}

unsafe extern "C" fn end(rail: *mut abi::Rail) {
    pairs().remove(&(rail as u64));
}

pub static API: Api = Api {
    version: abi::VERSION,
    reserved: 0,
    open,
    close,
    devices,
    register,
    register_dmabuf,
    deregister,
    rail,
    connect,
    story,
    post,
    poll,
    fail,
    end,
};

//! A library whose queue pairs reach one another within this process, by copying: an unsafe
//! boundary. It has two devices; `NCCL_IB_HCA` makes those of a context refuse to connect, with
//! some or with all, or reach dma-bufs, for which any file stands that can be mapped.

#![expect(unsafe_code, reason = "copies between memories of ranks by address")]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard};

use msccl_fabric::RingBuffers;

use crate::endpoint::{Copies, DmaBuf, Memory};
use crate::rdma::abi::{self, Api};
use crate::rdma::offer::{self, Library, Refusal};

/// Posts that may wait to be reported.
const ROOM: usize = 16;

/// The word of `NCCL_IB_HCA` with which connecting fails.
pub const REFUSES: &str = "refuses";

/// The word of `NCCL_IB_HCA` with which devices of different numbers cannot be connected.
pub const STRAIGHT: &str = "straight";

/// The word of `NCCL_IB_HCA` with which dma-bufs can be registered.
pub const MAPS: &str = "maps";

/// Memory that is not the host's, as far as proxies know: it has no address, a dma-buf, and can be
/// copied.
pub struct OfDevice(pub RingBuffers);

impl Memory for OfDevice {
    fn address(&self) -> *mut u8 {
        ptr::null_mut()
    }

    fn bytes(&self) -> u64 {
        self.0.memory().len() as u64
    }

    fn dmabuf(&self) -> Option<DmaBuf<'_>> {
        Some(DmaBuf { descriptor: self.0.memory().descriptor().ok()?, offset: 0 })
    }

    fn copies(&self) -> Option<&dyn Copies> {
        Some(self)
    }

    fn describe(&self) -> Option<String> {
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
static PAIRS: Mutex<BTreeMap<u64, LoopbackPair>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct LoopbackPair {
    context: LoopbackContext,
    device: u32,
    base: usize,
    bytes: u64,
    peer: u64,
    /// Takes nothing in and sends nothing out.
    failed: bool,
    /// What polling will say instead of anything else.
    broken: bool,
    outstanding: usize,
    events: VecDeque<abi::RawRailEvent>,
}

/// The number of a queue pair that ends with this.
struct LoopbackEnd(u64);

#[derive(Clone, Copy, Default)]
struct LoopbackContext {
    refuses: bool,
    straight: bool,
    maps: bool,
}

struct LoopbackRegistration {
    device: u32,
    base: usize,
    bytes: u64,
    /// Whether it was mapped for this.
    mapped: bool,
}

fn pairs() -> MutexGuard<'static, BTreeMap<u64, LoopbackPair>> {
    PAIRS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Lets all queue pairs of a device break that were made by the context of `address`.
pub fn break_device(device: u32, bases: &[usize]) -> usize {
    let mut pairs = pairs();
    let broken =
        pairs.values_mut().filter(|pair| pair.device == device && bases.contains(&pair.base));
    broken.map(|pair| pair.broken = true).count()
}

impl Drop for LoopbackRegistration {
    fn drop(&mut self) {
        if self.mapped {
            let (base, bytes) = (self.base as *mut c_void, self.bytes as usize);
            // SAFETY: it was mapped for this registration, of which no queue pair is left.
            assert_eq!(unsafe { libc::munmap(base, bytes) }, 0);
        }
    }
}

impl Drop for LoopbackEnd {
    fn drop(&mut self) {
        pairs().remove(&self.0);
    }
}

fn failed<T>(why: &str) -> Result<T, Refusal> {
    Err(Refusal::Failed(why.to_owned()))
}

impl Library for LoopbackContext {
    type Registration = LoopbackRegistration;
    type Rail = LoopbackEnd;

    fn open(hca: &str, _config: &abi::VerbsConfig) -> Result<Self, Refusal> {
        let [refuses, straight, maps] = [REFUSES, STRAIGHT, MAPS].map(|known| hca == known);
        Ok(Self { refuses, straight, maps })
    }

    fn devices(&self) -> Vec<abi::Device> {
        let device = |index| {
            let mut name = [0; 64];
            name[..5].copy_from_slice(&[b'l', b'o', b'o', b'p', b'0' + index]);
            let (pci_path, mtu_bytes, gbit_per_s) = ([0; 256], 4096, 100);
            abi::Device { name, pci_path, port: 1, mtu_bytes, gbit_per_s, ethernet: 1 }
        };
        (0..2).map(device).collect()
    }

    unsafe fn register(
        &self,
        device: u32,
        address: *mut c_void,
        bytes: u64,
    ) -> Result<LoopbackRegistration, Refusal> {
        assert!(!address.is_null(), "it is no memory of the host");
        Ok(LoopbackRegistration { device, base: address as usize, bytes, mapped: false })
    }

    fn register_dmabuf(
        &self,
        device: u32,
        memory: offer::OfferedDmaBuf,
    ) -> Result<LoopbackRegistration, Refusal> {
        let offer::OfferedDmaBuf { descriptor, offset, bytes, address: _ } = memory;
        if !self.maps {
            return Err(Refusal::Unsupported("EOPNOTSUPP".to_owned()));
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (length, offset) = (bytes as usize, offset as libc::off_t);
        // SAFETY: a new mapping is in nobody's way.
        let base = unsafe {
            libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, descriptor, offset)
        };
        assert_ne!(base, libc::MAP_FAILED);
        Ok(LoopbackRegistration { device, base: base as usize, bytes, mapped: true })
    }

    fn rail(&self, memory: &LoopbackRegistration) -> Result<(LoopbackEnd, abi::Address), Refusal> {
        let LoopbackRegistration { device, base, bytes, mapped: _ } = *memory;
        let mut pairs = pairs();
        let number = pairs.last_key_value().map_or(1, |(last, _)| last + 1);
        pairs.insert(
            number,
            LoopbackPair { context: *self, device, base, bytes, ..LoopbackPair::default() },
        );
        let mut address = abi::Address { bytes: [0; 128] };
        address.bytes[..8].copy_from_slice(&number.to_le_bytes());
        Ok((LoopbackEnd(number), address))
    }

    fn connect(rail: &mut LoopbackEnd, peer: &abi::Address) -> Result<(), Refusal> {
        let mut pairs = pairs();
        let peer = u64::from_le_bytes(*peer.bytes.first_chunk().unwrap());
        let there = pairs.get(&peer).map(|peer| peer.device);
        let pair = pairs.get_mut(&rail.0).unwrap();
        let LoopbackContext { refuses, straight, maps: _ } = pair.context;
        if refuses || (straight && there != Some(pair.device)) {
            return failed("no path to that GID");
        }
        pair.peer = peer;
        Ok(())
    }

    fn describe(rail: &LoopbackEnd) -> String {
        let pairs = pairs();
        let LoopbackPair { device, peer, .. } = &pairs[&rail.0];
        format!("loop{device}:1 → loop{}:1", pairs[peer].device)
    }

    fn post(rail: &mut LoopbackEnd, write: &abi::RawWrite) -> Result<bool, Refusal> {
        let mut pairs = pairs();
        let pair = pairs.get_mut(&rail.0).unwrap();
        if pair.failed || pair.broken {
            return failed("the queue pair is in its error state");
        }
        if pair.outstanding >= ROOM {
            return Ok(false);
        }
        let abi::RawWrite { from, to, bytes, tag } = *write;
        assert!(from + u64::from(bytes) <= pair.bytes);
        pair.outstanding += 1;
        let (source, peer) = (pair.base + from as usize, pair.peer);
        let event = |kind| abi::RawRailEvent { kind, tag, bytes, reserved: 0 };
        let landed = match pairs.get_mut(&peer) {
            Some(peer) if !peer.failed && !peer.broken => {
                assert!(to + u64::from(bytes) <= peer.bytes);
                let target = peer.base + to as usize;
                // SAFETY: both places lie inside of registrations, which are mapped as long as
                // their queue pairs exist.
                unsafe { (source as *const u8).copy_to(target as *mut u8, bytes as usize) };
                peer.events.push_back(event(1));
                true
            }
            _ => false,
        };
        let pair = pairs.get_mut(&rail.0).unwrap();
        match landed {
            true => pair.events.push_back(event(0)),
            false => pair.broken = true,
        }
        Ok(true)
    }

    fn poll(rail: &mut LoopbackEnd, events: &mut [abi::RawRailEvent]) -> Result<usize, Refusal> {
        let mut pairs = pairs();
        let pair = pairs.get_mut(&rail.0).unwrap();
        if pair.broken {
            return failed("retries exceeded (status 12)");
        }
        let count = events.len().min(pair.events.len());
        for (place, event) in events.iter_mut().zip(pair.events.drain(..count)) {
            pair.outstanding -= usize::from(event.kind == 0);
            *place = event;
        }
        Ok(count)
    }

    fn fail(rail: &mut LoopbackEnd) {
        pairs().get_mut(&rail.0).unwrap().failed = true;
    }
}

pub static API: Api = offer::table::<LoopbackContext>();

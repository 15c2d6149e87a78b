//! Calls into the library for verbs: an unsafe boundary. Handles are values here, which end what
//! they stand for, in the right order.

#![expect(unsafe_code, reason = "calls the library for verbs")]

use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use msccl_topology::address::BusId;

use super::abi;
use super::offer::Refusal;
use crate::config::RdmaConfig;
use crate::endpoint::Memory;
use crate::rail::{Posted, RailEvent, Write};

/// Bytes for the library's words.
const TEXT_BYTES: usize = 512;

/// Events that one call fetches.
const EVENTS: usize = 64;

/// A port of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DevicePort {
    pub(super) name: String,
    /// Where it is; none if it is no PCI device.
    pub(super) pci: Option<BusId>,
    pub(super) port: u32,
    pub(super) gbit_per_s: u32,
    pub(super) ethernet: bool,
}

/// All devices; closed when nothing of it is left.
pub(super) struct VerbsContext {
    api: &'static abi::Api,
    pointer: NonNull<abi::Context>,
    /// Held during every call: one at a time.
    turn: Mutex<()>,
}

/// Memory that a device may reach.
pub(super) struct MemoryRegistration {
    context: Arc<VerbsContext>,
    pointer: NonNull<abi::Registration>,
    /// Stays mapped as long as the device may reach it.
    _memory: Arc<dyn Memory>,
}

/// One end of a connection.
pub(super) struct RailEnd {
    api: &'static abi::Api,
    pointer: NonNull<abi::RailHandle>,
    _registration: Arc<MemoryRegistration>,
}

// SAFETY: handles may be used from any thread, and every call through this one is made while `turn`
// is held.
unsafe impl Send for VerbsContext {}
// SAFETY: as above.
unsafe impl Sync for VerbsContext {}
// SAFETY: handles may be used from any thread; calls with this one are those of `VerbsContext`,
// which are made one at a time, and the last one, of whoever drops it.
unsafe impl Send for MemoryRegistration {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegistration {}
// SAFETY: handles may be used from any thread; the value has one owner, whose methods take it
// mutably.
unsafe impl Send for RailEnd {}

impl VerbsContext {
    pub(super) fn open(api: &'static abi::Api, config: &RdmaConfig) -> Result<Self, String> {
        let number =
            |value: Option<u32>| value.and_then(|value| i32::try_from(value).ok()).unwrap_or(-1);
        let hca = config.hca.as_deref().unwrap_or_default();
        let wishes = abi::VerbsConfig {
            hca: if hca.is_empty() { ptr::null() } else { hca.as_ptr() },
            hca_bytes: hca.len() as u64,
            gid_index: number(config.gid_index),
            timeout: number(config.timeout),
            retry_count: number(config.retry_count),
            traffic_class: number(config.traffic_class),
            service_level: number(config.service_level),
        };
        let mut pointer = ptr::null_mut();
        let opened = Words::of(|text| {
            // SAFETY: all pointers are to values that live during the call.
            unsafe { (api.open)(&wishes, &mut pointer, text) }
        });
        let pointer = opened.and_then(|()| handle(pointer)).map_err(Refusal::text)?;
        Ok(Self { api, pointer, turn: Mutex::new(()) })
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn devices(&self) -> Vec<DevicePort> {
        let _turn = self.turn();
        let nothing = abi::Device {
            name: [0; 64],
            pci_path: [0; 256],
            port: 0,
            mtu_bytes: 0,
            gbit_per_s: 0,
            ethernet: 0,
        };
        let mut devices = vec![nothing; 64];
        // SAFETY: the handle is alive, and there is room for as many devices as are said.
        let count = unsafe {
            (self.api.devices)(self.pointer.as_ptr(), devices.as_mut_ptr(), devices.len() as u32)
        };
        devices.truncate(count as usize);
        devices.iter().map(device).collect()
    }

    /// Lets device number `device` reach all of `memory`.
    pub(super) fn register(
        self: &Arc<Self>,
        device: u32,
        memory: &Arc<dyn Memory>,
    ) -> Result<MemoryRegistration, Refusal> {
        let _turn = self.turn();
        let mut pointer = ptr::null_mut();
        let (context, bytes) = (self.pointer.as_ptr(), memory.bytes());
        Words::of(|text| {
            // SAFETY: the handle is alive; the memory is mapped, and stays so as long as the
            // registration lives.
            unsafe {
                let address = memory.address().cast();
                (self.api.register)(context, device, address, bytes, &mut pointer, text)
            }
        })?;
        self.registration(pointer, memory)
    }

    /// As [`VerbsContext::register`], by the dma-buf of `memory`. Unsupported if it has none.
    pub(super) fn register_dmabuf(
        self: &Arc<Self>,
        device: u32,
        memory: &Arc<dyn Memory>,
    ) -> Result<MemoryRegistration, Refusal> {
        let none = || Refusal::Unsupported("the memory has no dma-buf".to_owned());
        let dmabuf = memory.dmabuf().ok_or_else(none)?;
        let _turn = self.turn();
        let mut pointer = ptr::null_mut();
        let (context, bytes) = (self.pointer.as_ptr(), memory.bytes());
        let (descriptor, offset) = (dmabuf.descriptor.as_raw_fd(), dmabuf.offset);
        let address = memory.address() as u64;
        Words::of(|text| {
            // SAFETY: the handle is alive, and the descriptor is borrowed from the memory.
            unsafe {
                (self.api.register_dmabuf)(
                    context,
                    device,
                    descriptor,
                    offset,
                    bytes,
                    address,
                    &mut pointer,
                    text,
                )
            }
        })?;
        self.registration(pointer, memory)
    }

    fn registration(
        self: &Arc<Self>,
        pointer: *mut abi::Registration,
        memory: &Arc<dyn Memory>,
    ) -> Result<MemoryRegistration, Refusal> {
        let pointer = handle(pointer)?;
        Ok(MemoryRegistration { context: self.clone(), pointer, _memory: memory.clone() })
    }
}

impl Drop for VerbsContext {
    fn drop(&mut self) {
        // SAFETY: the last holder drops it; registrations, and by them rails, hold it.
        unsafe { (self.api.close)(self.pointer.as_ptr()) }
    }
}

impl MemoryRegistration {
    /// One end of a connection for this memory, and what the peer must know of it.
    pub(super) fn end(self: &Arc<Self>) -> Result<(RailEnd, abi::Address), String> {
        let _turn = self.context.turn();
        let api = self.context.api;
        let (mut pointer, mut address) = (ptr::null_mut(), abi::Address { bytes: [0; 128] });
        let (context, registration) = (self.context.pointer.as_ptr(), self.pointer.as_ptr());
        let result = Words::of(|text| {
            // SAFETY: both handles are alive, and the others are places for answers.
            unsafe { (api.rail)(context, registration, &mut pointer, &mut address, text) }
        });
        let pointer = result.and_then(|()| handle(pointer)).map_err(Refusal::text)?;
        Ok((RailEnd { api, pointer, _registration: self.clone() }, address))
    }
}

impl Drop for MemoryRegistration {
    fn drop(&mut self) {
        // SAFETY: the last holder drops it; rails hold it.
        unsafe { (self.context.api.deregister)(self.pointer.as_ptr()) }
    }
}

impl RailEnd {
    /// Connects with the peer's end.
    pub(super) fn connect(&mut self, address: &abi::Address) -> Result<(), Refusal> {
        // SAFETY: the handle is alive, and the address lives during the call.
        Words::of(|text| unsafe { (self.api.connect)(self.pointer.as_ptr(), address, text) })
    }

    pub(super) fn describe(&self) -> String {
        Words::collect(|text| {
            // SAFETY: the handle is alive. The value is not shared between threads (it is not
            // `Sync`).
            unsafe { (self.api.describe)(self.pointer.as_ptr(), text) }
        })
    }

    pub(super) fn post(&mut self, write: &Write) -> Result<Posted, String> {
        let Write { from, to, bytes, tag } = *write;
        let write = abi::RawWrite { from, to, bytes, tag };
        let mut full = false;
        let posted = Words::of(|text| {
            // SAFETY: the handle is alive, and the write lives during the call; its bytes lie in
            // the registration, where the library checks it, and belong to the proxy until it is
            // reported as sent.
            let status = unsafe { (self.api.post)(self.pointer.as_ptr(), &write, text) };
            full = status == abi::FULL;
            if full { abi::OK } else { status }
        });
        posted.map_err(Refusal::text)?;
        Ok(if full { Posted::Full } else { Posted::Yes })
    }

    pub(super) fn poll(&mut self, events: &mut Vec<RailEvent>) -> Result<(), String> {
        let nothing = abi::RawRailEvent { kind: 0, tag: 0, bytes: 0, reserved: 0 };
        let mut raw = [nothing; EVENTS];
        loop {
            let mut count = 0;
            let polled = Words::of(|text| {
                // SAFETY: the handle is alive, and there is room for as many events as are said.
                let answer = unsafe {
                    (self.api.poll)(self.pointer.as_ptr(), raw.as_mut_ptr(), EVENTS as u32, text)
                };
                count = usize::try_from(answer).unwrap_or(0).min(EVENTS);
                answer.min(abi::OK)
            });
            for event in &raw[..count] {
                events.push(match event.kind {
                    0 => RailEvent::Sent,
                    1 => RailEvent::Arrived { tag: event.tag, bytes: event.bytes },
                    other => return Err(format!("the library reports an event of kind {other}")),
                });
            }
            polled.map_err(Refusal::text)?;
            if count < EVENTS {
                return Ok(());
            }
        }
    }

    pub(super) fn fail(&mut self) {
        // SAFETY: the handle is alive.
        unsafe { (self.api.fail)(self.pointer.as_ptr()) }
    }
}

impl Drop for RailEnd {
    fn drop(&mut self) {
        // SAFETY: the only owner drops it.
        unsafe { (self.api.end)(self.pointer.as_ptr()) }
    }
}

/// Room for the library's words.
struct Words([u8; TEXT_BYTES]);

impl Words {
    /// Makes a call that gives a status and, if it failed, words.
    fn of(call: impl FnOnce(*mut abi::Text) -> abi::Status) -> Result<(), Refusal> {
        let mut status = abi::OK;
        let why = Self::collect(|text| status = call(text));
        let why = if why.is_empty() { "no reason was given".to_owned() } else { why };
        match status {
            abi::OK => Ok(()),
            abi::UNSUPPORTED => Err(Refusal::Unsupported(why)),
            abi::UNANSWERED => Err(Refusal::Unanswered(why)),
            abi::FAILED => Err(Refusal::Failed(why)),
            other => Err(Refusal::Failed(format!("{why} (status {other})"))),
        }
    }

    /// What a call says.
    fn collect(call: impl FnOnce(*mut abi::Text)) -> String {
        let mut room = Self([0; TEXT_BYTES]);
        let mut text = abi::Text { bytes: room.0.as_mut_ptr(), room: TEXT_BYTES as u64, used: 0 };
        call(&mut text);
        let used = usize::try_from(text.used).unwrap_or(TEXT_BYTES).min(TEXT_BYTES);
        String::from_utf8_lossy(&room.0[..used]).trim().to_owned()
    }
}

/// A handle that a successful call has filled in.
fn handle<T>(pointer: *mut T) -> Result<NonNull<T>, Refusal> {
    NonNull::new(pointer).ok_or_else(|| Refusal::Failed("the library gives no handle".to_owned()))
}

fn device(device: &abi::Device) -> DevicePort {
    let abi::Device { name, pci_path, port, mtu_bytes: _, gbit_per_s, ethernet } = device;
    let pci = unpadded(pci_path).rsplit('/').next().and_then(|last| last.parse().ok());
    let (name, ethernet) = (unpadded(name), *ethernet != 0);
    DevicePort { name, pci, port: *port, gbit_per_s: *gbit_per_s, ethernet }
}

/// A text that ends with zeros.
fn unpadded(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

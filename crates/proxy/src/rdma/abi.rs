//! What `libmsccl-rdma.so` offers, in the C ABI.
//!
//! **Versions.** The library answers the entry with a table for the version asked for, or with
//! null. A table of a version never changes; what is added is a new version.
//!
//! **Rules for all functions.** They never block, beyond what opening, registering and connecting
//! take, and never unwind. Handles of one context may be used from any thread, one call at a time
//! per handle. A [`Text`] receives why a function failed, in words for people, cut to its length.
//! Statuses are those of [`Status`].

use std::ffi::c_void;

/// The symbol that the library exports: a [`Entry`].
pub const ENTRY: &str = "msccl_rdma_api";

/// The version that is described here.
pub const VERSION: u32 = 2;

/// Gives the table of `version`, or null.
pub type Entry = unsafe extern "C" fn(version: u32) -> *const Api;

/// How a function ended.
pub type Status = i32;
/// It did what was asked for.
pub const OK: Status = 0;
/// There is no room now; nothing was done.
pub const FULL: Status = 1;
/// It failed, and the text says why.
pub const FAILED: Status = -1;
/// The device or the driver does not offer that; another way is to be taken.
pub const UNSUPPORTED: Status = -2;
/// Nobody answers for the peer's address. That may change, and the same call may succeed later.
pub const UNANSWERED: Status = -3;

/// Where a function puts the reason of its failure.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    /// Room for UTF-8.
    pub bytes: *mut u8,
    /// How much.
    pub room: u64,
    /// How much was used; never more than `room`.
    pub used: u64,
}

/// The library's view of this machine: all its devices.
#[repr(C)]
pub struct Context {
    _opaque: [u8; 0],
}

/// Memory that a device may reach.
#[repr(C)]
pub struct Registration {
    _opaque: [u8; 0],
}

/// One end of a reliable connection.
#[repr(C)]
pub struct RailHandle {
    _opaque: [u8; 0],
}

/// What users set; see `docs/ENVIRONMENT.md`. Numbers that were not set are negative.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VerbsConfig {
    /// `NCCL_IB_HCA`, as it stands; may be null if `hca_bytes` is 0.
    pub hca: *const u8,
    /// Its length.
    pub hca_bytes: u64,
    /// `NCCL_IB_GID_INDEX`.
    pub gid_index: i32,
    /// `NCCL_IB_TIMEOUT`, as verbs have it: 4.096 µs · 2^timeout.
    pub timeout: i32,
    /// `NCCL_IB_RETRY_CNT`.
    pub retry_count: i32,
    /// `NCCL_IB_TC`.
    pub traffic_class: i32,
    /// `NCCL_IB_SL`.
    pub service_level: i32,
}

/// A port of a device that can be used.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Device {
    /// Such as `mlx5_0`, ended by zeros.
    pub name: [u8; 64],
    /// The path of the PCI device in sysfs, ended by zeros; nothing if there is none.
    pub pci_path: [u8; 256],
    /// The port, from 1.
    pub port: u32,
    /// Bytes of the largest packet.
    pub mtu_bytes: u32,
    /// Its speed in Gbit/s; 0 if not known.
    pub gbit_per_s: u32,
    /// 1 if the link layer is Ethernet, 0 if it is InfiniBand.
    pub ethernet: u32,
}

/// What the peer must know of a rail: bytes that only the library understands.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// Padded with zeros.
    pub bytes: [u8; 128],
}

/// As [`crate::Write`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawWrite {
    /// From the beginning of this rank's registration.
    pub from: u64,
    /// From the beginning of the peer's registration.
    pub to: u64,
    /// How many.
    pub bytes: u32,
    /// What is reported to the peer.
    pub tag: u32,
}

/// As [`crate::RailEvent`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawRailEvent {
    /// 0: the oldest post that was not reported yet was sent. 1: a write has arrived.
    pub kind: u32,
    /// The tag of what has arrived.
    pub tag: u32,
    /// How many bytes it brought.
    pub bytes: u32,
    /// 0.
    pub reserved: u32,
}

/// The library's functions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Api {
    /// [`VERSION`].
    pub version: u32,
    /// 0.
    pub reserved: u32,
    /// Finds the devices that `config` allows. No devices is a failure whose text says why.
    pub open: unsafe extern "C" fn(*const VerbsConfig, *mut *mut Context, *mut Text) -> Status,
    /// Ends a context of which nothing is left.
    pub close: unsafe extern "C" fn(*mut Context),
    /// How many devices there are; fills at most `room`.
    pub devices: unsafe extern "C" fn(*mut Context, devices: *mut Device, room: u32) -> u32,
    /// Lets device number `device` reach host memory.
    pub register: unsafe extern "C" fn(
        *mut Context,
        device: u32,
        address: *mut c_void,
        bytes: u64,
        *mut *mut Registration,
        *mut Text,
    ) -> Status,
    /// Lets device number `device` reach `bytes` bytes from `offset` on of the dma-buf
    /// `descriptor`; `address` is what the same memory is called by its owner.
    pub register_dmabuf: unsafe extern "C" fn(
        *mut Context,
        device: u32,
        descriptor: i32,
        offset: u64,
        bytes: u64,
        address: u64,
        *mut *mut Registration,
        *mut Text,
    ) -> Status,
    /// Ends a registration that no rail uses.
    pub deregister: unsafe extern "C" fn(*mut Registration),
    /// One end of a connection for this memory, and what the peer must know of it.
    pub rail: unsafe extern "C" fn(
        *mut Context,
        *mut Registration,
        *mut *mut RailHandle,
        *mut Address,
        *mut Text,
    ) -> Status,
    /// Connects with the peer's end, or is [`UNANSWERED`]. Posts may follow once the peer's proxy
    /// is known to have done so too.
    pub connect: unsafe extern "C" fn(*mut RailHandle, *const Address, *mut Text) -> Status,
    /// As [`crate::Rail::describe`]; it says to the end where the rail led.
    pub describe: unsafe extern "C" fn(*mut RailHandle, *mut Text),
    /// As [`crate::Rail::post`]; [`FULL`] if there is no room, or if the rail has begun to
    /// fail: `poll` reports that, after what has arrived before. Why it fails is reported without
    /// where, which `describe` says; so is it by `poll`.
    pub post: unsafe extern "C" fn(*mut RailHandle, *const RawWrite, *mut Text) -> Status,
    /// As [`crate::Rail::poll`]: fills at most `room`, answers how many, or [`FAILED`].
    pub poll: unsafe extern "C" fn(*mut RailHandle, *mut RawRailEvent, room: u32, *mut Text) -> i32,
    /// As [`crate::Rail::close`]: the connection goes to its error state and takes in nothing
    /// any more.
    pub fail: unsafe extern "C" fn(*mut RailHandle),
    /// Ends a rail.
    pub end: unsafe extern "C" fn(*mut RailHandle),
}

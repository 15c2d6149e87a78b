//! A library for RDMA whose devices reach no memory, for tests of which of them ranks choose. It is compiled as a file of
//! its own; only its list of devices is true. A door for `unsafe`, as it stands in for C.

#[allow(dead_code, missing_docs, reason = "a part of it is used")]
#[path = "../../../proxy/src/rdma/abi.rs"]
mod abi;

use std::ffi::c_void;

use abi::{
    Address, Api, Config, Context, Device, Happened, Rail, Registration, Status, Text, Write,
};

/// Ports of 400 Gbit/s, after which there is one of 25.
const FAST: usize = 2;

fn padded<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

unsafe extern "C" fn open(_: *const Config, context: *mut *mut Context, _: *mut Text) -> Status {
    // SAFETY: the caller gives a place; nobody looks behind the handle.
    unsafe { *context = std::ptr::dangling_mut() };
    abi::OK
}

unsafe extern "C" fn close(_: *mut Context) {}

unsafe extern "C" fn devices(_: *mut Context, devices: *mut Device, room: u32) -> u32 {
    for index in 0..=FAST {
        let device = Device {
            name: padded(&format!("mlx5_{index}")),
            pci_path: [0; 256],
            port: 1,
            mtu_bytes: 4096,
            gbit_per_s: if index < FAST { 400 } else { 25 },
            ethernet: 0,
        };
        assert!(index < room as usize);
        // SAFETY: there is room for it.
        unsafe { *devices.add(index) = device };
    }
    FAST as u32 + 1
}

unsafe fn refuse(text: *mut Text) -> Status {
    const WHY: &str = "no such hardware";
    // SAFETY: callers give a text with room.
    unsafe {
        let used = WHY.len().min((*text).room as usize);
        WHY.as_ptr().copy_to_nonoverlapping((*text).bytes, used);
        (*text).used = used as u64;
    }
    abi::FAILED
}

unsafe extern "C" fn register(
    _: *mut Context,
    _: u32,
    _: *mut c_void,
    _: u64,
    _: *mut *mut Registration,
    text: *mut Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe { refuse(text) }
}

unsafe extern "C" fn register_dmabuf(
    _: *mut Context,
    _: u32,
    _: i32,
    _: u64,
    _: u64,
    _: u64,
    _: *mut *mut Registration,
    text: *mut Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe { refuse(text) }
}

// Without registrations there are no rails.
unsafe extern "C" fn deregister(_: *mut Registration) {}
unsafe extern "C" fn rail(
    _: *mut Context,
    _: *mut Registration,
    _: *mut *mut Rail,
    _: *mut Address,
    text: *mut Text,
) -> Status {
    // SAFETY: as the ABI says.
    unsafe { refuse(text) }
}
unsafe extern "C" fn connect(_: *mut Rail, _: *const Address, text: *mut Text) -> Status {
    // SAFETY: as the ABI says.
    unsafe { refuse(text) }
}
unsafe extern "C" fn story(_: *mut Rail, _: *mut Text) {}
unsafe extern "C" fn post(_: *mut Rail, _: *const Write, text: *mut Text) -> Status {
    // SAFETY: as the ABI says.
    unsafe { refuse(text) }
}
unsafe extern "C" fn poll(_: *mut Rail, _: *mut Happened, _: u32, text: *mut Text) -> i32 {
    // SAFETY: as the ABI says.
    unsafe { refuse(text) }
}
unsafe extern "C" fn fail(_: *mut Rail) {}
unsafe extern "C" fn end(_: *mut Rail) {}

static API: Api = Api {
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

#[unsafe(no_mangle)]
extern "C" fn msccl_rdma_api(version: u32) -> *const Api {
    if version == abi::VERSION { &raw const API } else { std::ptr::null() }
}

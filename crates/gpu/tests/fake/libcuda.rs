//! A driver that does as little as possible and sometimes what no driver should.
//!
//! It has two devices, keeps the stack of contexts as a driver does, and counts objects. Where a
//! driver says how much memory is free, it says how many objects are alive; and how deep the stack
//! of contexts is where a driver says how much memory there is.

#![allow(non_snake_case)]

use std::cell::RefCell;
use std::ffi::c_char;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

thread_local! {
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

const UNKNOWN: u32 = 99_999;

#[cfg(not(no_init))]
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: u32) -> u32 {
    match () {
        _ if cfg!(no_device) => 100,
        _ if cfg!(stub) => 34,
        _ if cfg!(unknown_code) => UNKNOWN,
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(version: &mut i32) -> u32 {
    *version = 12_080;
    0
}

#[cfg(not(no_words))]
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(code: u32, name: &mut *const c_char) -> u32 {
    let known = [(1, c"CUDA_ERROR_INVALID_VALUE"), (2, c"CUDA_ERROR_OUT_OF_MEMORY")];
    match known.iter().find(|(number, _)| *number == code) {
        Some((_, text)) => *name = text.as_ptr(),
        None => return 1,
    }
    0
}

#[cfg(not(no_words))]
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(code: u32, text: &mut *const c_char) -> u32 {
    if code != 2 {
        return 1;
    }
    *text = c"out of memory".as_ptr();
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(count: &mut i32) -> u32 {
    *count = if cfg!(zero_devices) { 0 } else { 2 };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(device: &mut i32, ordinal: i32) -> u32 {
    *device = ordinal;
    if (0..2).contains(&ordinal) { 0 } else { 101 }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRetain(context: &mut usize, device: i32) -> u32 {
    ALIVE.fetch_add(1, SeqCst);
    *context = 0x1000 + device as usize;
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: i32) -> u32 {
    ALIVE.fetch_sub(1, SeqCst);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetCurrent(context: &mut usize) -> u32 {
    *context = CONTEXTS.with_borrow(|stack| stack.last().copied().unwrap_or(0));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetDevice(device: &mut i32) -> u32 {
    match CONTEXTS.with_borrow(|stack| stack.last().copied()) {
        Some(context) => *device = (context - 0x1000) as i32,
        None => return 201,
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: usize) -> u32 {
    CONTEXTS.with_borrow_mut(|stack| stack.push(context));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPopCurrent_v2(context: &mut usize) -> u32 {
    match CONTEXTS.with_borrow_mut(Vec::pop) {
        Some(popped) => *context = popped,
        None => return 201,
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetInfo_v2(alive: &mut usize, depth: &mut usize) -> u32 {
    *alive = ALIVE.load(SeqCst);
    *depth = CONTEXTS.with_borrow(Vec::len);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(address: &mut u64, bytes: usize) -> u32 {
    if CONTEXTS.with_borrow(Vec::is_empty) {
        return 201;
    }
    match bytes {
        0 => return 1,
        13 => return UNKNOWN,
        bytes if bytes > 1 << 40 => return 2,
        _ => *address = 0x7000_0000,
    }
    ALIVE.fetch_add(1, SeqCst);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(_address: u64) -> u32 {
    ALIVE.fetch_sub(1, SeqCst);
    if CONTEXTS.with_borrow(Vec::is_empty) { 201 } else { 0 }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventCreate(_event: &mut usize, _flags: u32) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamCreateWithPriority(stream: &mut usize, _flags: u32, _: i32) -> u32 {
    *stream = 0x2000;
    ALIVE.fetch_add(1, SeqCst);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(_stream: usize) -> u32 {
    ALIVE.fetch_sub(1, SeqCst);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(_stream: usize) -> u32 {
    600
}

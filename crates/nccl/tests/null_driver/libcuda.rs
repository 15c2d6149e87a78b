//! A CUDA driver without a GPU: every call succeeds at once, and kernels do nothing. An unsafe
//! boundary: memory of devices is memory of the host.
//!
//! What the host side of a library asks of a driver can be run, counted and timed with it. It keeps
//! what a driver keeps as far as callers could notice: the stack of contexts of each thread, which
//! streams and events exist (a handle that was destroyed is refused, and given again to the next
//! who asks), captures and the nodes and edges of their graphs, ids of allocations, and memory that
//! processes share by descriptors. What is copied or filled is so at once; every event is over when
//! it is asked for.
//!
//! `libcuda/objects.rs` has the streams and events, `libcuda/memory.rs` the memory,
//! `libcuda/kernels.rs` the kernels with the functions about them; the driver's other functions
//! stand here. `libcuda/calls.rs` declares them all, and counts.
//!
//! Beside the driver's functions it has one of its own: `nullCalls` says how often the calling
//! thread has called one of the others, and what kernels it has launched. It is of CUDA 12.8, with
//! the variable `NULL_IS_OLD` of 12.2. With `NULL_KEEPS_WAITS` no event is over while a stream
//! waits for a word; with `NULL_IS_NEVER_IDLE` no stream is idle. With
//! `NULL_REFUSES_IMPORTS=DEVICE:BYTES` that device maps no memory of others of that length.

#![allow(non_snake_case, non_camel_case_types)]

#[macro_use]
#[path = "libcuda/calls.rs"]
mod calls;
#[path = "libcuda/kernels.rs"]
mod kernels;
#[path = "libcuda/memory.rs"]
mod memory;
#[path = "libcuda/objects.rs"]
mod objects;

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use memory::{
    Allocation, allocate, allocation_of, allocations, check_asker, copy, enter_allocation, free,
    hold, release, system,
};
use objects::{
    CAPTURES, EVENTS, MODE, RELAXED, STREAMS, STRICT_CAPTURES, add_node, change_edges, graphs,
    is_strict, mark, record, stream, work,
};

/// Devices that it has.
const DEVICES: i32 = 8;

const SUCCESS: u32 = 0;
const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const INVALID_DEVICE: u32 = 101;
const INVALID_CONTEXT: u32 = 201;
const PEER_ACCESS_ALREADY_ENABLED: u32 = 704;
const INVALID_HANDLE: u32 = 400;
const NOT_READY: u32 = 600;
const NOT_SUPPORTED: u32 = 801;
const STREAM_CAPTURE_UNSUPPORTED: u32 = 900;
/// That a stream comes after nodes, and after no others.
const SET: u32 = 1;
const STREAM_CAPTURE_UNMATCHED: u32 = 903;
const STREAM_CAPTURE_ISOLATION: u32 = 905;

/// That a wait is for what is outside of the graph that records it.
const EXTERNAL: u32 = 1;

/// The address of the first device's context; that of the next is one further.
const CONTEXT: usize = 0x1000;

/// Pages of the host, and the granularity of virtual memory.
const PAGE_BYTES: usize = 4096;

thread_local! {
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn current() -> Option<usize> {
    CONTEXTS.with_borrow(|stack| stack.last().copied())
}

fn text(to: &mut [u8; 128], text: &str) -> u32 {
    to[..text.len()].copy_from_slice(text.as_bytes());
    to[text.len()] = 0;
    SUCCESS
}

/// Writes `value` and succeeds.
fn answer<T>(place: &mut T, value: T) -> u32 {
    *place = value;
    SUCCESS
}

/// A number of something that is only ever named.
fn new_handle() -> usize {
    static HANDLES: AtomicUsize = AtomicUsize::new(0x30_0000);
    HANDLES.fetch_add(128, SeqCst)
}

/// So many nodes of a graph.
///
/// # Safety
///
/// There are as many, or none at all.
unsafe fn nodes_at<'a>(nodes: *const usize, count: usize) -> &'a [usize] {
    if count == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(nodes, count) }
}

/// Whether it is of CUDA 12.2.
fn is_old() -> bool {
    std::env::var_os("NULL_IS_OLD").is_some()
}

driver! {
    fn cuInit(_flags: u32) { SUCCESS }
    fn cuDriverGetVersion(version: &mut i32) {
        answer(version, if is_old() { 12_020 } else { 12_080 })
    }
    fn cuDeviceGetCount(count: &mut i32) { answer(count, DEVICES) }
    fn cuDeviceGet(device: &mut i32, ordinal: i32) {
        *device = ordinal;
        if (0..DEVICES).contains(&ordinal) { SUCCESS } else { INVALID_DEVICE }
    }
    fn cuDeviceGetAttribute(value: &mut i32, attribute: u32, _device: i32) {
        // The compute capability, the number of multiprocessors, shared memory; everything else is
        // supported.
        answer(value, match attribute {
            75 => 9,
            76 => 0,
            16 => 132,
            81 => kernels::SHARED_BYTES as i32,
            111 => kernels::RESERVED_BYTES as i32,
            _ => 1,
        })
    }
    fn cuDeviceGetUuid_v2(uuid: &mut [u8; 16], device: i32) {
        *uuid = *b"null device    0";
        uuid[15] += device as u8;
        SUCCESS
    }
    fn cuDeviceTotalMem_v2(bytes: &mut usize, _device: i32) { answer(bytes, 256 << 20) }
    fn cuDeviceCanAccessPeer(can: &mut i32, device: i32, peer: i32) {
        answer(can, i32::from(device != peer))
    }
    fn cuDeviceGetP2PAttribute(value: &mut i32, _attribute: u32, _device: i32, _peer: i32) {
        answer(value, 1)
    }
    fn cuDeviceGetName(name: &mut [u8; 128], _length: c_int, _device: i32) {
        text(name, "a device that does nothing")
    }
    fn cuDeviceGetPCIBusId(name: &mut [u8; 128], _length: c_int, device: i32) {
        text(name, &format!("0000:{device:02X}:00.0"))
    }

    fn cuDevicePrimaryCtxRetain(context: &mut usize, device: i32) {
        answer(context, CONTEXT + device as usize)
    }
    fn cuDevicePrimaryCtxRelease_v2(_device: i32) { SUCCESS }
    fn cuCtxGetCurrent(context: &mut usize) { answer(context, current().unwrap_or(0)) }
    fn cuCtxGetDevice(device: &mut i32) {
        let Some(context) = current() else { return INVALID_CONTEXT };
        answer(device, (context - CONTEXT) as i32)
    }
    fn cuCtxPushCurrent_v2(context: usize) {
        CONTEXTS.with_borrow_mut(|stack| stack.push(context));
        SUCCESS
    }
    fn cuCtxPopCurrent_v2(context: &mut usize) {
        let Some(popped) = CONTEXTS.with_borrow_mut(Vec::pop) else { return INVALID_CONTEXT };
        answer(context, popped)
    }
    fn cuCtxSynchronize() { SUCCESS }
    fn cuCtxEnablePeerAccess(_peer: usize, _flags: u32) { PEER_ACCESS_ALREADY_ENABLED }

    fn cuMemAlloc_v2(address: &mut u64, bytes: usize) {
        if is_strict() {
            return STREAM_CAPTURE_UNSUPPORTED;
        }
        let memory = allocate(bytes);
        if memory.is_null() {
            return OUT_OF_MEMORY;
        }
        *address = memory.expose_provenance() as u64;
        enter_allocation(*address, bytes, None);
        SUCCESS
    }
    fn cuMemFree_v2(address: u64) {
        if is_strict() { STREAM_CAPTURE_UNSUPPORTED } else { free(address) }
    }
    fn cuMemGetInfo_v2(free: &mut usize, total: &mut usize) {
        (*free, *total) = (128 << 20, 256 << 20);
        SUCCESS
    }
    fn cuMemGetAddressRange_v2(base: &mut u64, bytes: &mut usize, address: u64) {
        check_asker("for the range");
        let Some((start, allocation)) = allocation_of(address) else { return INVALID_VALUE };
        (*base, *bytes) = (start, allocation.bytes);
        SUCCESS
    }
    fn cuPointerGetAttribute(value: &mut u64, attribute: u32, address: u64) {
        let Some((_, allocation)) = allocation_of(address) else { return INVALID_VALUE };
        let Allocation { bytes: _, device, id, handle } = allocation;
        // Kind, id, managed, device, legacy handles, kinds of handles.
        answer(value, match attribute {
            2 => 2,
            7 => id,
            8 => 0,
            9 => device as u64,
            10 => u64::from(handle.is_none()),
            _ => u64::from(handle.is_some()),
        })
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: usize) {
        work(stream, || copy(to, from.expose_provenance() as u64, bytes))
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: usize) {
        work(stream, || copy(to.expose_provenance() as u64, from, bytes))
    }
    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) {
        work(stream, || copy(to, from, bytes))
    }
    fn cuMemsetD8Async(address: u64, byte: u8, bytes: usize, stream: usize) {
        let to = ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: callers of a driver name memory that is theirs to fill.
        work(stream, || unsafe { to.write_bytes(byte, bytes) })
    }

    fn cuMemHostAlloc(memory: &mut *mut c_void, bytes: usize, _flags: u32) {
        if is_strict() {
            return STREAM_CAPTURE_UNSUPPORTED;
        }
        *memory = allocate(bytes).cast();
        if memory.is_null() {
            return OUT_OF_MEMORY;
        }
        enter_allocation(memory.expose_provenance() as u64, bytes, None);
        SUCCESS
    }
    fn cuMemFreeHost(memory: *mut c_void) {
        let address = memory.expose_provenance() as u64;
        if is_strict() { STREAM_CAPTURE_UNSUPPORTED } else { free(address) }
    }
    fn cuMemHostRegister_v2(_memory: *mut c_void, _bytes: usize, _flags: u32) {
        if is_strict() { STREAM_CAPTURE_UNSUPPORTED } else { SUCCESS }
    }
    fn cuMemHostUnregister(_memory: *mut c_void) {
        if is_strict() { STREAM_CAPTURE_UNSUPPORTED } else { SUCCESS }
    }
    fn cuMemHostGetDevicePointer_v2(address: &mut u64, memory: *mut c_void, _flags: u32) {
        answer(address, memory.expose_provenance() as u64)
    }
    fn cuIpcGetMemHandle(_handle: &mut [u8; 64], _address: u64) { NOT_SUPPORTED }

    fn cuMemGetAllocationGranularity(bytes: &mut usize, _properties: *const c_void, _option: u32) {
        answer(bytes, PAGE_BYTES)
    }
    fn cuMemCreate(handle: &mut u64, bytes: usize, _properties: *const c_void, _flags: u64) {
        // SAFETY: the name is zero-terminated; the descriptor is new.
        let descriptor = unsafe {
            let descriptor = system::memfd_create(c"null device".as_ptr(), 1);
            if descriptor < 0 || system::ftruncate(descriptor, bytes as i64) != 0 {
                return OUT_OF_MEMORY;
            }
            descriptor
        };
        hold(descriptor as u64);
        answer(handle, descriptor as u64)
    }
    fn cuMemRelease(handle: u64) { release(handle) }
    fn cuMemRetainAllocationHandle(handle: &mut u64, address: u64) {
        check_asker("for the handle");
        let mapped = allocation_of(address).and_then(|(_, allocation)| allocation.handle);
        let Some(mapped) = mapped else { return INVALID_VALUE };
        hold(mapped);
        answer(handle, mapped)
    }
    fn cuMemExportToShareableHandle(
        descriptor: &mut c_int, handle: u64, _kind: u32, _flags: u64,
    ) {
        // SAFETY: the handle is a descriptor of ours.
        answer(descriptor, unsafe { system::dup(handle as c_int) })
    }
    fn cuMemImportFromShareableHandle(handle: &mut u64, descriptor: usize, _kind: u32) {
        let mut device = 0;
        cuCtxGetDevice(&mut device);
        if memory::refuses_import(device, descriptor as c_int) {
            return OUT_OF_MEMORY;
        }
        // SAFETY: the caller's descriptor is open.
        *handle = unsafe { system::dup(descriptor as c_int) } as u64;
        hold(*handle);
        SUCCESS
    }
    fn cuMemAddressReserve(
        address: &mut u64, bytes: usize, _alignment: usize, _properties: u64, _flags: u64,
    ) {
        let (protection, flags) = (system::NONE, system::PRIVATE_ANONYMOUS);
        // SAFETY: new addresses that nobody reads or writes yet.
        let at = unsafe { system::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        answer(address, at.expose_provenance() as u64)
    }
    fn cuMemAddressFree(address: u64, bytes: usize) {
        // SAFETY: reserved above, given back once.
        unsafe { system::munmap(ptr::with_exposed_provenance_mut(address as usize), bytes) };
        SUCCESS
    }
    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, _flags: u64) {
        let at = ptr::with_exposed_provenance_mut(address as usize);
        let (protection, flags) = (system::READ_WRITE, system::SHARED_FIXED);
        // SAFETY: the addresses were reserved for this; the handle is a descriptor of ours.
        unsafe { system::mmap(at, bytes, protection, flags, handle as c_int, offset as i64) };
        hold(handle);
        enter_allocation(address, bytes, Some(handle));
        SUCCESS
    }
    fn cuMemUnmap(address: u64, _bytes: usize) {
        let mapped = allocations(|all| all.remove(&address)).and_then(|of| of.handle);
        mapped.map_or(INVALID_VALUE, release)
    }
    fn cuMemSetAccess(_address: u64, _bytes: usize, _access: *const c_void, _count: usize) {
        SUCCESS
    }

    fn cuCtxGetStreamPriorityRange(least: &mut i32, greatest: &mut i32) {
        answer(least, 0);
        answer(greatest, -5)
    }
    fn cuStreamCreateWithPriority(stream: &mut usize, _flags: u32, _priority: i32) {
        STREAMS.create(stream)
    }
    fn cuStreamDestroy_v2(stream: usize) { STREAMS.destroy(stream) }
    fn cuStreamSynchronize(handle: usize) { work(handle, || ()) }
    fn cuStreamQuery(handle: usize) {
        let is_idle = std::env::var_os("NULL_IS_NEVER_IDLE").is_none();
        if is_idle { work(handle, || ()) } else { NOT_READY }
    }
    fn cuStreamWriteValue64_v2(stream: usize, address: u64, value: u64, _flags: u32) {
        work(stream, || memory::word(address).store(value, SeqCst))
    }
    fn cuStreamWaitValue64_v2(stream: usize, address: u64, value: u64, _flags: u32) {
        // Where waits are not kept, one that has to last would never end.
        if memory::word(address).load(SeqCst) < value && !memory::keep_wait(address, value) {
            return INVALID_VALUE;
        }
        work(stream, || ())
    }
    fn cuStreamBatchMemOp_v2(
        stream: usize, count: u32, operations: *const memory::WordOperation, _flags: u32,
    ) {
        // SAFETY: the caller gives so many.
        let operations = unsafe { std::slice::from_raw_parts(operations, count as usize) };
        let mut all_came = true;
        let done = work(stream, || all_came = operations.iter().all(memory::WordOperation::run));
        if all_came { done } else { INVALID_VALUE }
    }
    fn cuStreamWaitEvent(handle: usize, event: usize, flags: u32) {
        let (Some(stream), Some(event)) = (stream(handle), EVENTS.find(event)) else {
            return INVALID_HANDLE;
        };
        let (here, there) = (stream.capture.load(SeqCst), event.capture.load(SeqCst));
        // A node that waits for what is outside of the graph, where there is a graph.
        if flags == EXTERNAL {
            if here == 0 || there != 0 {
                return INVALID_VALUE;
            }
            record(stream, here);
            return SUCCESS;
        }
        if here != 0 && there != here {
            return STREAM_CAPTURE_ISOLATION;
        }
        // Who waits for something recorded is recorded, too, and goes on behind the later of the
        // two.
        stream.capture.store(there, SeqCst);
        stream.node.fetch_max(event.node.load(SeqCst), SeqCst);
        SUCCESS
    }

    fn cuEventCreate(event: &mut usize, _flags: u32) { EVENTS.create(event) }
    fn cuEventDestroy_v2(event: usize) { EVENTS.destroy(event) }
    fn cuEventRecord(event: usize, handle: usize) { mark(event, handle) }
    fn cuEventQuery(event: usize) {
        match EVENTS.find(event) {
            Some(_) if memory::has_waits() => NOT_READY,
            Some(_) => SUCCESS,
            None => INVALID_HANDLE,
        }
    }
    fn cuEventSynchronize(event: usize) {
        if EVENTS.find(event).is_some() { SUCCESS } else { INVALID_HANDLE }
    }

    fn cuStreamBeginCapture_v2(handle: usize, mode: u32) {
        let Some(stream) = STREAMS.find(handle) else { return INVALID_HANDLE };
        // In a capture that is not relaxed; this thread ends it.
        STRICT_CAPTURES.set(STRICT_CAPTURES.get() + u32::from(mode != RELAXED));
        stream.capture.store(CAPTURES.fetch_add(1, SeqCst) + 1, SeqCst);
        stream.node.store(0, SeqCst);
        SUCCESS
    }
    fn cuStreamEndCapture(handle: usize, graph: &mut usize) {
        let Some(stream) = STREAMS.find(handle) else { return INVALID_HANDLE };
        let id = stream.capture.load(SeqCst);
        if id == 0 {
            return STREAM_CAPTURE_UNMATCHED;
        }
        STRICT_CAPTURES.set(0);
        for object in STREAMS.all.iter().chain(&EVENTS.all) {
            if object.capture.compare_exchange(id, 0, SeqCst, SeqCst).is_ok() {
                object.node.store(0, SeqCst);
            }
        }
        *graph = new_handle();
        graphs(|graphs| {
            let recorded = graphs.remove(&id).unwrap_or_default();
            graphs.insert(*graph as u64, recorded);
        });
        SUCCESS
    }
    fn cuStreamGetCaptureInfo_v2(
        handle: usize, status: &mut u32, id: &mut u64, graph: Option<&mut usize>,
        nodes: Option<&mut *const usize>, count: Option<&mut usize>,
    ) {
        let Some(stream) = stream(handle) else { return INVALID_HANDLE };
        *id = stream.capture.load(Relaxed);
        *status = u32::from(*id != 0);
        graph.into_iter().for_each(|graph| *graph = *id as usize);
        let node = stream.node.load(SeqCst);
        count.into_iter().for_each(|count| *count = usize::from(node != 0));
        nodes.into_iter().for_each(|nodes| *nodes = stream.node.as_ptr().cast_const());
        SUCCESS
    }
    fn cuStreamUpdateCaptureDependencies(
        handle: usize, nodes: *const usize, count: usize, flags: u32,
    ) {
        let Some(stream) = stream(handle).filter(|_| flags == SET) else { return INVALID_HANDLE };
        // SAFETY: the caller gives so many nodes.
        stream.come_after(unsafe { nodes_at(nodes, count) });
        SUCCESS
    }
    fn cuGraphAddEventRecordNode(
        node: &mut usize, graph: usize, after: *const usize, count: usize, event: usize,
    ) {
        if EVENTS.find(event).is_none() {
            return INVALID_HANDLE;
        }
        // SAFETY: the caller gives so many nodes.
        answer(node, add_node(graph as u64, unsafe { nodes_at(after, count) }))
    }
    fn cuGraphAddDependencies(graph: usize, from: *const usize, to: *const usize, count: usize) {
        // SAFETY: as above.
        let ends = unsafe { [nodes_at(from, count), nodes_at(to, count)] };
        change_edges(graph, ends, |edges, edge| edges.insert(edge))
    }
    fn cuGraphRemoveDependencies(
        graph: usize, from: *const usize, to: *const usize, count: usize,
    ) {
        // SAFETY: as above.
        let ends = unsafe { [nodes_at(from, count), nodes_at(to, count)] };
        change_edges(graph, ends, |edges, edge| edges.remove(&edge))
    }
    fn cuThreadExchangeStreamCaptureMode(mode: &mut u32) { answer(mode, MODE.replace(*mode)) }
    fn cuGraphInstantiateWithFlags(exec: &mut usize, _graph: usize, _flags: u64) {
        answer(exec, new_handle())
    }
    fn cuGraphLaunch(_exec: usize, handle: usize) { work(handle, || ()) }
    fn cuGraphGetNodes(graph: usize, _nodes: usize, count: &mut usize) {
        let nodes = graphs(|graphs| graphs.get(&(graph as u64)).map(|graph| graph.nodes.len()));
        nodes.map_or(INVALID_HANDLE, |nodes| answer(count, nodes))
    }
    fn cuGraphDestroy(graph: usize) {
        graphs(|graphs| graphs.remove(&(graph as u64)));
        SUCCESS
    }
    fn cuGraphExecDestroy(_exec: usize) { SUCCESS }
}

//! Checks between processes and between devices.

use std::error::Error;
use std::os::fd::AsFd;
use std::process::Command;

use msccl_gpu::{CuResult, DeviceBuffer, Driver, IpcHandle, IpcMapping, Stream, VmmAllocation};

use crate::{Bench, Check, Outcome, fine, kernel, same};

pub const CHECKS: &[Check] = &[
    ("memory of another process", other_process),
    ("own handle is refused", own_handle),
    ("virtual memory has no handle", no_handle),
    ("peer device", peer_device),
    ("virtual memory of a peer", virtual_memory_of_a_peer),
];

/// What the parent writes and the child expects, and the other way round.
const FROM_PARENT: &[u8; 16] = b"from the parent.";
const FROM_CHILD: &[u8; 16] = b"and the child's.";

/// Where in the allocation they write.
const AT: usize = 4096;

fn other_process(bench: &Bench) -> Outcome {
    let buffer = DeviceBuffer::zeroed(&bench.context, 1 << 20)?;
    buffer.span().slice(AT..AT + 16)?.write(FROM_PARENT)?;
    let handle = bench.context.ipc_handle(buffer.ptr().offset(AT))?;
    let hex: String = handle.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let child = Command::new(std::env::current_exe()?).args(["open", &hex]).output()?;
    if !child.status.success() {
        return Err(format!("the child says {:?}", String::from_utf8_lossy(&child.stdout)).into());
    }
    let mut found = [0; 16];
    buffer.span().slice(AT..AT + 16)?.read(&mut found)?;
    same("what the child wrote", &found, FROM_CHILD)?;
    fine()
}

/// The child's half: opens `handle`, on the last device so that two take part if there are two.
pub fn open_as_child(driver: &'static Driver, handle: &str) -> Outcome {
    let context = driver.device(driver.device_count() - 1)?.context()?;
    let mapping = IpcMapping::open(&context, &parse(handle)?)?;
    same("length", mapping.length_bytes() >= 1 << 20, true)?;
    let span = mapping.span().slice(AT..AT + 16)?;
    let mut found = [0; 16];
    span.read(&mut found)?;
    same("what the parent wrote", &found, FROM_PARENT)?;
    span.write(FROM_CHILD)?;
    fine()
}

fn parse(hex: &str) -> Result<IpcHandle, Box<dyn Error>> {
    let mut handle = IpcHandle([0; 64]);
    for (index, byte) in handle.0.iter_mut().enumerate() {
        let digits = hex.get(2 * index..2 * index + 2).ok_or("the handle is too short")?;
        *byte = u8::from_str_radix(digits, 16)?;
    }
    Ok(handle)
}

fn own_handle(bench: &Bench) -> Outcome {
    let buffer = DeviceBuffer::new(&bench.context, 1 << 20)?;
    let handle = bench.context.ipc_handle(buffer.ptr())?;
    let error = IpcMapping::open(&bench.context, &handle).err().ok_or("it was opened")?;
    Ok(error.to_string())
}

fn no_handle(bench: &Bench) -> Outcome {
    let mapping = VmmAllocation::new(&bench.context, 1)?.map(&[bench.context.device()])?;
    let error = bench.context.ipc_handle(mapping.ptr()).err().and_then(|error| error.code());
    same("code", error, Some(CuResult::INVALID_VALUE))?;
    fine()
}

const ALONE: &str = "skipped: this needs two devices";

fn peer_device(bench: &Bench) -> Outcome {
    let Some(peer) = &bench.peer else { return Ok(ALONE.to_owned()) };
    let (device, other) = (bench.context.device(), peer.device());
    let capabilities = device.peer_capabilities(other)?;
    same("access", capabilities.access, device.can_access_peer(other)?)?;
    if !capabilities.access {
        return Ok(format!("skipped: no access, {capabilities:?}"));
    }
    bench.context.enable_peer_access(peer)?;
    bench.context.enable_peer_access(peer)?;
    let words = DeviceBuffer::zeroed(peer, 4096)?;
    let add = kernel::load(&bench.context, "add")?;
    let stream = Stream::new(&bench.context)?;
    kernel::add(&add, stream.borrow(), words.ptr(), 9, 1024)?;
    stream.borrow().synchronize()?;
    let mut bytes = vec![0; 4096];
    words.span().read(&mut bytes)?;
    same("words", bytes.chunks(4).all(|word| word == 9_u32.to_ne_bytes()), true)?;
    Ok(format!("{capabilities:?}"))
}

fn virtual_memory_of_a_peer(bench: &Bench) -> Outcome {
    let Some(peer) = &bench.peer else { return Ok(ALONE.to_owned()) };
    let exported = VmmAllocation::new(peer, 4096)?;
    let there = exported.map(&[peer.device()])?;
    there.span().slice(0..4096)?.fill(0)?;
    let descriptor = exported.export()?;
    let length_bytes = exported.length_bytes();
    let imported = VmmAllocation::import(&bench.context, descriptor.as_fd(), length_bytes)?;
    let here = imported.map(&[bench.context.device()])?;
    let add = kernel::load(&bench.context, "add")?;
    let stream = Stream::new(&bench.context)?;
    kernel::add(&add, stream.borrow(), here.ptr(), 5, 1024)?;
    stream.borrow().synchronize()?;
    let mut bytes = vec![0; 4096];
    there.span().read(&mut bytes)?;
    same("words", bytes.chunks(4).all(|word| word == 5_u32.to_ne_bytes()), true)?;
    fine()
}

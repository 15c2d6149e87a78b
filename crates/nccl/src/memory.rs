//! `ncclMemAlloc` and `ncclMemFree`: memory of the current device, or of the host where ranks run
//! there.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use msccl_fabric::SharedMemory;
use msccl_gpu::{Context, Device, DeviceBuffer, VmmAllocation, VmmMapping};
use msccl_runtime::PlaceOfRank;
use rustc_hash::FxHashMap;

use crate::abi::constant::WINDOW_ALIGNMENT_BYTES;
use crate::abi::{Address, Code};
use crate::fault::Fault;
use crate::place;
use crate::process::Process;

/// Memory given out, which may begin before the address that was given.
enum Memory {
    /// Of a device, which other devices can map, too, and be kept from later.
    Segment(Context, VmmMapping),
    /// Of a device that has no such memory.
    Device(Context, DeviceBuffer),
    /// Of the host, which other processes can map, as ranks do with windows.
    Host(SharedMemory),
}

const PAGE_BYTES: usize = 4096;
const _: () = assert!(PAGE_BYTES.is_multiple_of(WINDOW_ALIGNMENT_BYTES));

/// Memory, and the process that it was given to.
struct Given {
    memory: Memory,
    maker: Process,
}

static GIVEN: Mutex<Option<FxHashMap<Address, Given>>> = Mutex::new(None);

/// `bytes` bytes at `place`; their address, which is zero if there are none.
///
/// # Errors
///
/// There is not that much memory.
pub fn allocate(place: &PlaceOfRank, bytes: usize) -> Result<Address, Fault> {
    if bytes == 0 {
        return Ok(0);
    }
    let _beside = place::beside_captures(place);
    let (address, memory) = match place {
        PlaceOfRank::Host => of_host(bytes)?,
        PlaceOfRank::Gpu(context) => of_device(context, bytes)?,
    };
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let maker = Process::current();
    given.get_or_insert_default().insert(address, Given { memory, maker });
    Ok(address)
}

/// Memory that all devices here which can reach it may use, as programs expect of this function.
fn of_device(context: &Context, bytes: usize) -> Result<(Address, Memory), Fault> {
    if !context.device().supports_memory_descriptors()? {
        return plain(context, bytes);
    }
    let mapping = VmmAllocation::new(context, bytes)?.map(&users_of(context.device())?)?;
    let address = mapping.ptr().0 as Address;
    Ok((address, Memory::Segment(context.clone(), mapping)))
}

/// Devices that can use the memory of `device`.
fn users_of(device: Device) -> Result<Vec<Device>, Fault> {
    let driver = device.driver();
    let mut users = vec![device];
    for other in 0..driver.device_count() {
        let other = driver.device(other)?;
        if other != device && other.can_access_peer(device)? {
            users.push(other);
        }
    }
    Ok(users)
}

/// A driver aligns large allocations to more than pages, small ones to less.
fn plain(context: &Context, bytes: usize) -> Result<(Address, Memory), Fault> {
    let is_aligned = |buffer: &DeviceBuffer| (buffer.ptr().0 as Address).is_multiple_of(PAGE_BYTES);
    let mut buffer = DeviceBuffer::new(context, bytes)?;
    if !is_aligned(&buffer) {
        let with_room = bytes.saturating_add(PAGE_BYTES);
        buffer = DeviceBuffer::new(context, with_room)?;
    }
    let address = (buffer.ptr().0 as Address).next_multiple_of(PAGE_BYTES);
    Ok((address, Memory::Device(context.clone(), buffer)))
}

fn of_host(bytes: usize) -> Result<(Address, Memory), Fault> {
    let failed = |why: &dyn fmt::Display| {
        Fault::new(Code::SystemError, format!("MemAlloc : {bytes} bytes cannot be had: {why}"))
    };
    // Shared memory has all its pages at once: too much would take what other programs need before
    // the system refused it.
    let all = rustix::system::sysinfo();
    let all_bytes = (all.totalram + all.totalswap).saturating_mul(u64::from(all.mem_unit));
    if bytes as u64 > all_bytes {
        return Err(failed(&format!("the machine has {all_bytes}")));
    }
    let memory = SharedMemory::create(bytes.next_multiple_of(PAGE_BYTES));
    let memory = memory.map_err(|error| failed(&error))?;
    Ok((memory.as_ptr().expose_provenance(), Memory::Host(memory)))
}

/// Of which memory that was given out something is a part.
pub struct SharedSpan {
    /// By which other processes map the memory.
    pub descriptor: OwnedFd,
    /// Where in it the part begins.
    pub offset_bytes: usize,
    /// How long the memory is.
    pub length_bytes: usize,
}

/// The memory of the host that [`allocate`] gave, of which the `bytes` bytes at `address` are a
/// part; nothing, if they lie elsewhere.
pub fn shared(address: Address, bytes: usize) -> Option<SharedSpan> {
    let given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    given.as_ref()?.iter().find_map(|(start, Given { memory, maker: _ })| {
        let Memory::Host(memory) = memory else { return None };
        let offset_bytes = address.checked_sub(*start)?;
        let end = offset_bytes.checked_add(bytes)?;
        let descriptor = memory.descriptor().ok()?.try_clone_to_owned().ok();
        let length_bytes = memory.len();
        let descriptor = descriptor.filter(|_| end <= length_bytes)?;
        Some(SharedSpan { descriptor, offset_bytes, length_bytes })
    })
}

/// Frees what [`allocate`] gave; zero is nothing. Memory of a device when nothing uses it any more:
/// as `cudaFree` does, this waits, and keeps the driver from other threads meanwhile.
///
/// # Errors
///
/// It gave nothing there, or it was freed before; or this is a fork of the process that it gave it
/// to.
pub fn free(address: Address) -> Result<(), Fault> {
    if address == 0 {
        return Ok(());
    }
    let memory = {
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        let given = given.get_or_insert_default();
        let maker = given.get(&address).map(|of| of.maker);
        maker.map_or(Ok(()), |maker| maker.check("MemFree", "memory"))?;
        given.remove(&address).map(|of| of.memory)
    };
    match memory {
        Some(Memory::Segment(context, mapping)) => {
            let _beside = place::beside_captures(&PlaceOfRank::Gpu(context.clone()));
            // Drivers free other memory when nothing uses it any more, but unmap at once. A device
            // that has failed uses nothing.
            let _ = context.synchronize_beside_captures();
            drop(mapping);
        }
        Some(Memory::Device(context, buffer)) => {
            let _beside = place::beside_captures(&PlaceOfRank::Gpu(context));
            drop(buffer);
        }
        Some(Memory::Host(memory)) => drop(memory),
        None => {
            let text = format!("MemFree : {address:#x} is not from ncclMemAlloc, or freed before");
            return Err(Fault::argument(text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_freed_once() {
        let address = allocate(&PlaceOfRank::Host, 5000).unwrap();
        assert!(address != 0 && address.is_multiple_of(4096));
        let part = shared(address + 5000, 100).unwrap();
        assert_eq!((part.offset_bytes, part.length_bytes), (5000, 8192));
        assert!(shared(address + 5000, 8000).is_none() && shared(8, 8).is_none());
        assert_eq!(free(address), Ok(()));
        assert_eq!(free(address).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(allocate(&PlaceOfRank::Host, 0), Ok(0));
        assert_eq!(free(0), Ok(()));
    }

    #[test]
    fn too_much_is_an_error() {
        for bytes in [usize::MAX / 2, 1 << 60, 1 << 50] {
            let fault = allocate(&PlaceOfRank::Host, bytes).unwrap_err();
            assert_eq!(fault.code, Code::SystemError);
            assert!(fault.text.contains("the machine has "), "{}", fault.text);
        }
    }
}

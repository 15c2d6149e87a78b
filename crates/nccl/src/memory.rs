//! `ncclMemAlloc` and `ncclMemFree`: memory of the current device, or of the host where ranks run
//! there.

use std::sync::{Mutex, PoisonError};

use msccl_gpu::{Context, DeviceBuffer};
use msccl_runtime::PlaceOfRank;
use rustc_hash::FxHashMap;

use crate::abi::constant::WINDOW_ALIGNMENT_BYTES;
use crate::abi::{Address, Code};
use crate::fault::Fault;
use crate::place;
use crate::process::Process;

/// Memory given out, which may begin before the address that was given.
enum Memory {
    /// Of a device.
    Device(Context, DeviceBuffer),
    /// Of the host.
    Host(Box<[Page]>),
}

/// Memory is aligned as windows must be.
#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page(#[expect(dead_code, reason = "it belongs to whoever requested it")] [u8; PAGE_BYTES]);

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

/// A driver aligns large allocations to more than pages, small ones to less.
fn of_device(context: &Context, bytes: usize) -> Result<(Address, Memory), Fault> {
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
    let count = bytes.div_ceil(size_of::<Page>());
    let mut pages = Vec::new();
    pages.try_reserve_exact(count).map_err(|_| {
        Fault::new(Code::SystemError, format!("MemAlloc : {bytes} bytes cannot be had"))
    })?;
    pages.resize(count, Page([0; PAGE_BYTES]));
    let mut pages = pages.into_boxed_slice();
    Ok((pages.as_mut_ptr().expose_provenance(), Memory::Host(pages)))
}

/// Frees what [`allocate`] gave; zero is nothing.
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
        Some(Memory::Device(context, buffer)) => {
            let _beside = place::beside_captures(&PlaceOfRank::Gpu(context));
            drop(buffer);
        }
        Some(Memory::Host(pages)) => drop(pages),
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
        assert_eq!(free(address), Ok(()));
        assert_eq!(free(address).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(allocate(&PlaceOfRank::Host, 0), Ok(0));
        assert_eq!(free(0), Ok(()));
    }

    #[test]
    fn too_much_is_an_error() {
        let fault = allocate(&PlaceOfRank::Host, usize::MAX / 2).unwrap_err();
        assert_eq!(fault.code, Code::SystemError);
    }
}

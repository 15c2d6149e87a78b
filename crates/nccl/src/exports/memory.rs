//! Memory: given, registered, shown as windows.

use std::ffi::c_int;

use crate::abi::constant::WINDOW_ALIGNMENT_BYTES;
use crate::abi::{Address, CommHandle, Out};
use crate::comm::handles;
use crate::fault::Fault;
use crate::{memory, place, session};

exported! {
    /// Memory of the current device, or of the host where ranks run there.
    fn ncclMemAlloc | pncclMemAlloc(address: Out<Address>, bytes: usize) {
        if address.is_null() {
            return Err(Fault::null("MemAlloc", "ptr"));
        }
        let place = place::current(session::begin().preferences.device)?;
        address.set(memory::allocate(&place, bytes)?);
        Ok(())
    }

    /// Frees what `ncclMemAlloc` gave.
    fn ncclMemFree | pncclMemFree(address: Address) {
        memory::free(address)
    }

    /// Announces a buffer. Links have memory of their own, so nothing changes.
    fn ncclCommRegister | pncclCommRegister(
        comm: CommHandle, buffer: Address, bytes: usize, handle: Out<Address>
    ) {
        announce("CommRegister", comm, (buffer, bytes), ("handle", handle))
    }

    /// Takes an announcement back.
    fn ncclCommDeregister | pncclCommDeregister(comm: CommHandle, handle: Address) {
        take_back("CommDeregister", comm, handle)
    }

    /// Announces a buffer that all ranks have alike. The window names it here, and leads nowhere on
    /// a device; flags, which say for which kernels it is, mean nothing.
    fn ncclCommWindowRegister | pncclCommWindowRegister(
        comm: CommHandle, buffer: Address, bytes: usize, window: Out<Address>, _flags: c_int
    ) {
        if bytes > 0 && !buffer.is_multiple_of(WINDOW_ALIGNMENT_BYTES) {
            let text = format!(
                "CommWindowRegister : {buffer:#x} is not aligned to {WINDOW_ALIGNMENT_BYTES} bytes"
            );
            return Err(Fault::argument(text));
        }
        announce("CommWindowRegister", comm, (buffer, bytes), ("win", window))
    }

    /// Takes a window back.
    fn ncclCommWindowDeregister | pncclCommWindowDeregister(comm: CommHandle, window: Address) {
        take_back("CommWindowDeregister", comm, window)
    }
}

/// Registers `buffer`, an address and a length in bytes; nothing, under the handle zero, if one of
/// them is zero.
fn announce(
    operation: &str,
    comm: CommHandle,
    buffer: (Address, usize),
    (name, handle): (&str, Out<Address>),
) -> Result<(), Fault> {
    let found = handles::find(comm, operation)?;
    if handle.is_null() {
        return Err(Fault::null(operation, name));
    }
    let is_nothing = buffer.0 == 0 || buffer.1 == 0;
    handle.set(if is_nothing { 0 } else { found.registrations.create() });
    Ok(())
}

/// Zero is nothing, and can always be taken back.
fn take_back(operation: &str, comm: CommHandle, handle: Address) -> Result<(), Fault> {
    let found = handles::find(comm, operation)?;
    if handle == 0 || found.registrations.remove(handle) {
        return Ok(());
    }
    let text = format!("{operation} : {handle:#x} is not registered with this communicator");
    Err(Fault::usage(text))
}

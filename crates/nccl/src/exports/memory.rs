//! Memory: given, registered, shown as windows.

use std::ffi::c_int;

use crate::abi::constant::{WINDOW_ALIGNMENT_BYTES, WINDOW_SYMMETRIC};
use crate::abi::{Address, CommHandle, Out, Outcome};
use crate::comm::handles;
use crate::comm::registrations::RegisteredBuffer;
use crate::fault::Fault;
use crate::task::{CommunicatorTask, OpenWindow};
use crate::{group, memory, place, session};

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
        announce("CommRegister", comm, (buffer, bytes), ("handle", handle)).map(drop)
    }

    /// Takes an announcement back.
    fn ncclCommDeregister | pncclCommDeregister(comm: CommHandle, handle: Address) {
        take_back("CommDeregister", comm, handle)
    }

    /// Announces a buffer that all ranks have alike. The window names it here, and leads nowhere on
    /// a device. If it is symmetric, all ranks meet for it, and reach one another's memory by it
    /// where they can.
    fn ncclCommWindowRegister | pncclCommWindowRegister(
        comm: CommHandle, buffer: Address, bytes: usize, window: Out<Address>, flags: c_int
    ) {
        if bytes > 0 && !buffer.is_multiple_of(WINDOW_ALIGNMENT_BYTES) {
            let text = format!(
                "CommWindowRegister : {buffer:#x} is not aligned to {WINDOW_ALIGNMENT_BYTES} bytes"
            );
            return Err(Fault::argument(text));
        }
        let handle = announce("CommWindowRegister", comm, (buffer, bytes), ("win", window))?;
        if flags & WINDOW_SYMMETRIC == 0 {
            return Ok(Outcome::Done);
        }
        let comm = handles::find(comm, "CommWindowRegister")?;
        comm.ready().map_err(|fault| fault.during("CommWindowRegister"))?;
        let buffer = RegisteredBuffer { address: buffer, bytes };
        group::launch(CommunicatorTask::OpenWindow(OpenWindow { comm, handle, buffer, window }))
    }

    /// Takes a window back.
    fn ncclCommWindowDeregister | pncclCommWindowDeregister(comm: CommHandle, window: Address) {
        take_back("CommWindowDeregister", comm, window)
    }

    /// Where the memory of a window begins on this rank.
    fn ncclWinGetUserPtr | pncclWinGetUserPtr(
        comm: CommHandle, window: Address, place: Out<Address>
    ) {
        let found = handles::find(comm, "WinGetUserPtr")?;
        if window == 0 {
            return Err(Fault::null("WinGetUserPtr", "win"));
        }
        if place.is_null() {
            return Err(Fault::null("WinGetUserPtr", "outUserPtr"));
        }
        let buffer = found.registrations.find(window).ok_or_else(|| {
            unknown("WinGetUserPtr", window)
        })?;
        place.set(buffer.address);
        Ok(())
    }
}

/// Registers `buffer`, an address and a length in bytes, and gives its handle; nothing, under the
/// handle zero, if one of them is zero.
fn announce(
    operation: &str,
    comm: CommHandle,
    buffer: (Address, usize),
    (name, place): (&str, Out<Address>),
) -> Result<Address, Fault> {
    let found = handles::find(comm, operation)?;
    if place.is_null() {
        return Err(Fault::null(operation, name));
    }
    let is_nothing = buffer.0 == 0 || buffer.1 == 0;
    let (address, bytes) = buffer;
    let buffer = RegisteredBuffer { address, bytes };
    let handle = if is_nothing { 0 } else { found.registrations.create(buffer) };
    place.set(handle);
    Ok(handle)
}

/// Zero is nothing, and can always be taken back.
fn take_back(operation: &str, comm: CommHandle, handle: Address) -> Result<(), Fault> {
    let found = handles::find(comm, operation)?;
    if handle == 0 || found.registrations.remove(handle) {
        return Ok(());
    }
    Err(unknown(operation, handle))
}

fn unknown(operation: &str, handle: Address) -> Fault {
    Fault::usage(format!("{operation} : {handle:#x} is not registered with this communicator"))
}

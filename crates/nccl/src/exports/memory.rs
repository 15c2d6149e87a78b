//! Memory: given, registered, shown as windows.

use std::ffi::c_int;

use crate::abi::constant::{WINDOW_ALIGNMENT_BYTES, WINDOW_SYMMETRIC};
use crate::abi::{Address, CommHandle, Out, Outcome};
use crate::comm::registrations::RegisteredBuffer;
use crate::comm::{Comm, handles};
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
        let comm = handles::find(comm, "CommRegister")?;
        if handle.is_null() {
            return Err(Fault::null("CommRegister", "handle"));
        }
        handle.set(announce(&comm, RegisteredBuffer { address: buffer, bytes }));
        Ok(())
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
        let comm = handles::find(comm, "CommWindowRegister")?;
        if window.is_null() {
            return Err(Fault::null("CommWindowRegister", "win"));
        }
        let is_symmetric = flags & WINDOW_SYMMETRIC != 0;
        if is_symmetric {
            comm.ready().map_err(|fault| fault.during("CommWindowRegister"))?;
        }
        let buffer = RegisteredBuffer { address: buffer, bytes };
        let handle = announce(&comm, buffer);
        window.set(handle);
        if !is_symmetric {
            return Ok(Outcome::Done);
        }
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

/// Registers `buffer`, and gives its handle; nothing, under the handle zero, if it is null or has
/// no bytes.
fn announce(comm: &Comm, buffer: RegisteredBuffer) -> Address {
    let is_nothing = buffer.address == 0 || buffer.bytes == 0;
    if is_nothing { 0 } else { comm.registrations.create(buffer) }
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

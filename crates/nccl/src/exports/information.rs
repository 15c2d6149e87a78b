//! Who we are, and what went wrong.

use std::ffi::{c_char, c_int};
use std::ptr;

use crate::abi::{CommHandle, Out, VERSION, code};
use crate::fault::Fault;
use crate::{last_error, log};

exported! {
    /// The version whose interface this is.
    fn ncclGetVersion | pncclGetVersion(version: Out<c_int>) {
        if version.is_null() {
            return Err(Fault::null("GetVersion", "version"));
        }
        version.set(VERSION);
        Ok(())
    }
}

exported_with_value! {
    /// What a result means.
    fn ncclGetErrorString | pncclGetErrorString(result: c_int) -> *const c_char, or ptr::null() => {
        Ok(code::text(result).as_ptr())
    }

    /// The last warning of the process, whatever the communicator.
    fn ncclGetLastError | pncclGetLastError(_comm: CommHandle) -> *const c_char, or ptr::null() => {
        Ok(last_error::pointer())
    }

    /// The variables that concern the log are read again.
    fn ncclResetDebugInit | pncclResetDebugInit() -> (), or () => {
        log::reset();
        Ok(())
    }
}

/// What `ncclResetDebugInit` is called between the parts of NCCL itself.
#[expect(unsafe_code, reason = "C finds the function by its name")]
#[unsafe(no_mangle)]
pub extern "C" fn ncclResetDebugInitInternal() {
    ncclResetDebugInit();
}

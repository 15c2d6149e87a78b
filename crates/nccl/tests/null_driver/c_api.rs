//! The C API as tests call it: its functions by their names in C. An unsafe boundary.

use std::ffi::{c_char, c_int, c_void};

// Whose functions these are.
use nccl as _;

/// A communicator as C has it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Comm(pub *mut c_void);

/// What ranks find one another by.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [c_char; 128]);

// SAFETY: the handle is a number to whoever has it; the library's functions may be called from any
// thread.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

#[rustfmt::skip]
unsafe extern "C" {
    pub fn ncclCommInitAll(comms: *mut Comm, count: c_int, devices: *const c_int) -> c_int;
    pub fn ncclGetUniqueId(id: *mut UniqueId) -> c_int;
    pub fn ncclCommInitRank(comm: *mut Comm, ranks: c_int, id: UniqueId, rank: c_int) -> c_int;
    pub fn ncclCommDestroy(comm: Comm) -> c_int;
    pub fn ncclCommGetAsyncError(comm: Comm, code: *mut c_int) -> c_int;
    pub fn ncclGetLastError(comm: Comm) -> *const c_char;
    pub fn ncclMemAlloc(memory: *mut *mut c_void, bytes: usize) -> c_int;
    pub fn ncclMemFree(memory: *mut c_void) -> c_int;
    pub fn ncclCommWindowRegister(
        comm: Comm, memory: *mut c_void, bytes: usize, window: *mut *mut c_void, flags: c_int,
    ) -> c_int;
    pub fn ncclCommWindowDeregister(comm: Comm, window: *mut c_void) -> c_int;
    pub fn ncclPutSignal(
        from: *const c_void, count: usize, element: c_int, peer: c_int, window: *mut c_void,
        offset: usize, signal: c_int, context: c_int, flags: u32, comm: Comm, stream: *mut c_void,
    ) -> c_int;
    pub fn ncclWaitSignal(
        count: c_int, waits: *const [c_int; 4], comm: Comm, stream: *mut c_void,
    ) -> c_int;
    pub fn ncclCommSuspend(comm: Comm, flags: c_int) -> c_int;
    pub fn ncclCommResume(comm: Comm) -> c_int;
    pub fn ncclCommMemStats(comm: Comm, figure: c_int, value: *mut u64) -> c_int;
    pub fn ncclGroupStart() -> c_int;
    pub fn ncclGroupEnd() -> c_int;
    pub fn ncclAllReduce(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, redop: c_int,
        comm: Comm, stream: *mut c_void,
    ) -> c_int;
    pub fn ncclAllGather(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn ncclAlltoAll(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn ncclReduce(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, redop: c_int,
        root: c_int, comm: Comm, stream: *mut c_void,
    ) -> c_int;
    pub fn ncclSend(
        send: *const c_void, count: usize, element: c_int, peer: c_int, comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn ncclRecv(
        receive: *mut c_void, count: usize, element: c_int, peer: c_int, comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
}

//! Calls of bytes between buffers of all ranks, with signals of their blocks.

use std::ffi::{c_int, c_void};

use msccl_gpu::{DevicePtr, Stream};

use super::{Comm, Rank, last_error, ncclAllGather, ncclAllReduce};

#[rustfmt::skip]
unsafe extern "C" {
    fn ncclAlltoAll(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    fn ncclBroadcast(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, root: c_int,
        comm: Comm, stream: *mut c_void,
    ) -> c_int;
    fn ncclReduceScatter(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, redop: c_int,
        comm: Comm, stream: *mut c_void,
    ) -> c_int;
    fn ncclCommAbort(comm: Comm) -> c_int;
    fn mscclCommSignalBlocks(comm: Comm, signals: *mut u32) -> c_int;
    fn mscclCommOmitOwnBlock(comm: Comm) -> c_int;
}

/// A call of bytes that changes none of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    AllGather,
    AllToAll,
    Broadcast { root: c_int },
}

/// A call that adds bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sum {
    AllReduce,
    ReduceScatter,
}

fn pointer(at: DevicePtr) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(at.0 as usize)
}

impl Rank {
    /// Adds bytes of all ranks: `bytes` of each, or of each block.
    pub fn add_bytes(&self, call: Sum, buffers: [DevicePtr; 2], bytes: usize, stream: &Stream) {
        const UNSIGNED_BYTE: c_int = 1;
        const SUM: c_int = 0;
        let [send, receive] = buffers.map(pointer);
        let (comm, stream) = (self.comm, stream.borrow().as_raw());
        let of = match call {
            Sum::AllReduce => ncclAllReduce,
            Sum::ReduceScatter => ncclReduceScatter,
        };
        // SAFETY: the buffers are large enough; communicator and stream are alive.
        let code = unsafe { of(send, receive, bytes, UNSIGNED_BYTE, SUM, comm, stream) };
        assert_eq!(code, 0, "{call:?}: {}", last_error());
    }

    /// Moves blocks of `bytes` bytes between buffers of all ranks.
    pub fn move_bytes(&self, call: Move, buffers: [DevicePtr; 2], bytes: usize, stream: &Stream) {
        const BYTE: c_int = 1;
        let [send, receive] = buffers.map(pointer);
        let (comm, stream) = (self.comm, stream.borrow().as_raw());
        // SAFETY: the buffers are large enough; communicator and stream are alive.
        let code = unsafe {
            match call {
                Move::AllGather => ncclAllGather(send, receive, bytes, BYTE, comm, stream),
                Move::AllToAll => ncclAlltoAll(send, receive, bytes, BYTE, comm, stream),
                Move::Broadcast { root } => {
                    ncclBroadcast(send, receive, bytes, BYTE, root, comm, stream)
                }
            }
        };
        assert_eq!(code, 0, "{call:?}: {}", last_error());
    }

    /// The next collective sets signals of its blocks from `signals` on.
    pub fn signal_blocks(&self, signals: DevicePtr) {
        let signals = std::ptr::with_exposed_provenance_mut(signals.0 as usize);
        // SAFETY: the communicator is alive, and there is a word for each block.
        let code = unsafe { mscclCommSignalBlocks(self.comm, signals) };
        assert_eq!(code, 0, "{}", last_error());
    }

    /// The next collective need not bring what stays on this rank.
    pub fn omit_own_block(&self) {
        // SAFETY: the communicator is alive.
        assert_eq!(unsafe { mscclCommOmitOwnBlock(self.comm) }, 0, "{}", last_error());
    }

    /// Gives the communicator up.
    pub fn abort(&self) {
        // SAFETY: the communicator is alive; a test that calls this uses it for nothing else.
        assert_eq!(unsafe { ncclCommAbort(self.comm) }, 0, "{}", last_error());
    }
}

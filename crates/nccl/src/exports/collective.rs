//! Collectives, and both halves of point-to-point exchanges.

use std::ffi::c_int;

use msccl_runtime::{Buffers, Operation};

use crate::abi::{Address, CommHandle};
use crate::arguments::CheckedArguments;

/// The buffers and the stream of a call.
fn buffers(send: Address, receive: Address, stream: Address) -> Buffers {
    Buffers { send: send as u64, receive: receive as u64, stream: stream as u64 }
}

exported! {
    /// Every rank gets the combination of all inputs.
    fn ncclAllReduce | pncclAllReduce(
        send: Address, receive: Address, count: usize, data_type: c_int, operator: c_int,
        comm: CommHandle, stream: Address
    ) {
        let mut arguments = CheckedArguments::new("AllReduce", comm, data_type)?;
        let combine = arguments.combine(operator)?;
        arguments.submit(Operation::AllReduce(combine), count, buffers(send, receive, stream))
    }

    /// Every rank gets its block of the combination of all inputs.
    fn ncclReduceScatter | pncclReduceScatter(
        send: Address, receive: Address, count: usize, data_type: c_int, operator: c_int,
        comm: CommHandle, stream: Address
    ) {
        let mut arguments = CheckedArguments::new("ReduceScatter", comm, data_type)?;
        let combine = arguments.combine(operator)?;
        arguments.submit(Operation::ReduceScatter(combine), count, buffers(send, receive, stream))
    }

    /// Every rank gets all inputs.
    fn ncclAllGather | pncclAllGather(
        send: Address, receive: Address, count: usize, data_type: c_int, comm: CommHandle,
        stream: Address
    ) {
        let arguments = CheckedArguments::new("AllGather", comm, data_type)?;
        arguments.submit(Operation::AllGather, count, buffers(send, receive, stream))
    }

    /// Every rank gets from every rank the block that is meant for it.
    fn ncclAlltoAll | pncclAlltoAll(
        send: Address, receive: Address, count: usize, data_type: c_int, comm: CommHandle,
        stream: Address
    ) {
        let arguments = CheckedArguments::new("AlltoAll", comm, data_type)?;
        arguments.submit(Operation::AllToAll, count, buffers(send, receive, stream))
    }

    /// The root gets the combination of all inputs.
    fn ncclReduce | pncclReduce(
        send: Address, receive: Address, count: usize, data_type: c_int, operator: c_int,
        root: c_int, comm: CommHandle, stream: Address
    ) {
        let mut arguments = CheckedArguments::new("Reduce", comm, data_type)?;
        let (root, combine) = (arguments.rank(root)?, arguments.combine(operator)?);
        arguments.submit(Operation::Reduce(root, combine), count, buffers(send, receive, stream))
    }

    /// Every rank gets the root's input.
    fn ncclBroadcast | pncclBroadcast(
        send: Address, receive: Address, count: usize, data_type: c_int, root: c_int,
        comm: CommHandle, stream: Address
    ) {
        let mut arguments = CheckedArguments::new("Broadcast", comm, data_type)?;
        let root = arguments.rank(root)?;
        arguments.submit(Operation::Broadcast(root), count, buffers(send, receive, stream))
    }

    /// Every rank gets the root's buffer, in place.
    fn ncclBcast | pncclBcast(
        buffer: Address, count: usize, data_type: c_int, root: c_int, comm: CommHandle,
        stream: Address
    ) {
        let mut arguments = CheckedArguments::new("Bcast", comm, data_type)?;
        let root = arguments.rank(root)?;
        arguments.submit(Operation::Broadcast(root), count, buffers(buffer, buffer, stream))
    }

    /// The root gets all inputs.
    fn ncclGather | pncclGather(
        send: Address, receive: Address, count: usize, data_type: c_int, root: c_int,
        comm: CommHandle, stream: Address
    ) {
        let mut arguments = CheckedArguments::new("Gather", comm, data_type)?;
        let root = arguments.rank(root)?;
        arguments.submit(Operation::Gather(root), count, buffers(send, receive, stream))
    }

    /// Everyone gets its block of the root's input.
    fn ncclScatter | pncclScatter(
        send: Address, receive: Address, count: usize, data_type: c_int, root: c_int,
        comm: CommHandle, stream: Address
    ) {
        let mut arguments = CheckedArguments::new("Scatter", comm, data_type)?;
        let root = arguments.rank(root)?;
        arguments.submit(Operation::Scatter(root), count, buffers(send, receive, stream))
    }

    /// Sends to `peer`, which must receive as much.
    fn ncclSend | pncclSend(
        send: Address, count: usize, data_type: c_int, peer: c_int, comm: CommHandle,
        stream: Address
    ) {
        let mut arguments = CheckedArguments::new("Send", comm, data_type)?;
        let peer = arguments.rank(peer)?;
        arguments.submit(Operation::Send(peer), count, buffers(send, 0, stream))
    }

    /// Receives from `peer`, which must send as much.
    fn ncclRecv | pncclRecv(
        receive: Address, count: usize, data_type: c_int, peer: c_int, comm: CommHandle,
        stream: Address
    ) {
        let mut arguments = CheckedArguments::new("Recv", comm, data_type)?;
        let peer = arguments.rank(peer)?;
        arguments.submit(Operation::Receive(peer), count, buffers(0, receive, stream))
    }
}

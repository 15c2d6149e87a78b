//! One-sided transfers: into memory of a peer, without its doing.

use std::ffi::c_int;

use msccl_runtime::ExpectedSignals;

use crate::abi::{Address, CommHandle, In, SignalWait, constant};
use crate::fault::Fault;
use crate::one_sided::{OneSidedArguments, OneSidedCall, PutCall, SignalChoice};

exported! {
    /// Writes into the window of `peer`, then signals it.
    fn ncclPutSignal | pncclPutSignal(
        send: Address, count: usize, data_type: c_int, peer: c_int, window: Address,
        offset_bytes: usize, signal: c_int, context: c_int, flags: u32, comm: CommHandle,
        stream: Address
    ) {
        let arguments = OneSidedArguments::new("PutSignal", comm)?;
        let peer = arguments.peer(peer)?;
        arguments.check(SignalChoice { signal, context, flags })?;
        let data_type = constant::data_type(data_type).ok_or_else(|| {
            Fault::argument(format!("PutSignal : invalid type {data_type}"))
        })?;
        let window = arguments.window(window)?;
        if send == 0 {
            return Err(Fault::null("PutSignal", "localbuff"));
        }
        let bytes = (count as u64).checked_mul(data_type.size_bytes() as u64);
        let bytes = bytes.ok_or_else(|| Fault::argument("PutSignal : the data exceed memory"))?;
        let (from, offset_bytes) = (send as u64, offset_bytes as u64);
        let put = PutCall { from, bytes, peer, window, offset_bytes };
        arguments.launch(OneSidedCall::Put(put), stream)
    }

    /// Signals `peer`.
    fn ncclSignal | pncclSignal(
        peer: c_int, signal: c_int, context: c_int, flags: u32, comm: CommHandle, stream: Address
    ) {
        let arguments = OneSidedArguments::new("Signal", comm)?;
        let peer = arguments.peer(peer)?;
        arguments.check(SignalChoice { signal, context, flags })?;
        arguments.launch(OneSidedCall::Signal(peer), stream)
    }

    /// Waits for so many signals of each peer, beyond those that were waited for before.
    fn ncclWaitSignal | pncclWaitSignal(
        count: c_int, waits: In<SignalWait>, comm: CommHandle, stream: Address
    ) {
        let arguments = OneSidedArguments::new("WaitSignal", comm)?;
        let known = usize::try_from(count).ok().filter(|count| *count > 0);
        let known = known.ok_or_else(|| {
            Fault::argument(format!("WaitSignal : nDesc is {count}, expected 1 or more"))
        })?;
        let waits = waits.read_all(known).ok_or_else(|| Fault::null("WaitSignal", "signalDescs"))?;
        let expected = waits.into_iter().map(|SignalWait { operations, peer, signal, context }| {
            arguments.check(SignalChoice { signal, context, flags: 0 })?;
            let count = u32::try_from(operations).ok().filter(|count| *count > 0);
            let count = count.ok_or_else(|| {
                Fault::argument(format!("WaitSignal : opCnt is {operations}, expected 1 or more"))
            })?;
            Ok(ExpectedSignals { peer: arguments.peer(peer)?, count })
        });
        let expected = expected.collect::<Result<Vec<_>, Fault>>()?;
        arguments.launch(OneSidedCall::Wait(expected), stream)
    }
}

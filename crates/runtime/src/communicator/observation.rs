//! What observers learn of calls.

use msccl_collective::Rank;
use msccl_plan::Direction;
use smallvec::SmallVec;

use crate::call::{AdmittedCall, CallTag, TransferCall};
use crate::engine::DecidedCall;
use crate::error::Error;
use crate::observer::{ObservedCollective, ObservedTransfer, ObservedTransfers, TransferWay};
use crate::settings::Settings;

/// Executes a collective by `execute`; the observer of `settings`, if there is one, follows it.
pub(super) fn observed(
    settings: &Settings,
    tag: CallTag,
    decided: &DecidedCall<'_>,
    execute: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(observer) = &settings.observer else { return execute() };
    let DecidedCall { decision, data_type, reduction: _, buffers: _, number, request } = *decided;
    let service = decision.service();
    observer.collective_begins(&ObservedCollective {
        number,
        tag,
        collective: request.collective,
        data_type,
        bytes: request.bytes,
        algorithm: &decision.prepared.name,
        protocol: service.protocol,
        thread_blocks: service.thread_blocks.saturating_mul(service.instances),
        threads: service.threads,
    });
    let outcome = execute();
    observer.ends(number, &outcome);
    outcome
}

/// The same of the sends and receives among `calls` of `rank`, which go under `number`.
pub(super) fn observed_transfers(
    settings: &Settings,
    (rank, calls): (Rank, &[AdmittedCall]),
    number: u64,
    execute: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(observer) = &settings.observer else { return execute() };
    let transfers = calls.iter().filter_map(AdmittedCall::transfer);
    let moved = transfers.filter(|call| call.transfer.peer != rank && call.transfer.bytes != 0);
    let transfers: SmallVec<[ObservedTransfer; 4]> = moved.map(observed_transfer).collect();
    observer.transfers_begin(&ObservedTransfers { number, transfers: &transfers });
    let outcome = execute();
    observer.ends(number, &outcome);
    outcome
}

fn observed_transfer(call: &TransferCall) -> ObservedTransfer {
    let TransferCall { data_type: _, count: _, transfer, stream: _, tag } = *call;
    let way = match transfer.way {
        Direction::Out => TransferWay::Send,
        Direction::In => TransferWay::Receive,
    };
    ObservedTransfer { tag, peer: transfer.peer, way, bytes: transfer.bytes }
}

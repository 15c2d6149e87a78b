//! What a communicator says in the log of itself.

use std::sync::atomic::Ordering;

use msccl_collective::Rank;

use super::Comm;
use crate::abi::CommHandle;
use crate::log::Subsystem;
use crate::place;

impl Comm {
    /// How many calls came before this one, for the log.
    pub fn count_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Says that its ranks are about to meet.
    pub fn log_join(&self, handle: CommHandle, operation: &str, rank: Rank, ranks: u32) {
        self.log_line(handle, operation, (rank, ranks), 0, "Init START");
    }

    /// Says where this communicator stands in its life.
    pub fn log_life(&self, handle: CommHandle, operation: &str, what: &str) {
        let Some(communicator) = self.life().communicator.clone() else { return };
        let place = (communicator.rank(), communicator.ranks());
        self.log_line(handle, operation, place, communicator.id(), what);
    }

    /// A line in NCCL's shape.
    fn log_line(
        &self,
        handle: CommHandle,
        operation: &str,
        (rank, ranks): (Rank, u32),
        id: u64,
        what: &str,
    ) {
        let (device, handle, rank) = (self.device(), handle.0, rank.0);
        let bus = place::bus_id(&self.place);
        let name = self.config.name.as_deref().map(|name| format!(" commName {name}"));
        let name = name.unwrap_or_default();
        let text = format_args!(
            "{operation} comm {handle:#x} rank {rank} nranks {ranks} cudaDev {device} nvmlDev \
             {device} busId {bus} commId {id:#x}{name} - {what}"
        );
        self.scope().info(Subsystem::Init, text);
    }
}

//! NCCL's device interface, which is not supported: it fixes the layout of device memory that
//! kernels compiled into programs read. Where peers' windows lie is answered. Teams are arithmetic,
//! and answered: kernels that find peers by teams are not supported, so each rank is alone in its
//! team of those that reach one another's memory.

use std::ffi::c_int;

use crate::abi::{Address, CommHandle, Out, Team};
use crate::arguments::rank_among;
use crate::comm::{Comm, handles};
use crate::fault::Fault;

/// The team of nobody, for callers whose communicator is none.
pub(super) const NOBODY: Team = Team { ranks: 0, rank: 0, stride: 0 };

/// The team of a rank alone.
const ALONE: Team = Team { ranks: 1, rank: 0, stride: 1 };

refused! {
    UNSUPPORTED, "Not supported.",
    "belongs to NCCL's device interface, which is not supported by this library; use its host \
     functions":
    ncclDevCommCreate | pncclDevCommCreate,
    ncclDevCommDestroy | pncclDevCommDestroy,
    ncclLsaBarrierCreateRequirement | pncclLsaBarrierCreateRequirement,
    ncclLLA2ACreateRequirement | pncclLLA2ACreateRequirement,
    ncclGinBarrierCreateRequirement | pncclGinBarrierCreateRequirement,
    ncclGinInboxA2ACreateRequirement | pncclGinInboxA2ACreateRequirement,
    ncclGinOutboxCreateRequirement | pncclGinOutboxCreateRequirement,
    ncclGetMultimemDevicePointer | pncclGetMultimemDevicePointer,
}

exported! {
    /// Where this rank's program reaches a place in the window of `peer`; null, if it does not.
    fn ncclGetPeerDevicePointer | pncclGetPeerDevicePointer(
        window: Address, offset: usize, peer: c_int, place: Out<Address>
    ) {
        place.set(peer_address("GetPeerDevicePointer", window, offset, place, Peer::World(peer))?);
        Ok(())
    }

    /// The same, of a rank of the team of those that reach one another's memory.
    fn ncclGetLsaDevicePointer | pncclGetLsaDevicePointer(
        window: Address, offset: usize, rank: c_int, place: Out<Address>
    ) {
        place.set(peer_address("GetLsaDevicePointer", window, offset, place, Peer::Lsa(rank))?);
        Ok(())
    }

    /// Where a window lies for all ranks at once: nowhere, since there is no multicast.
    fn ncclGetLsaMultimemDevicePointer | pncclGetLsaMultimemDevicePointer(
        window: Address, _offset: usize, place: Out<Address>
    ) {
        if window == 0 {
            return Err(Fault::null("GetLsaMultimemDevicePointer", "window"));
        }
        if place.is_null() {
            return Err(Fault::null("GetLsaMultimemDevicePointer", "outPtr"));
        }
        place.set(0);
        Ok(())
    }
}

exported_with_value! {
    /// Slots of eight bytes that so many elements of that size need, for a requirement that is not
    /// supported.
    fn ncclLLA2ACalcSlots | pncclLLA2ACalcSlots(elements: c_int, bytes: c_int) -> c_int, or 0 => {
        let slots = bytes.unsigned_abs().div_ceil(8).cast_signed();
        Ok(elements.saturating_mul(slots))
    }

    /// All ranks.
    fn ncclTeamWorld | pncclTeamWorld(comm: CommHandle) -> Team, or NOBODY => {
        world(comm)
    }

    /// The ranks that reach one another's memory: this one.
    fn ncclTeamLsa | pncclTeamLsa(comm: CommHandle) -> Team, or NOBODY => {
        world(comm).map(|_| ALONE)
    }

    /// The ranks that stand where this one stands in its team of such ranks: all.
    fn ncclTeamRail | pncclTeamRail(comm: CommHandle) -> Team, or NOBODY => {
        world(comm)
    }

    /// The rank of the communicator that is `rank` of `team`.
    fn ncclTeamRankToWorld | pncclTeamRankToWorld(
        comm: CommHandle, team: Team, rank: c_int
    ) -> c_int, or -1 => {
        Ok(world(comm)?.rank.wrapping_add(distance(team, rank)))
    }

    /// The rank among those that reach one another's memory that is `rank` of `team`.
    fn ncclTeamRankToLsa | pncclTeamRankToLsa(
        comm: CommHandle, team: Team, rank: c_int,
    ) -> c_int, or -1 => {
        world(comm).map(|_| ALONE.rank.wrapping_add(distance(team, rank)))
    }
}

/// A rank, by its number.
#[derive(Clone, Copy)]
enum Peer {
    /// In the communicator.
    World(c_int),
    /// In the team of ranks that reach one another's memory.
    Lsa(c_int),
}

/// Where this rank's program reaches what lies `offset` bytes into the window of `peer`; zero, if
/// it does not.
fn peer_address(
    operation: &str,
    window: Address,
    offset: usize,
    place: Out<Address>,
    peer: Peer,
) -> Result<Address, Fault> {
    if window == 0 {
        return Err(Fault::null(operation, "window"));
    }
    if place.is_null() {
        return Err(Fault::null(operation, "outPtr"));
    }
    let comm = handles::with_window(window, operation)?;
    let member = comm.member()?;
    let peer = match peer {
        Peer::World(number) => rank_among(member.ranks(), number),
        Peer::Lsa(number) => (number == ALONE.rank).then(|| member.rank()),
    };
    let peer =
        peer.ok_or_else(|| Fault::argument(format!("{operation} : there is no such rank")))?;
    if peer == member.rank() {
        return own_address(operation, &comm, window, offset);
    }
    let Some(shown) = comm.registrations.window(window) else { return Ok(0) };
    let found = member.peer_address(&shown, peer, offset as u64);
    let found = found.map_err(|error| Fault::from(error).during(operation))?;
    Ok(found.map_or(0, |address| address as usize))
}

/// What lies `offset` bytes into this rank's own part of `window`.
fn own_address(
    operation: &str,
    comm: &Comm,
    window: Address,
    offset: usize,
) -> Result<Address, Fault> {
    let found = comm.registrations.find(window).filter(|buffer| offset <= buffer.bytes);
    let text = || format!("{operation} : the window has no byte at {offset}");
    found.map(|of| of.address + offset).ok_or_else(|| Fault::argument(text()))
}

fn world(comm: CommHandle) -> Result<Team, Fault> {
    let member = handles::find(comm, "Team")?.member()?;
    let (ranks, rank) = (member.ranks().cast_signed(), member.rank().0.cast_signed());
    Ok(Team { ranks, rank, stride: 1 })
}

/// How far `rank` of `team` stands from the caller.
fn distance(team: Team, rank: c_int) -> c_int {
    rank.wrapping_sub(team.rank).wrapping_mul(team.stride)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Code;
    use crate::{last_error, log};

    #[test]
    fn the_device_interface_says_no() {
        let _alone = log::tests::alone();
        assert!(UNSUPPORTED.iter().all(|call| call() == Code::InvalidUsage));
        assert!(last_error::get().starts_with("ncclGetMultimemDevicePointer belongs to"));
        let mut place = 7;
        assert_eq!(ncclGetLsaMultimemDevicePointer(1, 0, Out::to(&mut place)), Code::Success);
        assert_eq!(place, 0);
    }

    #[test]
    fn teams_are_arithmetic() {
        let _alone = log::tests::alone();
        let comm = CommHandle::default();
        assert_eq!(ncclTeamWorld(comm), NOBODY);
        assert_eq!(ncclTeamRankToWorld(comm, ALONE, 0), -1);
        assert_eq!((ncclLLA2ACalcSlots(4, 100), ncclLLA2ACalcSlots(3, 16)), (52, 6));
        let every_other = Team { ranks: 4, rank: 1, stride: 2 };
        assert_eq!(distance(every_other, 3), 4);
    }
}

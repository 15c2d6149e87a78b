//! NCCL's device interface, which is not supported: it fixes the layout of device memory that
//! kernels compiled into programs read. Teams are arithmetic, and answered: no rank reaches
//! another's memory by loads and stores of a foreign kernel, so each is alone in its team of such
//! ranks.

use std::ffi::c_int;

use crate::abi::{Address, CommHandle, Team};
use crate::comm::handles;
use crate::fault::Fault;

/// The team of nobody, for callers whose communicator is none.
pub(super) const NOBODY: Team = Team { ranks: 0, rank: 0, stride: 0 };

/// The team of a rank alone.
const ALONE: Team = Team { ranks: 1, rank: 0, stride: 1 };

fn unsupported() -> Result<(), Fault> {
    let text = "NCCL's device interface is not supported by this library; use its host functions";
    Err(Fault::usage(text))
}

exported! {
    /// Not supported.
    fn ncclDevCommCreate | pncclDevCommCreate(
        _comm: CommHandle, _requirements: Address, _device_comm: Address
    ) {
        unsupported()
    }

    /// Not supported.
    fn ncclDevCommDestroy | pncclDevCommDestroy(_comm: CommHandle, _device_comm: Address) {
        unsupported()
    }

    /// Not supported.
    fn ncclLsaBarrierCreateRequirement | pncclLsaBarrierCreateRequirement(
        _team: Team, _barriers: c_int, _handle: Address, _requirements: Address
    ) {
        unsupported()
    }

    /// Not supported.
    fn ncclLLA2ACreateRequirement | pncclLLA2ACreateRequirement(
        _blocks: c_int, _slots: c_int, _handle: Address, _requirements: Address
    ) {
        unsupported()
    }

    /// Not supported.
    fn ncclGinBarrierCreateRequirement | pncclGinBarrierCreateRequirement(
        _comm: CommHandle, _team: Team, _barriers: c_int, _handle: Address, _requirements: Address
    ) {
        unsupported()
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
    use crate::log;

    #[test]
    fn the_device_interface_says_no() {
        let _alone = log::tests::alone();
        let comm = CommHandle::default();
        assert_eq!(ncclDevCommCreate(comm, 0, 0), Code::InvalidUsage);
        assert_eq!(ncclLsaBarrierCreateRequirement(ALONE, 1, 0, 0), Code::InvalidUsage);
        assert_eq!(ncclTeamWorld(comm), NOBODY);
        assert_eq!(ncclTeamRankToWorld(comm, ALONE, 0), -1);
        assert_eq!((ncclLLA2ACalcSlots(4, 100), ncclLLA2ACalcSlots(3, 16)), (52, 6));
        let every_other = Team { ranks: 4, rank: 1, stride: 2 };
        assert_eq!(distance(every_other, 3), 4);
    }
}

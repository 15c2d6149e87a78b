//! NCCL's device interface, which is not supported: it fixes the layout of device memory that
//! kernels compiled into programs read. Teams are arithmetic, and answered: no rank reaches
//! another's memory by loads and stores of a foreign kernel, so each is alone in its team of such
//! ranks.

use std::ffi::c_int;

use crate::abi::{Address, CommHandle, Out, Team};
use crate::comm::handles;
use crate::fault::Fault;

/// The team of nobody, for callers whose communicator is none.
pub(super) const NOBODY: Team = Team { ranks: 0, rank: 0, stride: 0 };

/// The team of a rank alone.
const ALONE: Team = Team { ranks: 1, rank: 0, stride: 1 };

macro_rules! unsupported {
    ($($name:ident | $twin:ident),+ $(,)?) => {
        exported! {$(
            /// Not supported. It looks at no arguments; the caller removes what it passed, in every
            /// calling convention of the hosts that this library is for.
            fn $name | $twin() {
                let name = stringify!($name);
                let text = format!(
                    "{name} belongs to NCCL's device interface, which is not supported by this \
                     library; use its host functions"
                );
                Err::<(), _>(Fault::usage(text))
            }
        )+}

        #[cfg(test)]
        const UNSUPPORTED: &[extern "C" fn() -> crate::abi::Code] = &[$($name, $twin),+];
    };
}

unsupported! {
    ncclDevCommCreate | pncclDevCommCreate,
    ncclDevCommDestroy | pncclDevCommDestroy,
    ncclLsaBarrierCreateRequirement | pncclLsaBarrierCreateRequirement,
    ncclLLA2ACreateRequirement | pncclLLA2ACreateRequirement,
    ncclGinBarrierCreateRequirement | pncclGinBarrierCreateRequirement,
    ncclGinInboxA2ACreateRequirement | pncclGinInboxA2ACreateRequirement,
    ncclGinOutboxCreateRequirement | pncclGinOutboxCreateRequirement,
    ncclGetLsaDevicePointer | pncclGetLsaDevicePointer,
    ncclGetMultimemDevicePointer | pncclGetMultimemDevicePointer,
    ncclGetPeerDevicePointer | pncclGetPeerDevicePointer,
}

exported! {
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
        assert!(last_error::get().starts_with("ncclGetPeerDevicePointer belongs to"));
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

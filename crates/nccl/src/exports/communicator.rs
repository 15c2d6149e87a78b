//! Communicators come and go.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::{CommHandle, ConfigPointer, In, Out, OutArray, Outcome, UniqueIdBytes};
use crate::comm::{Comm, handles};
use crate::create::{self, GrowthArguments, JoinArguments};
use crate::fault::Fault;
use crate::group;
use crate::task::CommunicatorTask;

exported! {
    /// A new id by which ranks find one another; its root listens in this process.
    fn ncclGetUniqueId | pncclGetUniqueId(unique_id: Out<UniqueIdBytes>) {
        if unique_id.is_null() {
            return Err(Fault::null("GetUniqueId", "out"));
        }
        unique_id.set(UniqueIdBytes(create::unique_id()?.to_bytes()));
        Ok(())
    }

    /// Joins as `rank` of `ranks`, on the current device of the calling thread.
    fn ncclCommInitRank | pncclCommInitRank(
        place: Out<CommHandle>, ranks: c_int, unique_id: UniqueIdBytes, rank: c_int
    ) {
        let arguments = JoinArguments { place, ranks, rank, ids: vec![unique_id] };
        create::join("ncclCommInitRank", arguments, ConfigPointer::none())
    }

    /// Joins, with a configuration.
    fn ncclCommInitRankConfig | pncclCommInitRankConfig(
        place: Out<CommHandle>, ranks: c_int, unique_id: UniqueIdBytes, rank: c_int,
        config: ConfigPointer
    ) {
        let arguments = JoinArguments { place, ranks, rank, ids: vec![unique_id] };
        create::join("ncclCommInitRankConfig", arguments, config)
    }

    /// Joins, by several ids whose roots share the work.
    fn ncclCommInitRankScalable | pncclCommInitRankScalable(
        place: Out<CommHandle>, ranks: c_int, rank: c_int, count: c_int, ids: In<UniqueIdBytes>,
        config: ConfigPointer
    ) {
        let known = usize::try_from(count).ok().filter(|&count| count > 0 && ranks >= 0);
        let known = known.filter(|&count| count <= ranks.unsigned_abs() as usize);
        let count = known.ok_or_else(|| Fault::argument(format!(
            "CommInitRankScalable : nId is {count}, expected 1 to nranks ({ranks})"
        )))?;
        let ids = ids.read_all(count);
        let ids = ids.ok_or_else(|| Fault::null("CommInitRankScalable", "commIds"))?;
        let arguments = JoinArguments { place, ranks, rank, ids };
        create::join("ncclCommInitRankScalable", arguments, config)
    }

    /// All ranks, one per device, in this process.
    fn ncclCommInitAll | pncclCommInitAll(
        places: OutArray<CommHandle>, count: c_int, devices: In<c_int>
    ) {
        if places.is_null() {
            return Err(Fault::null("CommInitAll", "comms"));
        }
        if count < 1 {
            let text = format!("Invalid device count requested : {count}, expected 1 or more");
            return Err(Fault::argument(text));
        }
        let devices = devices.read_all(count.unsigned_abs() as usize);
        create::join_all(places, &devices.unwrap_or_else(|| (0..count).collect()))
    }

    /// A communicator of the ranks of one color.
    fn ncclCommSplit | pncclCommSplit(
        comm: CommHandle, color: c_int, key: c_int, place: Out<CommHandle>, config: ConfigPointer
    ) {
        create::split(comm, color, key, place, config)
    }

    /// A communicator of the ranks that are left.
    fn ncclCommShrink | pncclCommShrink(
        comm: CommHandle, excluded: In<c_int>, count: c_int, place: Out<CommHandle>,
        config: ConfigPointer, flags: c_int
    ) {
        create::shrink(comm, (excluded, count), place, config, flags)
    }

    /// The id by which new ranks come to a communicator that is about to grow; one at a time.
    fn ncclCommGetUniqueId | pncclCommGetUniqueId(
        comm: CommHandle, unique_id: Out<UniqueIdBytes>
    ) {
        if unique_id.is_null() {
            return Err(Fault::null("CommGetUniqueId", "uniqueId"));
        }
        unique_id.set(create::growth_id(comm)?);
        Ok(())
    }

    /// A communicator of the ranks of another one, which keep their numbers, and new ones.
    fn ncclCommGrow | pncclCommGrow(
        comm: CommHandle, ranks: c_int, id: In<UniqueIdBytes>, rank: c_int,
        place: Out<CommHandle>, config: ConfigPointer
    ) {
        create::grow(GrowthArguments { comm, ranks, id, rank, place }, config)
    }

    /// No more calls will come; those that came are done.
    fn ncclCommFinalize | pncclCommFinalize(comm: CommHandle) {
        if comm == CommHandle::default() {
            return Ok(Outcome::Done);
        }
        let found = handles::find(comm, "CommFinalize")?;
        found.finalize().map_err(|fault| fault.during("CommFinalize"))?;
        group::launch(CommunicatorTask::Finalize(found, comm))
    }

    /// Frees a communicator when its calls are done. One of which something goes on in the
    /// background is refused, as that may never end, and stays: it can be aborted.
    fn ncclCommDestroy | pncclCommDestroy(comm: CommHandle) {
        if comm == CommHandle::default() {
            return Ok(Outcome::Done);
        }
        // One that was overwritten can still be given back.
        if let Ok(found) = handles::find(comm, "CommDestroy") {
            found.idle().map_err(|fault| fault.during("CommDestroy"))?;
        }
        let found = handles::give_back(comm, "CommDestroy")?;
        group::launch(CommunicatorTask::Destroy(found, comm))
    }

    /// Frees a communicator at once; its calls give up.
    fn ncclCommAbort | pncclCommAbort(comm: CommHandle) {
        if comm == CommHandle::default() {
            return Ok(Outcome::Done);
        }
        let abort = |found: &Arc<Comm>| found.abort("ncclCommAbort was called on this rank");
        // First, so that nothing is made of it any more when its handle is refused; one that was
        // overwritten is found only when it is given back.
        let _ = handles::find(comm, "CommAbort").inspect(abort);
        let found = handles::give_back(comm, "CommAbort").inspect(abort)?;
        group::launch(CommunicatorTask::Release(found, comm))
    }

    /// Takes a communicator back: its calls give up, and it can only be split, shrunk and
    /// destroyed.
    fn ncclCommRevoke | pncclCommRevoke(comm: CommHandle, flags: c_int) {
        if comm == CommHandle::default() {
            return Ok(());
        }
        if flags != 0 {
            return Err(Fault::argument(format!("CommRevoke : flags are {flags}, expected 0")));
        }
        let found = handles::find(comm, "CommRevoke")?;
        let revoked = found.revoke("ncclCommRevoke was called on this rank");
        revoked.map_err(|fault| fault.during("CommRevoke"))
    }
}

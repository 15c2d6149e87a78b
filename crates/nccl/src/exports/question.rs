//! What a communicator is, and how it is.

use std::ffi::c_int;

use crate::abi::{Code, CommHandle, Out};
use crate::comm::handles;
use crate::fault::Fault;

exported! {
    /// How many ranks there are.
    fn ncclCommCount | pncclCommCount(comm: CommHandle, count: Out<c_int>) {
        let member = handles::find(comm, "CommCount")?.member()?;
        answer("CommCount", "count", count, member.ranks().cast_signed())
    }

    /// Which of them this is.
    fn ncclCommUserRank | pncclCommUserRank(comm: CommHandle, rank: Out<c_int>) {
        let member = handles::find(comm, "CommUserRank")?.member()?;
        answer("CommUserRank", "rank", rank, member.rank().0.cast_signed())
    }

    /// On which device it runs; -1 on the host.
    fn ncclCommCuDevice | pncclCommCuDevice(comm: CommHandle, device: Out<c_int>) {
        let found = handles::find(comm, "CommCuDevice")?;
        found.member()?;
        answer("CommCuDevice", "device", device, found.device())
    }

    /// Whether something goes on in the background, or has failed.
    fn ncclCommGetAsyncError | pncclCommGetAsyncError(comm: CommHandle, result: Out<Code>) {
        // Whoever looks at this alone learns that all is not well, too.
        let found = handles::find(comm, "CommGetAsyncError");
        let found = found.inspect_err(|fault| result.set(fault.code))?;
        answer("CommGetAsyncError", "asyncError", result, found.asynchronous())
    }
}

fn answer<T: Copy>(operation: &str, name: &str, place: Out<T>, value: T) -> Result<(), Fault> {
    if place.is_null() {
        return Err(Fault::null(operation, name));
    }
    place.set(value);
    Ok(())
}

//! What a communicator is, and how it is.

use std::ffi::c_int;

use crate::abi::{Code, CommHandle, Out, PropertiesFields, PropertiesPointer};
use crate::comm::handles;
use crate::fault::Fault;
use crate::place;

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

    /// What a communicator can. Its kernels are its own, so that every rank is alone among those
    /// that reach one another's memory by loads and stores of foreign kernels.
    fn ncclCommQueryProperties | pncclCommQueryProperties(
        comm: CommHandle, properties: PropertiesPointer
    ) {
        let found = handles::find(comm, "CommQueryProperties")?;
        let header = properties.header();
        let header = header.ok_or_else(|| Fault::null("CommQueryProperties", "props"))?;
        let header = header.ok_or_else(|| Fault::usage(
            "ncclCommProperties_t argument not initialized via NCCL_COMM_PROPERTIES_INITIALIZER"
        ))?;
        let member = found.ready().map_err(|fault| fault.during("CommQueryProperties"))?;
        let ranks = member.ranks().cast_signed();
        properties.set(header, &PropertiesFields {
            size: header.size,
            magic: 0,
            version: header.version,
            rank: member.rank().0.cast_signed(),
            ranks,
            cuda_device: found.device(),
            nvml_device: place::management_number(&found.place),
            device_api_support: false,
            multimem_support: false,
            gin_type: 0,
            lsa_teams: ranks,
            host_rma_support: member.has_one_sided_transfers(),
            railed_gin_type: 0,
        });
        Ok(())
    }
}

fn answer<T: Copy>(operation: &str, name: &str, place: Out<T>, value: T) -> Result<(), Fault> {
    if place.is_null() {
        return Err(Fault::null(operation, name));
    }
    place.set(value);
    Ok(())
}

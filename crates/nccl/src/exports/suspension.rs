//! The memory of a communicator: how much there is, and giving it up for a while.

use std::ffi::c_int;

use msccl_runtime::MemoryUse;

use crate::abi::constant::SUSPEND_MEMORY;
use crate::abi::{CommHandle, Out, Outcome};
use crate::comm::handles;
use crate::fault::Fault;
use crate::group;
use crate::task::{CommunicatorTask, Suspension};

exported! {
    /// Frees the memory of links and calls, together with all ranks; calls come back with
    /// `ncclCommResume`.
    fn ncclCommSuspend | pncclCommSuspend(comm: CommHandle, flags: c_int) {
        let found = handles::find(comm, "CommSuspend")?;
        if flags & !SUSPEND_MEMORY != 0 {
            let text = format!("CommSuspend : flags are {flags}, expected 0 or {SUSPEND_MEMORY}");
            return Err(Fault::argument(text));
        }
        found.ready().map_err(|fault| fault.during("CommSuspend"))?;
        if flags == 0 {
            return Ok(Outcome::Done);
        }
        group::launch(CommunicatorTask::Suspend(Suspension { comm: found, handle: comm }))
    }

    /// Makes again what `ncclCommSuspend` has freed, together with all ranks.
    fn ncclCommResume | pncclCommResume(comm: CommHandle) {
        let found = handles::find_ready(comm, "CommResume")?.comm;
        group::launch(CommunicatorTask::Resume(Suspension { comm: found, handle: comm }))
    }

    /// A figure of the memory that the communicator holds on this rank, in bytes; or, as figure 1,
    /// whether it is suspended.
    fn ncclCommMemStats | pncclCommMemStats(comm: CommHandle, figure: c_int, value: Out<u64>) {
        let communicator = handles::find(comm, "CommMemStats")?.member()?;
        if value.is_null() {
            return Err(Fault::null("CommMemStats", "value"));
        }
        let MemoryUse { suspendable_bytes, persistent_bytes, is_suspended } =
            communicator.memory_use();
        value.set(match figure {
            0 => suspendable_bytes,
            1 => u64::from(is_suspended),
            2 => persistent_bytes,
            3 => suspendable_bytes + persistent_bytes,
            _ => {
                let text = format!("CommMemStats : no statistic is {figure}, expected 0 to 3");
                return Err(Fault::argument(text));
            }
        });
        Ok(())
    }
}

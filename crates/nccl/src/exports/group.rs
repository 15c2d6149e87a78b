//! Groups of calls.

use crate::abi::layout::SIMULATION_MAGIC;
use crate::abi::{In, SimulationInfo};
use crate::fault::Fault;
use crate::group;

exported! {
    /// Calls of this thread are gathered from now on.
    fn ncclGroupStart | pncclGroupStart() {
        group::start();
        Ok(())
    }

    /// What was gathered is executed, if this ends the outermost group.
    fn ncclGroupEnd | pncclGroupEnd() {
        group::end()
    }

    /// What was gathered is forgotten. Nobody here knows how long it would have taken, so the time
    /// in `info` stays what its initialiser made it: undefined, which callers of NCCL know from
    /// exchanges.
    fn ncclGroupSimulateEnd | pncclGroupSimulateEnd(info: In<SimulationInfo>) {
        group::discard()?;
        match info.read() {
            Some(info) if info.magic != SIMULATION_MAGIC => Err(Fault::argument(
                "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

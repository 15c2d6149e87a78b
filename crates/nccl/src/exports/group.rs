//! Groups of calls.

use crate::abi::SimulationPointer;
use crate::abi::layout::SIMULATION_MAGIC;
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

    /// What was gathered is forgotten, and `info` has the time in µs that it would have taken, by
    /// the cost model. The time stays what the initialiser made it, undefined, where the model does
    /// not know all of it, as it knows no sends and receives; callers of NCCL know that from these.
    fn ncclGroupSimulateEnd | pncclGroupSimulateEnd(info: SimulationPointer) {
        let estimate_us = group::simulate()?;
        match info.read() {
            Some(of) if of.magic != SIMULATION_MAGIC => {
                return Err(Fault::argument(
                    "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER",
                ));
            }
            Some(_) | None => {}
        }
        if let Some(estimate_us) = estimate_us {
            info.set_us(estimate_us as f32);
        }
        Ok(())
    }
}

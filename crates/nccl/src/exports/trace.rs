//! What NCCL does not have: recordings that begin and end while a program runs, and what a
//! communicator is doing (`include/msccl.h`).

use std::ffi::c_char;

use crate::abi::{CommHandle, OutArray, pointer};
use crate::comm::handles;
use crate::fault::Fault;
use crate::{dump, text_result, trace_switch};

const DUMP: &str = "CommDump";

exported! {
    /// Every rank of this process records its calls into `folder` from the next one on.
    fn mscclTraceStart | pmscclTraceStart(folder: *const c_char) {
        let folder = pointer::text(folder);
        let folder = folder.ok_or_else(|| Fault::null("TraceStart", "folder"))?;
        trace_switch::start(&folder).map_err(|why| Fault::argument(format!("TraceStart : {why}")))
    }

    /// What the communicator is doing, as JSON.
    fn mscclCommDump | pmscclCommDump(comm: CommHandle, text: OutArray<u8>, capacity: usize) {
        if capacity > 0 {
            text.set_all(&[0]);
        }
        let found = handles::find(comm, DUMP)?;
        let communicator = found.taken_up().map_err(|fault| fault.during(DUMP))?;
        let dumped = dump::dump(&communicator, found.config.name.as_deref());
        text_result::give((DUMP, "text"), text, capacity, &dumped)
    }

    /// No rank of this process records any longer.
    fn mscclTraceStop | pmscclTraceStop() {
        trace_switch::stop();
        Ok(())
    }
}

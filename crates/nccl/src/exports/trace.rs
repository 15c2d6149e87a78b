//! What NCCL does not have: recordings that begin and end while a program runs
//! (`include/msccl.h`).

use std::ffi::c_char;

use crate::abi::pointer;
use crate::fault::Fault;
use crate::trace_switch;

exported! {
    /// Every rank of this process records its calls into `folder` from the next one on.
    fn mscclTraceStart | pmscclTraceStart(folder: *const c_char) {
        let folder = pointer::text(folder);
        let folder = folder.ok_or_else(|| Fault::null("TraceStart", "folder"))?;
        trace_switch::start(&folder).map_err(|why| Fault::argument(format!("TraceStart : {why}")))
    }

    /// No rank of this process records any longer.
    fn mscclTraceStop | pmscclTraceStop() {
        trace_switch::stop();
        Ok(())
    }
}

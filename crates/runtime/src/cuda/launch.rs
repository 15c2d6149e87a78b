//! Launching kernels. A door for `unsafe`.
//!
//! What a kernel is given by value is a record of [`msccl_plan::launch`]. The addresses in it are the
//! communicator's own, alive as long as it is, or the caller's, who promises by the C API that
//! buffers live until the call is done, and again whenever a graph with it runs. That nobody
//! uses them in conflict is what is proved of the plan.

use msccl_gpu::{EnteredStream, Function, Launch as Shape};
use msccl_plan::launch::{Exchange, Launch, Scale};

use crate::error::Error;

/// A record that kernels take by value.
pub(super) trait Record: Copy {}
impl Record for Launch {}
impl Record for Exchange {}
impl Record for Scale {}

/// Launches `function` over a grid, as wide and as high as it says, of blocks of `threads` threads.
pub(super) fn launch<R: Record>(
    function: &Function,
    stream: EnteredStream<'_>,
    [width, height]: [u32; 2],
    threads: u32,
    record: &R,
) -> Result<(), Error> {
    let start = std::ptr::from_ref(record).cast::<u8>();
    // SAFETY: records are integers without padding, which their definition asserts.
    let bytes = unsafe { std::slice::from_raw_parts(start, size_of::<R>()) };
    let grid = [width, height, 1];
    let shape = Shape { grid, own_memory_domain: true, ..Shape::linear(1, threads) };
    // SAFETY: the record is what the kernel declares; of its addresses see above.
    unsafe { function.launch_in(stream, &shape, bytes)? };
    Ok(())
}

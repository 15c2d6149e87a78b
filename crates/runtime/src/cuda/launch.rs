//! Launching kernels. An unsafe boundary.
//!
//! What a kernel is given by value is a record of [`msccl_plan::launch`]. The addresses in it are
//! the communicator's own, alive as long as it is, or the caller's, who promises by the C API that
//! buffers live until the call is done, and again whenever a graph with it runs. That nobody uses
//! them in conflict is what is proved of the plan.

#![expect(unsafe_code, reason = "launches kernels over addresses of callers")]

use msccl_gpu::{EnteredStream, Event, Function, Launch as Shape, StreamRef};
use msccl_kernels::recording::ClockLaunch;
use msccl_plan::combine::Combine;
use msccl_plan::launch::{Exchange, Launch, Scale};

use crate::error::Error;

/// A record that kernels take by value.
pub(super) trait Record: Copy {}
impl Record for Launch {}
impl Record for Exchange {}
impl Record for Scale {}
impl Record for Combine {}
impl Record for ClockLaunch {}

/// How many thread blocks there are, and when they begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub width: u32,
    pub height: u32,
    /// In a thread block.
    pub threads: u32,
    /// The dynamic shared memory of each, in bytes.
    pub shared_bytes: u32,
    /// Whether they may begin while the kernel before them in the stream ends; those of the kernel
    /// must then wait for that end.
    pub uses_pdl: bool,
}

impl Grid {
    /// `blocks` thread blocks in a row, which begin when what came before has ended.
    pub fn row(blocks: u32, threads: u32) -> Self {
        Self { width: blocks, height: 1, threads, shared_bytes: 0, uses_pdl: false }
    }
}

/// Launches `function`; `begun` is marked when all its thread blocks have begun.
pub(super) fn launch<R: Record>(
    function: &Function,
    stream: EnteredStream<'_>,
    grid: Grid,
    record: &R,
    begun: Option<&Event>,
) -> Result<(), Error> {
    let bytes = bytes_of(record);
    let Grid { width, height, threads, shared_bytes, uses_pdl } = grid;
    let shape = Shape {
        grid: [width, height, 1],
        dynamic_shared_bytes: shared_bytes,
        own_memory_domain: true,
        uses_pdl,
        begun,
        ..Shape::linear(1, threads)
    };
    // SAFETY: the record is what the kernel declares; of its addresses see above.
    unsafe { function.launch_in(stream, &shape, bytes)? };
    Ok(())
}

/// Launches `function`, the kernel that answers with the clock, as one thread.
pub(super) fn launch_clock(
    function: &Function,
    stream: StreamRef<'_>,
    record: &ClockLaunch,
) -> Result<(), Error> {
    // SAFETY: the record is what the kernel declares; its mailbox lives until all in `stream` is
    // done.
    unsafe { function.launch(stream, &Shape::linear(1, 1), bytes_of(record))? };
    Ok(())
}

fn bytes_of<R: Record>(record: &R) -> &[u8] {
    let start = std::ptr::from_ref(record).cast::<u8>();
    // SAFETY: records are integers without padding, which their definition asserts.
    unsafe { std::slice::from_raw_parts(start, size_of::<R>()) }
}

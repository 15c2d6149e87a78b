//! Stream capture: whether a stream records a graph, and recording one.
//!
//! Work given to a capturing stream is not done but recorded. While any stream of a process
//! captures, calls such as allocating or waiting may be refused *and spoil the capture*, depending
//! on the calling thread's [`CaptureMode`]; a library that must make such calls does so under
//! [`CaptureModeGuard::relaxed`].

use std::marker::PhantomData;

use cudarc::driver::sys::{CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status};

use crate::driver::Driver;
use crate::error::Error;
use crate::graph::Graph;
use crate::stream::{EnteredStream, StreamRef};

/// Which calls a capture forbids, and on which threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum CaptureMode {
    /// Calls that may spoil a capture are forbidden on every thread.
    Global = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL as u32,
    /// They are forbidden on the thread that began the capture.
    ThreadLocal = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as u32,
    /// Nothing is forbidden.
    Relaxed = Mode::CU_STREAM_CAPTURE_MODE_RELAXED as u32,
}

/// What a stream does with work given to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureState {
    /// It does the work.
    None,
    /// It records the work; all streams of one capture give the same number, which no other
    /// capture of the process has.
    Active(u64),
    /// The capture is spoilt and waits to be ended.
    Invalidated,
}

impl StreamRef<'_> {
    /// What the stream does with work given to it.
    ///
    /// Asking the legacy stream fails with
    /// [`STREAM_CAPTURE_IMPLICIT`](crate::CuResult::STREAM_CAPTURE_IMPLICIT) while another stream
    /// captures in a way that excludes it.
    pub fn capture_state(self) -> Result<CaptureState, Error> {
        self.entered(|stream| stream.capture_state())
    }

    /// Records from now on. The legacy stream cannot.
    pub fn begin_capture(self, mode: CaptureMode) -> Result<(), Error> {
        let _entered = self.context().enter()?;
        self.context().calls().capture_begin(self.handle(), mode as u32)
    }

    /// Ends the recording that this stream began; other streams that joined it must have been
    /// joined back by events.
    pub fn end_capture(self) -> Result<Graph, Error> {
        Graph::captured_by(self)
    }
}

impl EnteredStream<'_> {
    /// As [`StreamRef::capture_state`].
    pub fn capture_state(self) -> Result<CaptureState, Error> {
        const NONE: u32 = Status::CU_STREAM_CAPTURE_STATUS_NONE as u32;
        const ACTIVE: u32 = Status::CU_STREAM_CAPTURE_STATUS_ACTIVE as u32;
        let (mut status, mut id) = (0, 0);
        self.calls().capture_info(self.handle(), &mut status, &mut id, None, None, None)?;
        Ok(match status {
            NONE => CaptureState::None,
            ACTIVE => CaptureState::Active(id),
            _ => CaptureState::Invalidated,
        })
    }
}

/// While it lives, the calling thread has another capture mode.
#[must_use = "the mode holds only as long as the guard lives"]
pub struct CaptureModeGuard {
    driver: &'static Driver,
    previous: u32,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl CaptureModeGuard {
    /// Lets this thread make calls that captures of other streams would forbid. The calls must
    /// have nothing to do with those streams.
    pub fn relaxed(driver: &'static Driver) -> Result<Self, Error> {
        let mut mode = CaptureMode::Relaxed as u32;
        driver.calls().capture_mode_exchange(&mut mode)?;
        Ok(Self { driver, previous: mode, stays_on_its_thread: PhantomData })
    }
}

impl Drop for CaptureModeGuard {
    fn drop(&mut self) {
        // The mode was the thread's own, so the driver takes it back.
        let _ = self.driver.calls().capture_mode_exchange(&mut self.previous);
    }
}

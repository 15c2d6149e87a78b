//! Copies to memory of a device that the host waits for only so long. A door for `unsafe`.

#![expect(unsafe_code, reason = "asks for a copy that may last longer than a borrow")]

use std::mem::ManuallyDrop;
use std::thread;
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::error::Error;
use crate::memory::DeviceBuffer;
use crate::pinned::PinnedBuffer;
use crate::stream::Stream;

/// How often the host looks whether a copy is done, which takes some 10 µs.
const POLL: Duration = Duration::from_micros(5);

/// Words on their way from memory of the host, which the device reaches, to memory of the device.
///
/// The driver has few queues, and streams share them. So a copy may wait behind work that has
/// nothing to do with it: a kernel that waits for another rank, or for the owner of a communicator
/// that has failed. Whoever must not wait for those waits [so long](Self::ends_within), and uses
/// [the source](Self::source) if the copy has not ended by then.
///
/// Dropped while it is under way, both buffers stay for ever: the device may still use them.
pub struct Upload {
    /// While it is under way.
    stream: Option<Stream>,
    source: ManuallyDrop<PinnedBuffer>,
    target: ManuallyDrop<DeviceBuffer>,
}

impl Upload {
    /// Begins to copy `words` to new memory of the device of `context`.
    ///
    /// # Errors
    ///
    /// The driver's, if it has no memory or refuses the copy.
    pub fn begin(context: &Context, words: &[u32]) -> Result<Self, Error> {
        let source = PinnedBuffer::of_words(context, words)?;
        let target = DeviceBuffer::new(context, source.length_bytes())?;
        let stream = Stream::most_urgent(context)?;
        let (to, from, bytes) = (target.ptr(), source.ptr(), source.length_bytes());
        let (source, target) = (ManuallyDrop::new(source), ManuallyDrop::new(target));
        // SAFETY: both have that many bytes, and stay for ever unless the stream is seen to be
        // idle; the host sees pinned memory as atomics only, and changes it no more.
        unsafe { stream.borrow().copy(to, from, bytes)? };
        Ok(Self { stream: Some(stream), source, target })
    }

    /// Whether the copy ends within `patience`.
    ///
    /// # Errors
    ///
    /// The driver's, for this copy or for anything before it.
    pub fn ends_within(&mut self, patience: Duration) -> Result<bool, Error> {
        let began = Instant::now();
        while !self.has_ended()? {
            if began.elapsed() >= patience {
                return Ok(false);
            }
            thread::sleep(POLL);
        }
        Ok(true)
    }

    fn has_ended(&mut self) -> Result<bool, Error> {
        let Some(stream) = &self.stream else { return Ok(true) };
        let is_idle = stream.borrow().is_idle()?;
        self.stream = self.stream.take().filter(|_| !is_idle);
        Ok(is_idle)
    }

    /// Where the words come from.
    pub fn source(&self) -> &PinnedBuffer {
        &self.source
    }

    /// Where they go.
    pub fn target(&self) -> &DeviceBuffer {
        &self.target
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.has_ended() != Ok(true) {
            return;
        }
        // SAFETY: the copy has ended, and nobody has them any more.
        unsafe {
            ManuallyDrop::drop(&mut self.source);
            ManuallyDrop::drop(&mut self.target);
        }
    }
}

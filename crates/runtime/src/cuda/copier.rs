//! Copies between the host and memory of the GPU while kernels run there, by way of pinned memory.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use msccl_gpu::{CaptureModeGuard, Context, DeviceSpan, Error, PinnedBuffer, Stream};

const WORD_BYTES: usize = 8;

/// Bytes that are copied at once.
const STAGE_BYTES: usize = 64 << 10;

/// Copies, one after another, and waits for each.
pub(super) struct Copier {
    context: Context,
    resources: Mutex<CopyResources>,
}

struct CopyResources {
    stream: Stream,
    /// Where bytes lie on their way.
    stage: PinnedBuffer,
}

impl Copier {
    /// For memory of the GPU of `context`.
    pub fn new(context: &Context) -> Result<Self, Error> {
        let stream = Stream::most_urgent(context)?;
        let stage = PinnedBuffer::new(context, STAGE_BYTES)?;
        Ok(Self {
            context: context.clone(),
            resources: Mutex::new(CopyResources { stream, stage }),
        })
    }

    /// Copies the beginning of `from`, which is at least as long as `into`.
    pub fn fetch(&self, from: DeviceSpan<'_>, into: &mut [u8]) -> Result<(), Error> {
        let (_relaxed, resources) = self.begin()?;
        let CopyResources { stream, stage } = &*resources;
        for (index, piece) in into.chunks_mut(STAGE_BYTES).enumerate() {
            part(from, index, piece.len())?.copy_to(stream.borrow(), stage)?;
            for (bytes, word) in piece.chunks_mut(WORD_BYTES).zip(stage.words64()) {
                let word = word.load(Ordering::Relaxed).to_ne_bytes();
                bytes.copy_from_slice(&word[..bytes.len()]);
            }
        }
        Ok(())
    }

    /// Copies `bytes` to the beginning of `to`, which is at least as long.
    pub fn put(&self, to: DeviceSpan<'_>, bytes: &[u8]) -> Result<(), Error> {
        let (_relaxed, resources) = self.begin()?;
        let CopyResources { stream, stage } = &*resources;
        for (index, piece) in bytes.chunks(STAGE_BYTES).enumerate() {
            for (bytes, word) in piece.chunks(WORD_BYTES).zip(stage.words64()) {
                let mut whole = [0; WORD_BYTES];
                whole[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
            }
            part(to, index, piece.len())?.copy_from(stream.borrow(), stage)?;
        }
        Ok(())
    }

    /// Somebody may be capturing; what happens here has nothing to do with that.
    fn begin(&self) -> Result<(CaptureModeGuard, MutexGuard<'_, CopyResources>), Error> {
        let relaxed = CaptureModeGuard::relaxed(self.context.device().driver())?;
        Ok((relaxed, self.resources.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Of `span`, the `bytes` bytes of piece number `index`.
fn part(span: DeviceSpan<'_>, index: usize, bytes: usize) -> Result<DeviceSpan<'_>, Error> {
    let start = index * STAGE_BYTES;
    span.slice(start..start + bytes)
}

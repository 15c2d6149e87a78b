//! Signals between ranks on GPUs: words of the shared state, which streams write and wait for. An
//! unsafe boundary.
//!
//! The memory is made known to the device by the first signal. A wait in a stream ends with its
//! signal, or when the rank's owner gives up: then the words are made to say that all have come.

#![expect(unsafe_code, reason = "has streams write and read words of shared memory")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use msccl_gpu::{CaptureModeGuard, Context, DevicePtr, RegisteredMemory};

use super::stream_order::CallSite;
use crate::engine::Signal;
use crate::error::Error;
use crate::shared_state::SharedState;

/// More than any rank signals.
const ALL_HAVE_COME: u64 = 1 << 62;

/// What a rank on a GPU needs for its signals.
#[derive(Default)]
pub(super) struct CudaSignals(Mutex<Option<KnownState>>);

/// The shared state, known to the device. Fields drop in order: the memory is given back while it
/// is still mapped.
struct KnownState {
    registered: RegisteredMemory,
    shared_state: Arc<SharedState>,
}

impl CudaSignals {
    /// Writes `count` to the word of `signal`.
    pub fn write(
        &self,
        context: &Context,
        site: CallSite<'_>,
        signal: &Signal<'_>,
        count: u64,
    ) -> Result<(), Error> {
        let address = self.address(context, signal.shared_state, signal.word)?;
        // SAFETY: the word is aligned, and stays while this lives, whose owner waits for streams
        // before it goes; ranks use it as an atomic.
        unsafe { site.stream().write_word(address, count)? };
        Ok(())
    }

    /// Waits until the word of `signal` is at least `count`.
    pub fn wait(
        &self,
        context: &Context,
        site: CallSite<'_>,
        signal: &Signal<'_>,
        count: u64,
    ) -> Result<(), Error> {
        let address = self.address(context, signal.shared_state, signal.word)?;
        // SAFETY: as above.
        unsafe { site.stream().await_word(address, count)? };
        Ok(())
    }

    /// Ends all waits of this rank, now and later.
    pub fn end_waits(&self) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(KnownState { shared_state, registered: _ }) = &*known else { return };
        let me = shared_state.me();
        for word in shared_state.ranks().filter_map(|from| shared_state.signals(from, me)) {
            word.store(ALL_HAVE_COME, Ordering::Release);
        }
    }

    /// Where the device finds `word` of the shared state.
    pub fn address(
        &self,
        context: &Context,
        shared_state: &Arc<SharedState>,
        word: &AtomicU64,
    ) -> Result<DevicePtr, Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = shared_state.memory();
        let known = match &mut *known {
            Some(known) => known,
            none => {
                let start = NonNull::new(memory.as_ptr())
                    .ok_or_else(|| Error::internal("shared memory lies at address 0"))?;
                // The first signal may be captured.
                let _relaxed = CaptureModeGuard::relaxed(context.device().driver())?;
                // SAFETY: the mapping lives in the shared state, which is kept beside the
                // registration and dropped after it; its words are atomics to everybody.
                let registered = unsafe { RegisteredMemory::new(context, start, memory.len()) };
                let (registered, shared_state) = (registered?, Arc::clone(shared_state));
                none.insert(KnownState { registered, shared_state })
            }
        };
        let offset = std::ptr::from_ref(word).addr() - memory.as_ptr().addr();
        Ok(known.registered.ptr().offset(offset))
    }
}

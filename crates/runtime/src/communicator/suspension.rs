//! Suspending a communicator: its wires and scratch go, and come back.
//!
//! All ranks do both together. In between, the communicator takes no calls; it can be asked, split,
//! shrunk, aborted and ended. Graphs that were recorded before can be launched after.

use std::sync::PoisonError;

use super::Communicator;
use crate::engine::EngineMemory;
use crate::error::Error;

/// Memory that a communicator holds where its rank runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryUse {
    /// Bytes that [`Communicator::suspend`] frees, or has freed.
    pub suspendable_bytes: u64,
    /// Bytes that it keeps.
    pub persistent_bytes: u64,
    /// Whether the communicator is suspended.
    pub is_suspended: bool,
}

impl Communicator {
    /// Frees wires and scratch memory once all calls are done. Every rank must call it; it returns
    /// when all ranks have freed theirs.
    ///
    /// # Errors
    ///
    /// The communicator is suspended, or has failed.
    pub fn suspend(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let _submission = inner.submission.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_resumed()?;
        self.finish()?;
        let suspended = || {
            // Peers may still read and write what is about to go.
            inner.group.barrier()?;
            let EngineMemory { suspendable_bytes, persistent_bytes: _ } = inner.engine.memory();
            inner.engine.suspend(&inner.group, inner.shared_state.nodes())?;
            *inner.suspended.write().unwrap_or_else(PoisonError::into_inner) =
                Some(suspendable_bytes);
            // What peers have mapped is free when they have given it up.
            inner.group.barrier()?;
            Ok(())
        };
        suspended().map_err(|error: Error| inner.note(error))
    }

    /// Makes again what [`Communicator::suspend`] has freed. Every rank must call it.
    ///
    /// # Errors
    ///
    /// The communicator is not suspended, or has failed; memory is exhausted.
    pub fn resume(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let _submission = inner.submission.lock().unwrap_or_else(PoisonError::into_inner);
        self.error().map_or(Ok(()), Err)?;
        if !self.is_suspended() {
            return Err(Error::invalid_usage("the communicator is not suspended"));
        }
        let resumed = inner.engine.resume(&inner.group, inner.shared_state.nodes());
        resumed.map_err(|error| inner.note(error))?;
        *inner.suspended.write().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// What it holds. Waits for a call that is being executed on the host.
    pub fn memory_use(&self) -> MemoryUse {
        let EngineMemory { suspendable_bytes, persistent_bytes } = self.inner.engine.memory();
        let suspended = *self.inner.suspended.read().unwrap_or_else(PoisonError::into_inner);
        MemoryUse {
            suspendable_bytes: suspended.unwrap_or(suspendable_bytes),
            persistent_bytes,
            is_suspended: suspended.is_some(),
        }
    }

    /// Makes sure that it is not suspended. Whoever calls it keeps other submissions off, or the
    /// answer may be outdated.
    pub(crate) fn check_resumed(&self) -> Result<(), Error> {
        match self.is_suspended() {
            false => Ok(()),
            true => Err(Error::invalid_usage(
                "the communicator is suspended, and takes no calls until all ranks resume it",
            )),
        }
    }

    fn is_suspended(&self) -> bool {
        self.inner.suspended.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

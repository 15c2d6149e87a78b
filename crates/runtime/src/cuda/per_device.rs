//! What all communicators of a process have in common on a device: made when the first one asks for
//! it, and kept.

use std::sync::{Arc, Mutex, PoisonError};

use msccl_gpu::Context;

use crate::error::Error;

/// One of them for each device that somebody has asked about.
pub(super) struct PerDevice<T> {
    all: Mutex<Vec<(u32, Arc<T>)>>,
}

impl<T> PerDevice<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self { all: Mutex::new(Vec::new()) }
    }

    /// That of `context`'s device. Who asks while it is being made waits for that.
    pub fn of(
        &self,
        context: &Context,
        make: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Arc<T>, Error> {
        let ordinal = context.device().ordinal();
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, made)) = all.iter().find(|(device, _)| *device == ordinal) {
            return Ok(made.clone());
        }
        let made = Arc::new(make()?);
        all.push((ordinal, made.clone()));
        Ok(made)
    }
}

//! When to stop looking for something better.

use std::time::{Duration, Instant};

/// A point in time after which the best so far must do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    end: Option<Instant>,
}

impl TimeLimit {
    /// So long from now; no end if that is beyond what clocks know.
    pub fn from_now(time: Duration) -> Self {
        Self { end: Instant::now().checked_add(time) }
    }

    pub fn is_over(self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}

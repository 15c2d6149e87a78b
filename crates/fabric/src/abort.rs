//! Giving up: a shared flag that every wait watches, and the bound of one wait.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a wait sleeps before it looks at its [`Abort`] again: first, and after a while.
/// Thousands of ranks that wait for the last one would otherwise keep their hosts busy with
/// looking.
const SLICE: Duration = Duration::from_millis(10);
const LONGEST_SLICE: Duration = Duration::from_millis(100);

/// A flag that ends every wait of whoever holds a clone of it. Once raised it stays raised.
#[derive(Clone, Default)]
pub struct Abort {
    reason: Arc<OnceLock<String>>,
}

impl Abort {
    /// A flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag; waits end within about a tenth of a second. The first reason is kept.
    pub fn raise(&self, reason: impl Into<String>) {
        // A second reason is dropped: the first one is what ended the waits.
        let _ = self.reason.set(reason.into());
    }

    /// Why the flag was raised, if it was.
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Whether the flag was raised.
    pub fn is_raised(&self) -> bool {
        self.reason.get().is_some()
    }
}

impl fmt::Debug for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Abort").field(&self.reason()).finish()
    }
}

/// Why a wait was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Aborted,
    TimedOut,
}

/// The bound of one wait: a flag and a moment.
#[derive(Clone)]
pub(crate) struct Patience {
    abort: Abort,
    started: Instant,
    timeout: Option<Duration>,
}

impl Patience {
    pub(crate) fn new(abort: &Abort, timeout: Option<Duration>) -> Self {
        Self { abort: abort.clone(), started: Instant::now(), timeout }
    }

    /// The same flag, from now on, for at most `timeout` and never longer than what is left here.
    pub(crate) fn at_most(&self, timeout: Duration) -> Self {
        let timeout = self.left().map_or(timeout, |left| left.min(timeout));
        Self::new(&self.abort, Some(timeout))
    }

    /// The same wait, which may last `more` longer.
    pub(crate) fn longer_by(&self, more: Duration) -> Self {
        let timeout = self.timeout.map(|timeout| timeout.saturating_add(more));
        Self { timeout, ..self.clone() }
    }

    /// Of this wait and `other` the one that ends first.
    pub(crate) fn or_sooner(self, other: &Self) -> Self {
        match (self.left(), other.left()) {
            (None, Some(_)) => other.clone(),
            (Some(own), Some(others)) if others < own => other.clone(),
            (_, None) | (Some(_), Some(_)) => self,
        }
    }

    /// What is left of the time; `None` without a limit.
    fn left(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_sub(self.started.elapsed()))
    }

    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.abort.is_raised() {
            return Err(Stop::Aborted);
        }
        match self.left() {
            Some(Duration::ZERO) => Err(Stop::TimedOut),
            _ => Ok(()),
        }
    }

    /// How long to sleep before the next [`Patience::check`].
    pub(crate) fn slice(&self) -> Duration {
        let slice = (self.started.elapsed() / 10).clamp(SLICE, LONGEST_SLICE);
        self.left().map_or(slice, |left| left.clamp(Duration::from_micros(1), slice))
    }

    pub(crate) fn abort(&self) -> &Abort {
        &self.abort
    }

    /// The time limit in words.
    pub(crate) fn limit(&self) -> String {
        self.timeout.map_or_else(|| "no limit".to_owned(), seconds)
    }
}

/// `30 s`, `0.25 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let text = format!("{:.2}", duration.as_secs_f64());
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_by_flag_and_by_time() {
        let abort = Abort::new();
        let patience = Patience::new(&abort, None);
        assert_eq!(patience.check(), Ok(()));
        assert_eq!(Patience::new(&abort, Some(Duration::ZERO)).check(), Err(Stop::TimedOut));
        abort.raise("enough");
        abort.raise("really");
        assert_eq!(patience.check(), Err(Stop::Aborted));
        assert_eq!(abort.reason(), Some("enough"));
    }

    #[test]
    fn seconds_are_short() {
        let check = |ms, text| assert_eq!(seconds(Duration::from_millis(ms)), text);
        check(30_000, "30 s");
        check(250, "0.25 s");
        check(100_500, "100.5 s");
    }
}

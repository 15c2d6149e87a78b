//! What is counted of the calls of one sort.

use std::time::Duration;

/// What a rank has called of one sort: a collective, or sends, or receives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Totals {
    pub calls: u64,
    /// Of the larger buffer of each call.
    pub bytes: u64,
    /// Those of which it is known how long they took.
    pub timed: Timed,
    /// Those of them since the file was written last, if there were any; else those before.
    pub recent: Timed,
    /// Whether the recent ones have been written.
    is_written: bool,
}

/// Calls, and how long they took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Timed {
    pub calls: u64,
    pub bytes: u64,
    pub time: Duration,
}

impl Totals {
    /// So many calls begin.
    pub fn count(&mut self, calls: u64, bytes: u64) {
        self.calls += calls;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Calls have taken `timed`.
    pub fn time(&mut self, timed: Timed) {
        if std::mem::take(&mut self.is_written) {
            self.recent = Timed::default();
        }
        self.timed.add(timed);
        self.recent.add(timed);
    }

    /// They have been written.
    pub fn written(&mut self) {
        self.is_written = true;
    }
}

impl Timed {
    fn add(&mut self, other: Self) {
        let Self { calls, bytes, time } = other;
        self.calls += calls;
        self.bytes = self.bytes.saturating_add(bytes);
        self.time = self.time.saturating_add(time);
    }

    /// Bytes a second, if time has passed.
    pub fn algbw(&self) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (seconds > 0.0).then(|| self.bytes as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_calls_are_those_since_the_file_was_written() {
        let one = |ms| Timed { calls: 1, bytes: 1000, time: Duration::from_millis(ms) };
        let mut totals = Totals::default();
        totals.time(one(1));
        totals.time(one(1));
        assert_eq!(totals.recent.algbw(), Some(1e6));
        totals.written();
        assert_eq!(totals.recent.calls, 2, "there were none since");
        totals.time(one(4));
        assert_eq!((totals.recent.algbw(), totals.timed.calls), (Some(250e3), 3));
        assert_eq!(Timed::default().algbw(), None);
    }
}

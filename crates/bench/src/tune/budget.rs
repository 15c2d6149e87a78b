//! Time to be shared out.

use std::time::{Duration, Instant};

/// Until when something may go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    end: Instant,
}

impl Budget {
    /// From now on.
    pub(super) fn new(length: Duration) -> Self {
        let now = Instant::now();
        // Longer than the clock can count is a day.
        Self { end: now.checked_add(length).unwrap_or(now + Duration::from_secs(86_400)) }
    }

    /// What is left.
    pub(super) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.left().is_zero()
    }

    /// This share of what is left, from 0 to 1.
    pub(super) fn share(&self, share: f64) -> Self {
        Self::new(self.left().mul_f64(share.clamp(0.0, 1.0)))
    }

    /// One part of what is left for as many.
    pub(super) fn part_of(&self, parts: usize) -> Self {
        self.share(1.0 / parts.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_is_left() {
        let hour = Budget::new(Duration::from_secs(3600));
        let minutes = |budget: Budget| (budget.left().as_secs_f64() / 60.0).round();
        assert_eq!([hour, hour.share(0.5), hour.part_of(6)].map(minutes), [60.0, 30.0, 10.0]);
        assert_eq!(minutes(hour.part_of(0)), 60.0);
        assert!(Budget::new(Duration::ZERO).is_spent() && !hour.is_spent());
        assert!(!Budget::new(Duration::MAX).is_spent());
    }
}

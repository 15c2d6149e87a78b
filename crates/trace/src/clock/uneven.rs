//! A device's clock that does not run evenly beside the host's.

use super::fit::{DeviceClock, Reading, fit};

/// The host's clock as a function of the device's: a line, and between readings corrections of it.
#[derive(Clone, PartialEq, Debug)]
pub struct UnevenClock {
    /// The line, with the bound of the error of host times.
    pub line: DeviceClock,
    /// By the device's clock, in order: what the host's is ahead of the line. Nothing if the line
    /// goes through all readings.
    corrections: Vec<Correction>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Correction {
    device_ns: f64,
    ahead_ns: f64,
}

impl UnevenClock {
    /// A clock that runs evenly.
    pub fn even(line: DeviceClock) -> Self {
        Self { line, corrections: Vec::new() }
    }

    /// The clock that `readings` show while the device's is in `times_ns`; `None` without a
    /// reading.
    ///
    /// Where no line goes through all readings, the host's clock goes through their middles. The
    /// error is then half of the longest round trip, and as much as any reading is off the line
    /// between its neighbours.
    pub fn through(readings: &[Reading], times_ns: [f64; 2]) -> Option<Self> {
        let line = fit(readings, times_ns)?;
        let half_trip = |of: &Reading| (of.after_ns - of.before_ns) / 2.0;
        let longest_ns = readings.iter().map(half_trip).fold(0.0, f64::max);
        // A line through all readings leaves no more than they do, but for rounding.
        if readings.len() < 3 || line.error_ns <= 2.0 * longest_ns {
            return Some(Self::even(line));
        }
        let correction = |of: &Reading| Correction {
            device_ns: of.device_ns,
            ahead_ns: of.before_ns.midpoint(of.after_ns) - line.host_ns(of.device_ns),
        };
        let mut corrections: Vec<_> = readings.iter().map(correction).collect();
        corrections.sort_by(|one, other| one.device_ns.total_cmp(&other.device_ns));
        let off = corrections
            .windows(3)
            .map(|of| (of[1].ahead_ns - between(of[0], of[2], of[1].device_ns)).abs());
        let error_ns = longest_ns + off.fold(0.0, f64::max);
        Some(Self { line: DeviceClock { error_ns, ..line }, corrections })
    }

    /// The same from times of the device that count from `since_ns` on.
    pub fn of_times_from(&self, since_ns: f64) -> Self {
        let line = DeviceClock { offset_ns: self.line.host_ns(since_ns), ..self.line };
        let moved = |of: &Correction| Correction { device_ns: of.device_ns - since_ns, ..*of };
        Self { line, corrections: self.corrections.iter().map(moved).collect() }
    }

    /// The host's clock when the device's shows `device_ns`.
    pub fn host_ns(&self, device_ns: f64) -> f64 {
        let next = self.corrections.partition_point(|of| of.device_ns <= device_ns);
        let before = next.checked_sub(1).and_then(|at| self.corrections.get(at));
        let ahead_ns = match (before, self.corrections.get(next)) {
            (Some(before), Some(after)) => between(*before, *after, device_ns),
            (Some(only), None) | (None, Some(only)) => only.ahead_ns,
            (None, None) => 0.0,
        };
        self.line.host_ns(device_ns) + ahead_ns
    }
}

/// On the line through two corrections.
fn between(one: Correction, other: Correction, device_ns: f64) -> f64 {
    let length_ns = (other.device_ns - one.device_ns).max(f64::MIN_POSITIVE);
    one.ahead_ns + (other.ahead_ns - one.ahead_ns) * (device_ns - one.device_ns) / length_ns
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    /// Readings every second of a clock that is `ahead_ns` behind the host's then.
    fn readings(ahead_ns: &[f64]) -> Vec<Reading> {
        let reading = |(second, ahead_ns): (usize, &f64)| {
            let device_ns = second as f64 * 1e9;
            let host_ns = device_ns + ahead_ns;
            Reading { before_ns: host_ns - 500.0, device_ns, after_ns: host_ns + 500.0 }
        };
        ahead_ns.iter().enumerate().map(reading).collect()
    }

    #[test]
    fn an_even_clock_is_a_line() {
        let clock = UnevenClock::through(&readings(&[0.0, 1000.0, 2000.0, 3000.0]), [0.0, 3e9]);
        let clock = clock.unwrap();
        assert_eq!(clock, UnevenClock::even(clock.line));
        assert!((clock.host_ns(1.5e9) - 1.5e9 - 1500.0).abs() < 500.0);
    }

    #[test]
    fn a_clock_that_bends_goes_through_its_readings() {
        let bent = [0.0, 20_000.0, 40_000.0, 40_500.0, 41_000.0];
        let clock = UnevenClock::through(&readings(&bent), [0.0, 4e9]).unwrap();
        for (second, ahead_ns) in bent.iter().enumerate() {
            let device_ns = second as f64 * 1e9;
            assert!((clock.host_ns(device_ns) - device_ns - ahead_ns).abs() < 1.0, "{second}");
        }
        assert!((clock.host_ns(0.5e9) - 0.5e9 - 10_000.0).abs() < 1.0);
        assert!(clock.line.error_ns > 500.0 && clock.line.error_ns < 11_000.0);
        assert_eq!(UnevenClock::through(&[], [0.0, 1.0]), None);
    }
}

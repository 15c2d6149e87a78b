//! From readings of a device's clock to the host's clock.

/// A reading of the device's clock between two of the host's, as differences from times nearby.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reading {
    /// The host's clock before, in ns.
    pub before_ns: f64,
    /// The device's clock, in ns.
    pub device_ns: f64,
    /// The host's clock after, in ns.
    pub after_ns: f64,
}

/// The host's clock as a function of the device's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceClock {
    /// The host's clock where the device's is 0, in ns.
    pub offset_ns: f64,
    /// How much faster the host's clock runs, in ns a ns: 1e-6 for one part in a million.
    pub drift: f64,
    /// A bound of the error of host times within the recording, in ns.
    pub error_ns: f64,
}

/// Moments of which the shortest round trip counts.
const MOMENTS: usize = 32;

/// The fastest drift of clocks that work, in ns a ns: quartz keeps within it.
pub const DRIFT_MAX: f64 = 200e-6;

/// By how much host times may lie outside of readings, first; twice as much each time that no line
/// goes through all of them.
const ROOM_NS: f64 = 1.0;
const WIDENINGS: i32 = 40;

impl DeviceClock {
    /// Of a device that has the host's clock.
    pub fn same() -> Self {
        Self { offset_ns: 0.0, drift: 0.0, error_ns: 0.0 }
    }

    /// The host's clock when the device's shows `device_ns`.
    pub fn host_ns(&self, device_ns: f64) -> f64 {
        self.offset_ns + device_ns + self.drift * device_ns
    }
}

/// The clock that `readings` show, with the bound of its error while the device's clock is in
/// `times_ns`; `None` without a reading.
///
/// When the device is read, the host's clock lies between the ends of the reading. So the true line
/// goes through all readings. Of the lines that do, and drift no faster than quartz, the extreme
/// ones at both ends of the recording go through two ends of readings each; the clock is the middle
/// between these. Only the shortest round trip of each of several moments is looked at. Clocks that
/// do not run evenly are given more room, which the bound counts.
pub fn fit(readings: &[Reading], times_ns: [f64; 2]) -> Option<DeviceClock> {
    let chosen = shortest_of(readings, MOMENTS);
    let middle_ns = times_ns[0].midpoint(times_ns[1]);
    let length_ns = (times_ns[1] - times_ns[0]).max(1.0);
    let times_ns = [middle_ns - length_ns / 2.0, middle_ns + length_ns / 2.0];
    let first = chosen.first()?;
    for widening in 0..WIDENINGS {
        let room_ns = ROOM_NS * 2_f64.powi(widening);
        let lines = Lines::through(&chosen, room_ns, first.device_ns);
        if let Some([[first_least, first_most], [last_least, last_most]]) = lines.range(times_ns) {
            let values = [first_least.midpoint(first_most), last_least.midpoint(last_most)];
            let drift = (values[1] - values[0]) / length_ns;
            let widest = f64::max(first_most - first_least, last_most - last_least);
            let offset_ns = values[0] - drift * times_ns[0];
            return Some(DeviceClock { offset_ns, drift, error_ns: widest / 2.0 + room_ns });
        }
    }
    let offset_ns = first.before_ns.midpoint(first.after_ns) - first.device_ns;
    Some(DeviceClock { offset_ns, drift: 0.0, error_ns: f64::INFINITY })
}

/// The shortest round trip of each of so many spans of time, in order.
pub fn shortest_of(readings: &[Reading], moments: usize) -> Vec<Reading> {
    let times = || readings.iter().map(|reading| reading.device_ns);
    let (first, last) = (times().fold(f64::MAX, f64::min), times().fold(f64::MIN, f64::max));
    let width = ((last - first) / moments as f64).max(f64::MIN_POSITIVE);
    let mut best: Vec<Option<Reading>> = vec![None; moments];
    for reading in readings {
        let moment = (((reading.device_ns - first) / width) as usize).min(moments - 1);
        let round_trip_ns = |of: &Reading| of.after_ns - of.before_ns;
        let is_shorter = |known: Reading| round_trip_ns(reading) < round_trip_ns(&known);
        if best[moment].is_none_or(is_shorter) {
            best[moment] = Some(*reading);
        }
    }
    best.into_iter().flatten().collect()
}

/// Lines of offsets (host's clock less the device's) over time, between bounds.
struct Lines {
    /// Time, least offset, greatest offset.
    bounds: Vec<[f64; 3]>,
    /// Times count from here, so that differences of offsets are exact.
    start_ns: f64,
}

/// A line of offsets: its value at the start, and its slope.
#[derive(Clone, Copy)]
struct Line {
    value: f64,
    slope: f64,
}

impl Lines {
    fn through(readings: &[Reading], room_ns: f64, start_ns: f64) -> Self {
        let bound = |reading: &Reading| {
            let Reading { before_ns, device_ns, after_ns } = *reading;
            let [least, most] = [before_ns, after_ns].map(|host_ns| host_ns - device_ns);
            [device_ns - start_ns, least - room_ns, most + room_ns]
        };
        Self { bounds: readings.iter().map(bound).collect(), start_ns }
    }

    /// The least and the greatest value of all lines at each of two times; `None` if there is none.
    fn range(&self, times_ns: [f64; 2]) -> Option<[[f64; 2]; 2]> {
        let mut range: Option<[[f64; 2]; 2]> = None;
        for line in self.extreme().filter(|line| self.contains(*line)) {
            let values =
                times_ns.map(|time_ns| line.value + line.slope * (time_ns - self.start_ns));
            let [first, last] = range.get_or_insert(values.map(|value| [value; 2]));
            for (of, value) in [(first, values[0]), (last, values[1])] {
                *of = [of[0].min(value), of[1].max(value)];
            }
        }
        range
    }

    /// Lines of which one is extreme at any time: those through two bounds, and those through one
    /// bound with the fastest drift.
    fn extreme(&self) -> impl Iterator<Item = Line> {
        let points =
            self.bounds.iter().flat_map(|[time, least, most]| [[*time, *least], [*time, *most]]);
        let points: Vec<[f64; 2]> = points.collect();
        let through =
            |[time, value]: [f64; 2], slope: f64| Line { value: value - slope * time, slope };
        let fastest = points
            .clone()
            .into_iter()
            .flat_map(move |point| [-DRIFT_MAX, DRIFT_MAX].map(|slope| through(point, slope)));
        let pairs = (0..points.len()).flat_map(move |at| {
            let [one, others] = [points[at..].to_vec(), points[at..].to_vec()];
            let one = one[0];
            others
                .into_iter()
                .filter(move |other| other[0] > one[0])
                .map(move |other| through(one, (other[1] - one[1]) / (other[0] - one[0])))
        });
        fastest.chain(pairs)
    }

    fn contains(&self, line: Line) -> bool {
        /// Lines go through the bounds that made them, but for rounding.
        const ROUNDING_NS: f64 = 0.01;
        let lies_within = |[time, least, most]: &[f64; 3]| {
            let value = line.value + line.slope * time;
            (least - ROUNDING_NS..=most + ROUNDING_NS).contains(&value)
        };
        line.slope.abs() <= DRIFT_MAX * (1.0 + 1e-9) && self.bounds.iter().all(lies_within)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    /// Readings of a device whose clock is 5 ms behind the host's and slower by `drift`. The device
    /// is read somewhere in the round trip.
    fn readings(drift: f64, seconds: f64) -> Vec<Reading> {
        let read = |number: u32| {
            let device_ns = f64::from(number) / 200.0 * seconds * 1e9;
            let host_ns = 5e6 + device_ns * (1.0 + drift);
            let round_trip_ns = 800.0 + f64::from(number * 7919 % 100) * 60.0;
            let part = f64::from(number * 104_729 % 100) / 100.0;
            let before_ns = host_ns - round_trip_ns * part;
            Reading { before_ns, device_ns, after_ns: before_ns + round_trip_ns }
        };
        (0..=200).map(read).collect()
    }

    fn check(drift: f64, seconds: f64) -> DeviceClock {
        let times_ns = [0.0, seconds * 1e9];
        let clock = fit(&readings(drift, seconds), times_ns).unwrap();
        for part in [0.0, 0.1, 0.5, 0.9, 1.0] {
            let device_ns = part * seconds * 1e9;
            let error = (clock.host_ns(device_ns) - (5e6 + device_ns * (1.0 + drift))).abs();
            assert!(error <= clock.error_ns, "{drift} {seconds} {part}: {error} {clock:?}");
        }
        clock
    }

    #[test]
    fn errors_stay_below_their_bound() {
        for drift in [0.0, 2e-6, -40e-6] {
            for seconds in [0.001, 0.02, 1.0, 100.0] {
                let clock = check(drift, seconds);
                assert!(clock.error_ns < 1000.0, "{drift} {seconds}: {clock:?}");
            }
        }
    }

    /// A clock whose drift changes on the way has no line through all readings.
    #[test]
    fn uneven_clocks_have_a_larger_bound() {
        let mut all = readings(0.0, 10.0);
        let bend = |device_ns: f64| f64::max(0.0, device_ns - 5e9) * 3e-6;
        for reading in &mut all {
            let late_ns = bend(reading.device_ns);
            reading.before_ns += late_ns;
            reading.after_ns += late_ns;
        }
        let clock = fit(&all, [0.0, 10e9]).unwrap();
        for device_ns in [0.0, 2.5e9, 5e9, 7.5e9, 10e9] {
            let error = (clock.host_ns(device_ns) - (5e6 + device_ns + bend(device_ns))).abs();
            assert!(error <= clock.error_ns, "{device_ns}: {error} {clock:?}");
        }
    }

    #[test]
    fn one_reading_gives_an_offset_and_no_reading_nothing() {
        let reading = Reading { before_ns: 100.0, device_ns: 0.0, after_ns: 300.0 };
        let clock = fit(&[reading], [0.0, 1e6]).unwrap();
        assert!((clock.host_ns(0.0) - 200.0).abs() < 1.0, "{clock:?}");
        // Half of the round trip, and what an unknown drift makes of a millisecond.
        assert!((100.0 + 200.0..305.0).contains(&clock.error_ns), "{clock:?}");
        assert_eq!(fit(&[], [0.0, 1.0]), None);
    }
}

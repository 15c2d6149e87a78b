//! Calls of any size against calls of the next larger power of two.
//!
//! Sizes that are no power of two, odd counts and unaligned addresses may all lead to slow paths.
//! So each call is compared with the call of the next larger power of two, aligned and at aligned
//! addresses, in the same run. Absent: what ratio is good enough.

use crate::case::Case;
use crate::placement::Placement;
use crate::report::{Average, Report};
use crate::workload::{Rounding, Workload};

/// A call and the one that it is compared with, by their numbers in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The call.
    pub case: usize,
    /// The next larger power of two.
    pub power: usize,
}

/// How a call compares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PowerComparison {
    /// The call.
    pub case: Case,
    /// The next larger power of two.
    pub power: Case,
    /// Where both lie.
    pub placement: Placement,
    /// The time of the call in µs.
    pub us: f64,
    /// The time of the power of two in µs.
    pub power_us: f64,
}

impl PowerComparison {
    /// The one time by the other.
    pub fn ratio(&self) -> f64 {
        self.us / self.power_us.max(1e-9)
    }
}

/// `cases`, whose sizes ascend, each group of them followed by the next larger power of two; and
/// which belongs to which. A call that is such a power itself stands for itself alone.
pub fn with_powers(cases: &[Case]) -> (Vec<Case>, Vec<Pair>) {
    let (mut all, mut pairs) = (Vec::new(), Vec::new());
    for group in cases.chunk_by(|one, next| next_power(one) == next_power(next)) {
        let Some(power) = group.first().map(next_power) else { continue };
        let first = all.len();
        let is_other = |case: &&Case| {
            let is_aligned = case.offset_bytes.unwrap_or(0) == 0;
            !is_aligned || case.count != power.count
        };
        all.extend(group.iter().filter(is_other));
        all.dedup();
        let at = all.len();
        all.push(power);
        pairs.extend((first..at).map(|case| Pair { case, power: at }));
    }
    (all, pairs)
}

/// The call of the next power of two, at aligned addresses.
fn next_power(case: &Case) -> Case {
    let Case { workload, element, ranks, .. } = *case;
    let bytes = case.size_bytes().checked_next_power_of_two().unwrap_or(u64::MAX);
    let count = workload.count(bytes, element.size_bytes(), ranks, Rounding::Aligned);
    Case { count, offset_bytes: Some(0), ..*case }
}

/// The times of library number `library` in both calls of each of `pairs`, where both were made and
/// results are compared.
pub fn compare_with_powers(
    report: &Report,
    pairs: &[Pair],
    library: usize,
    average: Average,
) -> Vec<PowerComparison> {
    let of_pair = |pair: &Pair| {
        let rows = report.rows.get(pair.case).zip(report.rows.get(pair.power));
        let of_placement = move |placement| {
            let (row, power) = rows?;
            let us = row.cell(placement, library)?.time_us(average);
            let power_us = power.cell(placement, library)?.time_us(average);
            Some(PowerComparison { case: row.case, power: power.case, placement, us, power_us })
        };
        let workload = rows.map(|(row, _)| row.case.workload);
        let placements = workload.into_iter().flat_map(Workload::checked_placements);
        placements.filter_map(of_placement)
    };
    pairs.iter().flat_map(of_pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::report;

    fn sizes(counts: &[u64], offset_bytes: Option<u64>) -> (Vec<u64>, Vec<(usize, usize)>) {
        let case = report().rows[0].case;
        let cases = counts.iter().map(|&count| Case { count, offset_bytes, ..case });
        let (all, pairs) = with_powers(&cases.collect::<Vec<_>>());
        let aligned = |pair: &Pair| all[pair.power].offset_bytes == Some(0);
        assert!(pairs.iter().all(aligned));
        let pairs = pairs.iter().map(|pair| (pair.case, pair.power)).collect();
        (all.iter().map(Case::size_bytes).collect(), pairs)
    }

    #[test]
    fn powers_of_two_follow_what_is_compared_with_them() {
        let (all, pairs) = sizes(&[256, 358, 501, 701], None);
        assert_eq!(all, [1024, 1432, 2004, 2048, 2804, 4096]);
        assert_eq!(pairs, [(1, 3), (2, 3), (4, 5)]);
        // Unaligned, a power of two is compared with itself; odd, with the next.
        assert_eq!(sizes(&[256], Some(4)), (vec![1024, 1024], vec![(0, 1)]));
        assert_eq!(sizes(&[257], None), (vec![1028, 2048], vec![(0, 1)]));
        assert_eq!(sizes(&[], None), (vec![], vec![]));
    }

    #[test]
    fn ratios_are_times_of_one_by_the_other() {
        let report = report();
        let pairs = [Pair { case: 0, power: 1 }, Pair { case: 2, power: 9 }];
        let found = compare_with_powers(&report, &pairs, 0, Average::Mean);
        let ratios: Vec<f64> = found.iter().map(PowerComparison::ratio).collect();
        assert_eq!(ratios, [4.0 / 5.0, 4.5 / 5.0]);
        // What was not measured is not compared.
        assert_eq!(compare_with_powers(&report, &pairs, 1, Average::Mean).len(), 1);
    }
}

//! How libraries compare with the first one, collective by collective.

use crate::case::Case;
use crate::placement::Placement;
use crate::report::{Average, Report};
use crate::workload::Workload;

/// How the first library stands against another in the calls of a collective in one placement.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// What was called.
    pub workload: Workload,
    /// Whether input and output shared memory.
    pub placement: Placement,
    /// The other library, by its number.
    pub library: usize,
    /// The calls that both did, with the time of the other library by that of the first: more than
    /// 1 means that the first is faster. At least one.
    pub ratios: Vec<(Case, f64)>,
}

impl Comparison {
    /// The geometric mean of the ratios.
    pub fn mean(&self) -> f64 {
        let logarithms: f64 = self.ratios.iter().map(|(_, ratio)| ratio.ln()).sum();
        (logarithms / self.ratios.len().max(1) as f64).exp()
    }

    /// The calls whose ratio is less than `bar`.
    pub fn below(&self, bar: f64) -> impl Iterator<Item = &(Case, f64)> {
        self.ratios.iter().filter(move |(_, ratio)| *ratio < bar)
    }

    /// The call in which the first library does worst, and its ratio.
    pub fn worst(&self) -> Option<&(Case, f64)> {
        self.ratios.iter().min_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

/// All comparisons: for each collective in both placements against every other library, where both
/// made such calls and their results are compared.
pub fn comparisons(report: &Report, average: Average) -> Vec<Comparison> {
    let mut workloads: Vec<Workload> = report.rows.iter().map(|row| row.case.workload).collect();
    workloads.dedup();
    let mut comparisons = Vec::new();
    for workload in workloads {
        for library in 1..report.libraries.len() {
            for placement in workload.checked_placements() {
                let rows = report.rows.iter().filter(|row| row.case.workload == workload);
                let ratios = rows.filter_map(|row| {
                    let ratio = row.ratio(placement, library, average)?;
                    (ratio > 0.0).then_some((row.case, ratio))
                });
                let ratios: Vec<_> = ratios.collect();
                if !ratios.is_empty() {
                    comparisons.push(Comparison { workload, placement, library, ratios });
                }
            }
        }
    }
    comparisons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::report;

    #[test]
    fn each_placement_stands_for_itself() {
        let comparisons = comparisons(&report(), Average::Mean);
        let [out_of_place, in_place] = &comparisons[..] else { panic!("{comparisons:?}") };
        assert_eq!((out_of_place.library, out_of_place.placement), (1, Placement::OutOfPlace));
        // 2 and 0.8; the third call was not made by both.
        assert!((out_of_place.mean() - 1.6_f64.sqrt()).abs() < 1e-9);
        let below: Vec<u64> = out_of_place.below(1.0).map(|(case, _)| case.count).collect();
        assert_eq!(below, [256]);
        assert_eq!(out_of_place.worst().map(|(case, _)| case.count), Some(256));
        assert_eq!((in_place.ratios.len(), in_place.below(1.0).count()), (1, 0));
    }
}

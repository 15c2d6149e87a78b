//! Two runs, compared call by call shape.

use std::fmt::Write;

use serde::Serialize;

use super::Report;
use super::findings::{Culprit, us};
use super::group::GroupReport;
use super::shares::PathShares;

/// Two runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Calls of one shape that both have, the greatest change first.
    pub groups: Vec<GroupComparison>,
    /// What holds up the second run alone, in sentences.
    pub appeared: Vec<String>,
    /// What holds up the first run alone, in sentences.
    pub gone: Vec<String>,
    /// Calls that one of them lacks.
    pub unmatched: Vec<String>,
}

/// Calls of one shape in two runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupComparison {
    /// Collective, size and algorithm.
    pub name: String,
    /// `in place` or `out of place`, if it is known.
    pub placement: Option<String>,
    /// Launches in the first run, and in the second.
    pub calls: [usize; 2],
    /// Their median durations, in µs.
    pub duration_us: [f64; 2],
    /// Their median arrival skews, in µs.
    pub skew_us: [f64; 2],
    /// What their critical paths consist of.
    pub path_shares: [PathShares; 2],
    /// How they are executed, if that differs.
    pub kernels: Option<[String; 2]>,
}

impl GroupComparison {
    fn change_us(&self) -> f64 {
        (self.duration_us[1] - self.duration_us[0]).abs()
    }
}

/// Compares two runs.
pub fn compare(first: &Report, second: &Report) -> Comparison {
    let pair = |one: &GroupReport| {
        let other = counterpart(one, second)?;
        let kernels =
            (one.kernel != other.kernel).then(|| [one.kernel.clone(), other.kernel.clone()]);
        Some(GroupComparison {
            name: one.name.clone(),
            placement: one.placement.clone(),
            calls: [one.calls, other.calls],
            duration_us: [one.duration_us.median, other.duration_us.median],
            skew_us: [one.skew_us.median, other.skew_us.median],
            path_shares: [one.path_shares, other.path_shares],
            kernels,
        })
    };
    let mut groups: Vec<_> = first.groups.iter().filter_map(pair).collect();
    groups.sort_by(|one, other| other.change_us().total_cmp(&one.change_us()));
    let lacks = |one: &Report, other: &Report, which: &str| -> Vec<String> {
        let missing = one.groups.iter().filter(|group| counterpart(group, other).is_none());
        missing.map(|group| format!("{} only in the {which} run", group.name)).collect()
    };
    let mut unmatched = lacks(first, second, "first");
    unmatched.extend(lacks(second, first, "second"));
    let (appeared, gone) = (only(second, first), only(first, second));
    Comparison { groups, appeared, gone, unmatched }
}

/// The same calls in another run: executed the same way, if some are.
fn counterpart<'a>(group: &GroupReport, other: &'a Report) -> Option<&'a GroupReport> {
    fn shape(of: &GroupReport) -> [Option<&str>; 4] {
        let GroupReport { name, data_type, reduction, placement, .. } = of;
        [Some(name), data_type.as_deref(), reduction.as_deref(), placement.as_deref()]
    }
    let same = other.groups.iter().filter(|of| shape(of) == shape(group));
    same.min_by_key(|of| of.kernel != group.kernel)
}

/// What holds up `one` and not `other`.
fn only(one: &Report, other: &Report) -> Vec<String> {
    let has = |culprit: Culprit| other.findings.iter().any(|found| found.culprit == culprit);
    let alone = one.findings.iter().filter(|found| !has(found.culprit));
    alone.map(|found| found.text.clone()).collect()
}

/// A comparison, for terminals.
pub fn comparison_text(comparison: &Comparison) -> String {
    let Comparison { groups, appeared, gone, unmatched } = comparison;
    let mut text = String::new();
    for sentence in appeared {
        let _ = writeln!(text, "new in the second run: {sentence}");
    }
    for sentence in gone {
        let _ = writeln!(text, "gone in the second run: {sentence}");
    }
    for group in groups {
        let [first, second] = group.duration_us;
        let placement = group.placement.iter().map(|of| format!(" {of}")).collect::<String>();
        let percent = 100.0 * (second / first.max(f64::MIN_POSITIVE) - 1.0);
        let _ = writeln!(
            text,
            "{}: {} and {}, {percent:+.1} % ({} and {} calls{placement})",
            group.name,
            us(first),
            us(second),
            group.calls[0],
            group.calls[1]
        );
        let [one, other] = group.path_shares;
        let parts = [
            ("moves", one.moves_us, other.moves_us),
            ("messages on their way", one.transit_us, other.transit_us),
            ("late arrival", one.arrival_us, other.arrival_us),
            ("room", one.credit_us, other.credit_us),
            ("signals", one.signal_us, other.signal_us),
            ("turns", one.turn_us, other.turn_us),
            ("other", one.other_us, other.other_us),
        ];
        for (name, before_us, after_us) in parts {
            let _ = writeln!(
                text,
                "    {name:<22} {before_us:>10.1} {after_us:>10.1} µs of the critical path"
            );
        }
        if let Some([before, after]) = &group.kernels {
            let _ = writeln!(text, "    kernel: {before}; then {after}");
        }
    }
    for sentence in unmatched {
        let _ = writeln!(text, "{sentence}");
    }
    text
}

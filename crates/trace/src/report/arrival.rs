//! When ranks arrive at a launch.

use super::index::Index;
use super::statistics::median;
use crate::timeline::Launch;

/// How ranks arrive at a launch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Arrival {
    /// The position of the last rank.
    pub last: usize,
    /// When it arrives.
    pub last_ns: f64,
    /// From the first arrival to the last.
    pub skew_ns: f64,
    /// By how much the last rank is later than the median of the others, as far as it did not
    /// leave its launch before late already: what delays it lies between its launches.
    pub late_ns: f64,
}

/// How ranks arrive at `launch`; `None` for fewer than two ranks.
pub(super) fn arrival(index: &Index<'_>, launch: &Launch) -> Option<Arrival> {
    let ranks = &index.timeline.ranks;
    let begin_ns = |rank: usize| ranks[rank].launches[launch.of_rank[rank]?].begin_ns.into();
    let begin_ns = |rank: usize| -> Option<f64> { begin_ns(rank) };
    let present: Vec<usize> = (0..ranks.len()).filter(|rank| begin_ns(*rank).is_some()).collect();
    let begins = || present.iter().filter_map(|rank| Some((*rank, begin_ns(*rank)?)));
    let (last, last_ns) = begins().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let first_ns = begins().map(|(_, begin_ns)| begin_ns).fold(f64::MAX, f64::min);
    let mut others: Vec<f64> = begins().filter(|(rank, _)| *rank != last).map(|it| it.1).collect();
    if others.is_empty() {
        return None;
    }
    let late_ns = last_ns - median(&mut others);
    let pause_ns = |rank: usize| {
        let number = launch.of_rank[rank]?;
        let before = &ranks[rank].launches[number.checked_sub(1)?];
        Some(begin_ns(rank)? - before.end_ns)
    };
    let mut pauses: Vec<f64> =
        present.iter().filter(|rank| **rank != last).filter_map(|rank| pause_ns(*rank)).collect();
    let own_ns = match pause_ns(last) {
        Some(own_ns) if pauses.len() == others.len() => own_ns - median(&mut pauses),
        _ => late_ns,
    };
    let late_ns = late_ns.min(own_ns).max(0.0);
    Some(Arrival { last, last_ns, skew_ns: last_ns - first_ns, late_ns })
}

//! The text of a hang report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use msccl_collective::{Rank, RankList};

use super::wait_graph::WaitGraph;
use super::{RankSnapshot, Snapshot};
use crate::shared_state::RankState;
use crate::watch::answer::Wait;

/// Lines on where ranks are.
const PLACES: usize = 12;
/// Lines on what thread blocks wait for from ranks that do not wait themselves.
const WAITS_FOR_BLOCKERS: usize = 16;
/// Lines on what they wait for from ranks that do.
const WAITS_FOR_OTHERS: usize = 16;

impl Snapshot {
    /// The report under the headline `headline`. It begins with its conclusion: the `cause`, if
    /// that is known, and otherwise what the snapshot shows.
    pub fn format(&self, headline: &str, cause: Option<&str>) -> String {
        let graph = WaitGraph::of(self);
        let mut report = String::new();
        let conclusions = match cause {
            Some(cause) => vec![cause.to_owned()],
            None => self.conclusions(&graph),
        };
        for conclusion in conclusions {
            let _ = writeln!(report, "=> {conclusion}");
        }
        let _ = writeln!(report, "{headline}");
        let mut say = |line: String| {
            let _ = writeln!(report, "  {line}");
        };
        self.places().into_iter().for_each(&mut say);
        self.wait_lines(&graph).into_iter().for_each(&mut say);
        report.truncate(report.trim_end().len());
        report
    }

    /// Where every rank is; ranks at one place share a line.
    fn places(&self) -> Vec<String> {
        let ranks = self.ranks.iter().enumerate();
        let lines = ranks.map(|(rank, rank_snapshot)| (Rank::from(rank), rank_snapshot.place()));
        let (mut lines, omitted) = grouped(lines, PLACES, ": ");
        if let Some(omitted) = omitted {
            lines.push(format!("{omitted}: in still other places"));
        }
        lines
    }

    /// What thread blocks wait for; those who wait for a blocker first.
    fn wait_lines(&self, graph: &WaitGraph<'_>) -> Vec<String> {
        let (mut for_blockers, mut for_others) = (Vec::new(), Vec::new());
        for (rank, rank_snapshot) in self.ranks.iter().enumerate() {
            for (peer, waits) in rank_snapshot.waits_by_peer() {
                let line = (Rank::from(rank), self.wait_line(peer, &waits));
                match peer.is_some_and(|peer| graph.is_blocker(peer)) {
                    true => for_blockers.push(line),
                    false => for_others.push(line),
                }
            }
        }
        let (mut lines, more) = grouped(for_blockers, WAITS_FOR_BLOCKERS, " ");
        lines.extend(more.map(|ranks| format!("{ranks} wait for such ranks as well")));
        let (others, more) = grouped(for_others, WAITS_FOR_OTHERS, " ");
        lines.extend(others);
        lines.extend(more.map(|ranks| format!("{ranks} wait for ranks that wait themselves")));
        lines
    }

    /// One rank's `waits` for `peer`, in one line: the first one, and how many more.
    fn wait_line(&self, peer: Option<Rank>, waits: &[&Wait]) -> String {
        let mut line = String::new();
        if let Some(first) = waits.first() {
            line.push_str(&first.text);
            let _ = match waits.len() {
                1 => Ok(()),
                2 => write!(line, " (and another thread block)"),
                more => write!(line, " (and {} more thread blocks)", more - 1),
            };
            let rank_snapshot = peer.and_then(|peer| Some((peer, self.rank_snapshot(peer)?)));
            if let Some((peer, rank_snapshot)) = rank_snapshot {
                let _ = write!(
                    line,
                    "; {peer} {}",
                    rank_snapshot.peer_status(first.number).describe("this collective")
                );
            }
        }
        line
    }
}

impl RankSnapshot {
    /// Where it is, in a few words.
    fn place(&self) -> String {
        let Self {
            process,
            is_intra_node: _,
            state,
            reason,
            departed,
            answer,
            collectives: _,
            last,
            current,
        } = self;
        let at = match (current, last) {
            (Some(current), Some(last)) if current.sequence < last.sequence => {
                let more = last.sequence - current.sequence;
                let noun = if more == 1 { "call" } else { "calls" };
                format!("in {current}; {more} more {noun} issued, the last: {last}")
            }
            (Some(current), _) => format!("in {current}"),
            (None, Some(last)) if answer.is_some() => format!("idle after {last}"),
            (None, Some(last)) => format!("last issued {last}"),
            (None, None) => "has made no call".to_owned(),
        };
        match (state, departed, answer) {
            (
                RankState::Aborted
                | RankState::Failed
                | RankState::TimedOut
                | RankState::Mismatched,
                ..,
            ) => {
                format!("{} ({reason}), {at}", state.verb())
            }
            (RankState::Closed, ..) => format!("left, {at}"),
            (RankState::Running, Some(report), _) => format!("{report}, {at}"),
            (RankState::Running, None, None) => format!("did not answer ({process}), {at}"),
            (RankState::Running, None, Some(_)) => at,
        }
    }

    /// Its waits for other ranks, by rank; those within it only if there are no others.
    fn waits_by_peer(&self) -> BTreeMap<Option<Rank>, Vec<&Wait>> {
        let mut by_peer: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for wait in self.waits() {
            by_peer.entry(wait.peer).or_default().push(wait);
        }
        if by_peer.len() > 1 {
            by_peer.remove(&None);
        }
        by_peer
    }
}

/// At most `most` lines, each headed by the ranks that it is for, in the order of their lowest
/// ranks; and the ranks of which not every line is there. `alone` stands between a single rank and
/// its line.
fn grouped(
    lines: impl IntoIterator<Item = (Rank, String)>,
    most: usize,
    alone: &str,
) -> (Vec<String>, Option<String>) {
    let mut groups: BTreeMap<String, BTreeSet<Rank>> = BTreeMap::new();
    for (rank, line) in lines {
        groups.entry(line).or_default().insert(rank);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, ranks)| ranks.first().copied());
    let omitted = groups.split_off(groups.len().min(most));
    let list = |ranks: &BTreeSet<Rank>| RankList::new(ranks.iter().copied());
    let lines = groups.iter().map(|(line, ranks)| match ranks.len() {
        1 => format!("{}{alone}{line}", list(ranks)),
        _ => format!("{}: {line}", list(ranks)),
    });
    let omitted: BTreeSet<_> = omitted.into_iter().flat_map(|(_, ranks)| ranks).collect();
    let omitted = (!omitted.is_empty()).then(|| list(&omitted).to_string());
    (lines.collect(), omitted)
}

//! What holds calls up, named: a rank, a thread block, a link, two phases.

mod conflicts;
mod late;
mod paces;
mod sharing;
mod slow;

use std::collections::BTreeMap;

use serde::Serialize;

use super::arrival::Arrival;
use super::index::Index;
use super::moves::Expected;
use super::placed::{LineName, Placed};

pub(super) use paces::Paces;
pub(super) use slow::Losses;

/// Something that holds calls up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// What it is.
    #[serde(flatten)]
    pub culprit: Culprit,
    /// What people read.
    pub text: String,
    /// What it costs all calls together, in µs, by the critical paths. Of two phases, the time in
    /// which one could go on: they lose no more than that, and less where a link is busy anyway.
    pub cost_us: f64,
    /// How many calls it holds up.
    pub calls: usize,
    /// Where in programs.
    pub lines: Vec<SourceLine>,
}

/// A line of a program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct SourceLine {
    /// The name of the text.
    pub program: String,
    /// The line, from 1.
    pub line: u32,
}

/// What holds calls up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(tag = "culprit", rename_all = "snake_case")]
pub enum Culprit {
    /// A rank arrives later than the others.
    LateRank {
        /// Which one.
        rank: u32,
    },
    /// A thread block moves more slowly than others do.
    SlowBlock {
        /// Its rank.
        rank: u32,
        /// Which one of the plan.
        thread_block: u32,
    },
    /// A link carries more slowly than others do.
    SlowLink {
        /// The rank that sends.
        from: u32,
        /// The rank that receives.
        to: u32,
    },
    /// A thread block waits for the message of one line, while that of another line has come.
    SharedBlock {
        /// Its rank.
        rank: u32,
        /// Which one of the plan.
        thread_block: u32,
    },
}

impl From<LineName<'_>> for SourceLine {
    fn from(LineName { program, line }: LineName<'_>) -> Self {
        Self { program: program.to_owned(), line }
    }
}

impl Culprit {
    /// What kind it is.
    fn kind(self) -> CulpritKind {
        match self {
            Self::LateRank { rank: _ } => CulpritKind::Rank,
            Self::SlowBlock { rank: _, thread_block: _ } => CulpritKind::Block,
            Self::SlowLink { from: _, to: _ } => CulpritKind::Link,
            Self::SharedBlock { rank: _, thread_block: _ } => CulpritKind::Phases,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CulpritKind {
    Rank,
    Block,
    Link,
    Phases,
}

/// Findings in the first lines of a report, behind the summary.
pub(in crate::report) const FINDINGS: usize = 4;

/// Each culprit of `findings` once, where it costs most, the most costly first. Of the first
/// [`FINDINGS`] no more than two are of one kind if there are others: where one link is slow,
/// several often are, and hide a rank that is late.
pub(in crate::report) fn headlines(findings: &[Finding]) -> Vec<&Finding> {
    const OF_ONE_KIND: usize = 2;
    let (mut first, mut rest): (Vec<&Finding>, Vec<&Finding>) = (Vec::new(), Vec::new());
    for finding in findings {
        if first.iter().chain(&rest).any(|of| of.culprit == finding.culprit) {
            continue;
        }
        let kind = finding.culprit.kind();
        let alike = first.iter().filter(|of| of.culprit.kind() == kind).count();
        let is_first = alike < OF_ONE_KIND && first.len() < FINDINGS;
        if is_first { first.push(finding) } else { rest.push(finding) }
    }
    first.extend(rest);
    first
}

/// Launches of one shape, with what was found out about each.
pub(super) struct GroupFacts<'a> {
    pub index: &'a Index<'a>,
    /// Positions in the launches of the timeline.
    pub launches: &'a [usize],
    /// By launch, how ranks arrive at it.
    pub arrivals: &'a [Option<Arrival>],
    pub expected: &'a Expected,
    /// What is small beside the calls: less is not worth a word.
    pub least_us: f64,
    /// What calls are, in a few words.
    pub name: &'a str,
}

/// What holds the calls of a group up, the most costly first; `losses` are those of the critical
/// paths.
pub(super) fn findings(facts: &GroupFacts<'_>, paces: &Paces, losses: Losses<'_>) -> Vec<Finding> {
    let mut findings = late::late_ranks(facts);
    findings.extend(slow::slow_blocks_and_links(facts, paces, losses));
    findings.extend(sharing::shared_blocks(facts));
    findings.sort_by(|one, other| other.cost_us.total_cmp(&one.cost_us));
    // Whatever waits for a late rank or a slow link waits in some order, too.
    let is_shared = |found: &Finding| matches!(found.culprit, Culprit::SharedBlock { .. });
    if findings.first().is_some_and(|first| !is_shared(first)) {
        findings.retain(|found| !is_shared(found));
    }
    findings
}

/// The lines at which most is lost, in their order.
fn most(lost_ns: &BTreeMap<LineName<'_>, f64>) -> Vec<SourceLine> {
    /// A line with less is not named.
    const PART: f64 = 0.2;
    let all_ns: f64 = lost_ns.values().sum();
    let lines = lost_ns.iter().filter(|(_, ns)| **ns > PART * all_ns);
    lines.map(|(line, _)| (*line).into()).collect()
}

/// The thread block of a span.
fn block_of(index: &Index<'_>, placed: &Placed<'_>) -> Option<(u32, u32)> {
    Some((index.rank_number(placed.at.rank), placed.thread_block()?))
}

/// `, line 12 of ring.msccl`.
fn at_lines(lines: &[SourceLine]) -> String {
    named(lines).map(|lines| format!(", {lines}")).unwrap_or_default()
}

/// `line 12 of ring.msccl`.
fn named(lines: &[SourceLine]) -> Option<String> {
    let first = lines.first()?;
    let numbers: Vec<String> = lines
        .iter()
        .filter(|line| line.program == first.program)
        .map(|line| line.line.to_string())
        .collect();
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    Some(format!("{word} {} of {}", numbers.join(", "), short(&first.program)))
}

/// The name of a program for people: of a file, without its folder.
pub(in crate::report) fn short(program: &str) -> &str {
    let (_, last) = program.rsplit_once('/').unwrap_or(("", program));
    if last.contains('.') { last } else { program }
}

/// A rate for people, in GB/s.
pub(in crate::report) fn gb_per_s(gb_per_s: f64) -> String {
    match gb_per_s {
        slow if slow > 0.0 && slow < 0.01 => {
            // Two digits: rates of turns and hangs are parts of a MB/s.
            let decimals = (1.0 - slow.log10().floor()).min(9.0) as usize;
            format!("{slow:.decimals$}")
        }
        slow if slow < 0.1 => format!("{slow:.3}"),
        slow if slow < 1.0 => format!("{slow:.2}"),
        fast => format!("{fast:.1}"),
    }
}

/// A time for people.
pub(in crate::report) fn us(us: f64) -> String {
    match us {
        tiny if tiny < 10.0 => format!("{tiny:.1} µs"),
        small if small < 10_000.0 => format!("{small:.0} µs"),
        large => format!("{:.1} ms", large / 1000.0),
    }
}

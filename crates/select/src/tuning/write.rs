//! A tuning table as text: what [`super::parse`] reads, columns aligned, without remarks.

use std::fmt;
use std::ops::RangeInclusive;

use msccl_collective::Placement;

use super::parse::{GUESSED, SLOWER, VERSION, WITHOUT_SLOWER};
use super::{Choice, Row, Slower, Tuning, Variant};

/// The line of the first row: after the version, the machine and the heading.
pub(super) const FIRST_LINE: usize = 4;

/// The names of the columns, as a remark.
const HEADING: [&str; 9] = [
    "# collective",
    "placement",
    "ranks",
    "bytes",
    "protocol",
    "links",
    "instances",
    "threads",
    "algorithm",
];

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuning { name: _, machine, rows, slower } = self;
        // Readers of the version before know all else.
        let version = if slower.is_empty() { WITHOUT_SLOWER } else { VERSION };
        writeln!(f, "msccl-tuning {version}\nmachine {machine}")?;
        let heading = HEADING.map(str::to_owned);
        let lines: Vec<_> = [heading].into_iter().chain(rows.iter().map(columns)).collect();
        let widths: [usize; 9] = std::array::from_fn(|column| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        });
        for line in &lines {
            let (last, others) = line.split_last().unwrap_or((&line[0], &[]));
            for (cell, width) in others.iter().zip(widths) {
                write!(f, "{cell:width$} ")?;
            }
            writeln!(f, "{last}")?;
        }
        if !slower.is_empty() {
            writeln!(f, "# slower than the best: collective placement ranks bytes")?;
            writeln!(f, "#     µs of the best, own µs, loaded file")?;
        }
        slower.iter().try_for_each(|of| writeln!(f, "{of}"))
    }
}

impl fmt::Display for Slower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slower { collective, placement, ranks, nodes, bytes, least_ns, ns, algorithm } = self;
        let (placement, ranks) = (placement_name(*placement), ranks_and_nodes(ranks, nodes));
        let us = |ns: &u64| format!("{}.{:03}", ns / 1000, ns % 1000);
        let (size, least, own) = (size(*bytes), us(least_ns), us(ns));
        write!(f, "{SLOWER} {collective} {placement} {ranks} {size} {least} {own} {algorithm}")
    }
}

fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::InPlace => "in",
        Placement::OutOfPlace => "out",
        Placement::Both => "any",
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Choice { algorithm, variant: Variant { protocol, links, instances, threads } } = self;
        write!(f, "{protocol} {links} {instances} {threads} {algorithm}")
    }
}

fn columns(row: &Row) -> [String; 9] {
    let Row { line: _, collective, placement, ranks, guessed, nodes, bytes, choice } = row;
    let mark = if *guessed { GUESSED } else { "" };
    let Choice { algorithm, variant: Variant { protocol, links, instances, threads } } = choice;
    [
        (*collective).to_owned(),
        placement_name(*placement).to_owned(),
        format!("{}{mark}", ranks_and_nodes(ranks, nodes)),
        range(bytes, size),
        protocol.to_string(),
        links.to_string(),
        instances.to_string(),
        threads.to_string(),
        algorithm.clone(),
    ]
}

/// One node goes without saying.
fn ranks_and_nodes(ranks: &RangeInclusive<u64>, nodes: &RangeInclusive<u64>) -> String {
    let plain = |of| range(of, |number| number.to_string());
    if *nodes == (1..=1) { plain(ranks) } else { format!("{}/{}", plain(ranks), plain(nodes)) }
}

/// Both ends, unless one is missing or they are the same.
fn range(range: &RangeInclusive<u64>, print: fn(u64) -> String) -> String {
    match (*range.start(), *range.end()) {
        (0, u64::MAX) => "any".to_owned(),
        (low, high) if low == high => print(low),
        (0, high) => format!("..{}", print(high)),
        (low, u64::MAX) => format!("{}..", print(low)),
        (low, high) => format!("{}..{}", print(low), print(high)),
    }
}

/// In the largest unit that leaves a whole number.
pub(super) fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = |(_, shift): &(_, u32)| bytes > 0 && bytes.trailing_zeros() >= *shift;
    match units.into_iter().find(whole) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

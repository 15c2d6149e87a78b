//! Certificates as lines of comment.

use std::collections::BTreeSet;

use msccl_bounds::{Crossing, VertexSet, Witness};
use msccl_topology::cluster::{Cluster, VertexIndex};

use super::{Certificate, MARK, WitnessWord};

/// The longest line.
const COLUMNS: usize = 100;

impl Certificate {
    /// The lines, for the vertices of `cluster`.
    pub fn lines(&self, cluster: &Cluster) -> Vec<String> {
        let Certificate { ranks, seconds_per_byte, bound } = self;
        let call = match bound.kind.root() {
            Some(root) => format!("{} from rank {} over {ranks} ranks", bound.kind.name(), root.0),
            None => format!("{} over {ranks} ranks", bound.kind.name()),
        };
        let mut lines = vec![
            format!("{MARK} {call}"),
            format!("{MARK} takes {seconds_per_byte} s/byte"),
            format!("{MARK} bound {} s/byte", bound.seconds_per_byte),
        ];
        match &bound.witness {
            Witness::Cut { inside } => lines.extend(named(cluster, WitnessWord::Cut, inside)),
            Witness::Partition { groups } => {
                lines.extend(all_named(cluster, WitnessWord::Group, groups));
            }
            Witness::Lengths { links } => lines.extend(lengths(links)),
            Witness::Routes { crossings, links } => {
                for Crossing { weight, groups } in crossings {
                    lines.push(format!("{MARK} {} {weight}", WitnessWord::Weight.text()));
                    lines.extend(all_named(cluster, WitnessWord::of_groups(groups), groups));
                }
                lines.extend(lengths(links));
            }
        }
        lines
    }
}

/// Those above 0.
fn lengths(links: &[u32]) -> impl Iterator<Item = String> {
    let word = WitnessWord::Length.text();
    let long = links.iter().enumerate().filter(|(_, length)| **length > 0);
    long.map(move |(link, length)| format!("{MARK} {word} {link} {length}"))
}

fn all_named(cluster: &Cluster, word: WitnessWord, groups: &[VertexSet]) -> Vec<String> {
    groups.iter().flat_map(|group| named(cluster, word, group)).collect()
}

/// The set, or all others if these are fewer; lines after the first begin with `and`.
fn named(cluster: &Cluster, word: WitnessWord, set: &VertexSet) -> Vec<String> {
    let word = word.text();
    let all: BTreeSet<VertexIndex> =
        (0..cluster.vertices().len() as u32).map(VertexIndex).collect();
    let others: VertexSet = all.difference(set).copied().collect();
    let (start, set) = if others.len() < set.len() {
        (format!("{MARK} {word} all but"), &others)
    } else {
        (format!("{MARK} {word}"), set)
    };
    let mut lines = Vec::new();
    let mut line = start;
    for at in set {
        let name = &cluster.vertices()[at.index()].name;
        if line.chars().count() + 1 + name.chars().count() > COLUMNS {
            lines.push(std::mem::replace(&mut line, format!("{MARK} and")));
        }
        line = format!("{line} {name}");
    }
    lines.push(line);
    lines
}

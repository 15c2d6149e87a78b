//! A cluster with links missing or slow.
//!
//! What is named is a link, `gpu2-gpu3`, or all links of a vertex, `nic1`; names may have `*` and
//! `[0-3]`, as in a text of a [`format`](super::format). A link stands for both its directions.
//! Vertices stay, so that ranks keep their numbers.

use std::collections::HashSet;
use std::fmt;

use super::pattern::Pattern;
use super::{Cluster, ClusterLink, VertexIndex};
use crate::bandwidth::Bandwidth;

/// Why links cannot be taken away or slowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DegradeError {
    expected: String,
    found: String,
    there_is: String,
}

impl fmt::Display for DegradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DegradeError { expected, found, there_is } = self;
        write!(f, "expected {expected}, found `{found}`")?;
        if there_is.is_empty() { Ok(()) } else { write!(f, "; {there_is}") }
    }
}

impl std::error::Error for DegradeError {}

/// `cluster` without the links that `what` names: `gpu2-gpu3`, `nic1`.
pub fn without(cluster: &Cluster, what: &str) -> Result<Cluster, DegradeError> {
    let named = Selection::of(cluster, what)?;
    let mut out = cluster.clone();
    out.links.retain(|link| !named.has(link));
    Ok(out)
}

/// `cluster` with the links that `what` names at a part of their rate, rounded to whole MB/s but
/// not to 0: `nic1=0.5`.
pub fn slow(cluster: &Cluster, what: &str) -> Result<Cluster, DegradeError> {
    let Some((links, factor)) = what.split_once('=') else {
        return Err(error("links and a part of their rate, such as `nic1=0.5`", what));
    };
    let factor: Option<f64> = factor.trim().parse().ok().filter(|it| *it > 0.0 && *it <= 1.0);
    let Some(factor) = factor else {
        let there_is = "to take links away is another request: `without`";
        let error = error("a part above 0, at most 1, after `=`", what);
        return Err(DegradeError { there_is: there_is.to_owned(), ..error });
    };
    let named = Selection::of(cluster, links)?;
    let mut out = cluster.clone();
    for link in out.links.iter_mut().filter(|link| named.has(link)) {
        let rate = f64::from(link.rate.mb_per_s()) * factor;
        link.rate = Bandwidth::from_mb_per_s((rate.round() as u32).max(1));
    }
    Ok(out)
}

fn error(expected: impl Into<String>, found: &str) -> DegradeError {
    const MOST_CHARS: usize = 80;
    let found = found.chars().take(MOST_CHARS).collect();
    DegradeError { expected: expected.into(), found, there_is: String::new() }
}

/// Some links of a cluster.
struct Selection {
    one: HashSet<VertexIndex>,
    /// `None` stands for all.
    other: Option<HashSet<VertexIndex>>,
}

impl Selection {
    fn of(cluster: &Cluster, what: &str) -> Result<Self, DegradeError> {
        let (one, other) = match dash(what) {
            Some((one, other)) => (one.trim(), Some(other.trim())),
            None => (what.trim(), None),
        };
        let one = vertices(cluster, one)?;
        let other = other.map(|other| vertices(cluster, other)).transpose()?;
        let found = Self { one, other };
        if cluster.links.iter().any(|link| found.has(link)) {
            return Ok(found);
        }
        let there_is = found.neighbours(cluster);
        Err(DegradeError { there_is, ..error("links that there are", what) })
    }

    fn has(&self, link: &ClusterLink) -> bool {
        let Self { one, other } = self;
        let leads = |from, to| {
            one.contains(&from) && other.as_ref().is_none_or(|other| other.contains(&to))
        };
        leads(link.from, link.to) || leads(link.to, link.from)
    }

    /// What the first vertex has links with, for messages.
    fn neighbours(&self, cluster: &Cluster) -> String {
        let name = |at: VertexIndex| cluster.vertices.get(at.index()).map(|it| it.name.as_str());
        let first = self.one.iter().min().copied();
        let ends = cluster.links.iter().filter(|link| Some(link.from) == first);
        let names: Vec<_> = ends.filter_map(|link| name(link.to)).collect();
        let first = first.and_then(name).unwrap_or_default();
        match names.as_slice() {
            [] => format!("`{first}` has no links"),
            names => format!("`{first}` has links with {}", list(names)),
        }
    }
}

/// What stands before and after a `-` that is in no brackets.
fn dash(what: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    let at = what.find(|it: char| {
        depth += i32::from(it == '[') - i32::from(it == ']');
        it == '-' && depth == 0
    })?;
    Some((&what[..at], &what[at + 1..]))
}

fn vertices(cluster: &Cluster, name: &str) -> Result<HashSet<VertexIndex>, DegradeError> {
    let found =
        Pattern::parse(name).map(|it| it.find(&cluster.vertices, 0, "")).unwrap_or_default();
    if found.is_empty() {
        let names: Vec<_> = cluster.vertices.iter().map(|it| it.name.as_str()).collect();
        let there_is = format!("there are {}", list(&names));
        return Err(DegradeError { there_is, ..error("the name of a vertex", name) });
    }
    Ok(found.into_iter().collect())
}

/// Names for a message, of which many are left out.
fn list(names: &[&str]) -> String {
    const MOST_NAMES: usize = 24;
    let shown = names.iter().take(MOST_NAMES).map(|name| format!("`{name}`"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

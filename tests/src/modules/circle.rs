//! The shortest circle of a graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Edge;

/// The shortest circle among `edges`, and of several the first.
pub fn shortest(edges: &[Edge]) -> Option<Vec<Edge>> {
    let mut leaving = BTreeMap::<&str, Vec<&Edge>>::new();
    for edge in edges {
        leaving.entry(&edge.user).or_default().push(edge);
    }
    let circles = leaving.keys().filter_map(|start| circle_through(start, &leaving));
    circles.min_by_key(Vec::len)
}

/// The shortest way from `start` back to it.
fn circle_through(start: &str, leaving: &BTreeMap<&str, Vec<&Edge>>) -> Option<Vec<Edge>> {
    let mut next = VecDeque::from([(start, Vec::new())]);
    let mut seen = BTreeSet::new();
    while let Some((at, way)) = next.pop_front() {
        for edge in leaving.get(at).into_iter().flatten() {
            let way: Vec<Edge> = way.iter().chain([*edge]).cloned().collect();
            if edge.used == start {
                return Some(way);
            }
            if seen.insert(&edge.used) {
                next.push_back((&edge.used, way));
            }
        }
    }
    None
}

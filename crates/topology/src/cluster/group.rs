//! Links of a cluster in groups that one line can name: each of some vertices with each of others,
//! or the first with the first, the second with the second.

use std::collections::{HashMap, HashSet};

use super::{ClusterLink, Medium, VertexIndex};
use crate::bandwidth::Bandwidth;

/// Links that are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Group {
    /// Where they begin.
    pub left: Vec<VertexIndex>,
    /// Where they end. Of a mesh it is what `left` is.
    pub right: Vec<VertexIndex>,
    /// Which of `left` has a link to which of `right`.
    pub pairing: Pairing,
    /// Whether links go back, too.
    pub direction: Direction,
    /// What they are like.
    pub facts: LinkFacts,
}

/// Which vertices of two lists have links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pairing {
    /// Each of one with each of the other, but none with itself, and none twice.
    Each,
    /// The first with the first, and so on.
    Pairwise,
}

/// Which way data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// There and back, by two links.
    Both,
    /// There.
    There,
}

/// What a link is like, wherever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LinkFacts {
    pub medium: Medium,
    pub rate: Bandwidth,
    pub latency_ns: u32,
}

/// A link, or two in opposite directions that are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Joint {
    pub one: VertexIndex,
    pub other: VertexIndex,
    pub direction: Direction,
    pub facts: LinkFacts,
}

impl Group {
    /// The links of the group, in the order in which a text that names it adds them.
    pub fn links(&self) -> impl Iterator<Item = ClusterLink> {
        self.pairs().into_iter().flat_map(|(one, other)| {
            let LinkFacts { medium, rate, latency_ns } = self.facts;
            let link = |from, to| ClusterLink { from, to, rate, latency_ns, medium };
            let back = match self.direction {
                Direction::Both => Some(link(other, one)),
                Direction::There => None,
            };
            std::iter::once(link(one, other)).chain(back)
        })
    }

    fn pairs(&self) -> Vec<(VertexIndex, VertexIndex)> {
        if self.pairing == Pairing::Pairwise {
            return self.left.iter().copied().zip(self.right.iter().copied()).collect();
        }
        let place = |list: &[VertexIndex]| -> HashMap<VertexIndex, usize> {
            list.iter().copied().zip(0..).collect()
        };
        let (lefts, rights) = (place(&self.left), place(&self.right));
        let mut out = Vec::new();
        for (at, &one) in self.left.iter().enumerate() {
            for &other in &self.right {
                let earlier = lefts.get(&other).is_some_and(|&it| it < at);
                let back = self.direction == Direction::Both && rights.contains_key(&one);
                if one != other && !(earlier && back) {
                    out.push((one, other));
                }
            }
        }
        out
    }
}

impl Joint {
    /// `links` with those joined that follow each other, go there and back, and are alike.
    pub fn of_all(links: &[ClusterLink]) -> Vec<Self> {
        let mut out = Vec::new();
        let mut rest = links.iter().peekable();
        while let Some(link) = rest.next() {
            let back = ClusterLink { from: link.to, to: link.from, ..*link };
            let is_both = rest.next_if(|next| **next == back).is_some();
            let direction = if is_both { Direction::Both } else { Direction::There };
            out.push(Self { one: link.from, other: link.to, direction, facts: facts(link) });
        }
        out
    }
}

fn facts(link: &ClusterLink) -> LinkFacts {
    let ClusterLink { from: _, to: _, rate, latency_ns, medium } = *link;
    LinkFacts { medium, rate, latency_ns }
}

/// All of `joints`, in their order, in groups. `is_short` says whether a list of vertices has one
/// pattern. Links from a vertex to itself are left out: no text names them.
pub(super) fn groups(joints: &[Joint], is_short: impl Fn(&[VertexIndex]) -> bool) -> Vec<Group> {
    let mut out = Vec::new();
    let mut rest = joints;
    while let Some(first) = rest.first() {
        let alike = |it: &&Joint| it.facts == first.facts && it.direction == first.direction;
        let run = rest.get(..rest.iter().take_while(alike).count()).unwrap_or_default();
        let pairwise = pairwise(run, first);
        let short = |group: &Group| is_short(&group.left) && is_short(&group.right);
        let each = mesh(run).unwrap_or_else(|| product(run, first));
        let group = if each.pairs().len() == 1 && short(&pairwise) { pairwise } else { each };
        let count = group.pairs().len();
        rest = rest.get(count.max(1)..).unwrap_or_default();
        out.extend((count > 0).then_some(group));
    }
    out
}

fn group(first: &Joint, left: Vec<VertexIndex>, right: Vec<VertexIndex>) -> Group {
    let Joint { one: _, other: _, direction, facts } = *first;
    Group { left, right, pairing: Pairing::Each, direction, facts }
}

/// Each of some vertices with each of the same ones, at least three, at the start of `run`.
fn mesh(run: &[Joint]) -> Option<Group> {
    let first = run.first()?;
    let others = run.iter().take_while(|it| it.one == first.one).map(|it| it.other);
    let all: Vec<_> = std::iter::once(first.one).chain(others).collect();
    let found = group(first, all.clone(), all);
    let pairs = found.pairs();
    let fits = pairs.len() >= 3 && first.direction == Direction::Both;
    let start = run.iter().map(|it| (it.one, it.other)).take(pairs.len());
    (fits && start.eq(pairs.iter().copied())).then_some(found)
}

/// Each of some vertices with each of others, at the start of `run`.
fn product(run: &[Joint], first: &Joint) -> Group {
    let mut right = Vec::new();
    for joint in run.iter().take_while(|it| it.one == first.one) {
        if joint.other == first.one || right.contains(&joint.other) {
            break;
        }
        right.push(joint.other);
    }
    let mut left = vec![first.one];
    for row in run.chunks_exact(right.len().max(1)).skip(1) {
        let Some(one) = row.first().map(|it| it.one) else { break };
        let same = row.iter().all(|it| it.one == one);
        let same = same && row.iter().map(|it| it.other).eq(right.iter().copied());
        if !same || left.contains(&one) || right.contains(&one) || right.contains(&first.one) {
            break;
        }
        left.push(one);
    }
    group(first, left, right)
}

/// The longest start of `run` that names no vertex twice.
fn pairwise(run: &[Joint], first: &Joint) -> Group {
    let mut found = group(first, Vec::new(), Vec::new());
    found.pairing = Pairing::Pairwise;
    let mut seen = HashSet::new();
    for joint in run {
        if !seen.insert(joint.one) || !seen.insert(joint.other) {
            break;
        }
        found.left.push(joint.one);
        found.right.push(joint.other);
    }
    found
}

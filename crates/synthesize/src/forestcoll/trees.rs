//! From the elements of a file to trees over ranks.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use super::ForestCollError;
use super::xml::{RawForest, RawSend, RawTree};
use crate::forest::{Tree, TreeEdge};

/// The most chunks of a block.
const CHUNKS_MAX: u32 = 1024;

/// Trees by root, then by chunk, and how many chunks a block has.
pub(super) struct Resolved {
    pub chunks: u32,
    pub trees: Vec<Tree>,
}

/// Checks everything that `raw` says. `gpus` are the names of the machine's GPUs, by rank.
pub(super) fn resolve(
    text: &str,
    raw: &RawForest,
    gpus: &[&str],
) -> Result<Resolved, ForestCollError> {
    let chunks = number(text, raw.offset, "nchunkspernode", &raw.chunks)?;
    let ranks = ranks_by_name(text, raw, gpus)?;
    let resolver = Resolver { text, ranks };
    let mut trees = Vec::with_capacity(raw.trees.len());
    let mut next = vec![0; gpus.len()];
    for tree in &raw.trees {
        let resolved = resolver.tree(tree, &next)?;
        let of_root = &mut next[resolved.root as usize];
        *of_root += resolved.chunks;
        if *of_root > chunks {
            let expected = format!("{chunks} chunks of trees of `{}`", tree.root);
            return Err(resolver.error(tree.offset, expected, format!("{of_root} up to here")));
        }
        trees.push(resolved);
    }
    for (name, rank) in &resolver.ranks {
        let found = next[*rank as usize];
        if found != chunks {
            let expected = format!("{chunks} chunks of trees of `{name}`");
            return Err(resolver.error(raw.offset, expected, found.to_string()));
        }
    }
    trees.sort_by_key(|tree| (tree.root, tree.first_chunk));
    Ok(Resolved { chunks, trees })
}

fn number(text: &str, at: usize, name: &str, value: &str) -> Result<u32, ForestCollError> {
    let number = value.parse().ok().filter(|number| (1..=CHUNKS_MAX).contains(number));
    number.ok_or_else(|| {
        let expected = format!("`{name}` from 1 to {CHUNKS_MAX}");
        ForestCollError::new(text, at, expected, format!("`{value}`"))
    })
}

/// The rank of each name: of the GPU with this name, or, if there is none for some of them, its
/// place in the order of names.
fn ranks_by_name<'r>(
    text: &str,
    raw: &'r RawForest,
    gpus: &[&str],
) -> Result<BTreeMap<&'r str, u32>, ForestCollError> {
    let mut names: Vec<&str> = raw.trees.iter().map(|tree| tree.root.as_str()).collect();
    names.sort_by(|one, other| in_order(one, other));
    names.dedup();
    if names.len() != gpus.len() {
        let expected = format!("trees of {} roots, the number of the machine's GPUs", gpus.len());
        return Err(ForestCollError::new(text, raw.offset, expected, names.len().to_string()));
    }
    let of_gpus: HashMap<&str, u32> = gpus.iter().copied().zip(0..).collect();
    if names.iter().all(|name| of_gpus.contains_key(name)) {
        return Ok(names.into_iter().map(|name| (name, of_gpus[name])).collect());
    }
    Ok(names.into_iter().zip(0..).collect())
}

/// Numbers in names count as numbers: `gpu9` comes before `gpu10`.
fn in_order(one: &str, other: &str) -> Ordering {
    let (one_parts, other_parts) = (parts(one), parts(other));
    let by_parts = one_parts.iter().zip(&other_parts).map(|(one, other)| {
        let numbers = [one, other].map(|part| part.parse::<u64>());
        match numbers {
            [Ok(one), Ok(other)] => one.cmp(&other),
            _ => one.cmp(other),
        }
    });
    let first = by_parts.into_iter().find(|order| order.is_ne());
    first.unwrap_or(one_parts.len().cmp(&other_parts.len())).then(one.cmp(other))
}

/// Digits, and what stands between them.
fn parts(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_alike = |it: char| it.is_ascii_digit() == first.is_ascii_digit();
        let end = rest.find(|it| !is_alike(it)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    parts
}

struct Resolver<'t> {
    text: &'t str,
    ranks: BTreeMap<&'t str, u32>,
}

impl Resolver<'_> {
    fn error(
        &self,
        at: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> ForestCollError {
        ForestCollError::new(self.text, at, expected, found)
    }

    fn rank(&self, at: usize, name: &str) -> Result<u32, ForestCollError> {
        self.ranks.get(name).copied().ok_or_else(|| {
            let expected = "a GPU that is the root of a tree";
            self.error(at, expected, format!("`{name}`"))
        })
    }

    /// `next`: the first chunk of each root that no tree carries yet.
    fn tree(&self, raw: &RawTree, next: &[u32]) -> Result<Tree, ForestCollError> {
        let root = self.rank(raw.offset, &raw.root)?;
        let chunks = number(self.text, raw.offset, "nchunks", &raw.chunks)?;
        let mut sends_of: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut is_child = vec![false; next.len()];
        is_child[root as usize] = true;
        for send in &raw.sends {
            let edge = self.edge(send)?;
            if std::mem::replace(&mut is_child[edge.child as usize], true) {
                let expected = "one sender for each receiver, and none for the root";
                let found = format!("a second one for `{}`", send.to);
                return Err(self.error(send.offset, expected, found));
            }
            sends_of.entry(edge.parent).or_default().push(edge.child);
        }
        let edges = from_root(root, &sends_of);
        if edges.len() + 1 != next.len() {
            let expected = format!("sends from `{}` on to {} GPUs", raw.root, next.len() - 1);
            return Err(self.error(raw.offset, expected, format!("to {}", edges.len())));
        }
        Ok(Tree { root, first_chunk: next[root as usize], chunks, edges })
    }

    fn edge(&self, send: &RawSend) -> Result<TreeEdge, ForestCollError> {
        let RawSend { offset, from, to, path } = send;
        let path = path.as_deref().unwrap_or_default();
        let ends = path.is_empty() || (begins_with(path, from) && ends_with(path, to));
        if !ends {
            let expected = format!("a path from `{from}` to `{to}`");
            return Err(self.error(*offset, expected, format!("`{path}`")));
        }
        Ok(TreeEdge { parent: self.rank(*offset, from)?, child: self.rank(*offset, to)? })
    }
}

/// Names are joined by commas, which may stand in names, too.
fn begins_with(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.starts_with(','))
}

fn ends_with(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|rest| rest.ends_with(','))
}

/// The edges that the root reaches, level by level.
fn from_root(root: u32, sends_of: &BTreeMap<u32, Vec<u32>>) -> Vec<TreeEdge> {
    let mut edges = Vec::new();
    let mut reached = vec![root];
    let mut at = 0;
    while let Some(&parent) = reached.get(at) {
        for &child in sends_of.get(&parent).into_iter().flatten() {
            edges.push(TreeEdge { parent, child });
            reached.push(child);
        }
        at += 1;
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_numbers() {
        let mut names = ["(1, 'GPU', 0)", "(0, 'GPU', 10)", "gpu10", "(0, 'GPU', 9)", "gpu9", "7"];
        names.sort_by(|one, other| in_order(one, other));
        assert_eq!(
            names,
            ["(0, 'GPU', 9)", "(0, 'GPU', 10)", "(1, 'GPU', 0)", "7", "gpu9", "gpu10"]
        );
    }
}

//! The collectives that callers may ask for, by name.
//!
//! Everything that goes through all collectives, and everything that reads a name, uses
//! [`CollectiveKind::ALL`]. `docs/ARCHITECTURE.md`, "Add a collective", lists what else to change.

use std::fmt;
use std::str::FromStr;

use crate::index::Rank;

/// A collective that somebody may call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CollectiveKind {
    /// All-reduce.
    AllReduce,
    /// All-gather.
    AllGather,
    /// Reduce-scatter.
    ReduceScatter,
    /// All-to-all.
    AllToAll,
    /// Broadcast from that root.
    Broadcast(Rank),
    /// Reduce to that root.
    Reduce(Rank),
    /// Gather to that root.
    Gather(Rank),
    /// Scatter from that root.
    Scatter(Rank),
}

impl CollectiveKind {
    /// The collectives without a root.
    pub const WITHOUT_ROOT: [CollectiveKind; 4] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
    ];

    /// Every collective; roots are rank 0.
    pub const ALL: [CollectiveKind; 8] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::Broadcast(Rank(0)),
        CollectiveKind::Reduce(Rank(0)),
        CollectiveKind::Gather(Rank(0)),
        CollectiveKind::Scatter(Rank(0)),
    ];

    /// Every collective, those with a root with that one.
    pub fn all(root: Rank) -> [CollectiveKind; 8] {
        Self::ALL.map(|kind| kind.rooted_at(root))
    }

    /// The collectives with that root.
    pub fn with_root(root: Rank) -> [CollectiveKind; 4] {
        [
            CollectiveKind::Broadcast,
            CollectiveKind::Reduce,
            CollectiveKind::Gather,
            CollectiveKind::Scatter,
        ]
        .map(|kind| kind(root))
    }

    /// The name used in the language, in tables and in messages: `allreduce`, `alltoall`, …
    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllReduce => "allreduce",
            CollectiveKind::AllGather => "allgather",
            CollectiveKind::ReduceScatter => "reducescatter",
            CollectiveKind::AllToAll => "alltoall",
            CollectiveKind::Broadcast(_) => "broadcast",
            CollectiveKind::Reduce(_) => "reduce",
            CollectiveKind::Gather(_) => "gather",
            CollectiveKind::Scatter(_) => "scatter",
        }
    }

    /// The names of all, for people.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The root, for the collectives that have one.
    pub fn root(self) -> Option<Rank> {
        match self {
            CollectiveKind::Broadcast(root)
            | CollectiveKind::Reduce(root)
            | CollectiveKind::Gather(root)
            | CollectiveKind::Scatter(root) => Some(root),
            CollectiveKind::AllReduce
            | CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll => None,
        }
    }

    /// The same with that root, if it has one.
    #[must_use]
    pub fn rooted_at(self, root: Rank) -> Self {
        match self {
            CollectiveKind::Broadcast(_) => CollectiveKind::Broadcast(root),
            CollectiveKind::Reduce(_) => CollectiveKind::Reduce(root),
            CollectiveKind::Gather(_) => CollectiveKind::Gather(root),
            CollectiveKind::Scatter(_) => CollectiveKind::Scatter(root),
            other @ (CollectiveKind::AllReduce
            | CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll) => other,
        }
    }

    /// Whether contributions of several ranks are combined.
    pub fn reduces(self) -> bool {
        match self {
            CollectiveKind::AllReduce
            | CollectiveKind::ReduceScatter
            | CollectiveKind::Reduce(_) => true,
            CollectiveKind::AllGather
            | CollectiveKind::AllToAll
            | CollectiveKind::Broadcast(_)
            | CollectiveKind::Gather(_)
            | CollectiveKind::Scatter(_) => false,
        }
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CollectiveKind {
    type Err = String;

    /// The collective of that name; its root is rank 0.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names = Self::names();
            format!("expected a collective ({names}), found `{text}`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kinds_come_back() {
        for kind in CollectiveKind::all(Rank(3)) {
            assert_eq!(CollectiveKind::of(&kind.into()), Some(kind));
            let named: CollectiveKind = kind.name().parse().unwrap();
            assert_eq!(named.rooted_at(Rank(3)), kind);
            assert_eq!(kind.root(), named.root().map(|_| Rank(3)));
        }
        let roots: Vec<_> = CollectiveKind::with_root(Rank(1)).into_iter().collect();
        assert_eq!(roots, CollectiveKind::all(Rank(1))[4..]);
        let error = "gossip".parse::<CollectiveKind>().unwrap_err();
        assert!(error.starts_with("expected a collective (allreduce, "), "{error}");
    }
}

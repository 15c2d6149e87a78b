//! What collectives compute, and those that callers may ask for, by name.
//!
//! Everything that goes through all collectives, and everything that reads a name, uses
//! [`CollectiveKind::ALL`]. `docs/ARCHITECTURE.md`, "Add a collective", lists what else to change.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::contract::Contract;
use crate::index::Rank;

/// What a collective computes.
#[derive(Clone, PartialEq, Eq, Debug)]
// The variants are the field's own names; the table in `collective` defines them.
#[allow(missing_docs)]
pub enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast {
        root: Rank,
    },
    Reduce {
        root: Rank,
    },
    Gather {
        root: Rank,
    },
    Scatter {
        root: Rank,
    },
    /// Anything else, with its own buffer sizes and, when it is known, its contract.
    Custom(Arc<Custom>),
}

/// A collective that the standard does not name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Custom {
    /// Its name.
    pub name: String,
    /// Input chunks of every rank; a multiple of the chunks in a block.
    pub input_chunks: u32,
    /// Output chunks of every rank; a multiple of the chunks in a block.
    pub output_chunks: u32,
    /// Pre- and post-condition; `None` where the source states none (MSCCL XML cannot), and then
    /// every input slot is taken as given and nothing about the result can be promised.
    pub contract: Option<Contract>,
}

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

    /// The collective that an algorithm of `kind` serves; nobody calls a custom one.
    pub fn of(kind: &Kind) -> Option<Self> {
        match *kind {
            Kind::AllReduce => Some(CollectiveKind::AllReduce),
            Kind::AllGather => Some(CollectiveKind::AllGather),
            Kind::ReduceScatter => Some(CollectiveKind::ReduceScatter),
            Kind::AllToAll => Some(CollectiveKind::AllToAll),
            Kind::Broadcast { root } => Some(CollectiveKind::Broadcast(root)),
            Kind::Reduce { root } => Some(CollectiveKind::Reduce(root)),
            Kind::Gather { root } => Some(CollectiveKind::Gather(root)),
            Kind::Scatter { root } => Some(CollectiveKind::Scatter(root)),
            Kind::Custom(_) => None,
        }
    }

    /// Whether an algorithm of `kind` serves it.
    pub fn is(self, kind: &Kind) -> bool {
        Self::of(kind) == Some(self)
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

    /// What a call's bandwidth (bytes of the larger buffer by time) is multiplied by to get its
    /// *bus bandwidth*: what the busiest link of `ranks` ranks must carry at least, so that it can
    /// be held against the hardware's. The factors are those of nccl-tests (`doc/PERFORMANCE.md`
    /// there).
    ///
    /// ```
    /// use msccl_collective::CollectiveKind;
    ///
    /// assert_eq!(CollectiveKind::AllReduce.bus_factor(4), 1.5);
    /// assert_eq!(CollectiveKind::AllGather.bus_factor(4), 0.75);
    /// ```
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let others = f64::from(ranks.saturating_sub(1)) / f64::from(ranks.max(1));
        match self {
            CollectiveKind::AllReduce => 2.0 * others,
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll
            | CollectiveKind::Gather(_)
            | CollectiveKind::Scatter(_) => others,
            CollectiveKind::Broadcast(_) | CollectiveKind::Reduce(_) => 1.0,
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

impl From<CollectiveKind> for Kind {
    fn from(kind: CollectiveKind) -> Self {
        match kind {
            CollectiveKind::AllReduce => Kind::AllReduce,
            CollectiveKind::AllGather => Kind::AllGather,
            CollectiveKind::ReduceScatter => Kind::ReduceScatter,
            CollectiveKind::AllToAll => Kind::AllToAll,
            CollectiveKind::Broadcast(root) => Kind::Broadcast { root },
            CollectiveKind::Reduce(root) => Kind::Reduce { root },
            CollectiveKind::Gather(root) => Kind::Gather { root },
            CollectiveKind::Scatter(root) => Kind::Scatter { root },
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

//! Why there is no program.

use std::fmt;

use msccl_bounds::BoundError;
use msccl_collective::{CollectiveKind, Rank};

/// Why there is no program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SynthesisError {
    /// Nothing bounds the collective on this cluster: one GPU, no such root, no path.
    Unbounded(BoundError),
    /// A GPU can be reached, but only over GPUs that pass nothing on for messages of others, and
    /// capacities of routes do not lead there.
    NotRouted,
    /// Synthesis does not know the collective.
    Unsupported {
        /// What was asked for.
        kind: CollectiveKind,
    },
    /// A program would be too long, or the search too large.
    TooManyRanks {
        /// What was asked for.
        kind: CollectiveKind,
        /// How many ranks.
        ranks: usize,
        /// The most that are served.
        ranks_max: usize,
    },
    /// Trees of all roots do not serve the collective.
    NotOfAllRoots {
        /// What was asked for.
        kind: CollectiveKind,
    },
    /// The search over steps is for few ranks.
    StepRanks {
        /// How many GPUs the cluster has.
        found: usize,
        /// The most that are allowed.
        ranks_max: usize,
    },
    /// No GPU has the rank of the root.
    NoSuchRoot {
        /// What was asked for.
        root: Rank,
        /// How many GPUs the cluster has.
        ranks: usize,
    },
    /// No messages lead from one rank to another that needs what it has.
    Disconnected {
        /// Who has it.
        from: usize,
        /// Who needs it.
        to: usize,
    },
}

impl From<BoundError> for SynthesisError {
    fn from(error: BoundError) -> Self {
        Self::Unbounded(error)
    }
}

impl fmt::Display for SynthesisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbounded(error) => error.fmt(f),
            Self::NotRouted => f.write_str(
                "expected routes of messages that join all GPUs, found some that no route \
                 reaches; add links with a rate above 0",
            ),
            Self::Unsupported { kind } => write!(
                f,
                "expected allgather, reducescatter, allreduce, alltoall, broadcast or reduce, \
                 found {kind}"
            ),
            Self::NotOfAllRoots { kind } => write!(
                f,
                "expected allgather, reducescatter or allreduce for trees of all roots, found \
                 {kind}"
            ),
            Self::TooManyRanks { kind, ranks, ranks_max } => write!(
                f,
                "expected at most {ranks_max} ranks for {kind}, found {ranks}; name a smaller \
                 machine, or write it by hand over groups of ranks, as {} does",
                by_hand(*kind)
            ),
            Self::StepRanks { found, ranks_max } => write!(
                f,
                "expected 2 to {ranks_max} GPUs for the fewest steps, found {found}; leave out \
                 --fewest-steps, or name a smaller machine"
            ),
            Self::NoSuchRoot { root, ranks } => {
                write!(f, "expected a root below {ranks}, the number of GPUs, found {}", root.0)
            }
            Self::Disconnected { from, to } => write!(
                f,
                "expected messages that lead from rank {from} to rank {to}, over other ranks if \
                 need be, found none; add links"
            ),
        }
    }
}

/// A program over groups of ranks.
fn by_hand(kind: CollectiveKind) -> &'static str {
    match kind {
        CollectiveKind::AllToAll => "dsl-examples/alltoall/two_step.msccl",
        _ => "dsl-examples/allreduce/hierarchical.msccl",
    }
}

impl std::error::Error for SynthesisError {}

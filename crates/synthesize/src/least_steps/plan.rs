//! From a cluster and a collective to messages in the fewest steps.

use std::time::Duration;

use msccl_collective::CollectiveKind;
use msccl_topology::cluster::Cluster;

use super::bound::StepBound;
use super::clauses::Messages;
use super::model::StepProblem;
use super::search::search;
use crate::error::SynthesisError;
use crate::network::Direction;
use crate::plan::Ending;
use crate::time_limit::TimeLimit;

/// What the search may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepOptions {
    /// The most chunks that a link carries in one step.
    pub link_chunks: u32,
    /// How long to look for fewer steps.
    pub time: Duration,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self { link_chunks: 1, time: Duration::from_secs(60) }
    }
}

/// Messages in steps, and why fewer steps are too few.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepPlan {
    /// What it does.
    pub kind: CollectiveKind,
    /// How many ranks.
    pub ranks: u32,
    /// What the cluster is called.
    pub cluster: String,
    /// The most chunks that a link carries in one step.
    pub link_chunks: u32,
    /// A number of steps below which nothing is enough.
    pub bound: StepBound,
    /// Whether the search was given up before it knew the least number.
    pub ending: Ending,
    pub(super) direction: Direction,
    pub(super) messages: Messages,
}

/// Finds messages that do `kind` on `cluster` in the fewest steps.
///
/// # Errors
///
/// Messages do not join the GPUs, there are too few or too many of them, the root does not exist,
/// or the collective is none of those that are searched.
pub fn fewest_steps(
    cluster: &Cluster,
    kind: CollectiveKind,
    options: &StepOptions,
) -> Result<StepPlan, SynthesisError> {
    let StepOptions { link_chunks, time } = *options;
    let limit = TimeLimit::from_now(time);
    let problem = StepProblem::new(cluster, kind, link_chunks)?;
    let found = search(&problem, limit);
    Ok(StepPlan {
        kind,
        ranks: problem.model.ranks as u32,
        cluster: cluster.name().to_owned(),
        link_chunks: problem.model.link_chunks,
        bound: found.bound,
        ending: if found.is_given_up { Ending::TimeOver } else { Ending::Complete },
        direction: problem.direction,
        messages: found.messages,
    })
}

impl StepPlan {
    /// How many steps it takes.
    pub fn steps(&self) -> u32 {
        self.messages.steps()
    }

    /// Whether fewer steps are known to be too few.
    pub fn is_least(&self) -> bool {
        self.bound.least == self.steps()
    }

    /// How many messages there are.
    pub fn message_count(&self) -> usize {
        match &self.messages {
            Messages::Spread(messages) => messages.len(),
            Messages::Sum(sums) => sums.messages.len(),
        }
    }
}

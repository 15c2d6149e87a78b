//! From a cluster and a collective to messages in the fewest steps.

use std::time::Duration;

use msccl_collective::{CollectiveKind, Protocol};
use msccl_topology::cluster::Cluster;

use super::bound::StepBound;
use super::certificate::{CertificateLines, StepCertificate};
use super::model::StepProblem;
use super::program::program;
use super::search::{Messages, search};
use crate::comments::wrapped;
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
/// Messages do not join the GPUs, there are too few or too many of them, the root does not exist, or
/// the collective is none of those that are searched.
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

    /// The program, without comments.
    pub fn program(&self, protocol: Protocol) -> String {
        program(self, protocol)
    }

    /// `program`, with comments before it and its `certificate`; a proof stands at the end.
    pub fn annotated(
        &self,
        program: &str,
        certificate: &StepCertificate,
        cluster: &Cluster,
    ) -> String {
        let mut lines = self.title();
        lines.push(String::new());
        lines.extend(self.claim(certificate.why(cluster)));
        let comments = lines.iter().map(|line| format!("// {line}").trim_end().to_owned());
        let CertificateLines { claims, proof } = certificate.lines();
        let mut all: Vec<String> = comments.chain(["//".to_owned()]).chain(claims).collect();
        all.extend([String::new(), program.to_owned()]);
        if !proof.is_empty() {
            all.extend(proof);
            all.push(String::new());
        }
        all.join("\n")
    }

    fn title(&self) -> Vec<String> {
        let Self { kind, ranks, cluster, link_chunks, .. } = self;
        wrapped(&format!(
            "{} over {ranks} ranks for {cluster}. Written by `msccl synthesize --fewest-steps`: {} \
             messages in {} steps. In a step, a rank sends at most one chunk to each other rank, \
             and a link carries at most {link_chunks}.",
            kind.name(),
            self.message_count(),
            self.steps()
        ))
    }

    fn claim(&self, why: Option<String>) -> Vec<String> {
        let why = why.unwrap_or_default();
        if self.is_least() {
            return wrapped(&format!("Fewer steps are too few: {why}."));
        }
        wrapped(&format!(
            "The best that was found before the search was given up. At least {} steps are needed: \
             {why}.",
            self.bound.least
        ))
    }
}

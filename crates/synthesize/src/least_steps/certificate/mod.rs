//! What a program claims about its steps, in comments of it that anybody can check.
//!
//! ```text
//! // steps: allgather over 4 ranks, at most 1 chunks on a link
//! // steps: takes 2
//! // steps: from 0 to 1 in 1 2 to 3 in 1
//! // steps: from 1 to 0 in 1 to 2 in 1 2
//! // steps: …
//! // steps: at least 2
//! // steps: cut - 1 0 1
//! ```
//!
//! * `takes`: in how many steps everything is sent. In each, a rank sends what it has after the
//!   step before, and a link carries no more chunks than the first line says.
//! * `from`: in which steps a rank sends to each of its peers, in the order of its messages.
//! * `at least`: the number below which no schedule gets that sends blocks as they are, or sums of
//!   them, over the routes of messages.
//! * Its witness: `none` if fewer would be no step at all; `growth` if data cannot be on so many
//!   ranks yet; `cut` with the step after which each rank is inside (`-`: never); or `proof` with
//!   lemmas, each of literals, 0, hints, 0. [`super::cut`] and [`super::lrat`] say what these mean.
//!
//! Where both numbers are the same, no schedule takes fewer steps.
//!
//! [`StepCertificate::check`] believes nothing. It takes a shortest-path search from each GPU, for
//! the routes, and time linear in the schedule, the clauses and the proof.

mod read;
mod write;

pub use write::CertificateLines;

use msccl_collective::CollectiveKind;
use msccl_ir::Algorithm;
use msccl_topology::cluster::Cluster;

use super::bound::StepBound;
use super::contents;
use super::model::{Goal, StepProblem};
use super::plan::StepPlan;
use super::timing::{self, BlockOrder, Timing};
use crate::certificate::CertificateError;
use crate::error::SynthesisError;
use crate::step_fault::StepFault;

/// What stands before every line of a certificate of steps.
const MARK: &str = "// steps:";

/// What a program claims about its steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepCertificate {
    /// What it does.
    pub kind: CollectiveKind,
    /// Over how many ranks.
    pub ranks: u32,
    /// The most chunks that a link carries in one step.
    pub link_chunks: u32,
    /// In how many steps.
    pub steps: u32,
    /// What no schedule can beat, with its witness.
    pub bound: StepBound,
    timing: Timing,
}

impl StepCertificate {
    /// That of `plan`, whose program became `algorithm`.
    ///
    /// # Errors
    ///
    /// The messages of `algorithm` are not those of the plan.
    pub fn new(plan: &StepPlan, algorithm: &Algorithm) -> Result<Self, CertificateError> {
        let timing = contents::timing(plan, algorithm).map_err(CertificateError::Steps)?;
        let StepPlan { kind, ranks, link_chunks, bound, .. } = plan;
        Ok(Self {
            kind: *kind,
            ranks: *ranks,
            link_chunks: *link_chunks,
            steps: plan.steps(),
            bound: bound.clone(),
            timing,
        })
    }

    /// Whether `text` has lines of a certificate of steps.
    pub fn is_in(text: &str) -> bool {
        text.lines().any(|line| line.trim_start().starts_with(MARK))
    }

    /// Whether fewer steps are shown to be too few.
    pub fn is_least(&self) -> bool {
        self.bound.least == self.steps
    }

    /// Why fewer steps than the bound are too few, in words; `None` on a cluster that the
    /// certificate is not about.
    pub fn why(&self, cluster: &Cluster) -> Option<String> {
        let problem = StepProblem::new(cluster, self.kind, self.link_chunks).ok()?;
        Some(self.bound.why(&problem))
    }

    /// Whether all of it is true of `algorithm`, which is proved, on `cluster`.
    ///
    /// # Errors
    ///
    /// The first claim that is not true.
    pub fn check(&self, algorithm: &Algorithm, cluster: &Cluster) -> Result<(), CertificateError> {
        let collective = &algorithm.collective;
        let found = CollectiveKind::of(&collective.kind).filter(|kind| *kind == self.kind);
        let gpus = cluster.gpus().count();
        if found.is_none() || collective.ranks != self.ranks || gpus != self.ranks as usize {
            return Err(CertificateError::OtherCall {
                claimed: format!("{} over {} ranks", self.kind, self.ranks),
                found: format!(
                    "{} over {} ranks on {gpus} GPUs",
                    collective.name(),
                    collective.ranks
                ),
            });
        }
        self.check_steps(algorithm, cluster).map_err(CertificateError::Steps)
    }

    fn check_steps(&self, algorithm: &Algorithm, cluster: &Cluster) -> Result<(), StepFault> {
        let problem = StepProblem::new(cluster, self.kind, self.link_chunks);
        let problem = problem.map_err(|error: SynthesisError| StepFault::NoProblem(error))?;
        if algorithm.collective.chunks != 1 {
            return Err(StepFault::OtherChunks { found: algorithm.collective.chunks });
        }
        let steps = self.timing.values().flatten().copied();
        if let Some(found) = steps.filter(|step| *step == 0 || *step > self.steps).max() {
            return Err(StepFault::OtherSteps { claimed: self.steps, found });
        }
        let order = match &problem.goal {
            Goal::Spread(_) => BlockOrder::Counts,
            Goal::SumEverywhere => BlockOrder::IsFree,
        };
        timing::check(algorithm, &self.timing, &problem.links_as_they_are(), order)?;
        if self.bound.least > self.steps {
            return Err(StepFault::OtherSteps { claimed: self.steps, found: self.bound.least });
        }
        self.bound.check(&problem).map_err(StepFault::Bound)
    }
}

#[cfg(test)]
mod tests;

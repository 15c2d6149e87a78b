//! The libraries of a run, with workers that were made in some order.

use crate::case::Case;
use crate::placement::Placement;
use crate::process_group::ProcessGroup;
use crate::protocol::Method;
use crate::report::{LibraryReport, Outcome, Row};
use crate::run::{LibrarySession, Plan, RunObserver};

/// What libraries made of a call each time, in the order of the plan.
type Passes = Vec<Vec<Outcome>>;

/// The same, in each placement of [`Placement::BOTH`].
pub(crate) type BothPasses = [Passes; 2];

/// All libraries, whose workers were made in some order.
pub(crate) struct Lineup<'a> {
    plan: &'a Plan,
    /// In the order of the plan.
    sessions: Vec<LibrarySession<'a>>,
    /// The library that is first, by its place in the plan.
    first: usize,
}

impl<'a> Lineup<'a> {
    /// Starts the workers of all libraries that are not out yet, as `reports` say. The first one is
    /// number `first`, counted round and round.
    pub(crate) fn join(
        plan: &'a Plan,
        group: Option<&'a ProcessGroup>,
        first: usize,
        reports: Vec<LibraryReport>,
        observer: &mut dyn RunObserver,
    ) -> Self {
        let session = |(tested, report)| LibrarySession::again(plan, group, tested, report);
        let sessions: Vec<_> = plan.libraries.iter().zip(reports).map(session).collect();
        let mut lineup = Self { plan, first: first % sessions.len().max(1), sessions };
        for place in lineup.order() {
            let session = &mut lineup.sessions[place];
            if session.report.loss.is_none() {
                session.join(observer);
            }
        }
        lineup
    }

    /// What is known of all libraries.
    pub(crate) fn reports(&self) -> Vec<LibraryReport> {
        self.sessions.iter().map(|session| session.report.clone()).collect()
    }

    /// Whether all libraries are out.
    pub(crate) fn is_out(&self) -> bool {
        self.sessions.iter().all(LibrarySession::is_out)
    }

    /// The places of all libraries, the first one first.
    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        (self.first..self.sessions.len()).chain(0..self.first)
    }

    /// Measures a call in both placements, adding to `both`.
    pub(crate) fn measure(
        &mut self,
        case: Case,
        both: &mut BothPasses,
        observer: &mut dyn RunObserver,
    ) {
        for (placement, passes) in Placement::BOTH.into_iter().zip(both) {
            passes.resize(self.sessions.len(), Vec::new());
            for pass in 0..self.plan.repeats.max(1) {
                // Once is enough to compare results.
                let checks = if pass == 0 { self.plan.method.checks } else { 0 };
                let method = Method { checks, ..self.plan.method };
                for place in self.order() {
                    let session = &mut self.sessions[place];
                    passes[place].push(session.measure(case, placement, method, observer));
                }
            }
        }
    }

    /// What came of a call, and what served it.
    pub(crate) fn row(
        &mut self,
        case: Case,
        both: BothPasses,
        observer: &mut dyn RunObserver,
    ) -> Row {
        let mut row = Row::new(case, self.sessions.len());
        for (placement, passes) in Placement::BOTH.into_iter().zip(both) {
            let outcomes = row.outcomes_mut(placement).iter_mut();
            for ((outcome, passes), session) in outcomes.zip(passes).zip(&mut self.sessions) {
                *outcome = Outcome::median(passes);
                if let Outcome::Measured(measurement) = outcome {
                    measurement.served_by = session.served(case, placement, observer);
                }
            }
        }
        row
    }

    /// Ends all workers.
    pub(crate) fn leave(mut self, observer: &mut dyn RunObserver) -> Vec<LibraryReport> {
        self.sessions.iter_mut().for_each(|session| session.leave(observer));
        self.sessions.into_iter().map(|session| session.report).collect()
    }
}

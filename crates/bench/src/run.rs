//! A benchmark: libraries side by side over a list of calls.
//!
//! Each library has workers of its own, all of which live through the whole run, but at any moment
//! only one library's are at work. Libraries take turns call by call, so that ratios compare the
//! same minute of the same machine. A library that fails or hangs is out for the rest; the others
//! go on.
//!
//! How fast a library is depends a little on what has been made before it: where its memory lies,
//! above all. So a run may have several *orders*: each has workers of its own, which begin with
//! another library, and the median counts.

use std::iter;

use crate::case::Case;
use crate::placement::Placement;
use crate::process_group::ProcessGroup;
use crate::protocol::Method;
use crate::report::{LibraryReport, Outcome, Report, Row};
use crate::session::{LibrarySession, Plan, SessionObserver};

/// Whoever follows a run.
pub trait RunObserver: SessionObserver {
    /// Ranks have joined, or not; calls begin.
    fn begin(&mut self, libraries: &[LibraryReport]);
    /// A call has been measured.
    fn row(&mut self, row: &Row);
}

/// Runs `plan` from beginning to end.
pub fn run(plan: &Plan, observer: &mut dyn RunObserver) -> Report {
    run_sessions(plan, None, observer)
}

/// Runs `plan` with one rank in each process of `group`, all of which call this with the same plan
/// and get the same report. A process that is lost makes the libraries lose; nobody waits for it.
pub fn run_launched(plan: &Plan, group: &ProcessGroup, observer: &mut dyn RunObserver) -> Report {
    run_sessions(plan, Some(group), observer)
}

fn run_sessions(
    plan: &Plan,
    group: Option<&ProcessGroup>,
    observer: &mut dyn RunObserver,
) -> Report {
    let mut lineup = Lineup::new(plan, group);
    let mut earlier = vec![BothPasses::default(); plan.cases.len()];
    for order in 1..plan.orders.max(1) {
        lineup.join(order as usize, observer);
        for (&case, passes) in plan.cases.iter().zip(&mut earlier) {
            lineup.measure(case, passes, observer);
        }
        lineup.leave(observer);
    }
    lineup.join(0, observer);
    observer.begin(&lineup.reports());
    let mut rows = Vec::with_capacity(plan.cases.len());
    let cycles = plan.cycles.map_or(usize::MAX, |cycles| cycles as usize);
    let all_cases = iter::repeat_n(&plan.cases, cycles).flatten();
    for (&case, passes) in all_cases.zip(earlier.iter().cycle()) {
        if lineup.is_out() {
            break;
        }
        let mut passes = passes.clone();
        lineup.measure(case, &mut passes, observer);
        let row = lineup.row(case, passes, observer);
        observer.row(&row);
        rows.push(row);
    }
    lineup.leave(observer);
    let libraries = lineup.reports();
    Report { libraries, rows, planned: plan.cases.len().saturating_mul(cycles) }
}

/// What libraries made of a call each time, in the order of the plan.
type Passes = Vec<Vec<Outcome>>;

/// The same, in each placement of [`Placement::BOTH`].
type BothPasses = [Passes; 2];

/// All libraries, whose workers are made in some order, and again in another one.
struct Lineup<'a> {
    plan: &'a Plan,
    /// In the order of the plan.
    sessions: Vec<LibrarySession<'a>>,
    /// The library that is first, by its place in the plan.
    first: usize,
}

impl<'a> Lineup<'a> {
    /// No library has workers yet.
    fn new(plan: &'a Plan, group: Option<&'a ProcessGroup>) -> Self {
        let session = |tested| LibrarySession::new(plan, group, tested);
        Self { plan, sessions: plan.libraries.iter().map(session).collect(), first: 0 }
    }

    /// Starts the workers of all libraries that have not been lost. The first one is number
    /// `first`, counted round and round.
    fn join(&mut self, first: usize, observer: &mut dyn RunObserver) {
        self.first = first % self.sessions.len().max(1);
        for place in self.order() {
            let session = &mut self.sessions[place];
            if session.report.loss.is_none() {
                session.join(observer);
            }
        }
    }

    /// What is known of all libraries.
    fn reports(&self) -> Vec<LibraryReport> {
        self.sessions.iter().map(|session| session.report.clone()).collect()
    }

    /// Whether all libraries are out.
    fn is_out(&self) -> bool {
        self.sessions.iter().all(LibrarySession::is_out)
    }

    /// The places of all libraries, the first one first.
    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        (self.first..self.sessions.len()).chain(0..self.first)
    }

    /// Measures a call in both placements, adding to `both`.
    fn measure(&mut self, case: Case, both: &mut BothPasses, observer: &mut dyn RunObserver) {
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
    fn row(&mut self, case: Case, both: BothPasses, observer: &mut dyn RunObserver) -> Row {
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
    fn leave(&mut self, observer: &mut dyn RunObserver) {
        self.sessions.iter_mut().for_each(|session| session.leave(observer));
    }
}

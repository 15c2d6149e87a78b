//! A library in a run: its workers, and what is known of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::case::Case;
use crate::library_under_test::LibraryUnderTest;
use crate::machine::{Machine, Place};
use crate::piece::{Compared, Piece};
use crate::placement::Placement;
use crate::process_group::ProcessGroup;
use crate::protocol::{Answer, Method, Offer, Request};
use crate::report::{LibraryReport, Measurement, Outcome, Served};
use crate::worker_pool::{Failure, Launch, Tally, WorkerPool};

/// What to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The libraries, the one that the others are compared with first.
    pub libraries: Vec<LibraryUnderTest>,
    /// The calls.
    pub cases: Vec<Case>,
    /// How many ranks each library has.
    pub ranks: u32,
    /// What to measure on.
    pub machine: Machine,
    /// How many ranks share a process, each with a thread; if it is not said, those that share a
    /// GPU.
    pub ranks_per_process: Option<u32>,
    /// How to measure.
    pub method: Method,
    /// How often each call is measured, libraries taking turns; the median counts.
    pub repeats: u32,
    /// How often all of that is done, each time with other workers and another library first; the
    /// median of all counts.
    pub orders: u32,
    /// How often all calls are measured, one round after the other; without a number, until
    /// somebody ends it.
    pub cycles: Option<u32>,
    /// How long joining, and each measurement, may take.
    pub timeout: Duration,
    /// A program that calls [`crate::serve`] with its standard input, and its arguments.
    pub worker: (PathBuf, Vec<OsString>),
}

impl Plan {
    /// The ranks of each process.
    pub fn groups(&self) -> Vec<Vec<u32>> {
        let ranks: Vec<u32> = (0..self.ranks).collect();
        let gpus = self.machine.gpus().unwrap_or(self.ranks).clamp(1, self.ranks.max(1));
        match self.ranks_per_process {
            Some(several) => ranks.chunks(several.max(1) as usize).map(<[u32]>::to_vec).collect(),
            None => (0..gpus)
                .map(|first| (first..self.ranks).step_by(gpus as usize).collect())
                .collect(),
        }
    }
}

/// Whoever follows what becomes of libraries.
pub trait SessionObserver {
    /// A process printed a line; `rank` is its first rank.
    fn line(&mut self, library: &str, rank: u32, line: &str);
    /// A library is out.
    fn lost(&mut self, library: &str, reason: &str);
}

/// What came of a call whose bits are compared.
pub(crate) enum CompareOutcome {
    /// What each rank found.
    Answered(Vec<Compared>),
    /// The library made no such call, for this reason.
    Refused(String),
    /// The library is out.
    Out,
}

/// A library, its workers, and what is known of it.
pub(crate) struct LibrarySession<'a> {
    plan: &'a Plan,
    group: Option<&'a ProcessGroup>,
    tested: &'a LibraryUnderTest,
    pool: Option<WorkerPool>,
    pub(crate) report: LibraryReport,
}

impl<'a> LibrarySession<'a> {
    /// Nobody, yet.
    pub(crate) fn new(
        plan: &'a Plan,
        group: Option<&'a ProcessGroup>,
        tested: &'a LibraryUnderTest,
    ) -> Self {
        let mut report = LibraryReport::new(&tested.name, &tested.path);
        report.registration = tested.registration;
        Self { plan, group, tested, pool: None, report }
    }

    /// Starts the workers and makes the ranks join. A library that refuses is out.
    pub(crate) fn join(&mut self, observer: &mut dyn SessionObserver) {
        if let Err(reason) = self.try_join(observer) {
            self.lose(reason, observer);
        }
    }

    fn try_join(&mut self, observer: &mut dyn SessionObserver) -> Result<(), String> {
        let plan = self.plan;
        let (groups, meeting) = match self.group {
            None => (plan.groups(), None),
            Some(group) => {
                let meeting = group.meeting().map_err(|error| error.to_string())?;
                (vec![vec![group.rank()]], Some(meeting.to_string()))
            }
        };
        let pool = WorkerPool::start(&self.launch(), &groups);
        let pool = match self.group {
            None => pool,
            Some(group) => group.fail_together(pool).map(|pool| pool.with_alarm(group.alarm())),
        };
        self.pool = Some(pool.map_err(|error| error.to_string())?);
        let library = self.tested.path.clone();
        let capacity_bytes = plan.cases.iter().map(Case::stride_bytes).max().unwrap_or(0);
        let open = |rank| Request::Open {
            library: library.clone(),
            place: plan.machine.place(rank),
            rank,
            ranks: plan.ranks,
            capacity_bytes,
            registration: self.tested.registration,
            meeting: meeting.clone(),
        };
        let opened = self.ask(open, observer).map_err(Failure::into_text)?;
        self.report.version = opened.iter().find_map(Answer::version);
        self.report.reports_what_serves = opened.iter().all(Answer::reports_what_serves);
        self.meet(observer)
    }

    /// Makes the ranks find one another.
    fn meet(&mut self, observer: &mut dyn SessionObserver) -> Result<(), String> {
        let made = self.ask_first(&Request::MakeId, observer).map_err(Failure::into_text)?;
        let id = made.id().ok_or("rank 0 made no unique id")?;
        let joined = self.ask(|_| Request::Join { id: id.clone() }, observer);
        let joined = joined.map_err(Failure::into_text)?;
        self.report.init_us = joined.iter().filter_map(Answer::init_us).collect();
        Ok(())
    }

    fn launch(&self) -> Launch {
        let (program, arguments) = self.plan.worker.clone();
        let mut environment = self.tested.environment.clone();
        if self.plan.machine.place(0) == Place::Host {
            // Ours would choose a GPU, if there is one.
            environment.push(("MSCCL_DEVICE".into(), "host".into()));
        }
        Launch { program, arguments, environment }
    }

    /// Whether the library is out.
    pub(crate) fn is_out(&self) -> bool {
        self.pool.is_none()
    }

    /// Measures a call.
    pub(crate) fn measure(
        &mut self,
        case: Case,
        placement: Placement,
        method: Method,
        observer: &mut dyn SessionObserver,
    ) -> Outcome {
        if self.pool.is_none() {
            return Outcome::Out;
        }
        match self.ask(|_| Request::Measure { case, placement, method }, observer) {
            Ok(answers) => {
                let samples = answers.into_iter().filter_map(Answer::sample).collect();
                Outcome::Measured(Measurement { samples, served_by: None })
            }
            Err(Failure::Refused(reason)) => Outcome::Refused(reason),
            Err(Failure::Lost(reason)) => {
                self.lose(reason, observer);
                Outcome::Out
            }
        }
    }

    /// Makes a call on all ranks and compares its bits with those of earlier calls.
    pub(crate) fn compare(
        &mut self,
        piece: Piece,
        placement: Placement,
        observer: &mut dyn SessionObserver,
    ) -> CompareOutcome {
        if self.is_out() {
            return CompareOutcome::Out;
        }
        let method = self.plan.method;
        match self.ask(|_| Request::Compare { piece, placement, method }, observer) {
            Ok(ranks) => {
                CompareOutcome::Answered(ranks.into_iter().filter_map(Answer::compared).collect())
            }
            Err(Failure::Refused(reason)) => CompareOutcome::Refused(reason),
            Err(Failure::Lost(reason)) => {
                self.lose(reason, observer);
                CompareOutcome::Out
            }
        }
    }

    /// The candidates for such calls, first the one that does serve them. A library that
    /// cannot say is out.
    pub(crate) fn choices(
        &mut self,
        case: Case,
        placement: Placement,
        observer: &mut dyn SessionObserver,
    ) -> Vec<Offer> {
        let answer = self.ask_first(&Request::Choices { case, placement }, observer);
        let choices = answer.map(|answer| answer.choices().unwrap_or_default());
        choices.unwrap_or_else(|failure| {
            self.lose(failure.into_text(), observer);
            Vec::new()
        })
    }

    /// What serves such calls, if the library can say.
    pub(crate) fn served(
        &mut self,
        case: Case,
        placement: Placement,
        observer: &mut dyn SessionObserver,
    ) -> Option<Served> {
        if !self.report.reports_what_serves {
            return None;
        }
        match self.ask_first(&Request::Served { case, placement }, observer) {
            Ok(answer) => answer.served().and_then(|choice| Served::parse(&choice)),
            Err(failure) => {
                self.lose(failure.into_text(), observer);
                None
            }
        }
    }

    /// Lets `choice` serve every call from now on, or what the library chooses itself.
    ///
    /// # Errors
    ///
    /// The library would not; if it is out after that, the observer knows.
    pub(crate) fn pin(
        &mut self,
        choice: Option<&str>,
        observer: &mut dyn SessionObserver,
    ) -> Result<(), String> {
        let request = |_| Request::Pin { choice: choice.map(str::to_owned) };
        match self.ask(request, observer) {
            Ok(_) => Ok(()),
            Err(Failure::Refused(reason)) => Err(reason),
            Err(Failure::Lost(reason)) => {
                self.lose(reason.clone(), observer);
                Err(reason)
            }
        }
    }

    /// A communicator in place of one that may have failed. A library that refuses is out.
    pub(crate) fn rejoin(&mut self, observer: &mut dyn SessionObserver) {
        if self.is_out() {
            return;
        }
        let met = match self.ask(|_| Request::Leave, observer) {
            Err(Failure::Lost(reason)) => Err(reason),
            // What has failed may well say so once more.
            Ok(_) | Err(Failure::Refused(_)) => self.meet(observer),
        };
        if let Err(reason) = met {
            self.lose(reason, observer);
        }
    }

    /// Ends communicators and workers, if there are any.
    pub(crate) fn leave(&mut self, observer: &mut dyn SessionObserver) {
        if self.pool.is_none() {
            return;
        }
        if let Err(failure) = self.try_leave(observer) {
            let doing = "at the end, after everything was measured";
            self.lose(format!("{doing}: {}", failure.into_text()), observer);
        }
    }

    /// Ends the communicators, and then the workers, which a library may keep from ending.
    fn try_leave(&mut self, observer: &mut dyn SessionObserver) -> Result<(), Failure> {
        let left = self.ask(|_| Request::Leave, observer)?;
        self.report.destroy_us = left.iter().filter_map(Answer::destroy_us).collect();
        let pool = self.pool.as_mut().ok_or_else(Failure::nobody)?;
        let name = &self.tested.name;
        let mut listener = |rank: u32, line: &str| observer.line(name, rank, line);
        let dismissed = pool.dismiss(self.plan.timeout, &mut listener);
        self.of_all(dismissed).verdict().map(|_| ())
    }

    /// The answers of all ranks.
    fn ask(
        &mut self,
        request: impl Fn(u32) -> Request,
        observer: &mut dyn SessionObserver,
    ) -> Result<Vec<Answer>, Failure> {
        let pool = self.pool.as_mut().ok_or_else(Failure::nobody)?;
        let name = &self.tested.name;
        let mut listener = |rank: u32, line: &str| observer.line(name, rank, line);
        let tally = pool.ask(request, self.plan.timeout, &mut listener);
        self.of_all(tally).verdict()
    }

    /// The answer of rank 0.
    fn ask_first(
        &mut self,
        request: &Request,
        observer: &mut dyn SessionObserver,
    ) -> Result<Answer, Failure> {
        let pool = self.pool.as_mut().ok_or_else(Failure::nobody)?;
        let name = &self.tested.name;
        let mut listener = |rank: u32, line: &str| observer.line(name, rank, line);
        let tally = pool.ask_first(request, self.plan.timeout, &mut listener);
        let answers = self.of_all(tally).verdict()?;
        answers.into_iter().next().ok_or_else(Failure::nobody)
    }

    /// What came of a request on all ranks, where `mine` is what came of it in this process.
    fn of_all(&self, mine: Tally) -> Tally {
        let Some(group) = self.group else { return mine };
        match group.exchange_outcomes(&mine, !mine.is_good()) {
            Ok(tallies) => tallies.into_iter().fold(Tally::default(), Tally::and),
            Err(error) => mine.and(Tally::lost(group.rank(), error.to_string())),
        }
    }

    fn lose(&mut self, reason: String, observer: &mut dyn SessionObserver) {
        self.pool = None;
        observer.lost(&self.tested.name, &reason);
        self.report.loss = Some(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Gpu;
    use crate::sample_report::plan;

    fn check(ranks: u32, gpus: u32, ranks_per_process: Option<u32>, expected: &[&[u32]]) {
        let gpu =
            |ordinal| Gpu { ordinal, name: String::new(), bus_id: String::new(), capability: 90 };
        let machine = match gpus {
            0 => Machine::Host { reason: None },
            gpus => Machine::Gpus((0..gpus).map(gpu).collect()),
        };
        let plan = Plan { ranks, machine, ranks_per_process, ..plan() };
        assert_eq!(plan.groups(), expected, "{ranks} ranks, {gpus} GPUs, {ranks_per_process:?}");
    }

    #[test]
    fn ranks_that_share_a_gpu_share_a_process() {
        check(3, 0, None, &[&[0], &[1], &[2]]);
        check(2, 8, None, &[&[0], &[1]]);
        check(3, 2, None, &[&[0, 2], &[1]]);
        check(3, 1, None, &[&[0, 1, 2]]);
        check(3, 1, Some(1), &[&[0], &[1], &[2]]);
        check(5, 8, Some(2), &[&[0, 1], &[2, 3], &[4]]);
    }
}

//! Groups: calls gathered on a thread, taken up together at the outermost end.
//!
//! * Groups nest; only the outermost end does anything.
//! * Operations that make or end communicators ([`CommunicatorTask`]) run first, each on a thread
//!   of its own, and are joined; then all calls are submitted together.
//! * The first failure of any call in a group is kept: the end returns it, and of the group only
//!   what frees communicators still happens.
//! * A group that was open when the process was forked stays its parent's: in the fork there is
//!   none.
//! * A group of non-blocking communicators goes on in the background and its end says so, if there
//!   is something to wait for.

use std::cell::RefCell;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;
use std::thread;

use msccl_runtime::{AdmittedCall, Batch, Communicator, PlaceOfRank, submit};

use crate::abi::{Code, Outcome};
use crate::comm::Comm;
use crate::fault::Fault;
use crate::guard::contain;
use crate::process::Process;
use crate::profiler::{self, Closing};
use crate::task::CommunicatorTask;

/// What a thread has gathered.
#[derive(Default)]
struct Group {
    depth: u32,
    work: Work,
    failure: Option<Fault>,
    blocking: Option<bool>,
    /// The process that began it.
    maker: Option<Process>,
    /// The process that had begun a group which this one, its fork, has left alone.
    abandoned: Option<Process>,
}

/// What happens at the outermost end.
#[derive(Default)]
struct Work {
    tasks: Vec<CommunicatorTask>,
    calls: Vec<(Arc<Comm>, AdmittedCall)>,
}

thread_local! {
    /// Never dropped, and so there to the last: C++ programs end their communicators from
    /// destructors that run when the thread's other locals are gone.
    static GROUP: ManuallyDrop<RefCell<Group>> = ManuallyDrop::default();
}

fn with_group<T>(body: impl FnOnce(&mut Group) -> T) -> T {
    GROUP.with(|group| {
        let mut group = group.borrow_mut();
        group.leave_alone_what_is_the_parents();
        body(&mut group)
    })
}

impl Group {
    /// In a fork, what its parent had gathered is not done, and not freed either.
    fn leave_alone_what_is_the_parents(&mut self) {
        let Some(maker) = self.maker.filter(|maker| *maker != Process::current()) else { return };
        let fresh = Self { abandoned: Some(maker), ..Self::default() };
        mem::forget(mem::replace(self, fresh));
    }
}

/// A group begins.
pub fn start() {
    with_group(|group| {
        group.depth += 1;
        group.maker = Some(Process::current());
    });
}

/// The failure of a call ends the group, if one is open.
pub fn latch(fault: &Fault) {
    with_group(|group| {
        if group.depth > 0 {
            group.failure.get_or_insert_with(|| fault.clone());
        }
    });
}

/// A group ends.
///
/// # Errors
///
/// None was begun; a call in it failed; or what it gathered does.
pub fn end() -> Result<Outcome, Fault> {
    match leave()? {
        None => Ok(Outcome::Done),
        Some(Group { failure, blocking, work, .. }) => profiled(|| match failure {
            Some(fault) => {
                work.cancel();
                Err(fault.during("GroupEnd : nothing was executed, since a call failed"))
            }
            None => work.take_up(blocking),
        }),
    }
}

/// The outermost end of a group, or a call alone, as a profiler plugin sees it.
pub fn profiled(end: impl FnOnce() -> Result<Outcome, Fault>) -> Result<Outcome, Fault> {
    profiler::group_end_begins();
    let ended = end();
    profiler::group_end_stops(match &ended {
        Ok(Outcome::InProgress) => Closing::InProgress,
        Ok(Outcome::Done) | Err(_) => Closing::Settled,
    });
    ended
}

/// How many groups are open on this thread, each in the one before.
pub fn depth() -> u32 {
    with_group(|group| group.depth)
}

/// A group ends without being executed; what frees communicators still happens. Gives the time in
/// µs that its calls would have taken, if there are any and the cost model knows all of them: those
/// of one communicator one after another, those of several side by side.
///
/// # Errors
///
/// None was begun, a call in it failed, or it was to make a communicator.
pub fn simulate() -> Result<Option<f64>, Fault> {
    let Some(Group { work, failure, .. }) = leave()? else { return Ok(None) };
    profiler::group_end_begins();
    profiler::group_end_stops(Closing::Settled);
    let makes = work.tasks.iter().any(CommunicatorTask::makes_communicator);
    let text = "GroupSimulateEnd : no communicator is made in a group that is not executed";
    let failure = failure.or_else(|| makes.then(|| Fault::usage(text)));
    let estimate_us = if failure.is_none() { contain(|| Ok(work.estimate_us()))? } else { None };
    work.cancel();
    failure.map_or(Ok(estimate_us), Err)
}

/// Leaves one group; what was gathered, if it was the outermost.
fn leave() -> Result<Option<Group>, Fault> {
    with_group(|group| {
        if let (0, Some(maker)) = (group.depth, group.abandoned.take()) {
            maker.check("GroupEnd", "group")?;
        }
        if group.depth == 0 {
            return Err(Fault::usage("GroupEnd : not in a group call: ncclGroupStart comes first"));
        }
        group.depth -= 1;
        Ok((group.depth == 0).then(|| mem::take(group)))
    })
}

/// Takes up `task`: now, or at the end of the open group. One that the group does not take is
/// cancelled.
pub fn launch(task: CommunicatorTask) -> Result<Outcome, Fault> {
    let blocking = task.is_blocking();
    match gather(blocking, |work| &mut work.tasks, task) {
        Gathered::Kept => Ok(Outcome::Done),
        Gathered::NoGroup(task) => Work { tasks: vec![task], calls: Vec::new() }.take_up(blocking),
        Gathered::Refused(task) => {
            task.cancel();
            Err(mixed())
        }
    }
}

/// Takes up `call` on `comm`, of which `communicator` is the runtime's and has admitted it: now, or
/// at the end of the open group.
pub fn call(
    comm: Arc<Comm>,
    communicator: Communicator,
    call: AdmittedCall,
) -> Result<Outcome, Fault> {
    let blocking = comm.config.blocking;
    if blocking && !is_open() {
        communicator.submit_admitted(&[call])?;
        return Ok(Outcome::Done);
    }
    match gather(Some(blocking), |work| &mut work.calls, (comm, call)) {
        Gathered::Kept => Ok(Outcome::Done),
        Gathered::NoGroup(call) => Work { tasks: Vec::new(), calls: vec![call] }.run_for_polling(),
        Gathered::Refused(_) => Err(mixed()),
    }
}

/// Whether a group is open on this thread.
fn is_open() -> bool {
    depth() > 0
}

/// What became of something that was to go into the open group.
enum Gathered<T> {
    /// It is in there.
    Kept,
    /// None is open.
    NoGroup(T),
    /// The rest of the group blocks, and this does not, or the other way round.
    Refused(T),
}

/// Puts `item` into the open group.
fn gather<T>(
    blocking: Option<bool>,
    list: impl FnOnce(&mut Work) -> &mut Vec<T>,
    item: T,
) -> Gathered<T> {
    with_group(|group| {
        if group.depth == 0 {
            return Gathered::NoGroup(item);
        }
        group.blocking = group.blocking.or(blocking);
        if blocking.is_some() && group.blocking != blocking {
            return Gathered::Refused(item);
        }
        list(&mut group.work).push(item);
        Gathered::Kept
    })
}

fn mixed() -> Fault {
    let text = "Blocking and nonblocking communicators are not allowed in the same group";
    Fault::argument(text)
}

impl Work {
    /// Does everything as its communicators want it.
    fn take_up(self, blocking: Option<bool>) -> Result<Outcome, Fault> {
        match blocking {
            Some(false) => self.run_for_polling(),
            Some(true) | None => self.run().map(|()| Outcome::Done),
        }
    }

    /// Does everything, and returns when it is done or taken up. What ends communicators happens
    /// whatever came before.
    fn run(self) -> Result<(), Fault> {
        let (ends, makes): (Vec<_>, Vec<_>) =
            self.tasks.into_iter().partition(CommunicatorTask::is_end);
        let result = run_tasks(makes).and_then(|()| submit_calls(self.calls));
        if !ends.is_empty() {
            // The event of the group is of a communicator that may end here.
            profiler::group_end_stops(Closing::Settled);
        }
        let ended = run_tasks(ends);
        result.and(ended)
    }

    /// For callers that poll: what may take long goes on in the background.
    fn run_for_polling(self) -> Result<Outcome, Fault> {
        // On a GPU, calls belong into the caller's stream before this returns, and return soon.
        let host = |(comm, _): &(Arc<Comm>, AdmittedCall)| matches!(comm.place, PlaceOfRank::Host);
        if self.tasks.is_empty() && !self.calls.iter().any(host) {
            return self.run().map(|()| Outcome::Done);
        }
        // The event of the group is of a communicator that may end in the background.
        profiler::group_end_stops(Closing::InProgress);
        let comms = self.comms();
        comms.iter().for_each(|comm| comm.begin());
        let settle = comms.clone();
        let background = move || {
            let result = contain(|| self.run());
            settle.iter().for_each(|comm| comm.end(result.clone()));
        };
        match thread::Builder::new().name("nccl-background".to_owned()).spawn(background) {
            Ok(_) => Ok(Outcome::InProgress),
            Err(error) => {
                let fault = no_thread(&error);
                comms.iter().for_each(|comm| comm.end(Err(fault.clone())));
                Err(fault)
            }
        }
    }

    /// What its calls would take, in µs.
    fn estimate_us(&self) -> Option<f64> {
        let mut longest_us: Option<f64> = None;
        for comm in self.comms() {
            let communicator = comm.taken_up().ok()?;
            let calls = self.calls.iter().filter(|(of, _)| Arc::ptr_eq(of, &comm));
            let each_us = calls.map(|(_, call)| communicator.estimate_us(call));
            let all_us: f64 = each_us.collect::<Option<Vec<_>>>()?.into_iter().sum();
            longest_us = Some(longest_us.map_or(all_us, |longest_us| longest_us.max(all_us)));
        }
        // Of transfers to windows, and what else comes before the calls, nothing is known.
        let is_all = self.tasks.iter().all(CommunicatorTask::is_end);
        longest_us.filter(|_| is_all && !self.calls.is_empty())
    }

    /// Does nothing but what frees.
    fn cancel(self) {
        self.tasks.into_iter().for_each(CommunicatorTask::cancel);
    }

    /// The communicators that can be asked how far they are, each once.
    fn comms(&self) -> Vec<Arc<Comm>> {
        let of_tasks = self.tasks.iter().filter_map(CommunicatorTask::concerns);
        let of_calls = self.calls.iter().map(|(comm, _)| comm);
        let mut comms: Vec<Arc<Comm>> = Vec::new();
        for comm in of_tasks.chain(of_calls).filter(|comm| !comm.is_gone()) {
            if !comms.iter().any(|known| Arc::ptr_eq(known, comm)) {
                comms.push(Arc::clone(comm));
            }
        }
        comms
    }
}

/// Tasks that run one after another.
type TaskChain = Vec<CommunicatorTask>;

/// `tasks`, those together that must keep their order.
fn chains(tasks: Vec<CommunicatorTask>) -> Vec<TaskChain> {
    let mut chains: Vec<TaskChain> = Vec::new();
    for task in tasks {
        let is_behind = |chain: &&mut TaskChain| {
            let last = chain.last().and_then(CommunicatorTask::is_ordered_on);
            last.zip(task.is_ordered_on()).is_some_and(|(last, of)| Arc::ptr_eq(last, of))
        };
        match chains.iter_mut().find(is_behind) {
            Some(chain) => chain.push(task),
            None => chains.push(vec![task]),
        }
    }
    chains
}

/// Runs the tasks of a chain; after a failure, what is left of it is cancelled.
fn run_chain(chain: TaskChain) -> Result<(), Fault> {
    let mut result = Ok(());
    for task in chain {
        match result {
            Ok(()) => result = task.run(),
            Err(_) => task.cancel(),
        }
    }
    result
}

/// Runs all jobs side by side, but for those that must keep their order: they may wait for one
/// another. The first failure is given, when all have ended.
fn run_tasks(tasks: Vec<CommunicatorTask>) -> Result<(), Fault> {
    let mut chains = chains(tasks);
    let own = chains.pop();
    let run = |chain: TaskChain| {
        thread::Builder::new().name("nccl-task".to_owned()).spawn(|| run_chain(chain))
    };
    let threads: Vec<_> = chains.into_iter().map(run).collect();
    let own = own.map_or(Ok(()), run_chain);
    let results = threads.into_iter().map(|thread| match thread.map(thread::JoinHandle::join) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Fault::internal("a task ended with a panic")),
        Err(error) => Err(no_thread(&error)),
    });
    let results: Vec<_> = results.chain([own]).collect();
    results.into_iter().collect()
}

fn no_thread(error: &std::io::Error) -> Fault {
    Fault::new(Code::SystemError, format!("a thread cannot be started: {error}"))
}

/// Submits `calls`, gathered by communicator in the order in which communicators first come.
fn submit_calls(calls: Vec<(Arc<Comm>, AdmittedCall)>) -> Result<(), Fault> {
    let mut batches: Vec<(Arc<Comm>, Batch)> = Vec::new();
    for (comm, call) in calls {
        match batches.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &comm)) {
            Some((_, batch)) => batch.calls.push(call),
            // One that was aborted since the call has nothing left to be done.
            None if comm.is_gone() => {}
            None => {
                let communicator = comm.taken_up()?;
                batches.push((comm, Batch { communicator, calls: vec![call] }));
            }
        }
    }
    let batches: Vec<_> = batches.into_iter().map(|(_, batch)| batch).collect();
    if batches.is_empty() { Ok(()) } else { Ok(submit(&batches)?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_needs_a_start() {
        assert_eq!(end().unwrap_err().code, Code::InvalidUsage);
        start();
        start();
        assert_eq!(end(), Ok(Outcome::Done));
        assert_eq!(end(), Ok(Outcome::Done));
        assert_eq!(end().unwrap_err().code, Code::InvalidUsage);
    }

    #[test]
    fn failures_are_kept_until_the_outermost_end() {
        start();
        start();
        latch(&Fault::argument("first"));
        latch(&Fault::internal("second"));
        assert_eq!(end(), Ok(Outcome::Done));
        let fault = end().unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument);
        assert!(fault.text.ends_with(" : first"), "{fault}");
        start();
        assert_eq!(end(), Ok(Outcome::Done));
    }

    #[test]
    fn failures_outside_of_groups_are_not_kept() {
        latch(&Fault::argument("alone"));
        start();
        assert_eq!(simulate(), Ok(None));
    }

    #[test]
    fn groups_are_of_one_thread() {
        start();
        let other = thread::spawn(|| end().map_err(|fault| fault.code)).join().unwrap();
        assert_eq!(other, Err(Code::InvalidUsage));
        assert_eq!(end(), Ok(Outcome::Done));
    }
}

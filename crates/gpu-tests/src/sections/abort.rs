//! Giving up: by another thread's abort, and because time is up.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{CollectiveKind, DataType, Rank};
use msccl_runtime::{Buffers, Call, ErrorKind, Event, Operation, Settings};

use super::{Bench, Section};
use crate::Trouble;
use crate::case::Case;
use crate::tally::Tally;
use crate::world::{RankWorker, World, is_kind, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "abort",
    about: "waiting ranks give up when aborted or when time is up, and name who is missing",
    run,
};

/// How long giving up may take.
const SOON: Duration = Duration::from_secs(10);

fn run(bench: &Bench, tally: &mut Tally) {
    let waits: &[(&str, Wanting)] = &[("a collective", collective), ("a receive", receive)];
    for (name, wanting) in waits {
        let join = || bench.world(&settings());
        let Some(mut world) = tally.need(|| "a world".to_owned(), join) else { return };
        tally.check(|| format!("{name} is aborted"), || aborted(&mut world, *wanting));
        tally.check(|| format!("{name} after an abort"), || refuses(&mut world, *wanting));
        drop(world);
        let hurried = Settings { timeout: Some(Duration::from_secs(1)), ..settings() };
        let join = || bench.world(&hurried);
        let Some(mut world) = tally.need(|| "a hurried world".to_owned(), join) else { return };
        tally.check(|| format!("{name} times out"), || timed_out(&mut world, *wanting));
    }
    tally.check(
        || "a new world afterwards".to_owned(),
        || bench.world(&settings())?.run(&Case::of(CollectiveKind::AllReduce), ""),
    );
}

/// What a rank waits for in vain: rank 0 never calls.
type Wanting = fn(&RankWorker) -> Call;

fn collective(worker: &RankWorker) -> Call {
    Call { operation: Operation::AllGather, ..receive(worker) }
}

fn receive(worker: &RankWorker) -> Call {
    let (data_type, count, stream) = (DataType::F32, 1000, worker.stream());
    let base = worker.memory.address();
    let operation = Operation::Receive(Rank(0));
    let buffers = Buffers { send: base, receive: base + 4096, stream };
    Call { operation, data_type, count, buffers }
}

/// Gives every rank memory for its call.
fn prepare(world: &mut World) -> Result<(), Trouble> {
    let bytes = vec![0; 4096 * (world.workers.len() + 2)];
    world.on_all(|worker| worker.memory.write(&bytes)).map(drop)
}

/// What came of a call that is made by all ranks but rank 0.
fn wait_in_vain(worker: &RankWorker, wanting: Wanting) -> Result<Option<Trouble>, Trouble> {
    if worker.rank == Rank(0) {
        return Ok(None);
    }
    let call = wanting(worker);
    let outcome = worker.submit(&[call]).and_then(|()| worker.wait());
    outcome.err().map_or_else(|| Err("the call succeeded".into()), |error| Ok(Some(error)))
}

/// Ranks that wait for others notice their abort, perhaps before their own.
fn all_aborted(answers: Vec<Option<Trouble>>) -> Result<(), Trouble> {
    for error in answers.into_iter().flatten() {
        if !is_kind(&error, ErrorKind::Aborted) && !is_kind(&error, ErrorKind::Remote) {
            return Err(format!("expected to be aborted, found: {error}").into());
        }
    }
    Ok(())
}

fn aborted(world: &mut World, wanting: Wanting) -> Result<(), Trouble> {
    prepare(world)?;
    let communicators: Vec<_> =
        world.workers.iter().map(|worker| worker.communicator.clone()).collect();
    let waiting = Barrier::new(world.workers.len() + 1);
    let (answers, took) = thread::scope(|scope| {
        let aborter = scope.spawn(|| {
            waiting.wait();
            thread::sleep(Duration::from_millis(300));
            communicators.iter().for_each(|communicator| communicator.abort("the test says so"));
            Instant::now()
        });
        let answers = world.on_all(|worker| {
            waiting.wait();
            wait_in_vain(worker, wanting)
        });
        (answers, aborter.join().map(|aborted| aborted.elapsed()))
    });
    all_aborted(answers?)?;
    let took = took.map_err(|_| "the thread that aborts panicked")?;
    if took < SOON { Ok(()) } else { Err(format!("giving up took {took:?}").into()) }
}

/// An aborted communicator refuses calls at once.
fn refuses(world: &mut World, wanting: Wanting) -> Result<(), Trouble> {
    let answers = world.on_all(|worker| Ok(worker.submit(&[wanting(worker)]).err()))?;
    match answers.iter().all(Option::is_some) {
        true => all_aborted(answers),
        false => Err("a call was accepted".into()),
    }
}

/// The calls end by themselves, and the hang report names the missing rank.
fn timed_out(world: &mut World, wanting: Wanting) -> Result<(), Trouble> {
    prepare(world)?;
    let start = Instant::now();
    let answers = world.on_all(|worker| wait_in_vain(worker, wanting))?;
    if start.elapsed() > SOON {
        return Err(format!("it took {:.1} s", start.elapsed().as_secs_f64()).into());
    }
    let failures = world.workers.iter().filter_map(|worker| worker.communicator.error());
    let failures: Vec<_> = failures.collect();
    if !failures.iter().any(|error| error.kind() == ErrorKind::TimedOut) {
        return Err(format!("no rank says that time is up: {failures:?}, {answers:?}").into());
    }
    let reports = world.event_log.collect(|event| match event {
        Event::HangReport(text) => Some(text.clone()),
        _ => None,
    });
    match reports.iter().any(|report| report.contains("r0")) {
        true => Ok(()),
        false => Err(format!("no hang report names r0: {reports:?}").into()),
    }
}

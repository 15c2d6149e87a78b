//! Calls that are wrong: refused, or reported when ranks compare them; never carried out, never a
//! hang.

use std::time::{Duration, Instant};

use msccl_collective::{CollectiveKind, DataType, Rank, Reduction};
use msccl_runtime::{Call, Combine, ErrorKind, Operation, Settings};

use super::{Bench, Section};
use crate::Trouble;
use crate::case::Case;
use crate::tally::Tally;
use crate::world::{RankWorker, World, is_kind, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "wrong-calls",
    about: "wrong arguments refused; mismatched ones reported when ranks compare them",
    run,
};

/// How long a mismatch may take to be noticed.
const SOON: Duration = Duration::from_secs(15);

fn run(bench: &Bench, tally: &mut Tally) {
    let join = || bench.world(&settings());
    if let Some(mut world) = tally.need(|| "a world".to_owned(), join) {
        for (name, change) in REFUSED {
            tally.check(|| (*name).to_owned(), || refused(&mut world, *change));
        }
        tally.check(
            || "a right call afterwards".to_owned(),
            || world.run(&Case::of(CollectiveKind::AllReduce), ""),
        );
    }
    for (name, change) in MISMATCHED {
        let join = || bench.world(&Settings { check: true, ..settings() });
        let Some(mut world) = tally.need(|| "a world that checks".to_owned(), join) else { return };
        tally.check(
            || "a right call".to_owned(),
            || world.run(&Case::of(CollectiveKind::AllReduce), ""),
        );
        tally.check(|| (*name).to_owned(), || mismatched(&mut world, *change));
    }
}

type Change = fn(&mut Call);

/// What a communicator refuses outright.
const REFUSED: &[(&str, Change)] = &[
    ("a root beyond the ranks", |call| call.operation = Operation::Broadcast(Rank(1000))),
    ("a peer beyond the ranks", |call| call.operation = Operation::Send(Rank(1000))),
    ("a count beyond memory", |call| call.count = u64::MAX / 2),
];

/// What ranks can disagree about; rank 0 is another opinion.
const MISMATCHED: &[(&str, Change)] = &[
    ("counts that differ", |call| call.count -= 1),
    ("types that differ", |call| call.data_type = DataType::I32),
    ("reductions that differ", |call| {
        call.operation = Operation::AllReduce(Combine::Plain(Reduction::Max));
    }),
    ("collectives that differ", |call| call.operation = Operation::Broadcast(Rank(0))),
];

/// Every rank makes a call that is wrong in itself.
fn refused(world: &mut World, change: Change) -> Result<(), Trouble> {
    let trial = world.trial(&[Case::of(CollectiveKind::AllReduce)], "")?;
    world.load(&trial)?;
    world.on_all(|worker| {
        let mut calls = worker.calls(&trial);
        calls.iter_mut().for_each(change);
        match worker.submit(&calls) {
            Ok(()) => Err("the call was accepted".into()),
            Err(error) if is_kind(&error, ErrorKind::InvalidArgument) => Ok(()),
            Err(error) => Err(format!("expected an invalid argument, found: {error}").into()),
        }
    })?;
    Ok(())
}

/// Rank 0 makes another call than all others; somebody must say so, soon.
fn mismatched(world: &mut World, change: Change) -> Result<(), Trouble> {
    let trial = world.trial(&[Case::of(CollectiveKind::AllReduce)], "")?;
    let start = Instant::now();
    world.load(&trial)?;
    let answers = world.on_all(|worker| {
        let mut calls = worker.calls(&trial);
        if worker.rank == Rank(0) {
            calls.iter_mut().for_each(change);
        }
        Ok(outcome(worker, &calls))
    })?;
    if start.elapsed() > SOON {
        return Err(format!("it took {:.1} s", start.elapsed().as_secs_f64()).into());
    }
    let is_named = |error: &&Trouble| is_kind(error, ErrorKind::InvalidUsage);
    let errors: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    if errors.iter().any(is_named) {
        return Ok(());
    }
    let found: Vec<_> = errors.iter().map(ToString::to_string).collect();
    Err(format!("expected an invalid usage, found {found:?}").into())
}

fn outcome(worker: &RankWorker, calls: &[Call]) -> Result<(), Trouble> {
    worker.submit(calls)?;
    worker.wait()
}

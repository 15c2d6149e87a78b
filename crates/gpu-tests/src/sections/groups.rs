//! Groups: many calls at once, all ranks from one thread, calls that follow one another without
//! anyone waiting, two communicators, and several streams.

use msccl_collective::{CollectiveKind, DataType};
use msccl_gpu::Stream;
use msccl_runtime::{Batch, PlaceOfRank, submit};

use super::{Bench, Section, every_collective, placements};
use crate::Trouble;
use crate::case::Case;
use crate::random::Random;
use crate::tally::Tally;
use crate::trial::Trial;
use crate::world::{RankWorker, World, raw, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "groups",
    about: "calls in groups, from one thread, in sequence without waiting, in several streams",
    run,
};

fn run(bench: &Bench, tally: &mut Tally) {
    let join = || bench.world(&settings());
    let Some(mut world) = tally.need(|| "a world".to_owned(), join) else { return };
    let mut random = Random::new(bench.seed);
    for round in 0..bench.number(60, 8) {
        let cases = random_cases(bench, &mut random);
        let Some(trial) = tally.need(|| "a trial".to_owned(), || world.trial(&cases, "")) else {
            return;
        };
        let name = |how: &str| format!("round {round}, {how}: {}", trial.describe());
        tally.check(|| name("as one group"), || world.run_trial(&trial, RankWorker::submit));
        tally.check(|| name("one by one"), || world.run_trial(&trial, one_by_one));
        tally.check(|| name("from one thread"), || from_one_thread(&mut world, &trial));
        if bench.machine.has_gpus() {
            tally.check(|| name("in two streams"), || in_two_streams(&mut world, &trial));
        }
        if world.has_failed() {
            return;
        }
    }
    two_communicators(bench, &mut world, tally);
}

/// Two to six calls of any kind.
fn random_cases(bench: &Bench, random: &mut Random) -> Vec<Case> {
    let collectives = every_collective(bench.ranks);
    let case = |_| {
        let kind = collectives[random.below(collectives.len())];
        let places = placements(kind);
        Case {
            count: [0, 1, 100, 5003, 90_001][random.below(5)],
            data_type: DataType::ALL[random.below(DataType::ALL.len())],
            in_place: places[random.below(places.len())],
            seed: random.next(),
            ..Case::of(kind)
        }
    };
    let calls = 2 + bench.seed as usize % 3;
    (0..calls + 2).map(case).collect()
}

fn one_by_one(worker: &RankWorker, calls: &[msccl_runtime::Call]) -> Result<(), Trouble> {
    calls.iter().try_for_each(|call| worker.submit(&[*call]))
}

/// The calls of all ranks in a single group, as a program with one thread for many GPUs makes them.
fn from_one_thread(world: &mut World, trial: &Trial) -> Result<(), Trouble> {
    world.load(trial)?;
    let batch = |worker: &RankWorker| Batch::new(worker.communicator.clone(), &worker.calls(trial));
    submit(&world.workers.iter().map(batch).collect::<Result<Vec<_>, _>>()?)?;
    world.on_all(|worker| worker.wait())?;
    world.check(trial)
}

/// Every second call in another stream; the order of the calls stays.
fn in_two_streams(world: &mut World, trial: &Trial) -> Result<(), Trouble> {
    world.load(trial)?;
    world.on_all(|worker| {
        let PlaceOfRank::Gpu(context) = &worker.place else { return Ok(()) };
        let other = Stream::new(context)?;
        for (number, mut call) in worker.calls(trial).into_iter().enumerate() {
            if number % 2 == 1 {
                call.buffers.stream = raw(Some(&other));
            }
            worker.submit(&[call])?;
        }
        worker.wait()?;
        Ok(other.borrow().synchronize()?)
    })?;
    world.check(trial)
}

/// Calls of two communicators of the same ranks in one group.
fn two_communicators(bench: &Bench, first: &mut World, tally: &mut Tally) {
    let join = || bench.world(&settings());
    let Some(mut second) = tally.need(|| "a second world".to_owned(), join) else { return };
    let name = || "two communicators in one group".to_owned();
    tally.check(name, || {
        let trial = first.trial(
            &[Case::of(CollectiveKind::AllReduce), Case::of(CollectiveKind::AllGather)],
            "",
        )?;
        first.load(&trial)?;
        second.load(&trial)?;
        let other = second.workers.iter().map(|worker| batch(worker, &trial));
        let other = other.collect::<Result<Vec<_>, _>>()?;
        first.on_all(|worker| {
            Ok(submit(&[batch(worker, &trial)?, other[worker.rank.index()].clone()])?)
        })?;
        first.on_all(|worker| worker.wait())?;
        second.on_all(|worker| worker.wait())?;
        first.check(&trial)?;
        second.check(&trial)
    });
}

fn batch(worker: &RankWorker, trial: &Trial) -> Result<Batch, msccl_runtime::Error> {
    Batch::new(worker.communicator.clone(), &worker.calls(trial))
}

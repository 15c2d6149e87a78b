//! Ranks that end their communicators as soon as their own calls are done, while peers may still be
//! in theirs.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use msccl_collective::{CollectiveKind, DataType, Rank};

use super::{Bench, Section};
use crate::Trouble;
use crate::case::Case;
use crate::hosts::Hosts;
use crate::tally::Tally;
use crate::trial::Trial;
use crate::world::{RankWorker, World, on_threads, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "endings",
    about: "ranks abort or end when their own calls are done: no call of a peer fails",
    run,
};

/// How a rank ends its communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Abort,
    Destroy,
}

/// How long after the others the last rank comes to its calls.
const LATE: Duration = Duration::from_millis(20);

/// Elements of a block.
const COUNTS: [usize; 4] = [1, 1003, 70_001, 1 << 20];

fn run(bench: &Bench, tally: &mut Tally) {
    let places = [Hosts::ONE, Hosts::pretended(2)];
    for hosts in places.into_iter().filter(|hosts| hosts.count <= bench.ranks) {
        for (ending, jobs) in [(Ending::Abort, 200), (Ending::Destroy, 40)] {
            for number in 0..bench.number(jobs, jobs / 10) {
                let name = || format!("{ending:?} number {number}, ranks on {} hosts", hosts.count);
                tally.check(name, || job(bench, hosts, ending, number));
            }
        }
    }
}

/// A communicator, two calls on it, and its end on every rank by itself.
fn job(bench: &Bench, hosts: Hosts, ending: Ending, number: usize) -> Result<(), Trouble> {
    let ranks = bench.ranks;
    let mut world = World::join_on(hosts, &bench.machine, ranks, &settings(), &Arc::default())?;
    let trial = world.trial(&cases(ranks, number), "")?;
    world.load(&trial)?;
    let (trial, late) = (&trial, Rank((number % ranks as usize) as u32));
    let workers = mem::take(&mut world.workers).into_iter();
    let live = |worker: RankWorker| move || live(worker, trial, late, ending);
    let mut troubles = on_threads(workers.map(live)).into_iter().filter_map(Result::err);
    troubles.next().map_or(Ok(()), Err)
}

/// A call that all ranks need, and one after which most are done early.
fn cases(ranks: u32, number: usize) -> Vec<Case> {
    let root = Rank((number / 3 % ranks as usize) as u32);
    let last =
        [CollectiveKind::Broadcast(root), CollectiveKind::Reduce(root), CollectiveKind::AllGather]
            [number % 3];
    let of = |kind, count| Case { count, data_type: DataType::F32, ..Case::of(kind) };
    vec![of(CollectiveKind::AllReduce, 1003), of(last, COUNTS[number % COUNTS.len()])]
}

fn live(worker: RankWorker, trial: &Trial, late: Rank, ending: Ending) -> Result<(), Trouble> {
    if worker.rank == late {
        thread::sleep(LATE);
    }
    let rank = worker.rank;
    let failed = |error: Trouble| Trouble::from(format!("{rank}: {error}"));
    worker.submit(&worker.calls(trial)).and_then(|()| worker.wait()).map_err(failed)?;
    // The stream goes last, as a program's would.
    let RankWorker { communicator, memory, stream, .. } = worker;
    match ending {
        Ending::Abort => communicator.abort("its calls are done"),
        Ending::Destroy => {}
    }
    drop(communicator);
    let found = memory.read(trial.sheet(rank).bytes.len())?;
    drop(stream);
    trial.check(rank, &found)
}

//! Two communicators whose calls ranks begin in orders of their own.
//!
//! On a GPU that some rank has reached first with one call, every other call must still find room,
//! however many thread blocks the two have and whatever shared memory they take; otherwise ranks
//! wait for one another for ever. So the calls are as wide as the library lets them be, every rank
//! but the last begins with one of them, and the last one, which comes late, with the other.

use std::thread;
use std::time::Duration;

use msccl_collective::{CollectiveKind, DataType, Protocol};
use msccl_runtime::{Choice, Links, Variant};

use super::point_to_point::{Message, MessagesPart};
use super::{Bench, Section};
use crate::Trouble;
use crate::case::Case;
use crate::tally::Tally;
use crate::trial::Trial;
use crate::world::{RankWorker, World, settings, together};

/// The section.
pub const SECTION: Section = Section {
    name: "crossed",
    about: "two communicators whose calls ranks begin in orders of their own, as wide as they come",
    run,
};

/// How much later the last rank comes: the others have begun by then.
const LATE: Duration = Duration::from_millis(3);

/// What is called on a communicator.
pub(super) struct CrossedWork {
    pub name: String,
    calls: Calls,
}

enum Calls {
    /// A collective, and what serves it.
    Collective(Trial, Choice),
    /// Sends and receives, by rank.
    Transfers(Vec<MessagesPart>),
}

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.machine.has_gpus() {
        return tally.skip("a rank on the host goes on when its call is done");
    }
    let join = || Ok((bench.world(&settings())?, bench.world(&settings())?));
    let Some((mut first, mut second)) = tally.need(|| "two worlds".to_owned(), join) else {
        return;
    };
    let Some(works) = tally.need(|| "calls".to_owned(), || works(&mut first)) else { return };
    for work in &works {
        for world in [&mut first, &mut second] {
            // What a call needs for the first time may keep ranks waiting for kernels that run.
            let alone = || alone(world, work);
            tally.check(|| format!("{}, alone", work.name), alone);
        }
    }
    let rounds = bench.number(5, 2);
    for one in &works {
        for other in &works {
            let name = || format!("{} across {}", one.name, other.name);
            let crossed =
                || (0..rounds).try_for_each(|_| crossed(&mut first, &mut second, one, other));
            tally.check(name, crossed);
            if first.has_failed() || second.has_failed() {
                return;
            }
        }
    }
}

/// One call for each kind of kernel: those for small calls, interpreters, one of them with few
/// threads and a warp-specialised one, exchanges by threads and by bulk copies.
pub(super) fn works(world: &mut World) -> Result<Vec<CrossedWork>, Trouble> {
    let packets = |protocol| move |variant: &Variant| variant.protocol == protocol;
    let plain = |links| {
        move |variant: &Variant| variant.protocol == Protocol::Simple && variant.links == links
    };
    let (staged, direct) = (plain(Links::Staged), plain(Links::Direct));
    let narrow = |variant: &Variant| variant.threads <= 128;
    let collectives = [
        collective(world, 4 << 10, packets(Protocol::Ll))?,
        collective(world, 16 << 10, packets(Protocol::Ll128))?,
        collective(world, 1 << 20, narrow)?,
        collective(world, 1 << 20, staged)?,
        collective(world, 8 << 20, staged)?,
        collective(world, 1 << 20, direct)?,
    ];
    let transfers = [100_000, 16 << 20].map(|bytes| transfers(world.ranks(), bytes));
    Ok(collectives.into_iter().flatten().chain(transfers).collect())
}

/// An all-reduce of `count` numbers, served by the variant that `suits` with most thread blocks.
fn collective(
    world: &mut World,
    count: usize,
    suits: impl Fn(&Variant) -> bool,
) -> Result<Option<CrossedWork>, Trouble> {
    let case = Case { count, data_type: DataType::U32, ..Case::of(CollectiveKind::AllReduce) };
    let choices = world.choices(&case).into_iter().filter(|choice| suits(&choice.variant));
    let widest = choices.map(|choice| (world.blocks(&case, &choice), choice));
    let Some((blocks, choice)) = widest.max_by_key(|(blocks, _)| *blocks) else { return Ok(None) };
    let trial = world.trial(&[case], &choice.algorithm)?;
    let name = format!("{count} numbers by {choice} of {blocks} thread blocks");
    Ok(Some(CrossedWork { name, calls: Calls::Collective(trial, choice) }))
}

/// Messages around a ring of `ranks` ranks.
fn transfers(ranks: u32, bytes: usize) -> CrossedWork {
    let messages: Vec<_> =
        (0..ranks).map(|from| Message { from, to: (from + 1) % ranks, bytes }).collect();
    let parts = (0..ranks).map(|rank| MessagesPart::new(&messages, rank, 0));
    CrossedWork {
        name: format!("{bytes} bytes around a ring"),
        calls: Calls::Transfers(parts.collect()),
    }
}

impl CrossedWork {
    pub fn load(&self, worker: &mut RankWorker) -> Result<(), Trouble> {
        match &self.calls {
            Calls::Collective(trial, choice) => {
                worker.communicator.pin(Some(choice.clone()));
                worker.load(trial)
            }
            Calls::Transfers(parts) => parts[worker.rank.index()].load(worker),
        }
    }

    pub fn submit(&self, worker: &RankWorker) -> Result<(), Trouble> {
        match &self.calls {
            Calls::Collective(trial, _) => worker.submit(&worker.calls(trial)),
            Calls::Transfers(parts) => parts[worker.rank.index()].submit(worker),
        }
    }

    pub fn check(&self, worker: &RankWorker) -> Result<(), Trouble> {
        match &self.calls {
            Calls::Collective(trial, _) => worker.check(trial),
            Calls::Transfers(parts) => parts[worker.rank.index()].check_at(worker),
        }
    }
}

/// Makes the calls of `work` while nothing else is on the GPUs.
pub(super) fn alone(world: &mut World, work: &CrossedWork) -> Result<(), Trouble> {
    world.on_all(|worker| work.load(worker))?;
    world.on_all(|worker| work.submit(worker).and_then(|()| worker.wait()))?;
    world.on_all(|worker| work.check(worker)).map(drop)
}

/// Makes the calls of `one` on the first communicator and those of `other` on the second, the last
/// rank the other way round.
fn crossed(
    first: &mut World,
    second: &mut World,
    one: &CrossedWork,
    other: &CrossedWork,
) -> Result<(), Trouble> {
    first.on_all(|worker| one.load(worker))?;
    second.on_all(|worker| other.load(worker))?;
    let workers = first.workers.iter().chain(&second.workers);
    let communicators: Vec<_> = workers.map(|worker| worker.communicator.clone()).collect();
    let last = first.ranks() as usize - 1;
    let mut ranks: Vec<_> = first.workers.iter_mut().zip(&mut second.workers).collect();
    together(&mut ranks, &communicators, |(worker, second_worker)| {
        if worker.rank.index() == last {
            thread::sleep(LATE);
            other.submit(second_worker)?;
            one.submit(worker)?;
        } else {
            one.submit(worker)?;
            other.submit(second_worker)?;
        }
        worker.wait()?;
        second_worker.wait()
    })?;
    first.on_all(|worker| one.check(worker))?;
    second.on_all(|worker| other.check(worker)).map(drop)
}

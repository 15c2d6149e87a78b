//! Communicators made from others: split by color, split with an order, shrunk.

use msccl_collective::{CollectiveKind, Rank};

use super::{Bench, Section, every_collective};
use crate::Trouble;
use crate::case::Case;
use crate::oracle::Oracle;
use crate::tally::Tally;
use crate::world::{RankWorker, World, settings};

/// The section.
pub const SECTION: Section =
    Section { name: "splits", about: "communicators split by color and key, and shrunk", run };

fn run(bench: &Bench, tally: &mut Tally) {
    let join = || bench.world(&settings());
    let Some(mut world) = tally.need(|| "a world".to_owned(), join) else { return };
    tally.check(|| "split by parity".to_owned(), || by_parity(&mut world));
    tally.check(|| "split in reverse order".to_owned(), || reversed(&mut world));
    tally.check(|| "split with ranks left out".to_owned(), || left_out(&mut world));
    tally.check(
        || "the parent afterwards".to_owned(),
        || world.run(&Case::of(CollectiveKind::AllReduce), ""),
    );
    tally.check(|| "shrink by the last rank".to_owned(), || shrink(&mut world));
}

/// Makes the ranks that `make` gives into worlds, one for each color.
fn worlds(
    world: &mut World,
    color: impl Fn(&RankWorker) -> u32 + Sync,
    make: impl Fn(&RankWorker) -> Result<Option<RankWorker>, Trouble> + Sync,
) -> Result<Vec<World>, Trouble> {
    let event_log = world.event_log.clone();
    let made = world.on_all(|worker| Ok((color(worker), make(worker)?)))?;
    let mut by_color = std::collections::BTreeMap::<u32, Vec<RankWorker>>::new();
    for (color, worker) in made {
        by_color.entry(color).or_default().extend(worker);
    }
    let world = |mut workers: Vec<RankWorker>| {
        workers.sort_by_key(|worker| worker.rank);
        let oracle = Oracle::new(workers.len() as u32, &[]);
        World::of(workers, event_log.clone(), oracle)
    };
    Ok(by_color.into_values().filter(|workers| !workers.is_empty()).map(world).collect())
}

fn split(worker: &RankWorker, color: Option<u32>, key: i32) -> Result<Option<RankWorker>, Trouble> {
    let child = worker.communicator.split(color, key, None)?;
    child.map(|child| RankWorker::of(child, worker.place.clone())).transpose()
}

fn run_every(world: &mut World) -> Result<(), Trouble> {
    let collectives = every_collective(world.ranks()).into_iter();
    let mut cases = collectives.map(|kind| Case { count: 3001, ..Case::of(kind) });
    cases.try_for_each(|case| world.run(&case, ""))
}

fn by_parity(world: &mut World) -> Result<(), Trouble> {
    let color = |worker: &RankWorker| worker.rank.0 % 2;
    let parts = worlds(world, color, |worker| split(worker, Some(color(worker)), 0))?;
    same("communicators", parts.len(), 2)?;
    for mut part in parts {
        run_every(&mut part)?;
    }
    Ok(())
}

fn reversed(world: &mut World) -> Result<(), Trouble> {
    let ranks = world.ranks();
    world.on_all(|worker| {
        let child = split(worker, Some(0), -(worker.rank.0 as i32))?.ok_or("no communicator")?;
        same("rank", child.rank, Rank(ranks - 1 - worker.rank.0))
    })?;
    Ok(())
}

fn left_out(world: &mut World) -> Result<(), Trouble> {
    let last = world.ranks() - 1;
    let color = |worker: &RankWorker| (worker.rank.0 != last).then_some(7);
    let parts = worlds(world, |_| 0, |worker| split(worker, color(worker), 0))?;
    let Ok([mut part]) = <[World; 1]>::try_from(parts) else {
        return Err("expected one communicator".into());
    };
    same("ranks", part.ranks(), last)?;
    run_every(&mut part)
}

fn shrink(world: &mut World) -> Result<(), Trouble> {
    let last = Rank(world.ranks() - 1);
    let make = |worker: &RankWorker| {
        if worker.rank == last {
            return Ok(None);
        }
        let child = worker.communicator.shrink(&[last], false, None)?;
        RankWorker::of(child, worker.place.clone()).map(Some)
    };
    let parts = worlds(world, |_| 0, make)?;
    let Ok([mut part]) = <[World; 1]>::try_from(parts) else {
        return Err("expected one communicator".into());
    };
    same("ranks", part.ranks(), last.0)?;
    run_every(&mut part)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Trouble> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}").into())
}

//! Communicators that give up their memory and get it back: calls before and after, and graphs that
//! were captured before.

use msccl_collective::Protocol;
use msccl_runtime::{ErrorKind, MemoryUse, Overrides, Settings};

use super::graphs::{capture_in, launch_in, several, stream};
use super::{Bench, Section};
use crate::Trouble;
use crate::case::Case;
use crate::tally::Tally;
use crate::world::{RankWorker, World, is_kind, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "suspension",
    about: "communicators suspended and resumed: memory is free in between, graphs go on",
    run,
};

/// What may be in use beside what communicators give up: the driver allots in blocks of 2 MiB.
const SLACK_BYTES: i64 = 8 << 20;

fn run(bench: &Bench, tally: &mut Tally) {
    for protocol in [None, Some(Protocol::Simple), Some(Protocol::Ll), Some(Protocol::Ll128)] {
        let overrides = Overrides { protocol, ..Overrides::default() };
        let setting = protocol.map_or("any protocol", Protocol::name);
        let join = || bench.world(&Settings { overrides, ..settings() });
        let Some(mut world) = tally.need(|| setting.to_owned(), join) else { continue };
        let cases = several(bench);
        tally.check(|| format!("{setting}: calls"), || calls(bench, &mut world, &cases));
        if bench.machine.has_gpus() {
            tally.check(|| format!("{setting}: graphs"), || graphs(&mut world, &cases));
        }
        let times = bench.number(200, 10);
        let name = || format!("{setting}: {times} times, with a call between");
        tally.check(name, || over_and_over(bench, &mut world, &cases[..1], times));
    }
}

fn suspend(world: &mut World) -> Result<Vec<MemoryUse>, Trouble> {
    world.on_all(|worker| {
        let before = worker.communicator.memory_use();
        worker.communicator.suspend()?;
        let after = worker.communicator.memory_use();
        let expected = MemoryUse { is_suspended: true, ..before };
        if (before.is_suspended, after) != (false, expected) {
            return Err(format!("{before:?} became {after:?}, expected {expected:?}").into());
        }
        Ok(after)
    })
}

fn resume(world: &mut World) -> Result<(), Trouble> {
    world.on_all(|worker| Ok(worker.communicator.resume()?))?;
    Ok(())
}

fn calls(bench: &Bench, world: &mut World, cases: &[Case]) -> Result<(), Trouble> {
    for seed in 1..=3 {
        let cases: Vec<_> = cases.iter().map(|case| Case { seed, ..*case }).collect();
        let trial = world.trial(&cases, "")?;
        world.run_trial(&trial, RankWorker::submit)?;
        let free_before = bench.machine.free_bytes()? as i64;
        let freed = suspend(world)?;
        is_free(bench, free_before, &freed)?;
        refused(world, &cases)?;
        resume(world)?;
        world.run_trial(&trial, RankWorker::submit)?;
    }
    Ok(())
}

/// All that ranks have given up is free on the first GPU, where it was theirs.
fn is_free(bench: &Bench, free_before: i64, freed: &[MemoryUse]) -> Result<(), Trouble> {
    if !bench.machine.has_gpus() {
        return Ok(());
    }
    let free = bench.machine.free_bytes()? as i64 - free_before;
    let least = freed.iter().map(|of| of.suspendable_bytes as i64).min().unwrap_or(0);
    if free + SLACK_BYTES < least {
        return Err(format!("{free} bytes became free, expected {least}").into());
    }
    Ok(())
}

fn refused(world: &mut World, cases: &[Case]) -> Result<(), Trouble> {
    let trial = world.trial(cases, "")?;
    world.load(&trial)?;
    world.on_all(|worker| match worker.submit(&worker.calls(&trial)) {
        Err(error) if is_kind(&error, ErrorKind::InvalidUsage) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err("a suspended communicator took calls".into()),
    })?;
    Ok(())
}

fn graphs(world: &mut World, cases: &[Case]) -> Result<(), Trouble> {
    let with_seed = |seed| cases.iter().map(|case| Case { seed, ..*case }).collect::<Vec<_>>();
    let first = world.trial(&with_seed(10), "")?;
    world.load(&first)?;
    let graphs = world
        .on_all(|worker| capture_in(stream(worker)?, || worker.submit(&worker.calls(&first))))?;
    for seed in 11..14 {
        let trial = world.trial(&with_seed(seed), "")?;
        world.load(&trial)?;
        suspend(world)?;
        resume(world)?;
        world.on_all(|worker| {
            launch_in(stream(worker)?, &graphs[worker.rank.index()])?;
            worker.wait()
        })?;
        world.check(&trial)?;
        let eager = world.trial(&with_seed(seed + 100), "")?;
        world.run_trial(&eager, RankWorker::submit)?;
    }
    Ok(())
}

fn over_and_over(
    bench: &Bench,
    world: &mut World,
    cases: &[Case],
    times: usize,
) -> Result<(), Trouble> {
    let trial = world.trial(cases, "")?;
    let mut cycle = || {
        suspend(world)?;
        resume(world)?;
        world.run_trial(&trial, RankWorker::submit)
    };
    cycle()?;
    let free_before = if bench.machine.has_gpus() { bench.machine.free_bytes()? as i64 } else { 0 };
    (0..times).try_for_each(|_| cycle())?;
    let free_after = if bench.machine.has_gpus() { bench.machine.free_bytes()? as i64 } else { 0 };
    let lost = free_before - free_after;
    if lost > SLACK_BYTES { Err(format!("{lost} bytes are lost").into()) } else { Ok(()) }
}

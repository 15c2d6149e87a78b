//! Links that deliver straight from and to the caller's buffers: the same bits as through slots.

use std::thread;
use std::time::Duration;

use msccl_collective::{CollectiveKind, DataType, Protocol};
use msccl_runtime::{Choice, Links, Overrides, PlaceOfRank, Settings, Tuning};

use super::{Bench, Section, every_collective, graphs, placements};
use crate::Trouble;
use crate::case::Case;
use crate::memory::RankMemory;
use crate::tally::Tally;
use crate::world::{self, RankWorker, World};

/// The section.
pub const SECTION: Section = Section {
    name: "direct",
    about: "links that deliver straight from and to the buffers of callers",
    run,
};

/// Longer than peers take to map what they are offered.
const MAPPED: Duration = Duration::from_millis(300);

/// How often each call is made once its buffers are mapped.
const REPEATS: usize = 3;

/// The settings of every world whose links deliver directly.
pub fn settings() -> Settings {
    Settings { overrides: direct(), ..world::settings() }
}

/// Links that are direct wherever they can be.
fn direct() -> Overrides {
    let (protocol, links) = (Some(Protocol::Simple), Some(Links::Direct));
    Overrides { protocol, links, ..Overrides::default() }
}

/// Small calls have direct links, larger ones of the same algorithm do not.
const TABLE: &str = "\
msccl-tuning 2
machine any
allgather any any ..64KiB Simple direct 2 256 allgather/allpairs
allgather any any any     Simple staged 2 256 allgather/allpairs
";

/// All ranks of a table's small calls, and of its larger ones.
const SMALL: usize = 501;
const LARGE: usize = 60_001;

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.machine.has_gpus() {
        return tally.skip("links of ranks on the host always go through queues");
    }
    for overrides in wishes() {
        let name = format!("{overrides:?}");
        let settings = Settings { overrides, ..settings() };
        let Some(mut world) = tally.need(|| name.clone(), || bench.world(&settings)) else {
            continue;
        };
        let mut known = Known::default();
        for case in cases(bench) {
            let name = || format!("{name}: {}", case.describe());
            tally.check(name, || before_and_after(&mut world, &case, &mut known));
        }
    }
    let Some(mut world) = tally.need(|| "a world".to_owned(), || bench.world(&settings())) else {
        return;
    };
    tally.check(|| "memory freed and allocated anew".to_owned(), || anew(&mut world));
    tally.check(|| "memory larger each time".to_owned(), || growing(&mut world));
    let several = graphs::several(bench);
    tally.check(|| "graphs".to_owned(), || captured(&mut world, &several, graphs::replay));
    let name = || "graphs and eager calls back to back".to_owned();
    tally.check(name, || captured(&mut world, &several, graphs::back_to_back));
    let kinds = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
    ];
    let cases = kinds.map(|kind| Case { count: 10_007, ..Case::of(kind) });
    tally.check(|| "many calls without waiting".to_owned(), || many(&mut world, &cases));
    for kind in every_collective(bench.ranks) {
        if kind.root().is_none() {
            let name = || format!("{}: some ranks in place", Case::of(kind).describe());
            tally.check(name, || in_both_placements(&mut world, kind));
        }
    }
    drop(world);
    by_table(bench, tally);
}

/// Calls that every other rank makes in place, among those that all make alike.
fn in_both_placements(world: &mut World, kind: CollectiveKind) -> Result<(), Trouble> {
    let mut known = Known::default();
    for count in [1003, 262_144, 1_500_001] {
        let case = Case { count, ..Case::of(kind) };
        world.run_in_both_placements(&case)?;
        known.settle(world);
        for seed in 0..REPEATS as u64 {
            world.run_in_both_placements(&Case { seed: seed + 2, ..case })?;
            world.run(&Case { seed: seed + 20, in_place: seed % 2 == 0, ..case }, "")?;
        }
    }
    Ok(())
}

/// What a table says, and whoever never wants direct links.
fn by_table(bench: &Bench, tally: &mut Tally) {
    let never = Overrides { links: Some(Links::Staged), ..Overrides::default() };
    for (overrides, serves) in [(Overrides::default(), true), (never, false)] {
        let name = format!("a table, {overrides:?}");
        let join = || {
            let tuning = Some(Tuning::parse("test", TABLE.as_bytes())?);
            bench.world(&Settings { overrides: overrides.clone(), tuning, ..world::settings() })
        };
        let Some(mut world) = tally.need(|| name.clone(), join) else { continue };
        for (count, is_direct) in [(SMALL, serves), (LARGE, false), (SMALL, serves)] {
            let case = Case { count, ..Case::of(CollectiveKind::AllGather) };
            let name = || format!("{name}: {}", case.describe());
            tally.check(name, || served(&mut world, &case, is_direct));
        }
        // The same wires in kernels of both kinds.
        let cases = [SMALL, LARGE, SMALL, SMALL, LARGE];
        let cases = cases.map(|count| Case { count, ..Case::of(CollectiveKind::AllGather) });
        tally.check(|| format!("{name}: by turns"), || many(&mut world, &cases));
        if serves {
            tally.check(|| format!("{name}: pinned"), || pinned(&mut world, RankMemory::new));
            let memory = RankMemory::in_virtual_memory;
            tally.check(|| format!("{name}: virtual memory"), || pinned(&mut world, memory));
            tally.check(|| format!("{name}: no memory twice"), || anew_by_turns(&mut world));
        }
    }
}

/// Whether calls whose buffers are mapped are direct, as far as the library knows.
fn served(world: &mut World, case: &Case, is_direct: bool) -> Result<(), Trouble> {
    world.run(case, "")?;
    thread::sleep(MAPPED);
    let before = direct_calls(world);
    for seed in 0..REPEATS as u64 {
        world.run(&Case { seed: seed + 2, ..*case }, "")?;
    }
    let found = direct_calls(world) - before;
    let expected = if is_direct { u64::from(world.ranks()) * REPEATS as u64 } else { 0 };
    match found == expected {
        true => Ok(()),
        false => Err(format!("expected {expected} direct calls, found {found}").into()),
    }
}

/// Plain and virtual memory by turns, each time allocated anew, most likely where the last was
/// freed.
fn anew_by_turns(world: &mut World) -> Result<(), Trouble> {
    for seed in 1..=8 {
        let memory = if seed % 2 == 0 { RankMemory::new } else { RankMemory::in_virtual_memory };
        world.workers.iter_mut().for_each(|worker| worker.memory = memory(worker.place.clone()));
        let case = Case { seed, count: SMALL, ..Case::of(CollectiveKind::AllGather) };
        served(world, &case, true)?;
        // And without a pause for peers to notice.
        world.workers.iter_mut().for_each(|worker| worker.memory = memory(worker.place.clone()));
        world.run(&Case { seed: seed + 50, ..case }, "")?;
    }
    Ok(())
}

/// What is pinned waits for peers to map memory that they have not seen.
fn pinned(world: &mut World, memory: fn(PlaceOfRank) -> RankMemory) -> Result<(), Trouble> {
    for (links, is_direct) in [("direct", true), ("staged", false)] {
        let choice = format!("Simple {links} 1 256 allgather/allpairs");
        let choice: Choice = choice.parse().map_err(|why: String| Trouble::from(why))?;
        world.workers.iter().for_each(|worker| worker.communicator.pin(Some(choice.clone())));
        world.workers.iter_mut().for_each(|worker| worker.memory = memory(worker.place.clone()));
        let before = direct_calls(world);
        world.run(&Case { count: LARGE, ..Case::of(CollectiveKind::AllGather) }, "")?;
        if (direct_calls(world) > before) != is_direct {
            return Err(format!("{choice}: {} direct calls", direct_calls(world) - before).into());
        }
    }
    world.workers.iter().for_each(|worker| worker.communicator.pin(None));
    Ok(())
}

/// Algorithms whose links push, pull, and ask for receipts, and whatever the table says.
fn wishes() -> Vec<Overrides> {
    let named = ["two_shot", "allpairs", "direct", "ring"].map(|name| Overrides {
        algorithm: Some(name.to_owned()),
        instances: Some(3),
        ..direct()
    });
    [direct()].into_iter().chain(named).collect()
}

fn cases(bench: &Bench) -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in every_collective(bench.ranks) {
        for &in_place in placements(kind) {
            for &(count, shift, data_type) in bench.some(
                &[
                    (1003, [0, 0], DataType::F32),
                    (262_144, [0, 0], DataType::F16),
                    (1, [1, 3], DataType::U8),
                    (60_001, [1, 2], DataType::Bf16),
                    (1_500_001, [0, 1], DataType::F32),
                    (77, [3, 3], DataType::F64),
                ],
                2,
            ) {
                cases.push(Case { count, shift, data_type, in_place, ..Case::of(kind) });
            }
        }
    }
    cases
}

/// The memory that peers have had time to map.
#[derive(Default)]
struct Known(Vec<u64>);

impl Known {
    /// Gives peers time to map the memory of `world`, if it is new.
    fn settle(&mut self, world: &World) {
        let places: Vec<_> = world.workers.iter().map(|worker| worker.memory.address()).collect();
        if places != self.0 {
            thread::sleep(MAPPED);
            self.0 = places;
        }
    }
}

/// A call before and after peers have mapped its buffers.
fn before_and_after(world: &mut World, case: &Case, known: &mut Known) -> Result<(), Trouble> {
    world.run(case, "")?;
    known.settle(world);
    let before = direct_calls(world);
    for seed in 0..REPEATS as u64 {
        world.run(&Case { seed: seed + 2, ..*case }, "")?;
    }
    // Of a collective with a root, some rank lends, and not every one.
    match direct_calls(world) > before || !is_surely_direct(world, case) {
        true => Ok(()),
        false => Err("the call was never direct".into()),
    }
}

/// Whether all that serves the call has links that lend.
fn is_surely_direct(world: &World, case: &Case) -> bool {
    let lends = matches!(case.kind, CollectiveKind::AllGather | CollectiveKind::AllToAll);
    // What serves may have no link that can.
    let serves = world.choices(case).into_iter().next();
    lends && serves.is_some_and(|choice| choice.variant.links == Links::Direct)
}

fn direct_calls(world: &World) -> u64 {
    world.workers.iter().map(|worker| worker.communicator.direct_calls()).sum()
}

/// Each time in memory that has just been allocated, most likely where the last was freed.
fn anew(world: &mut World) -> Result<(), Trouble> {
    let mut places = Vec::new();
    for seed in 1..=6 {
        let case = Case { seed, count: 50_001, ..Case::of(CollectiveKind::AllReduce) };
        // Freeing waits for the device, so nobody may be running.
        world
            .workers
            .iter_mut()
            .for_each(|worker| worker.memory = RankMemory::new(worker.place.clone()));
        // The same address need not mean the same memory.
        before_and_after(world, &case, &mut Known::default())?;
        places.push(world.workers[0].memory.address());
        // And without a pause for peers to notice.
        world
            .workers
            .iter_mut()
            .for_each(|worker| worker.memory = RankMemory::new(worker.place.clone()));
        world.run(&Case { seed: seed + 50, ..case }, "")?;
    }
    places.sort_unstable();
    places.dedup();
    // It would prove nothing if every allocation lay elsewhere; which is the driver's choice.
    if places.len() == 6 {
        return Err("the driver never gave the same address again".into());
    }
    Ok(())
}

fn growing(world: &mut World) -> Result<(), Trouble> {
    for count in [1000, 300_001, 900_001, 2_000_003] {
        let case = Case { count, ..Case::of(CollectiveKind::AllGather) };
        before_and_after(world, &case, &mut Known::default())?;
    }
    Ok(())
}

/// Graphs of calls whose buffers are mapped, because the calls have been made before.
fn captured(
    world: &mut World,
    cases: &[Case],
    check: impl Fn(&mut World, &[Case]) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let trial = world.trial(cases, "")?;
    world.run_trial(&trial, RankWorker::submit)?;
    thread::sleep(MAPPED);
    let before = direct_calls(world);
    check(world, cases)?;
    match direct_calls(world) > before {
        true => Ok(()),
        false => Err("no call was direct".into()),
    }
}

/// Ranks run ahead of one another as far as links let them, in the same memory.
fn many(world: &mut World, cases: &[Case]) -> Result<(), Trouble> {
    let trial = world.trial(cases, "")?;
    world.load(&trial)?;
    world.on_all(|worker| {
        for _ in 0..200 {
            worker.submit(&worker.calls(&trial))?;
        }
        worker.wait()
    })?;
    world.check(&trial)
}

//! Links that deliver straight from and to the caller's buffers: the same bits as through slots.

use std::thread;
use std::time::Duration;

use msccl_collective::{DataType, Protocol};
use msccl_registry::Wanted;
use msccl_runtime::{Settings, Wish};

use super::{Bench, Section, every_collective, graphs, placements};
use crate::Trouble;
use crate::arena::Arena;
use crate::case::Case;
use crate::tally::Tally;
use crate::world::{self, Seat, World};

/// The section.
pub const SECTION: Section = Section {
    name: "direct",
    about: "links that deliver straight from and to the buffers of callers",
    run,
};

/// Longer than peers take to map what they are told of.
const MAPPED: Duration = Duration::from_millis(300);

/// How often each call is made once its buffers are mapped.
const REPEATS: usize = 3;

/// The settings of every world whose links deliver directly.
pub fn settings() -> Settings {
    let wish = Wish { protocol: Some(Protocol::Simple), ..Wish::default() };
    Settings { wish, direct: true, ..world::settings() }
}

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.machine.has_gpus() {
        return tally.skip("links of ranks on the host always go through queues");
    }
    for wish in wishes() {
        let name = format!("{wish:?}");
        let settings = Settings { wish, ..settings() };
        let Some(mut world) = tally.need(|| name.clone(), || bench.world(&settings)) else {
            continue;
        };
        let mut known = Known::default();
        for case in cases(bench) {
            let name = || format!("{name}: {}", case.story());
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
    tally.check(|| "many calls without waiting".to_owned(), || many(&mut world));
}

/// Algorithms whose links push, pull, and ask for receipts, and whatever the table says.
fn wishes() -> Vec<Wish> {
    let simple = Wish { protocol: Some(Protocol::Simple), ..Wish::default() };
    let named = ["two_shot", "allpairs", "direct", "ring"].map(|name| Wish {
        algorithm: Some(name.to_owned()),
        instances: Some(3),
        ..simple.clone()
    });
    [simple].into_iter().chain(named).collect()
}

fn cases(bench: &Bench) -> Vec<Case> {
    let mut cases = Vec::new();
    for wanted in every_collective(bench.ranks) {
        for &in_place in placements(wanted) {
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
                cases.push(Case { count, shift, data_type, in_place, ..Case::of(wanted) });
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
        let places: Vec<_> = world.seats.iter().map(|seat| seat.arena.address()).collect();
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
    match direct_calls(world) > before || !is_surely_direct(case) {
        true => Ok(()),
        false => Err("the call was never direct".into()),
    }
}

/// Whether all that serves the call has links that lend.
fn is_surely_direct(case: &Case) -> bool {
    matches!(case.wanted, Wanted::AllGather | Wanted::AllToAll)
}

fn direct_calls(world: &World) -> u64 {
    world.seats.iter().map(|seat| seat.communicator.direct_calls()).sum()
}

/// Each time in memory that has just been allocated, most likely where the last was freed.
fn anew(world: &mut World) -> Result<(), Trouble> {
    let mut places = Vec::new();
    for seed in 1..=6 {
        let case = Case { seed, count: 50_001, ..Case::of(Wanted::AllReduce) };
        // Freeing waits for the device, so nobody may be running.
        world.seats.iter_mut().for_each(|seat| seat.arena = Arena::new(seat.place.clone()));
        // The same address need not mean the same memory.
        before_and_after(world, &case, &mut Known::default())?;
        places.push(world.seats[0].arena.address());
        // And without a pause for peers to notice.
        world.seats.iter_mut().for_each(|seat| seat.arena = Arena::new(seat.place.clone()));
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
        let case = Case { count, ..Case::of(Wanted::AllGather) };
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
    world.run_trial(&trial, Seat::submit)?;
    thread::sleep(MAPPED);
    let before = direct_calls(world);
    check(world, cases)?;
    match direct_calls(world) > before {
        true => Ok(()),
        false => Err("no call was direct".into()),
    }
}

/// Ranks run ahead of one another as far as links let them, in the same memory.
fn many(world: &mut World) -> Result<(), Trouble> {
    let kinds = [Wanted::AllReduce, Wanted::AllGather, Wanted::ReduceScatter, Wanted::AllToAll];
    let cases = kinds.map(|wanted| Case { count: 10_007, ..Case::of(wanted) });
    let trial = world.trial(&cases, "")?;
    world.load(&trial)?;
    world.on_all(|seat| {
        for _ in 0..200 {
            seat.submit(&seat.calls(&trial))?;
        }
        seat.wait()
    })?;
    world.check(&trial)
}

//! Specialised kernels in communicators: made for one plan each, they must give what interpreters
//! give, bit for bit: every built-in algorithm and protocol, types, counts, in and out of place,
//! captured, with and without an early start, and where some ranks have them and others do not.

use std::sync::Arc;

use msccl_collective::{CollectiveKind, DataType, Protocol, Rank};
use msccl_fabric::{Abort, UniqueId};
use msccl_gpu::Nvrtc;
use msccl_registry::{Registry, Shape};
use msccl_runtime::{EventLog, Links, Overrides, Settings, SpecialiseMode, specialised_kernels};

use super::{Bench, Section, graphs, placements};
use crate::Trouble;
use crate::case::{Case, Numbers};
use crate::kernel_store;
use crate::oracle::Oracle;
use crate::tally::Tally;
use crate::world::{RankWorker, World, on_threads, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "specialised",
    about: "special kernels in communicators, compiled for them (--nvrtc), against the oracle",
    run,
};

/// Collectives that have specialised kernels.
const EXPECTED: [CollectiveKind; 4] = CollectiveKind::WITHOUT_ROOT;

/// Types with specialised kernels, and one without.
const TYPES: [DataType; 4] = [DataType::F32, DataType::Bf16, DataType::F16, DataType::I32];

/// Counts around packets and slices, of small calls and of some with several rounds.
const COUNTS: [usize; 7] = [256, 1003, 33_333, 1, 17, 4096, 262_144];

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.machine.has_gpus() {
        return tally.skip("there are no kernels on the host");
    }
    if let Err(why) = Nvrtc::find(kernel_store::compiler()) {
        return tally.skip(format!("no NVRTC: {why}"));
    }
    let oracle = Oracle::new(bench.ranks, &[]);
    let registry =
        Arc::new(Registry::new(Shape { ranks: bench.ranks, per_node: bench.ranks }, &[]));
    let compile = |kind: &[CollectiveKind], overrides: &Overrides, tally: &mut Tally| {
        let of_rank =
            |rank| specialised_kernels(&registry, Rank(rank), kind, overrides, None, false);
        let kernels: Vec<_> = (0..bench.ranks).flat_map(of_rank).collect();
        kernel_store::fill(&bench.machine, &kernels, tally);
    };
    for protocol in Protocol::ALL {
        for kind in EXPECTED {
            for name in names(&oracle, kind) {
                let overrides = Overrides {
                    algorithm: Some(name.clone()),
                    protocol: Some(protocol),
                    // Parts of which the last may be shorter.
                    instances: Some(2),
                    // Specialised kernels never deliver directly.
                    links: Some(Links::Staged),
                    ..Overrides::default()
                };
                compile(&[kind], &overrides, tally);
                for early_start in [true, false] {
                    forced(bench, &oracle, kind, &overrides, early_start, tally);
                }
            }
        }
    }
    compile(&EXPECTED, &Overrides::default(), tally);
    chosen(bench, tally);
    for protocol in [None, Some(Protocol::Simple), Some(Protocol::Ll), Some(Protocol::Ll128)] {
        let overrides = Overrides { protocol, ..Overrides::default() };
        compile(&EXPECTED, &overrides, tally);
        mixed(bench, overrides, tally);
    }
}

/// Settings with which specialised kernels serve whatever they can: those for small calls would
/// come first.
fn specials() -> Settings {
    Settings { specialised: kernel_store::kept(), small: false, ..settings() }
}

/// The names of all built-in algorithms of `kind`.
fn names(oracle: &Oracle, kind: CollectiveKind) -> Vec<String> {
    let placements = placements(kind).iter();
    let mut names: Vec<_> =
        placements.flat_map(|&in_place| oracle.built_in(kind, in_place)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// One algorithm serves all, under one protocol; sums are rounded as that very algorithm does.
fn forced(
    bench: &Bench,
    oracle: &Oracle,
    kind: CollectiveKind,
    overrides: &Overrides,
    early_start: bool,
    tally: &mut Tally,
) {
    let name = overrides.algorithm.as_deref().unwrap_or_default();
    let protocol = overrides.protocol.map_or("any", Protocol::name);
    let setting = format!("{name} {protocol} early {early_start}");
    let overrides = overrides.clone();
    let settings = Settings { overrides, early_start, ..specials() };
    let mut runner = bench.runner(settings, setting.clone());
    for &in_place in placements(kind) {
        if oracle.entry(name, kind, in_place).is_some() {
            runner.run(cases(bench, kind, in_place), name, tally);
        }
    }
    // A world that could not be made has been reported.
    if let Some(world) = runner.world(tally) {
        served(world, &setting, tally);
    }
}

fn cases(bench: &Bench, kind: CollectiveKind, in_place: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for &data_type in bench.some(&TYPES, 2) {
        for &count in bench.some(&COUNTS, 3) {
            let case = Case { data_type, count, in_place, ..Case::of(kind) };
            cases.push(bench.rounded(case, cases.len()));
        }
    }
    // Slots that begin anywhere.
    let shift = if in_place { [2, 2] } else { [1, 3] };
    cases.push(Case { count: 1003, shift, in_place, numbers: Numbers::Rounded, ..Case::of(kind) });
    cases
}

/// What is chosen serves, also in graphs and between calls of interpreters.
fn chosen(bench: &Bench, tally: &mut Tally) {
    for early_start in [true, false] {
        let setting = format!("chosen, early {early_start}");
        let settings = Settings { early_start, ..specials() };
        let world = tally.need(|| setting.clone(), || bench.world(&settings));
        let Some(mut world) = world else { continue };
        for kind in EXPECTED {
            let cases = [Case { count: 5_001, ..Case::of(kind) }];
            let name = || format!("{setting}: {}", cases[0].describe());
            tally.check(name, || graphs::replay(&mut world, &cases));
        }
        let several = graphs::several(bench);
        let name = || format!("{setting}: graphs and eager calls back to back");
        tally.check(name, || graphs::back_to_back(&mut world, &several));
        served(&world, &setting, tally);
    }
}

/// Specialised kernels at one end of links, interpreters and kernels for small calls at the other.
fn mixed(bench: &Bench, overrides: Overrides, tally: &mut Tally) {
    let setting = format!("{HALVES}, {}", overrides.protocol.map_or("chosen", Protocol::name));
    let settings = Settings { overrides, ..settings() };
    let world = tally.need(|| setting.clone(), || halves(bench, &settings));
    let Some(mut world) = world else { return };
    for kind in EXPECTED {
        for &in_place in placements(kind) {
            for &count in bench.some(&COUNTS, 3) {
                let case = Case { count, in_place, ..Case::of(kind) };
                let name = || format!("{setting}: {}", case.describe());
                tally.check(name, || world.run(&case, ""));
            }
        }
    }
    served(&world, &setting, tally);
}

/// What is logged where specialised kernels cannot serve, as those that keep too much beside
/// registers.
const LEFT_OUT: &str = "are unfit";

/// How settings begin in which only every other rank has specialised kernels.
const HALVES: &str = "special and not";

/// A world in which every other rank has specialised kernels, the first among them.
fn halves(bench: &Bench, settings: &Settings) -> Result<World, Trouble> {
    let event_log = Arc::<EventLog>::default();
    let id = UniqueId::create(&settings.fabric)?;
    let workers = on_threads((0..bench.ranks).map(|rank| {
        let mut settings = settings.clone();
        settings.place = bench.machine.place(rank);
        settings.log = event_log.clone();
        settings.fabric.abort = Abort::new();
        settings.specialised = kernel_store::kept();
        // Which would come first.
        settings.small = rank % 2 == 1;
        if rank % 2 == 1 {
            settings.specialised.mode = SpecialiseMode::Never;
        }
        move || RankWorker::join(id, Rank(rank), bench.ranks, &settings)
    }));
    let workers = workers.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(World::of(workers, event_log, Oracle::new(bench.ranks, &settings.files)))
}

/// Specialised kernels must have served calls of the ranks that have them, and of no other.
fn served(world: &World, setting: &str, tally: &mut Tally) {
    let check = || {
        let halves = setting.starts_with(HALVES);
        for worker in &world.workers {
            let has = !halves || worker.rank.0 % 2 == 0;
            let calls = worker.communicator.specialised_calls();
            if has != (calls > 0) {
                let logged = world.event_log.collect(|event| Some(event.to_string()));
                let logged = logged.into_iter().filter(|text| text.contains("specialised kernel"));
                let logged = logged.collect::<Vec<_>>().join("; ");
                // An algorithm whose kernels are all too slow has none.
                if has && !halves && logged.contains(LEFT_OUT) {
                    continue;
                }
                return Err(format!("{}: {calls} calls: {logged}", worker.rank).into());
            }
        }
        Ok(())
    };
    tally.check(|| format!("{setting}: special kernels serve"), check);
}

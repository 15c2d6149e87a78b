//! A soak: random calls on several communicators for as long as one likes, every result compared.
//!
//! Calls are drawn in *cases* ([`case`]), each from the seed and its number alone, so that one
//! that fails can be repeated: collectives of every kind, type, reduction, placement and alignment,
//! groups, messages, graphs replayed among eager calls, several streams, ways to serve forced by
//! pins, two communicators at once. After each round of a case all memory of all ranks is compared
//! with the reference, bit for bit, with what lies around buffers.
//!
//! One of the communicators has its memory in windows of all ranks, and copy engines carry what
//! they can of its calls ([`engines`]).
//!
//! Cases are drawn and their results computed by threads that run ahead of the ranks, a few cases
//! each, so memory stays bounded and GPUs wait little.

mod case;
mod engines;
mod generator;
mod memory;
mod recent;
mod runner;
mod statistics;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Bench, Section};
use crate::Trouble;
use crate::tally::Tally;
use generator::Scope;
use memory::Prepared;
use runner::SoakRunner;
use statistics::Statistics;

/// The section.
pub const SECTION: Section = Section {
    name: "soak",
    about: "random calls on several communicators for --seconds, every result compared",
    run,
};

/// How long it runs unless somebody says so, in seconds.
const SECONDS: u64 = 5;

/// The same, if time is short.
const SECONDS_QUICK: u64 = 2;

/// How often a long soak says that it goes on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// Scenes that a thread prepares ahead of time.
const AHEAD: usize = 1;

/// Most threads that prepare scenes.
const PREPARERS_MAX: usize = 8;

fn run(bench: &Bench, tally: &mut Tally) {
    let Some(mut stage) = tally.need(|| "all ranks".to_owned(), || SoakRunner::open(bench)) else {
        return;
    };
    let scope = scope(bench, &stage);
    let census = thread::scope(|threads| {
        let preparers = thread::available_parallelism().map_or(1, |cores| cores.get() / 2);
        let preparers = preparers.clamp(1, PREPARERS_MAX) as u64;
        let channels = (0..preparers).map(|preparer| {
            let (sender, receiver) = sync_channel(AHEAD);
            let first = bench.scene + preparer;
            let scope = &scope;
            threads.spawn(move || prepare(scope, bench.seed, first, preparers as usize, &sender));
            receiver
        });
        let channels = channels.collect();
        play(bench, &mut stage, channels, tally)
    });
    let (direct, carried) = (stage.direct_calls(), stage.carried_calls());
    println!("        seed {}, communicators of {:?} ranks", bench.seed, scope.ranks);
    println!("{census}");
    let compared = census.compared;
    tally.remark(format!("{compared} calls compared, {direct} direct, {carried} by copy engines"));
}

/// What fits the machine and the time.
fn scope(bench: &Bench, stage: &SoakRunner) -> Scope {
    let on_gpus = bench.machine.has_gpus();
    let (elements, elements_large) = match (on_gpus, bench.quick) {
        (true, false) => (1 << 20, Some(32 << 20)),
        (true, true) => (1 << 18, None),
        (false, false) => (1 << 17, None),
        (false, true) => (1 << 14, None),
    };
    let windowed = stage.windowed();
    Scope { ranks: stage.ranks(), on_gpus, elements, elements_large, windowed }
}

/// Prepares every scene whose number is `first` or lies a multiple of `step` behind it, until
/// nobody wants more.
fn prepare(scope: &Scope, seed: u64, first: u64, step: usize, to: &SyncSender<Prepared>) {
    for number in (first..).step_by(step) {
        let scene = generator::scene(scope, seed, number);
        if to.send(Prepared::new(scene, &scope.ranks)).is_err() {
            return;
        }
    }
}

/// Plays scenes in the order of their numbers until time is up or one fails.
fn play(
    bench: &Bench,
    stage: &mut SoakRunner,
    prepared: Vec<Receiver<Prepared>>,
    tally: &mut Tally,
) -> Statistics {
    let seconds = if bench.quick { SECONDS_QUICK } else { SECONDS };
    let start = Instant::now();
    let end = start + Duration::from_secs(bench.seconds.unwrap_or(seconds));
    let (mut census, mut sign) = (Statistics::default(), start + SIGN_OF_LIFE);
    for preparer in (0..prepared.len()).cycle() {
        let Ok(prepared) = prepared[preparer].recv() else { break };
        let number = prepared.scene.number;
        let (seed, calls) = (bench.seed, census.made);
        let name = || format!("seed {seed}, scene {number}, after {calls} calls");
        let play = || {
            stage
                .play(&prepared)
                .map_err(|error| with_repeat_command(bench, stage, &prepared, &error))
        };
        if !tally.check(name, play) {
            break;
        }
        census.add(&prepared.scene);
        let now = Instant::now();
        if now > end {
            break;
        }
        if now > sign {
            println!("        {} s: {} calls, 0 wrong", start.elapsed().as_secs(), census.made);
            sign = now + SIGN_OF_LIFE;
        }
    }
    census
}

/// Everything that helps to understand and to repeat what went wrong.
fn with_repeat_command(
    bench: &Bench,
    stage: &SoakRunner,
    prepared: &Prepared,
    error: &Trouble,
) -> Trouble {
    let Bench { machine, ranks, quick, seed, .. } = bench;
    let scene = &prepared.scene;
    let device = if machine.has_gpus() { "gpu" } else { "host" };
    let quick = if *quick { " --quick" } else { "" };
    let number = scene.number;
    let mut text = format!(
        "{error}\n        again: msccl-gpu-tests --only soak --device {device} --ranks {ranks} \
         --seed {seed} --scene {number}{quick}{scene}"
    );
    for warning in stage.recent.texts() {
        text += &format!("\n        {warning}");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn bench() -> Bench {
        let (machine, seconds) = (Machine::Host, Some(0));
        Bench { machine, ranks: 3, quick: true, seed: 5, seconds, scene: 0, cubins: None }
    }

    /// The first scene in which a result can be expected to be another one.
    fn spoilt(scope: &Scope, seed: u64) -> Prepared {
        let scenes = (0..).map(|number| generator::scene(scope, seed, number));
        let mut prepared = scenes.map(|scene| Prepared::new(scene, &scope.ranks));
        prepared.find_map(|mut prepared| prepared.spoil(0).then_some(prepared)).unwrap()
    }

    #[test]
    fn a_wrong_result_ends_it_and_says_how_to_repeat_it() {
        let bench = bench();
        let mut stage = SoakRunner::open(&bench).unwrap();
        let scope = scope(&bench, &stage);
        assert_eq!(scope.ranks, [3, 3, 2]);
        let right = Prepared::new(generator::scene(&scope, bench.seed, 0), &scope.ranks);
        stage.play(&right).unwrap();
        let wrong = spoilt(&scope, bench.seed);
        let error = stage.play(&wrong).unwrap_err();
        let text = with_repeat_command(&bench, &stage, &wrong, &error).to_string();
        let number = wrong.scene.number;
        for part in [
            "round 0: r".to_owned(),
            format!("--only soak --device host --ranks 3 --seed 5 --scene {number} --quick"),
            "act 0, eagerly in stream".to_owned(),
        ] {
            assert!(text.contains(&part), "{part} is not in {text}");
        }
    }
}

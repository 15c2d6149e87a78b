//! CUDA graphs: calls captured, launched several times, and mixed with calls that are not. A door
//! for `unsafe`.

use msccl_collective::{CollectiveKind, DataType, Protocol};
use msccl_gpu::{CaptureMode, GraphExec, Stream};
use msccl_runtime::{Overrides, Settings};

use super::launch_order::Delay;
use super::{Bench, Section, every_collective};
use crate::Trouble;
use crate::case::Case;
use crate::tally::Tally;
use crate::trial::Trial;
use crate::world::{RankWorker, World, raw, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "graphs",
    about: "calls captured in CUDA graphs, replayed, mixed with eager ones",
    run,
};

/// How often a graph is launched with inputs of its own.
const REPLAYS: u64 = 3;

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.machine.has_gpus() {
        return tally.skip("there are no CUDA graphs on the host");
    }
    for protocol in [None, Some(Protocol::Simple), Some(Protocol::Ll), Some(Protocol::Ll128)] {
        let overrides = Overrides { protocol, ..Overrides::default() };
        let setting = protocol.map_or("any protocol", Protocol::name);
        let join = || bench.world(&Settings { overrides, ..settings() });
        let Some(mut world) = tally.need(|| setting.to_owned(), join) else { continue };
        for kind in every_collective(bench.ranks) {
            let cases = [Case { count: 20_001, ..Case::of(kind) }];
            tally.check(
                || format!("{setting}: {}", cases[0].describe()),
                || replay(&mut world, &cases),
            );
        }
        let several = several(bench);
        tally.check(
            || format!("{setting}: several calls in a graph"),
            || replay(&mut world, &several),
        );
        let name = || format!("{setting}: graphs and eager calls back to back");
        tally.check(name, || back_to_back(&mut world, &several));
        let name = || format!("{setting}: graphs and eager calls in streams that nobody orders");
        tally.check(name, || in_two_streams(&mut world, &several));
    }
}

/// Calls of several kinds and sizes; none changes its own input.
pub(super) fn several(bench: &Bench) -> Vec<Case> {
    let all = every_collective(bench.ranks).into_iter().enumerate();
    let case = |(number, kind): (usize, CollectiveKind)| Case {
        count: [1, 777, 60_001][number % 3],
        data_type: DataType::ALL[number % DataType::ALL.len()],
        ..Case::of(kind)
    };
    all.map(case).collect()
}

/// Captures the calls and launches the graph several times, each time with other inputs and an
/// eager call between.
pub(super) fn replay(world: &mut World, cases: &[Case]) -> Result<(), Trouble> {
    let with_seed = |seed| cases.iter().map(|case| Case { seed, ..*case }).collect::<Vec<_>>();
    let first = world.trial(&with_seed(1), "")?;
    world.load(&first)?;
    let graphs = world.on_all(|worker| capture(worker, &first))?;
    for seed in 1..=REPLAYS {
        let trial = world.trial(&with_seed(seed), "")?;
        world.load(&trial)?;
        world.on_all(|worker| {
            launch(worker, &graphs[worker.rank.index()])?;
            worker.wait()
        })?;
        world.check(&trial)?;
        let eager = world.trial(&with_seed(seed + 100), "")?;
        world.run_trial(&eager, RankWorker::submit)?;
    }
    Ok(())
}

/// Launches of a graph and the same calls eagerly, in one stream without waiting.
pub(super) fn back_to_back(world: &mut World, cases: &[Case]) -> Result<(), Trouble> {
    let trial = world.trial(cases, "")?;
    world.load(&trial)?;
    let graphs = world.on_all(|worker| capture(worker, &trial))?;
    world.on_all(|worker| {
        for _ in 0..REPLAYS {
            launch(worker, &graphs[worker.rank.index()])?;
            worker.submit(&worker.calls(&trial))?;
        }
        launch(worker, &graphs[worker.rank.index()])?;
        worker.wait()
    })?;
    world.check(&trial)
}

/// Launches of a graph in one stream, and the same calls eagerly in another one, which only the
/// communicator orders. By turns, and on every second rank the other way round, one of the two
/// streams comes late to its calls: in any other order than that of the launches, ranks would run a
/// graph and eager calls against one another.
fn in_two_streams(world: &mut World, cases: &[Case]) -> Result<(), Trouble> {
    let trial = world.trial(cases, "")?;
    world.load(&trial)?;
    let graphs = world.on_all(|worker| capture(worker, &trial))?;
    world.on_all(|worker| {
        let (own, graph) = (stream(worker)?, &graphs[worker.rank.index()]);
        let delay = Delay::of(worker)?;
        let other = Stream::new(own.borrow().context())?;
        let eager = trial.calls(worker.rank, worker.memory.address(), raw(Some(&other)));
        for round in 0..2 * REPLAYS {
            let graph_is_late = (u64::from(worker.rank.0) + round).is_multiple_of(2);
            delay.hold_up(if graph_is_late { own } else { &other })?;
            launch(worker, graph)?;
            worker.submit(&eager)?;
        }
        // The last launch comes after all other calls.
        launch(worker, graph)?;
        worker.wait()?;
        Ok(other.borrow().synchronize()?)
    })?;
    world.check(&trial)
}

/// A graph of the calls of `trial`, which is loaded. The rank's memory must not grow while the
/// graph is used.
fn capture(worker: &RankWorker, trial: &Trial) -> Result<GraphExec, Trouble> {
    capture_in(stream(worker)?, || worker.submit(&worker.calls(trial)))
}

/// A graph of what `submit` puts into `stream`.
pub(super) fn capture_in(
    stream: &Stream,
    submit: impl FnOnce() -> Result<(), Trouble>,
) -> Result<GraphExec, Trouble> {
    let stream = stream.borrow();
    stream.begin_capture(CaptureMode::ThreadLocal)?;
    let submitted = submit();
    let graph = stream.end_capture();
    submitted?;
    Ok(graph?.instantiate()?)
}

fn launch(worker: &RankWorker, graph: &GraphExec) -> Result<(), Trouble> {
    launch_in(stream(worker)?, graph)
}

/// Launches a graph that was captured with communicators which are alive, and with memory of their
/// ranks that has not grown since.
pub(super) fn launch_in(stream: &Stream, graph: &GraphExec) -> Result<(), Trouble> {
    // SAFETY: as said above; sections capture nothing else, and drop graphs before what they name.
    unsafe { graph.launch(stream.borrow())? };
    Ok(())
}

pub(super) fn stream(worker: &RankWorker) -> Result<&Stream, Trouble> {
    worker.stream.as_ref().ok_or_else(|| "a rank on the host has no stream".into())
}

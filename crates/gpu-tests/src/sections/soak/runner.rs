//! The ranks that play scenes: threads of this process, each with a rank in every communicator.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use msccl_collective::CallPlacement;
use msccl_gpu::{Event, GraphExec, Stream};
use msccl_runtime::{
    Batch, CallShape, Choice, Communicator, Links, Overrides, PlaceOfRank, Settings, submit,
};

use super::case::{Capture, Round, SoakCase, SoakStep};
use super::engines::{self, ShownWindow};
use super::memory::{Prepared, StepMemory};
use super::recent::Recent;
use crate::Trouble;
use crate::hosts::Hosts;
use crate::memory::RankMemory;
use crate::sections::{Bench, graphs};
use crate::world::{RankWorker, on_threads, raw, settings, share_gpus, together, workers};

/// All ranks.
pub struct SoakRunner {
    runners: Vec<RankRunner>,
    communicators: Vec<Communicator>,
    /// Whether ranks share GPUs: nothing may be allocated there while a rank calls.
    sharing: bool,
    /// The communicator whose memory lies in windows, if there is one.
    windowed: Option<usize>,
    /// The latest warnings of the communicators.
    pub recent: Arc<Recent>,
}

/// One rank.
struct RankRunner {
    number: usize,
    /// Its ranks, by communicator.
    workers: Vec<Option<RankWorker>>,
    /// By act, what is captured.
    graphs: BTreeMap<usize, GraphExec>,
    /// By act, what must serve it.
    pins: BTreeMap<usize, Choice>,
    /// By communicator, where it was called last in this round, and whether that was in a graph.
    last: Vec<Option<(usize, bool)>>,
    /// That of the communicator whose memory lies in windows.
    window: Option<ShownWindow>,
}

impl SoakRunner {
    /// Communicators of all ranks: a usual one; one that delivers directly where GPUs can; and,
    /// where each rank has a GPU of its own, one whose calls copy engines carry. Another one of all
    /// ranks but the first, in reverse order, if these are several.
    pub fn open(bench: &Bench) -> Result<Self, Trouble> {
        let recent: Arc<Recent> = Arc::default();
        let first = Settings { log: recent.clone(), ..settings() };
        let overrides = Overrides { links: Some(Links::Direct), ..first.overrides.clone() };
        let second = Settings { overrides, ..first.clone() };
        let third = engines::settings(&first, bench.seed)?;
        let first = workers(Hosts::ONE, &bench.machine, bench.ranks, &first)?;
        let second = workers(Hosts::ONE, &bench.machine, bench.ranks, &second)?;
        let runner =
            |((number, first), second)| RankRunner::new(number, vec![Some(first), Some(second)]);
        let mut runners: Vec<RankRunner> =
            first.into_iter().enumerate().zip(second).map(runner).collect();
        let sharing = share_gpus(runners.iter().filter_map(RankRunner::place));
        let has_engines = bench.machine.has_gpus() && bench.ranks > 1 && !sharing;
        let windowed = has_engines.then_some(2);
        if has_engines {
            let third = workers(Hosts::ONE, &bench.machine, bench.ranks, &third)?;
            for (runner, mut worker) in runners.iter_mut().zip(third) {
                worker.memory = RankMemory::in_virtual_memory(worker.place.clone());
                runner.workers.push(Some(worker));
            }
            let communicators = all_communicators(&runners);
            together(&mut runners, &communicators, |runner| runner.begin_windows(windowed))?;
        }
        if bench.ranks > 2 {
            let communicators = all_communicators(&runners);
            together(&mut runners, &communicators, RankRunner::join_part)?;
        }
        let communicators = all_communicators(&runners);
        Ok(Self { runners, communicators, sharing, windowed, recent })
    }

    /// How many ranks each communicator has.
    pub fn ranks(&self) -> Vec<u32> {
        let workers = self.runners.last().map_or(&[][..], |runner| &runner.workers);
        workers.iter().flatten().map(|worker| worker.communicator.ranks()).collect()
    }

    /// Calls so far, on all ranks, whose buffers peers could use directly.
    pub fn direct_calls(&self) -> u64 {
        self.communicators.iter().map(Communicator::direct_calls).sum()
    }

    /// Calls so far, on all ranks, that copy engines have carried.
    pub fn carried_calls(&self) -> u64 {
        self.communicators.iter().map(Communicator::carried_calls).sum()
    }

    /// The communicator whose memory lies in windows, if there is one.
    pub fn windowed(&self) -> Option<usize> {
        self.windowed
    }

    /// Plays a scene and compares all memory after every round. After a failure there is nothing
    /// more to be had.
    pub fn play(&mut self, prepared: &Prepared) -> Result<(), Trouble> {
        self.begin(prepared)?;
        for (number, round) in prepared.scene.rounds.iter().enumerate() {
            let sheets = &prepared.sheets[number];
            self.round(&prepared.scene, round, sheets)
                .map_err(|error| format!("round {number}: {error}"))?;
        }
        self.on_all(|runner| {
            runner.graphs.clear();
            Ok(())
        })
    }

    fn on_all(
        &mut self,
        work: impl Fn(&mut RankRunner) -> Result<(), Trouble> + Sync,
    ) -> Result<(), Trouble> {
        together(&mut self.runners, &self.communicators, work).map(drop)
    }

    /// Memory, choices and graphs. Where it could matter to others that something is allocated when
    /// an act is first made, it is made once before.
    fn begin(&mut self, prepared: &Prepared) -> Result<(), Trouble> {
        let (scene, sheets) = (&prepared.scene, &prepared.sheets[0]);
        // Freeing waits for the device, so nobody may be calling.
        self.on_all(|runner| runner.reserve(sheets, scene.in_new_memory))?;
        let windowed = self.windowed;
        self.on_all(|runner| runner.show(windowed))?;
        self.choose(scene)?;
        let sharing = self.sharing;
        self.on_all(|runner| {
            let mut acts = scene.acts.iter().enumerate();
            acts.try_for_each(|(number, act)| match act.graph {
                Some(Capture::Within { .. }) if !sharing && !scene.apart => Ok(()),
                Some(_) => runner.capture(scene, sheets, number),
                None => Ok(()),
            })
        })?;
        for (number, act) in scene.acts.iter().enumerate() {
            if scene.apart || sharing && act.graph.is_some() {
                self.on_all(|runner| {
                    runner.perform(scene, sheets, number)?;
                    runner.wait()
                })?;
            }
        }
        Ok(())
    }

    /// Picks what must serve the acts that are pinned, among what all ranks offer.
    fn choose(&mut self, scene: &SoakCase) -> Result<(), Trouble> {
        for (number, act) in scene.acts.iter().enumerate() {
            let Some(pin) = act.pin else { continue };
            let work = |runner: &mut RankRunner| Ok(runner.choices(scene, act));
            let offers = together(&mut self.runners, &self.communicators, work)?;
            let mut offers = offers.into_iter().flatten();
            let mut choices = offers.next().unwrap_or_default();
            offers.for_each(|other| choices.retain(|choice| other.contains(choice)));
            let index = pin % choices.len().max(1) as u64;
            let Some(choice) = choices.get(index as usize) else { continue };
            for runner in &mut self.runners {
                runner.pins.insert(number, choice.clone());
            }
        }
        Ok(())
    }

    fn round(
        &mut self,
        scene: &SoakCase,
        round: &Round,
        sheets: &[Vec<StepMemory>],
    ) -> Result<(), Trouble> {
        let sharing = self.sharing;
        if sharing {
            self.on_all(|runner| runner.load(sheets))?;
        }
        // Where nobody shares a GPU, ranks do not wait for one another here: a call must not touch
        // memory of a rank that has not made it yet.
        let early = round.checks_early && !sharing;
        self.on_all(|runner| {
            if !sharing {
                runner.load(sheets)?;
            }
            runner.play(scene, round, sheets)?;
            runner.wait()?;
            if early { runner.check(sheets) } else { Ok(()) }
        })?;
        if early { Ok(()) } else { self.on_all(|runner| runner.check(sheets)) }
    }
}

impl Drop for SoakRunner {
    /// Ranks leave together, for they may wait for one another.
    fn drop(&mut self) {
        self.communicators.clear();
        let runners = self.runners.drain(..);
        on_threads(runners.map(|mut runner| {
            move || {
                runner.graphs.clear();
                drop(runner.window.take());
                // What was split from another goes before it.
                while runner.workers.pop().is_some() {}
            }
        }));
    }
}

fn all_communicators(runners: &[RankRunner]) -> Vec<Communicator> {
    let workers = runners.iter().flat_map(|runner| runner.workers.iter().flatten());
    workers.map(|worker| worker.communicator.clone()).collect()
}

impl RankRunner {
    fn new(number: usize, workers: Vec<Option<RankWorker>>) -> Self {
        let (graphs, pins, last, window) = Default::default();
        Self { number, workers, graphs, pins, last, window }
    }

    fn place(&self) -> Option<&PlaceOfRank> {
        self.workers.iter().flatten().map(|worker| &worker.place).next()
    }

    /// Joins the communicator of all ranks but the first.
    fn join_part(&mut self) -> Result<(), Trouble> {
        let Some(first) = self.workers.first().and_then(Option::as_ref) else { return Ok(()) };
        let color = (self.number > 0).then_some(0);
        let part = first.communicator.split(color, -(self.number as i32), None)?;
        let worker = part.map(|part| RankWorker::of(part, first.place.clone())).transpose()?;
        self.workers.push(worker);
        Ok(())
    }

    /// The streams of its ranks, which calls of any communicator may use.
    fn stream(&self, number: usize) -> (usize, Option<&Stream>) {
        let streams: Vec<_> = self.workers.iter().flatten().map(|worker| &worker.stream).collect();
        let number = number % streams.len().max(1);
        (number, streams.get(number).and_then(|stream| stream.as_ref()))
    }

    /// Its ranks, each with its sheet.
    fn with_sheets<'a>(
        &'a mut self,
        sheets: &'a [Vec<StepMemory>],
    ) -> impl Iterator<Item = (&'a mut RankWorker, &'a StepMemory)> {
        let workers = self.workers.iter_mut().zip(sheets);
        workers.filter_map(|(worker, sheets)| {
            let worker = worker.as_mut()?;
            let sheet = sheets.get(worker.rank.index())?;
            Some((worker, sheet))
        })
    }

    fn reserve(&mut self, sheets: &[Vec<StepMemory>], anew: bool) -> Result<(), Trouble> {
        self.pins.clear();
        if anew {
            self.window = None;
        }
        self.with_sheets(sheets).try_for_each(|(worker, sheet)| {
            if anew {
                worker.memory = worker.memory.another();
            }
            worker.memory.reserve(sheet.bytes.len())
        })
    }

    /// Has all memory of communicator `windowed` in a window, which all ranks open together: their
    /// memory grows alike.
    fn show(&mut self, windowed: Option<usize>) -> Result<(), Trouble> {
        let worker = windowed.and_then(|number| self.workers.get(number)?.as_ref());
        let Some(worker) = worker else { return Ok(()) };
        if self.window.as_ref().is_none_or(|window| !window.shows(worker)) {
            // Closed before the other one opens.
            self.window = None;
            self.window = Some(ShownWindow::open(worker)?);
        }
        Ok(())
    }

    /// Opens the first window, and makes the first call that needs more than a window.
    fn begin_windows(&mut self, windowed: Option<usize>) -> Result<(), Trouble> {
        let mut workers = self.workers.iter_mut().flatten();
        if let Some(worker) = windowed.and_then(|number| workers.nth(number)) {
            worker.memory.reserve(engines::FIRST_BYTES)?;
        }
        self.show(windowed)?;
        let worker = windowed.and_then(|number| self.workers.get(number)?.as_ref());
        worker.map_or(Ok(()), engines::reduce_once)
    }

    fn load(&mut self, sheets: &[Vec<StepMemory>]) -> Result<(), Trouble> {
        self.with_sheets(sheets).try_for_each(|(worker, sheet)| worker.memory.write(&sheet.bytes))
    }

    fn check(&mut self, sheets: &[Vec<StepMemory>]) -> Result<(), Trouble> {
        for (communicator, (worker, sheet)) in self.with_sheets(sheets).enumerate() {
            let found = worker.memory.read(sheet.bytes.len())?;
            sheet.check(&found).map_err(|error| {
                format!("{} of communicator {communicator}, {error}", worker.rank)
            })?;
        }
        Ok(())
    }

    /// All ways to serve an act that is one collective; `None` if the rank has no part in it.
    fn choices(&self, scene: &SoakCase, act: &SoakStep) -> Option<Vec<Choice>> {
        let (communicator, case) = scene.only_collective(act)?;
        let worker = self.workers[communicator].as_ref()?;
        if case.plain().is_none() {
            return Some(Vec::new());
        }
        // Of a collective with a root only the root may be in place.
        let in_place = case.shares_memory(worker.rank, worker.communicator.ranks());
        let placement = CallPlacement::from_in_place(in_place);
        Some(worker.communicator.choices(&CallShape { placement, ..case.shape() }))
    }

    /// What the rank submits for an act, in its streams, and on which communicators. Of messages it
    /// may have none.
    fn batches(
        &self,
        act: &SoakStep,
        sheets: &[Vec<StepMemory>],
    ) -> Result<(Vec<usize>, Vec<Batch>), Trouble> {
        let streams = [act.stream, act.other_stream.unwrap_or(act.stream)];
        let streams = streams.map(|stream| raw(self.stream(stream).1));
        let batch = |(communicator, range): &(usize, Range<usize>)| {
            let worker = self.workers[*communicator].as_ref()?;
            let (sheet, base) =
                (&sheets[*communicator][worker.rank.index()], worker.memory.address());
            let calls = range.clone().zip(streams.into_iter().cycle());
            let calls = calls.flat_map(|(piece, stream)| sheet.calls(piece, base, stream));
            let calls: Vec<_> = calls.collect();
            if calls.is_empty() {
                return None;
            }
            let batch = Batch::new(worker.communicator.clone(), &calls);
            Some(batch.map(|batch| (*communicator, batch)))
        };
        let batches = act.batches.iter().filter_map(batch);
        let batches: Vec<_> = batches.collect::<Result<_, _>>()?;
        Ok(batches.into_iter().unzip())
    }

    /// Submits `batches` of an act, by what must serve it.
    fn submit(&self, act: usize, batches: &[Batch]) -> Result<(), Trouble> {
        let Some(choice) = self.pins.get(&act) else { return Ok(submit(batches)?) };
        batches.iter().for_each(|batch| batch.communicator.pin(Some(choice.clone())));
        let submitted = submit(batches).map_err(|error| format!("pinned to {choice}: {error}"));
        batches.iter().for_each(|batch| batch.communicator.pin(None));
        Ok(submitted?)
    }

    /// Captures an act in its stream, if the rank has a part in it.
    fn capture(
        &mut self,
        scene: &SoakCase,
        sheets: &[Vec<StepMemory>],
        number: usize,
    ) -> Result<(), Trouble> {
        let act = &scene.acts[number];
        let (_, batches) = self.batches(act, sheets)?;
        if let Some(stream) = self.stream(act.stream).1.filter(|_| !batches.is_empty()) {
            let graph = graphs::capture_in(stream, || self.submit(number, &batches))?;
            self.graphs.insert(number, graph);
        }
        Ok(())
    }

    /// Captures what is due at a place of the rank's order: acts of this place and of later ones.
    fn capture_due(
        &mut self,
        scene: &SoakCase,
        sheets: &[Vec<StepMemory>],
        order: &[usize],
        place: usize,
    ) -> Result<(), Trouble> {
        for (later, &number) in order.iter().enumerate().skip(place) {
            match scene.acts[number].graph {
                Some(Capture::Within { ahead })
                    if later <= place + ahead && !self.graphs.contains_key(&number) =>
                {
                    self.capture(scene, sheets, number)?;
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn play(
        &mut self,
        scene: &SoakCase,
        round: &Round,
        sheets: &[Vec<StepMemory>],
    ) -> Result<(), Trouble> {
        self.last = vec![None; self.workers.len()];
        for (place, &act) in round.orders[self.number].iter().enumerate() {
            let late = round.late.as_ref().filter(|late| late.rank == self.number);
            if let Some(late) = late.filter(|late| late.place == place) {
                thread::sleep(Duration::from_micros(late.wait_us));
            }
            self.capture_due(scene, sheets, &round.orders[self.number], place)?;
            for _ in 0..scene.acts[act].times {
                self.perform(scene, sheets, act)?;
            }
        }
        Ok(())
    }

    fn perform(
        &mut self,
        scene: &SoakCase,
        sheets: &[Vec<StepMemory>],
        act: usize,
    ) -> Result<(), Trouble> {
        let number = act;
        let act = &scene.acts[number];
        let (communicators, batches) = self.batches(act, sheets)?;
        if batches.is_empty() {
            return Ok(());
        }
        self.order(act, &communicators)?;
        match (self.graphs.get(&number), self.stream(act.stream).1) {
            (Some(graph), Some(stream)) => graphs::launch_in(stream, graph),
            (Some(_), None) => Err("a graph without a stream".into()),
            (None, _) => self.submit(number, &batches),
        }
    }

    /// Orders graphs of `communicators` with their calls in other streams, as those must who launch
    /// graphs. A communicator on which the rank calls nothing in this act stays as it was.
    fn order(&mut self, act: &SoakStep, communicators: &[usize]) -> Result<(), Trouble> {
        let (number, Some(stream)) = self.stream(act.stream) else { return Ok(()) };
        for communicator in communicators {
            let last = self.last.get(*communicator).copied().flatten();
            let before =
                last.filter(|(of, graph)| *of != number && (*graph || act.graph.is_some()));
            if let Some(before) = before.and_then(|(of, _)| self.stream(of).1) {
                let edge = Event::ordering(stream.borrow().context())?;
                edge.record(before.borrow())?;
                stream.borrow().wait(&edge)?;
            }
        }
        for communicator in communicators {
            if let Some(last) = self.last.get_mut(*communicator) {
                *last = Some((number, act.graph.is_some()));
            }
        }
        Ok(())
    }

    /// Waits until all streams are done.
    fn wait(&self) -> Result<(), Trouble> {
        self.workers.iter().flatten().try_for_each(RankWorker::wait)
    }
}

//! Three communicators whose kernels begin in the order of their launches. A door for `unsafe`.
//!
//! Two may fill a GPU. The calls of all three are made in one order on all ranks, but on each rank
//! another stream comes late to its call: were kernels to begin as streams come to them, those of
//! no communicator might have room on all ranks, and ranks would wait for one another for ever.

use std::array;
use std::collections::BTreeMap;

use msccl_gpu::{DeviceBuffer, Event, GraphExec, PinnedBuffer, Stream};
use msccl_runtime::{PlaceOfRank, Settings};

use super::crossed::{self, CrossedWork};
use super::graphs::{capture_in, launch_in, stream};
use super::{Bench, Section};
use crate::Trouble;
use crate::tally::Tally;
use crate::world::{RankWorker, World, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "launch-order",
    about: "three communicators whose kernels begin in the order of their launches",
    run,
};

const WORLDS: usize = 3;

/// What keeps a stream from its call: a copy that takes more than a millisecond.
const DELAY_BYTES: usize = 64 << 20;

/// A copy to the GPU of a rank.
pub(super) struct Delay {
    from: PinnedBuffer,
    to: DeviceBuffer,
}

/// Delays by rank, and calls by communicator.
struct Scene<'a> {
    delays: &'a [Delay],
    works: [&'a CrossedWork; WORLDS],
}

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.machine.has_gpus() {
        return tally.skip("a rank on the host goes on when its call is done");
    }
    let settings = Settings { launch_order: true, ..settings() };
    let join = || (0..WORLDS).map(|_| bench.world(&settings)).collect::<Result<Vec<_>, _>>();
    let Some(mut worlds) = tally.need(|| "three worlds".to_owned(), join) else { return };
    let works = || crossed::works(&mut worlds[0]);
    let Some(works) = tally.need(|| "calls".to_owned(), works) else { return };
    let Some(delays) = tally.need(|| "delays".to_owned(), || delays(&worlds[0])) else { return };
    for work in &works {
        for world in &mut worlds {
            let alone = || crossed::alone(world, work);
            tally.check(|| format!("{}, alone", work.name), alone);
        }
    }
    for first in 0..works.len() {
        let of = array::from_fn(|next| &works[(first + next) % works.len()]);
        let scene = Scene { delays: &delays, works: of };
        let name = of.map(|work: &CrossedWork| work.name.as_str()).join(", then ");
        tally.check(|| name.clone(), || scene.play(&mut worlds, Scene::submit));
        tally.check(|| format!("in graphs: {name}"), || scene.play(&mut worlds, Scene::replay));
        if worlds.iter().any(World::has_failed) {
            return;
        }
    }
}

/// One for each rank.
fn delays(world: &World) -> Result<Vec<Delay>, Trouble> {
    world.workers.iter().map(Delay::of).collect()
}

impl Delay {
    /// One for streams of `worker`.
    pub(super) fn of(worker: &RankWorker) -> Result<Self, Trouble> {
        match &worker.place {
            PlaceOfRank::Host => Err("a rank on the host has no stream".into()),
            PlaceOfRank::Gpu(context) => Ok(Self {
                from: PinnedBuffer::new(context, DELAY_BYTES)?,
                to: DeviceBuffer::new(context, DELAY_BYTES)?,
            }),
        }
    }

    /// Keeps `stream` from what comes next. It is done before the delay goes.
    pub(super) fn hold_up(&self, stream: &Stream) -> Result<(), Trouble> {
        // SAFETY: the two hold nothing that matters, and whoever made them waits for the stream.
        unsafe { stream.borrow().copy(self.to.ptr(), self.from.ptr(), DELAY_BYTES)? };
        Ok(())
    }
}

impl Scene<'_> {
    /// Has `submit` make the calls, and compares all memory.
    fn play(
        &self,
        worlds: &mut [World],
        submit: impl Fn(&Self, &[World]) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        for (world, work) in worlds.iter_mut().zip(self.works) {
            world.on_all(|worker| work.load(worker))?;
        }
        submit(self, worlds)?;
        for (world, work) in worlds.iter_mut().zip(self.works) {
            world.on_all(|worker| worker.wait())?;
            world.on_all(|worker| work.check(worker))?;
        }
        Ok(())
    }

    /// The calls of one communicator after another, on all ranks.
    fn submit(&self, worlds: &[World]) -> Result<(), Trouble> {
        let ranks: Vec<_> = (0..self.delays.len()).collect();
        self.submit_of(worlds, &ranks)
    }

    /// The same, of `ranks` alone.
    fn submit_of(&self, worlds: &[World], ranks: &[usize]) -> Result<(), Trouble> {
        for (number, (world, work)) in worlds.iter().zip(self.works).enumerate() {
            for &rank in ranks {
                let worker = &world.workers[rank];
                if (rank + number).is_multiple_of(WORLDS) {
                    self.delays[rank].hold_up(stream(worker)?)?;
                }
                work.submit(worker)?;
            }
        }
        Ok(())
    }

    /// The same in a graph for each GPU.
    fn replay(&self, worlds: &[World]) -> Result<(), Trouble> {
        let workers = &worlds[0].workers;
        let mut of_gpus = BTreeMap::<_, Vec<_>>::new();
        for (rank, worker) in workers.iter().enumerate() {
            let gpu = stream(worker)?.borrow().context().device().ordinal();
            of_gpus.entry(gpu).or_default().push(rank);
        }
        let graph = |ranks: &Vec<usize>| Ok((ranks[0], self.capture(worlds, ranks)?));
        let graphs = of_gpus.values().map(graph).collect::<Result<Vec<_>, Trouble>>()?;
        for (rank, graph) in &graphs {
            launch_in(stream(&workers[*rank])?, graph)?;
        }
        // Graphs stay until their kernels are done.
        workers.iter().try_for_each(RankWorker::wait)
    }

    /// The calls of `ranks`, which have one GPU, each in the stream of its rank.
    fn capture(&self, worlds: &[World], ranks: &[usize]) -> Result<GraphExec, Trouble> {
        let workers =
            worlds.iter().flat_map(|world| ranks.iter().map(|rank| &world.workers[*rank]));
        let streams = workers.map(stream).collect::<Result<Vec<_>, _>>()?;
        let first = streams[0];
        let edge = Event::ordering(first.borrow().context())?;
        capture_in(first, || {
            edge.record(first.borrow())?;
            streams.iter().try_for_each(|stream| stream.borrow().wait(&edge))?;
            self.submit_of(worlds, ranks)?;
            for stream in &streams {
                edge.record(stream.borrow())?;
                first.borrow().wait(&edge)?;
            }
            Ok(())
        })
    }
}

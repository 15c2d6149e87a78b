//! Reductions of which copy engines make the exchange: all types and operators, both placements, in
//! pieces, in graphs.

use msccl_collective::{CollectiveKind, DataType, Reduction};
use msccl_gpu::{DeviceBuffer, VmmAllocation, VmmMapping};
use msccl_runtime::{Buffers, Call, Combine, CtaPolicy, Operation, Overrides, PlaceOfRank, Window};

use super::graphs::{capture_in, launch_in, stream};
use super::{Bench, Section, open_window};
use crate::Trouble;
use crate::case::Case;
use crate::tally::Tally;
use crate::world::{RankWorker, World};

/// The section.
pub const SECTION: Section = Section {
    name: "combined",
    about: "reductions whose exchange copy engines make: types, operators, placements, graphs",
    run,
};

/// Elements of all all-reduces: several pieces, of parts of which the last is shorter.
const BYTES: usize = (96 << 20) - 1000;

/// Of reduce-scatters: no more than it takes for kernels not to serve them, since the host computes
/// the results, too.
pub const REDUCED_BYTES: usize = 8 << 20;

/// So few that copy engines make the exchange of so large an all-reduce.
const FEW_BLOCKS: u32 = 12;

/// How often a graph is launched.
const LAUNCHES: u64 = 3;

/// What a rank has for all-reduces.
struct ReducedBuffers {
    input: DeviceBuffer,
    shown: VmmMapping,
    /// Open as long as this lives.
    _window: Window,
}

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.has_copy_engines(tally, "one rank has nothing to combine") {
        return;
    }
    // Before others, since there are several worlds on a GPU else.
    let few = Overrides { blocks_max: Some(FEW_BLOCKS), ..Overrides::default() };
    if let Some(mut world) = bench.world_with(tally, few) {
        all_reduce(&mut world, tally, &format!("{FEW_BLOCKS} thread blocks at most"));
    }
    let zero = Overrides { cta_policy: CtaPolicy::Zero, ..Overrides::default() };
    let Some(mut world) = bench.world_with(tally, zero) else { return };
    let others = [Reduction::Max, Reduction::Avg, Reduction::Prod].into_iter().cycle();
    for (data_type, other) in DataType::ALL.into_iter().zip(others) {
        for reduction in bench.some(&[Reduction::Sum, other], 1) {
            for in_place in [false, true] {
                let name = || format!("reduce-scatter, {data_type} {reduction:?}, {in_place}");
                tally.check(name, || scattered(&mut world, data_type, *reduction, in_place));
            }
        }
    }
    all_reduce(&mut world, tally, "as few thread blocks as can be");
}

/// All-reduces in windows, in ranks that are limited as `limit` says.
fn all_reduce(world: &mut World, tally: &mut Tally, limit: &str) {
    let make = || world.on_all(|rank| ReducedBuffers::of(rank));
    let Some(buffers) = tally.need(|| "windows".to_owned(), make) else { return };
    for in_place in [false, true] {
        let name =
            |how| format!("all-reduce of {BYTES} bytes, in place: {in_place}, {how}, {limit}");
        tally.check(|| name("at once"), || at_once(world, &buffers, in_place));
        tally.check(|| name("in graphs"), || in_graphs(world, &buffers, in_place));
    }
}

/// How many calls of every rank copy engines have carried.
fn carried(world: &World) -> Vec<u64> {
    world.workers.iter().map(|worker| worker.communicator.carried_calls()).collect()
}

/// A reduce-scatter, which needs no windows.
fn scattered(
    world: &mut World,
    data_type: DataType,
    reduction: Reduction,
    in_place: bool,
) -> Result<(), Trouble> {
    let count = (REDUCED_BYTES / world.ranks() as usize) / data_type.size_bytes() + 3;
    let case =
        Case { count, data_type, reduction, in_place, ..Case::of(CollectiveKind::ReduceScatter) };
    let before = carried(world);
    world.run(&case, "")?;
    match carried(world).iter().zip(before).all(|(after, before)| *after > before) {
        true => Ok(()),
        false => Err("kernels made the exchange".into()),
    }
}

impl ReducedBuffers {
    fn of(worker: &RankWorker) -> Result<Self, Trouble> {
        let PlaceOfRank::Gpu(context) = &worker.place else { return Err("no GPU".into()) };
        let shown = VmmAllocation::new(context, BYTES)?.map(&[context.device()])?;
        let input = DeviceBuffer::new(context, BYTES)?;
        let window = open_window(&worker.communicator, shown.ptr().0, shown.length_bytes())?;
        Ok(Self { input, shown, _window: window })
    }

    /// Writes the input of `rank`; where it lies.
    fn write(&self, rank: u32, seed: u64, in_place: bool) -> Result<u64, Trouble> {
        let input: Vec<u8> = (0..BYTES).map(|at| term(rank, seed, at)).collect();
        if in_place {
            self.shown.span().slice(0..BYTES)?.write(&input)?;
            return Ok(self.shown.ptr().0);
        }
        self.input.span().write(&input)?;
        Ok(self.input.ptr().0)
    }

    fn call(&self, send: u64, stream: u64) -> Call {
        let operation = Operation::AllReduce(Combine::Plain(Reduction::Sum));
        let buffers = Buffers { send, receive: self.shown.ptr().0, stream };
        Call { operation, data_type: DataType::U8, count: BYTES as u64, buffers }
    }

    fn check(&self, rank: u32, ranks: u32, seed: u64) -> Result<(), Trouble> {
        let mut found = vec![0; BYTES];
        self.shown.span().slice(0..BYTES)?.read(&mut found)?;
        let sum = |at| (0..ranks).fold(0u8, |sum, rank| sum.wrapping_add(term(rank, seed, at)));
        match (0..BYTES).find(|at| found[*at] != sum(*at)) {
            None => Ok(()),
            Some(at) => Err(format!("r{rank}: byte {at} is {}, not {}", found[at], sum(at)).into()),
        }
    }
}

/// The byte `at` of the input of `rank`.
fn term(rank: u32, seed: u64, at: usize) -> u8 {
    (at + at / 253 + rank as usize * 31 + seed as usize * 7) as u8
}

fn at_once(world: &mut World, buffers: &[ReducedBuffers], in_place: bool) -> Result<(), Trouble> {
    let ranks = world.ranks();
    world.on_all(|worker| {
        let (rank, own) = (worker.rank.0, &buffers[worker.rank.index()]);
        for seed in 0..LAUNCHES {
            let send = own.write(rank, seed, in_place)?;
            let before = worker.communicator.carried_calls();
            worker.submit(&[own.call(send, worker.stream())])?;
            worker.wait()?;
            own.check(rank, ranks, seed)?;
            if worker.communicator.carried_calls() == before {
                return Err("kernels made the exchange".into());
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn in_graphs(world: &mut World, buffers: &[ReducedBuffers], in_place: bool) -> Result<(), Trouble> {
    let ranks = world.ranks();
    let graphs = world.on_all(|worker| {
        let own = &buffers[worker.rank.index()];
        let send = own.write(worker.rank.0, 0, in_place)?;
        let call = own.call(send, worker.stream());
        capture_in(stream(worker)?, || worker.submit(&[call]))
    })?;
    for seed in 1..=LAUNCHES {
        world.on_all(|worker| {
            let (rank, own) = (worker.rank.index(), &buffers[worker.rank.index()]);
            own.write(worker.rank.0, seed, in_place)?;
            launch_in(stream(worker)?, &graphs[rank])?;
            worker.wait()?;
            own.check(worker.rank.0, ranks, seed)
        })?;
    }
    Ok(())
}

//! Calls that copy engines carry, into windows of all ranks: every byte, both placements at once,
//! graphs, calls of kernels between, and the end of calls to which a peer never comes.

use std::thread;
use std::time::Duration;

use msccl_collective::{DataType, Rank, Reduction};
use msccl_gpu::{DeviceBuffer, GraphExec, Stream, VmmAllocation, VmmMapping};
use msccl_runtime::{
    Buffers, Call, Combine, Communicator, CtaPolicy, Operation, Overrides, PlaceOfRank, Window,
};

use super::graphs::{capture_in, launch_in, stream};
use super::{Bench, Section, open_window};
use crate::Trouble;
use crate::tally::Tally;
use crate::world::{RankWorker, World, share_gpus};

/// The section.
pub const SECTION: Section = Section {
    name: "copy-engines",
    about: "calls without a kernel, into windows: placements, graphs, between others, given up",
    run,
};

/// Where in a window outputs begin.
const START: usize = 4096;

/// Bytes of the largest block.
const BLOCK_BYTES_MAX: usize = 16 << 20;

/// How often a graph is launched.
const LAUNCHES: u64 = 5;

/// What a rank has for its calls.
struct RankBuffers {
    input: DeviceBuffer,
    shown: VmmMapping,
    /// Open as long as this lives.
    _window: Window,
}

/// One call of all ranks.
#[derive(Clone, Copy)]
struct MoveCall {
    operation: Operation,
    bytes: usize,
    /// Bit `r` says whether rank `r` calls in place.
    in_place: usize,
    seed: u64,
}

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.has_copy_engines(tally, "one rank copies nothing to others") {
        return;
    }
    let overrides = Overrides { cta_policy: CtaPolicy::Zero, ..Overrides::default() };
    let Some(mut world) = bench.world_with(tally, overrides) else { return };
    let buffers =
        tally.need(|| "windows".to_owned(), || world.on_all(|rank| RankBuffers::of(rank)));
    let Some(buffers) = buffers else { return };
    let operations =
        [Operation::AllGather, Operation::AllToAll, Operation::Broadcast(Rank(bench.ranks - 1))];
    let sizes = [1, 12_345, 1 << 20, (4 << 20) + 4, BLOCK_BYTES_MAX];
    for operation in operations {
        for bytes in bench.some(&sizes, 3) {
            for in_place in [0, usize::MAX, 0b1010_1010_1010_1010] {
                let call = MoveCall { operation, bytes: *bytes, in_place, seed: 1 };
                let name = || call.describe();
                tally.check(name, || once(&mut world, &buffers, call));
                let name = || format!("{} in graphs", call.describe());
                tally.check(name, || in_graphs(&mut world, &buffers, call));
            }
        }
    }
    let rounds = bench.number(2000, 100);
    let name = || format!("{rounds} calls between calls of kernels");
    tally.check(name, || between_kernels(&mut world, &buffers, rounds));
    if share_gpus(world.workers.iter().map(|worker| &worker.place)) {
        return tally.skip("ranks that share a GPU see one another's memory itself");
    }
    tally.check(|| "given up".to_owned(), || given_up(&mut world, &buffers));
}

impl RankBuffers {
    fn of(worker: &RankWorker) -> Result<Self, Trouble> {
        let PlaceOfRank::Gpu(context) = &worker.place else { return Err("no GPU".into()) };
        let bytes = worker.communicator.ranks() as usize * BLOCK_BYTES_MAX;
        let shown = VmmAllocation::new(context, START + bytes)?.map(&[context.device()])?;
        let input = DeviceBuffer::new(context, bytes)?;
        let window = open(&worker.communicator, &shown)?;
        Ok(Self { input, shown, _window: window })
    }
}

fn open(communicator: &Communicator, shown: &VmmMapping) -> Result<Window, Trouble> {
    open_window(communicator, shown.ptr().0, shown.length_bytes())
}

impl MoveCall {
    fn describe(&self) -> String {
        let Self { operation, bytes, in_place, seed: _ } = self;
        let placement = match in_place {
            0 => "out of place",
            &usize::MAX => "in place",
            _ => "in both placements",
        };
        format!("{operation:?} of {bytes} bytes {placement}")
    }

    fn is_in_place(&self, rank: u32) -> bool {
        self.in_place >> (rank % usize::BITS) & 1 == 1
    }

    /// The block with which `from` begins what it gives to `to`, in `ranks` ranks.
    fn block(&self, from: u32, to: u32) -> Vec<u8> {
        let to = match self.operation {
            Operation::AllToAll => to,
            _ => 0,
        };
        let first = self.seed as usize * 7 + from as usize * 31 + to as usize * 3;
        (0..self.bytes).map(|at| (first + at + at / 251) as u8).collect()
    }

    /// Writes the input of `rank`; where it lies.
    fn write(&self, rank: u32, ranks: u32, buffers: &RankBuffers) -> Result<u64, Trouble> {
        let (count, own) = match self.operation {
            Operation::AllGather => (1, rank as usize * self.bytes),
            Operation::AllToAll => (ranks, 0),
            _ => (1, 0),
        };
        let input: Vec<u8> = (0..count).flat_map(|to| self.block(rank, to)).collect();
        if self.is_in_place(rank) {
            let at = START + own;
            buffers.shown.span().slice(at..at + input.len())?.write(&input)?;
            return Ok(buffers.shown.ptr().offset(at).0);
        }
        buffers.input.span().slice(0..input.len())?.write(&input)?;
        Ok(buffers.input.ptr().0)
    }

    fn call(&self, send: u64, buffers: &RankBuffers, stream: u64) -> Call {
        let receive = buffers.shown.ptr().offset(START).0;
        let (data_type, count) = (DataType::U8, self.bytes as u64);
        let buffers = Buffers { send, receive, stream };
        Call { operation: self.operation, data_type, count, buffers }
    }

    fn check(&self, rank: u32, ranks: u32, buffers: &RankBuffers) -> Result<(), Trouble> {
        let sources = match self.operation {
            Operation::Broadcast(root) => root.0..root.0 + 1,
            _ => 0..ranks,
        };
        let mut found = vec![0; self.bytes];
        for (block, from) in sources.enumerate() {
            let at = START + block * self.bytes;
            buffers.shown.span().slice(at..at + self.bytes)?.read(&mut found)?;
            let expected = self.block(from, rank);
            if let Some(byte) = (0..self.bytes).find(|byte| found[*byte] != expected[*byte]) {
                let (found, expected) = (found[byte], expected[byte]);
                let text = format!(
                    "r{rank}: byte {byte} of r{from} is {found}, not {expected} ({})",
                    self.describe()
                );
                return Err(text.into());
            }
        }
        Ok(())
    }
}

/// Makes sure that copy engines have carried `calls` calls since there were `before`.
fn check_carried(worker: &RankWorker, before: u64, calls: u64) -> Result<(), Trouble> {
    let carried = worker.communicator.carried_calls() - before;
    match carried == calls {
        true => Ok(()),
        false => Err(format!("copy engines carried {carried} of {calls} calls").into()),
    }
}

fn once(world: &mut World, buffers: &[RankBuffers], call: MoveCall) -> Result<(), Trouble> {
    let ranks = world.ranks();
    world.on_all(|worker| {
        let (rank, own) = (worker.rank.0, &buffers[worker.rank.index()]);
        for seed in call.seed..call.seed + 3 {
            let call = MoveCall { seed, ..call };
            let send = call.write(rank, ranks, own)?;
            let before = worker.communicator.carried_calls();
            worker.submit(&[call.call(send, own, worker.stream())])?;
            worker.wait()?;
            check_carried(worker, before, 1)?;
            call.check(rank, ranks, own)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn in_graphs(world: &mut World, buffers: &[RankBuffers], call: MoveCall) -> Result<(), Trouble> {
    let ranks = world.ranks();
    let inputs =
        world.on_all(|worker| call.write(worker.rank.0, ranks, &buffers[worker.rank.index()]))?;
    let graphs: Vec<GraphExec> = world.on_all(|worker| {
        let rank = worker.rank.index();
        let call = call.call(inputs[rank], &buffers[rank], worker.stream());
        capture_in(stream(worker)?, || worker.submit(&[call]))
    })?;
    for seed in 2..2 + LAUNCHES {
        let call = MoveCall { seed, ..call };
        world.on_all(|worker| {
            let (rank, own) = (worker.rank.index(), &buffers[worker.rank.index()]);
            call.write(worker.rank.0, ranks, own)?;
            launch_in(stream(worker)?, &graphs[rank])?;
            worker.wait()?;
            call.check(worker.rank.0, ranks, own)
        })?;
    }
    Ok(())
}

/// Calls of both kinds without a wait between them, each of which needs what the one before left.
fn between_kernels(
    world: &mut World,
    buffers: &[RankBuffers],
    rounds: usize,
) -> Result<(), Trouble> {
    const ELEMENTS: usize = 1000;
    let ranks = world.ranks();
    world.on_all(|worker| {
        let (me, own) = (worker.rank.index(), &buffers[worker.rank.index()]);
        let at = START + me * ELEMENTS * 4;
        let all = own.shown.span();
        let one = |me: usize| (0..ELEMENTS).flat_map(move |at| ((at + me) as i32).to_le_bytes());
        all.slice(at..at + ELEMENTS * 4)?.write(&one(me).collect::<Vec<_>>())?;
        let address = |at: usize| own.shown.ptr().offset(at).0;
        let stream = worker.stream();
        let call = |operation, count, send, receive| Call {
            operation,
            data_type: DataType::I32,
            count,
            buffers: Buffers { send, receive, stream },
        };
        let gather = call(Operation::AllGather, ELEMENTS as u64, address(at), address(START));
        let most = Combine::Plain(Reduction::Max);
        let all = ELEMENTS as u64 * u64::from(ranks);
        let most = call(Operation::AllReduce(most), all, address(START), address(START));
        for _ in 0..rounds {
            worker.submit(&[gather])?;
            worker.submit(&[most])?;
        }
        worker.wait()?;
        let mut found = vec![0; ELEMENTS * 4 * ranks as usize];
        own.shown.span().slice(START..START + found.len())?.read(&mut found)?;
        let expected: Vec<u8> = (0..ranks as usize).flat_map(one).collect();
        if found == expected { Ok(()) } else { Err("what came is not what was given".into()) }
    })?;
    Ok(())
}

/// A rank alone makes a call, and gives it up: its stream goes on, and the memory of its peers
/// stays as it is.
fn given_up(world: &mut World, buffers: &[RankBuffers]) -> Result<(), Trouble> {
    let ranks = world.ranks();
    let call = MoveCall { operation: Operation::AllGather, bytes: 1 << 20, in_place: 0, seed: 3 };
    world.on_all(|worker| {
        let (rank, own) = (worker.rank.0, &buffers[worker.rank.index()]);
        let PlaceOfRank::Gpu(context) = &worker.place else { return Err("no GPU".into()) };
        let child = worker.communicator.split(Some(0), 0, None)?.ok_or("no child")?;
        let _window = open(&child, &own.shown)?;
        let stream = Stream::new(context)?;
        let raw = stream.borrow().as_raw().addr() as u64;
        let send = call.write(rank, ranks, own)?;
        let once = call.call(send, own, raw);
        child.submit(&[once])?;
        stream.borrow().synchronize()?;
        call.check(rank, ranks, own)?;
        own.shown.span().fill(9)?;
        worker.communicator.submit(&[])?;
        if rank == 0 {
            child.submit(&[once])?;
            thread::sleep(Duration::from_millis(50));
            if stream.borrow().is_idle()? {
                return Err("the stream did not wait".into());
            }
            child.abort("a test");
            stream.borrow().synchronize()?;
        } else {
            thread::sleep(Duration::from_millis(500));
        }
        let mut found = vec![0; call.bytes * ranks as usize];
        own.shown.span().slice(START..START + found.len())?.read(&mut found)?;
        match found.iter().position(|byte| *byte != 9).filter(|_| rank != 0) {
            None => Ok(()),
            Some(at) => Err(format!("byte {at} of r{rank} was changed").into()),
        }
    })?;
    Ok(())
}

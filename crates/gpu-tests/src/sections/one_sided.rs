//! One-sided transfers: puts into windows of peers, and signals.

use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{DataType, Rank};
use msccl_gpu::{DeviceBuffer, Stream};
use msccl_runtime::{
    BufferPlaces, Buffers, Call, ExpectedSignals, Operation, PlaceOfRank, Put, Window, WindowMemory,
};

use super::{Bench, Section};
use crate::Trouble;
use crate::tally::Tally;
use crate::world::{RankWorker, World, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "one-sided",
    about: "puts into windows of peers and signals, in streams, by turns with collectives",
    run,
};

/// Bytes of the part of a window that one rank writes.
const PART_BYTES: usize = 1 << 20;

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.machine.has_gpus() {
        return tally.skip("C programs test what ranks on the host put");
    }
    let Some(mut world) = tally.need(|| "a world".to_owned(), || bench.world(&settings())) else {
        return;
    };
    if !world.workers.iter().all(|worker| worker.communicator.has_one_sided_transfers()) {
        return tally.skip("these GPUs do not map one another's memory");
    }
    let rounds = bench.number(100, 10) as u64;
    tally.check(|| "everyone to everyone".to_owned(), || all_to_all(&mut world, rounds));
    tally.check(|| "there and back".to_owned(), || ping_pong(&mut world, 50 * rounds));
    tally.check(|| "a wait that is given up".to_owned(), || given_up(&mut world));
    if world.ranks() > 1 {
        tally.check(|| "a wait when its communicator ends".to_owned(), || ended(&mut world));
    }
}

/// What a rank shows, and from where it puts.
struct Shown {
    window: Window,
    memory: DeviceBuffer,
    source: DeviceBuffer,
}

fn show(worker: &RankWorker) -> Result<Shown, Trouble> {
    let PlaceOfRank::Gpu(context) = &worker.place else { return Err("a rank has no GPU".into()) };
    let bytes = worker.communicator.ranks() as usize * PART_BYTES;
    let memory = DeviceBuffer::zeroed(context, bytes)?;
    let source = DeviceBuffer::zeroed(context, bytes)?;
    let places = BufferPlaces::Any;
    let (address, bytes) = (memory.ptr().0, bytes as u64);
    let shown = WindowMemory { address, bytes, shared: None, places };
    Ok(Shown { window: worker.communicator.open_window(&shown)?, memory, source })
}

fn byte(from: u32, to: u32, round: u64) -> u8 {
    (1 + u64::from(from) * 7 + u64::from(to) * 31 + round * 5) as u8
}

fn part(rank: u32) -> std::ops::Range<usize> {
    let start = rank as usize * PART_BYTES;
    start..start + PART_BYTES
}

fn all_to_all(world: &mut World, rounds: u64) -> Result<(), Trouble> {
    let ranks = world.ranks();
    world.on_all(|worker| {
        let shown = show(worker)?;
        let (me, stream) = (worker.rank.0, worker.stream());
        for round in 0..rounds {
            for peer in 0..ranks {
                let from = shown.source.span().slice(part(peer))?;
                from.fill(byte(me, peer, round))?;
                let put = Put {
                    from: from.ptr().0,
                    bytes: PART_BYTES as u64 - round,
                    peer: Rank(peer),
                    window: &shown.window,
                    offset_bytes: part(me).start as u64,
                };
                worker.communicator.put_signal(&put, stream)?;
            }
            let expected = (0..ranks).map(|peer| ExpectedSignals { peer: Rank(peer), count: 1 });
            worker.communicator.wait_signals(&expected.collect::<Vec<_>>(), stream)?;
            worker.wait()?;
            for peer in 0..ranks {
                let mut got = vec![0; PART_BYTES - round as usize];
                let range = part(peer).start..part(peer).start + got.len();
                shown.memory.span().slice(range)?.read(&mut got)?;
                let expected = byte(peer, me, round);
                if let Some(at) = got.iter().position(|found| *found != expected) {
                    let found = got[at];
                    let text = format!(
                        "round {round}: byte {at} of r{peer} on r{me} is {found}, not {expected}"
                    );
                    return Err(text.into());
                }
            }
            // Nobody overwrites what somebody still looks at.
            for peer in 0..ranks {
                worker.communicator.signal(Rank(peer), stream)?;
            }
            let expected = (0..ranks).map(|peer| ExpectedSignals { peer: Rank(peer), count: 1 });
            worker.communicator.wait_signals(&expected.collect::<Vec<_>>(), stream)?;
        }
        worker.wait()
    })?;
    Ok(())
}

/// Ranks hand a number round, each through its own memory, without the host looking: what was put
/// before a signal is there after the wait for it.
fn ping_pong(world: &mut World, rounds: u64) -> Result<(), Trouble> {
    let ranks = world.ranks();
    if ranks < 2 {
        return Ok(());
    }
    world.on_all(|worker| {
        let shown = show(worker)?;
        let (me, stream) = (worker.rank.0, worker.stream());
        let (next, last) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
        shown.source.span().slice(0..8)?.write(&7_u64.to_le_bytes())?;
        worker.wait()?;
        for round in 0..rounds {
            let expected = [ExpectedSignals { peer: Rank(last), count: 1 }];
            if me != 0 || round > 0 {
                worker.communicator.wait_signals(&expected, stream)?;
            }
            let is_first = me == 0 && round == 0;
            let from = if is_first { shown.source.ptr().0 } else { shown.memory.ptr().0 };
            let put =
                Put { from, bytes: 8, peer: Rank(next), window: &shown.window, offset_bytes: 0 };
            worker.communicator.put_signal(&put, stream)?;
        }
        if me == 0 {
            let expected = [ExpectedSignals { peer: Rank(last), count: 1 }];
            worker.communicator.wait_signals(&expected, stream)?;
        }
        worker.wait()?;
        let mut got = [0; 8];
        shown.memory.span().slice(0..8)?.read(&mut got)?;
        if got == 7_u64.to_le_bytes() { Ok(()) } else { Err(format!("r{me} has {got:?}").into()) }
    })?;
    Ok(())
}

/// A stream that waits for a signal which never comes goes on when the communicator is aborted.
fn given_up(world: &mut World) -> Result<(), Trouble> {
    world.on_all(|worker| {
        let PlaceOfRank::Gpu(context) = &worker.place else { return Err("no GPU".into()) };
        let child = worker.communicator.split(Some(0), 0, None)?.ok_or("no child")?;
        let stream = Stream::new(context)?;
        let expected = [ExpectedSignals { peer: worker.rank, count: 1 }];
        child.wait_signals(&expected, stream.borrow().as_raw().addr() as u64)?;
        thread::sleep(Duration::from_millis(50));
        if stream.borrow().is_idle()? {
            return Err("the stream did not wait".into());
        }
        child.abort("a test");
        Ok(stream.borrow().synchronize()?)
    })?;
    Ok(())
}

/// A communicator that has failed is destroyed, though a stream waits for a signal that never
/// comes.
fn ended(world: &mut World) -> Result<(), Trouble> {
    world.on_all(|worker| {
        let PlaceOfRank::Gpu(context) = &worker.place else { return Err("no GPU".into()) };
        let child = worker.communicator.split(Some(0), 0, None)?.ok_or("no child")?;
        let (stream, buffer) = (Stream::new(context)?, DeviceBuffer::zeroed(context, 4096)?);
        let raw = stream.borrow().as_raw().addr() as u64;
        let expected = [ExpectedSignals { peer: worker.rank, count: 1 }];
        child.wait_signals(&expected, raw)?;
        // Ranks that call different things fail all.
        let (send, receive) = (buffer.ptr().0, buffer.ptr().0);
        let call = Call {
            operation: Operation::Broadcast(worker.rank),
            data_type: DataType::U8,
            count: 1,
            buffers: Buffers { send, receive, stream: raw },
        };
        // Whoever comes late learns of it from its call.
        let _ = child.submit(&[call]);
        let since = Instant::now();
        while child.error().is_none() {
            if since.elapsed() > Duration::from_secs(10) {
                return Err("ranks called different things, and nobody noticed".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        if stream.borrow().is_idle()? {
            return Err("the stream did not wait".into());
        }
        drop(child);
        Ok(stream.borrow().synchronize()?)
    })?;
    Ok(())
}

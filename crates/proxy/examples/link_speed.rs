//! How fast a link over TCP is, beside a bare TCP connection in the same run: two ranks on threads,
//! over loopback.
//!
//! `cargo run --release -p msccl-proxy --example link_speed`

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Abort, Group, JoinRequest, RingBufferShape, Settings, UniqueId};
use msccl_proxy::{Config, Proxy, RdmaConfig, ring_buffers};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
const ROUND_TRIPS: u32 = 20_000;
const BYTES_IN_ALL: usize = 2 << 30;

/// One side of a conversation.
trait End {
    fn send(&mut self, bytes: usize);
    fn receive(&mut self, bytes: usize);
}

struct Link {
    sender: msccl_fabric::Sender,
    receiver: msccl_fabric::Receiver,
    abort: Abort,
    _proxy: Proxy,
}

impl End for Link {
    fn send(&mut self, bytes: usize) {
        self.sender.reserve(&self.abort, PATIENCE).unwrap().commit(bytes);
    }

    fn receive(&mut self, bytes: usize) {
        let message = self.receiver.peek(&self.abort, PATIENCE).unwrap();
        assert_eq!(message.bytes().len(), bytes);
        message.release();
    }
}

struct Bare {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl End for Bare {
    fn send(&mut self, bytes: usize) {
        self.stream.write_all(&self.buffer[..bytes]).unwrap();
    }

    fn receive(&mut self, bytes: usize) {
        self.stream.read_exact(&mut self.buffer[..bytes]).unwrap();
    }
}

/// Microseconds from one end to the other, as half a round trip.
fn latency(end: &mut dyn End, first: bool) -> f64 {
    let mut since = Instant::now();
    for round in 0..ROUND_TRIPS + 1000 {
        if round == 1000 {
            since = Instant::now();
        }
        match first {
            true => (end.send(8), end.receive(8)),
            false => (end.receive(8), end.send(8)),
        };
    }
    since.elapsed().as_secs_f64() * 1e6 / f64::from(ROUND_TRIPS) / 2.0
}

/// Gigabytes per second in one direction.
fn bandwidth(end: &mut dyn End, first: bool, bytes: usize) -> f64 {
    let count = BYTES_IN_ALL / bytes;
    let since = Instant::now();
    for _ in 0..count {
        if first { end.send(bytes) } else { end.receive(bytes) }
    }
    // The last word of the other end.
    if first {
        end.receive(1)
    } else {
        end.send(1)
    }
    (count * bytes) as f64 / since.elapsed().as_secs_f64() / 1e9
}

fn measure(end: &mut dyn End, first: bool) -> [f64; 3] {
    let latency = latency(end, first);
    [latency, bandwidth(end, first, 64 << 10), bandwidth(end, first, 1 << 20)]
}

fn links() -> [f64; 3] {
    let settings = Settings::default();
    let id = UniqueId::create(&settings).unwrap();
    let live = |rank: u32| {
        let join_request =
            JoinRequest { rank: Rank(rank), ranks: 2, facts: Vec::new(), description: Vec::new() };
        let group = Arc::new(Group::join(&[id], &join_request, &settings).unwrap());
        let rdma = RdmaConfig { enabled: false, ..RdmaConfig::default() };
        let config = Config { rdma, ..Config::default() };
        let proxy = Proxy::start(group.clone(), config, Abort::new()).unwrap();
        let shapes = [RingBufferShape { depth: 8, slot_bytes: 1 << 20 }];
        let mut pair = ring_buffers::pair(&shapes, &proxy.doorbell()).unwrap();
        proxy.connect(Rank(1 - rank), pair.endpoints).unwrap();
        let (sender, receiver) = (pair.senders.remove(0), pair.receivers.remove(0));
        let mut link = Link { sender, receiver, abort: Abort::new(), _proxy: proxy };
        let figures = measure(&mut link, rank == 0);
        group.barrier().unwrap();
        figures
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| live(1));
        let figures = live(0);
        other.join().unwrap();
        figures
    })
}

fn bare() -> [f64; 3] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let live = |stream: TcpStream, first| {
        stream.set_nodelay(true).unwrap();
        measure(&mut Bare { stream, buffer: vec![0; 1 << 20] }, first)
    };
    thread::scope(|scope| {
        let other = scope.spawn(move || live(TcpStream::connect(address).unwrap(), false));
        let figures = live(listener.accept().unwrap().0, true);
        other.join().unwrap();
        figures
    })
}

fn main() {
    println!("                8 B half round trip    64 KiB one way     1 MiB one way");
    for (name, measure) in [("bare TCP", bare as fn() -> _), ("link", links)] {
        for _ in 0..2 {
            let [latency, short, long] = measure();
            println!("{name:<16}{latency:>14.1} µs {short:>17.2} GB/s {long:>12.2} GB/s");
        }
    }
}

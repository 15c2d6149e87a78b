//! How soon a proxy notices messages in ports that cannot wake it, as those of GPUs: a message
//! there and back over TCP on the loopback, after the links have been quiet for a while; and what a
//! proxy costs that nobody needs.
//!
//! `cargo run --release -p msccl-proxy --example quiet_links`

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Abort, Doorbell, Group, JoinRequest, RingBufferShape, Settings, UniqueId};
use msccl_proxy::{Config, Piece, Proxy, RdmaConfig, ReceiveEndpoint, SendEndpoint, ring_buffers};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
const GAPS_US: [u64; 6] = [0, 200, 800, 5000, 20_000, 100_000];
const ROUND_TRIPS: usize = 101;

/// What the owner says to the proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Help {
    None,
    Graphs,
    Stirred,
}

/// A port that does not ring.
struct Mute<P: ?Sized>(Box<P>);

impl SendEndpoint for Mute<dyn SendEndpoint> {
    fn posted(&mut self) -> u64 {
        self.0.posted()
    }

    fn message(&self, number: u64) -> Piece {
        self.0.message(number)
    }

    fn release(&mut self, number: u64) {
        self.0.release(number);
    }
}

impl ReceiveEndpoint for Mute<dyn ReceiveEndpoint> {
    fn depth(&self) -> u32 {
        self.0.depth()
    }

    fn slot_bytes(&self) -> u32 {
        self.0.slot_bytes()
    }

    fn taken(&mut self) -> u64 {
        self.0.taken()
    }

    fn slot(&self, number: u64) -> u64 {
        self.0.slot(number)
    }

    fn commit(&mut self, number: u64, bytes: u32) -> Result<(), String> {
        self.0.commit(number, bytes)
    }
}

/// Of 8 bytes there and back: the median and the ninetieth percentile, in microseconds, after a
/// gap.
fn round_trips(rank: u32, group: Arc<Group>, help: Help) -> Vec<[f64; 2]> {
    let rdma = RdmaConfig { enabled: false, ..RdmaConfig::default() };
    let config = Config { rdma, ..Config::default() };
    let proxy = Proxy::start(group.clone(), config, Abort::new()).unwrap();
    if help == Help::Graphs {
        proxy.expect_graphs();
    }
    // Nobody listens to this one.
    let doorbell = Arc::new(Doorbell::new().unwrap());
    let mut pair =
        ring_buffers::pair(&[RingBufferShape { depth: 8, slot_bytes: 64 }], &doorbell).unwrap();
    let mute = |port| Box::new(Mute(port)) as Box<dyn SendEndpoint>;
    pair.endpoints.send_endpoints = pair.endpoints.send_endpoints.into_iter().map(mute).collect();
    let mute = |port| Box::new(Mute(port)) as Box<dyn ReceiveEndpoint>;
    pair.endpoints.receive_endpoints =
        pair.endpoints.receive_endpoints.into_iter().map(mute).collect();
    proxy.connect(Rank(1 - rank), pair.endpoints).unwrap();
    let (mut sender, mut receiver) = (pair.senders.remove(0), pair.receivers.remove(0));
    let abort = Abort::new();
    let mut exchange = || {
        let mut send = || sender.reserve(&abort, PATIENCE).unwrap().commit(8);
        let mut receive = || receiver.peek(&abort, PATIENCE).unwrap().release();
        match rank {
            0 => (send(), receive()),
            _ => (receive(), send()),
        };
    };
    let mut figures = Vec::new();
    for gap_us in GAPS_US {
        let one = |_| {
            thread::sleep(Duration::from_micros(gap_us));
            if help == Help::Stirred {
                proxy.wake();
            }
            let since = Instant::now();
            exchange();
            since.elapsed().as_secs_f64() * 1e6
        };
        let mut took: Vec<f64> = (0..ROUND_TRIPS).map(one).collect();
        took.sort_by(f64::total_cmp);
        figures.push([took[ROUND_TRIPS / 2], took[ROUND_TRIPS * 9 / 10]]);
    }
    group.barrier().unwrap();
    if rank == 0 {
        let (before, second) = (processor_ticks(), Duration::from_secs(1));
        thread::sleep(second);
        let ticks = processor_ticks() - before;
        println!("two proxies that nobody needs take {ticks} hundredths of a second each second");
    }
    group.barrier().unwrap();
    figures
}

/// What this process has had of the processors, in hundredths of a second.
fn processor_ticks() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    [11, 12].iter().map(|at| fields[*at].parse::<u64>().unwrap()).sum()
}

fn main() {
    for help in [Help::None, Help::Graphs, Help::Stirred] {
        let settings = Settings::default();
        let id = UniqueId::create(&settings).unwrap();
        let live = |rank: u32| {
            let (facts, description) = (Vec::new(), Vec::new());
            let join_request = JoinRequest { rank: Rank(rank), ranks: 2, facts, description };
            let group = Group::join(&[id], &join_request, &settings).unwrap();
            round_trips(rank, Arc::new(group), help)
        };
        let figures = thread::scope(|scope| {
            let other = scope.spawn(|| live(1));
            let figures = live(0);
            other.join().unwrap();
            figures
        });
        println!(
            "{}",
            match help {
                Help::None => "not woken",
                Help::Graphs => "not woken, but graphs are expected",
                Help::Stirred => "woken before each message",
            }
        );
        for (gap_us, [median, ninetieth]) in GAPS_US.into_iter().zip(figures) {
            println!(
                "quiet for {gap_us:>6} µs: {median:>8.0} µs, ninetieth percentile \
                 {ninetieth:>8.0} µs"
            );
        }
    }
}

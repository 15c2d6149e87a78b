//! Ranks on threads, and what they say to one another.

use std::ops::Deref;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{
    Abort, Group, JoinRequest, Receiver, RingBufferShape, Sender, Settings, UniqueId,
};
use msccl_proxy::{Config, Event, Log, Proxy, RdmaConfig, ring_buffers};
use msccl_testkit::ranks;
pub use msccl_testkit::ranks::wait_for;

/// Longer than any machine needs.
pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

pub const SHAPES: [RingBufferShape; 3] = [
    RingBufferShape { depth: 4, slot_bytes: 1000 },
    RingBufferShape { depth: 1, slot_bytes: 64 },
    RingBufferShape { depth: 8, slot_bytes: 100_000 },
];

/// Remembers what happened.
#[derive(Default)]
pub struct Diary(ranks::Diary<Event>);

impl Log for Diary {
    fn event(&self, event: &Event) {
        self.0.add(event);
    }
}

impl Deref for Diary {
    type Target = ranks::Diary<Event>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

pub fn settings() -> Settings {
    Settings {
        operation_timeout: PATIENCE,
        connect_timeout: Duration::from_secs(10),
        join_timeout: Duration::from_secs(30),
        ..Settings::default()
    }
}

/// TCP alone, whatever this machine has.
pub fn config() -> Config {
    Config { rdma: RdmaConfig { enabled: false, ..RdmaConfig::default() }, ..Config::default() }
}

pub fn join_request(rank: u32, ranks: u32) -> JoinRequest {
    JoinRequest { rank: Rank(rank), ranks, facts: Vec::new(), description: Vec::new() }
}

/// Runs `rank` on as many threads as there are ranks, each with its group; answers by rank.
pub fn run<T: Send>(ranks: u32, rank: impl Fn(Arc<Group>) -> T + Sync) -> Vec<T> {
    let settings = settings();
    let id = UniqueId::create(&settings).unwrap();
    ranks::on_threads(ranks, |index| {
        rank(Arc::new(Group::join(&[id], &join_request(index, ranks), &settings).unwrap()))
    })
}

/// The executor's ends of all links to one peer.
pub struct Ends {
    pub peer: Rank,
    pub senders: Vec<Sender>,
    pub receivers: Vec<Receiver>,
}

/// Connects `proxy` with all peers of `group`.
pub fn connect_all(proxy: &Proxy, group: &Group, shapes: &[RingBufferShape]) -> Vec<Ends> {
    let peers = (0..group.ranks()).map(Rank).filter(|peer| *peer != group.rank());
    peers.map(|peer| connect(proxy, peer, shapes)).collect()
}

pub fn connect(proxy: &Proxy, peer: Rank, shapes: &[RingBufferShape]) -> Ends {
    let pair = ring_buffers::pair(shapes, &proxy.doorbell()).unwrap();
    proxy.connect(peer, pair.endpoints).unwrap();
    Ends { peer, senders: pair.senders, receivers: pair.receivers }
}

/// Message `number` of a link: its length and its bytes follow from the numbers.
pub fn sample(from: Rank, link: usize, number: u64, slot_bytes: usize) -> Vec<u8> {
    let seed = (u64::from(from.0) * 31 + link as u64) * 1_000_003 + number * 7919;
    let length = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize % (slot_bytes + 1);
    (0..length).map(|i| (seed as usize + i * 13) as u8).collect()
}

/// Sends messages `from..to` on every link and checks those that come, link by link in turn.
pub fn talk(me: Rank, ends: &mut [Ends], from: u64, to: u64) {
    let abort = Abort::new();
    thread::scope(|scope| {
        for Ends { peer, senders, receivers } in ends {
            let (peer, abort) = (*peer, &abort);
            for (link, sender) in senders.iter_mut().enumerate() {
                scope.spawn(move || {
                    for number in from..to {
                        let message = sample(me, link, number, sender.shape().slot_bytes);
                        let mut slot = sender.reserve(abort, PATIENCE).unwrap();
                        slot.bytes()[..message.len()].copy_from_slice(&message);
                        slot.commit(message.len());
                    }
                });
            }
            for (link, receiver) in receivers.iter_mut().enumerate() {
                scope.spawn(move || {
                    for number in from..to {
                        let slot_bytes = receiver.shape().slot_bytes;
                        let message = receiver.peek(abort, PATIENCE).unwrap();
                        let expected = sample(peer, link, number, slot_bytes);
                        assert!(message.bytes() == expected, "r{} link {link} {number}", peer.0);
                        message.release();
                    }
                });
            }
        }
    });
}

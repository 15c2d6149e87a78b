//! Whole links over RDMA: proxies of ranks on threads, which find the library as a file and its
//! devices by themselves.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed")]

mod rig;

use std::path::PathBuf;
use std::process::Command;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{
    Abort, Group, JoinRequest, Receiver, RingBufferShape, RingBuffers, Sender, Settings, UniqueId,
};
use msccl_proxy::{Config, Copies, DmaBuf, Event, Log, Memory, Proxy, RdmaConfig, ring_buffers};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

const SHAPES: [RingBufferShape; 3] = [
    RingBufferShape { depth: 8, slot_bytes: 65_536 },
    RingBufferShape { depth: 1, slot_bytes: 64 },
    RingBufferShape { depth: 4, slot_bytes: 5000 },
];

#[derive(Default)]
struct Diary(Mutex<Vec<Event>>);

impl Log for Diary {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Diary {
    /// Rails that broke, with the reason.
    fn lost(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        events
            .iter()
            .filter(|event| matches!(event, Event::RailLost { .. }))
            .map(Event::to_string)
            .collect()
    }

    fn rails(&self) -> Vec<String> {
        let connected = |event: &Event| match event {
            Event::Connected { rails, .. } => rails.clone(),
            _ => Vec::new(),
        };
        self.0.lock().unwrap().iter().flat_map(connected).collect()
    }
}

/// The library that cargo has built beside this test.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libmsccl_rdma.so")
}

/// Each rank has two devices of its own, as hosts do.
fn config(rank: Rank, log: &Arc<Diary>) -> Config {
    let first = 2 * rank.0;
    let rdma = RdmaConfig {
        library: Some(library()),
        hca: Some(format!("=rxe{first},rxe{}", first + 1)),
        // Seven tries of 0.27 s.
        timeout: Some(16),
        retry_count: Some(6),
        ..RdmaConfig::default()
    };
    Config { rdma, log: log.clone(), ..Config::default() }
}

/// Runs `rank` on a thread for each rank, with its group, which believes that each is on a host of
/// its own.
fn run<T: Send>(ranks: u32, rank: impl Fn(Arc<Group>) -> T + Sync) -> Vec<T> {
    let settings = |host: u32| Settings {
        host: Some(format!("host{host}")),
        operation_timeout: PATIENCE,
        ..Settings::default()
    };
    let id = UniqueId::create(&settings(0)).unwrap();
    let live = |index| {
        let rank_and_count =
            JoinRequest { rank: Rank(index), ranks, facts: Vec::new(), description: Vec::new() };
        rank(Arc::new(Group::join(&[id], &rank_and_count, &settings(index)).unwrap()))
    };
    thread::scope(|scope| {
        let live = &live;
        let threads: Vec<_> = (0..ranks).map(|index| scope.spawn(move || live(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The executor's ends of all links to a peer.
struct Ends {
    peer: Rank,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
}

fn connect(proxy: &Proxy, peer: Rank) -> Ends {
    let pair = ring_buffers::pair(&SHAPES, &proxy.doorbell()).unwrap();
    proxy.connect(peer, pair.endpoints).unwrap();
    Ends { peer, senders: pair.senders, receivers: pair.receivers }
}

/// Message `number` of a link: its length and bytes follow from the numbers.
fn message(from: Rank, link: usize, number: u64, slot_bytes: usize) -> Vec<u8> {
    let seed = (u64::from(from.0) * 37 + link as u64) * 999_983 + number * 7907;
    let length = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize % (slot_bytes + 1);
    (0..length).map(|at| (seed as usize + at * 11) as u8).collect()
}

/// Sends messages on every link until `enough` says so, at least 20, and checks those of the peer.
/// Answers how many came.
fn talk(me: Rank, ends: &mut Ends, enough: impl Fn() -> bool + Sync) -> u64 {
    let (abort, peer) = (Abort::new(), ends.peer);
    thread::scope(|scope| {
        let (abort, enough) = (&abort, &enough);
        for (link, sender) in ends.senders.iter_mut().enumerate() {
            scope.spawn(move || {
                let mut number = 0;
                loop {
                    let last = number >= 20 && enough();
                    let bytes = message(me, link, number, sender.shape().slot_bytes - 1);
                    let mut slot = sender.reserve(abort, PATIENCE).unwrap();
                    // The first byte says whether it is the last.
                    slot.bytes()[0] = u8::from(last);
                    slot.bytes()[1..=bytes.len()].copy_from_slice(&bytes);
                    slot.commit(bytes.len() + 1);
                    number += 1;
                    if last {
                        return;
                    }
                }
            });
        }
        let receivers = ends.receivers.iter_mut().enumerate().map(|(link, receiver)| {
            scope.spawn(move || {
                for number in 0.. {
                    let slot_bytes = receiver.shape().slot_bytes - 1;
                    let found = receiver.peek(abort, PATIENCE).unwrap();
                    let expected = message(peer, link, number, slot_bytes);
                    assert!(found.bytes()[1..] == expected, "r{} link {link}: {number}", peer.0);
                    let last = found.bytes()[0] == 1;
                    found.release();
                    if last {
                        return number + 1;
                    }
                }
                0
            })
        });
        let receivers: Vec<_> = receivers.collect();
        receivers.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn after(time: Duration) -> impl Fn() -> bool + Sync {
    let begun = Instant::now();
    move || begun.elapsed() > time
}

fn change(command: [&str; 3]) {
    let status = Command::new(command[0]).args(&command[1..]).status();
    assert!(status.unwrap().success(), "{command:?}");
}

#[test]
fn two_ranks_talk_over_two_rails() {
    let Some(_rig) = rig::rig(4) else { return };
    run(2, |group| {
        let diary = Arc::new(Diary::default());
        let me = group.rank();
        let proxy = Proxy::start(group.clone(), config(me, &diary), Abort::new()).unwrap();
        let mut ends = connect(&proxy, Rank(1 - me.0));
        let count = talk(me, &mut ends, after(Duration::from_millis(500)));
        assert_eq!(proxy.failure(), None);
        let rails = diary.rails();
        println!("r{}: {count} messages over {rails:?}", me.0);
        assert_eq!(rails.len(), 2, "{rails:?}");
        let first = 2 * me.0;
        for (rail, index) in rails.iter().zip([first, first + 1]) {
            assert!(
                rail.starts_with(&format!("rxe{index} port 1 (10.8.0.{})", index + 1)),
                "{rail}"
            );
        }
        assert_eq!(diary.lost(), [""; 0]);
        group.barrier().unwrap();
    });
}

#[test]
fn a_rail_that_is_pulled_in_the_middle_loses_nothing() {
    let Some(_rig) = rig::rig(4) else { return };
    struct Undo;
    impl Drop for Undo {
        fn drop(&mut self) {
            change(["wire", "up", "1"]);
        }
    }
    let _undo = Undo;
    run(2, |group| {
        let diary = Arc::new(Diary::default());
        let me = group.rank();
        let proxy = Proxy::start(group.clone(), config(me, &diary), Abort::new()).unwrap();
        let mut ends = connect(&proxy, Rank(1 - me.0));
        // Both rails carry before one breaks.
        talk(me, &mut ends, || true);
        group.barrier().unwrap();
        let count = thread::scope(|scope| {
            if me.0 == 0 {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(500));
                    change(["wire", "down", "1"]);
                });
            }
            // Some more after it has broken.
            let lost = OnceLock::new();
            talk(me, &mut ends, || {
                !diary.lost().is_empty()
                    && lost.get_or_init(Instant::now).elapsed() > Duration::from_millis(500)
            })
        });
        assert_eq!(proxy.failure(), None);
        let lost = diary.lost();
        println!("r{}: {count} messages; {lost:#?}", me.0);
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert!(lost[0].contains(if me.0 == 0 { "rxe1" } else { "rxe3" }), "{lost:?}");
        assert!(lost[0].ends_with("1 rail carries on"), "{lost:?}");
        group.barrier().unwrap();
        assert_eq!(proxy.waits()[0].rails.len(), 1);
        group.barrier().unwrap();
    });
}

#[test]
fn a_rank_without_devices_gets_tcp() {
    let Some(_rig) = rig::rig(4) else { return };
    run(2, |group| {
        let diary = Arc::new(Diary::default());
        let me = group.rank();
        let mut config = config(me, &diary);
        if me.0 == 1 {
            config.rdma.hca = Some("=mlx5_7".into());
        }
        let proxy = Proxy::start(group.clone(), config, Abort::new()).unwrap();
        let mut ends = connect(&proxy, Rank(1 - me.0));
        talk(me, &mut ends, || true);
        let events: Vec<_> = diary.0.lock().unwrap().iter().map(Event::to_string).collect();
        let all = events.join("\n");
        println!("{all}");
        assert!(all.contains("NCCL_IB_HCA is `=mlx5_7`"), "{all}");
        assert!(all.contains("links to r") && all.contains("TCP 0"), "{all}");
        group.barrier().unwrap();
    });
}

/// What memory of a GPU is to a host without a driver for it: a descriptor, and an address where
/// there is nothing.
struct OfDevice(RingBuffers);

impl Memory for OfDevice {
    fn address(&self) -> *mut u8 {
        ptr::without_provenance_mut(1 << 20)
    }

    fn bytes(&self) -> u64 {
        self.0.memory().len() as u64
    }

    fn dmabuf(&self) -> Option<DmaBuf<'_>> {
        Some(DmaBuf { descriptor: self.0.memory().descriptor().ok()?, offset: 0 })
    }

    fn copies(&self) -> Option<&dyn Copies> {
        Some(self)
    }
}

impl Copies for OfDevice {
    fn fetch(&self, _: u64, _: &mut [u8]) -> Result<(), String> {
        Err("it is not connected".to_owned())
    }

    fn put(&self, _: u64, _: &[u8]) -> Result<(), String> {
        Err("it is not connected".to_owned())
    }
}

#[test]
fn memory_of_a_device_is_refused_and_host_memory_serves() {
    let Some(_rig) = rig::rig(4) else { return };
    run(2, |group| {
        let diary = Arc::new(Diary::default());
        let me = group.rank();
        let proxy = Proxy::start(group.clone(), config(me, &diary), Abort::new()).unwrap();
        let pair = ring_buffers::pair(&SHAPES, &proxy.doorbell()).unwrap();
        let memory: Arc<dyn Memory> = Arc::new(OfDevice(pair.ring_buffers.clone()));
        let why = proxy.register(&memory).err().unwrap();
        println!("r{}: {why}", me.0);
        for device in [2 * me.0, 2 * me.0 + 1] {
            assert!(why.contains(&format!("rxe{device} port 1 does not offer that: ")), "{why}");
        }
        let peer = Rank(1 - me.0);
        proxy.connect(peer, pair.endpoints).unwrap();
        let mut ends = Ends { peer, senders: pair.senders, receivers: pair.receivers };
        talk(me, &mut ends, || true);
        assert_eq!((proxy.failure(), diary.rails().len()), (None, 2));
        group.barrier().unwrap();
    });
}

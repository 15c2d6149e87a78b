//! How links end: in order, by death, by abort, and again and again.

use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Abort, ErrorKind, Group, RingBufferShape};
use msccl_proxy::{Config, Log, Piece, Proxy, SendEndpoint, ring_buffers};

use crate::world::{Diary, SHAPES, config, connect, connect_all, run, sample, talk, wait_for};

#[test]
fn what_was_put_arrives_although_the_sender_leaves_at_once() {
    let failures = run(2, |group| {
        let proxy = Proxy::start(group.clone(), config(), Abort::new()).unwrap();
        let mut ends = connect_all(&proxy, &group, &SHAPES);
        let Rank(me) = group.rank();
        if me == 0 {
            // Sends what fits and leaves, perhaps before the connection stands.
            for (link, sender) in ends[0].senders.iter_mut().enumerate() {
                let message = sample(Rank(0), link, 0, sender.shape().slot_bytes);
                let mut slot = sender.try_reserve().unwrap();
                slot.bytes()[..message.len()].copy_from_slice(&message);
                slot.commit(message.len());
            }
            drop(proxy);
            return None;
        }
        for (link, receiver) in ends[0].receivers.iter_mut().enumerate() {
            let message = receiver.peek(&Abort::new(), crate::world::PATIENCE).unwrap();
            assert!(message.bytes() == sample(Rank(0), link, 0, SHAPES[link].slot_bytes));
            message.release();
        }
        thread::sleep(Duration::from_millis(50));
        proxy.failure()
    });
    assert_eq!(failures, [None, None]);
}

#[test]
fn whoever_leaves_in_order_is_no_failure() {
    let outcomes = run(3, |group| {
        let proxy = Proxy::start(group.clone(), config(), Abort::new()).unwrap();
        let mut ends = connect_all(&proxy, &group, &SHAPES);
        talk(group.rank(), &mut ends, 0, 50);
        group.barrier().unwrap();
        if group.rank() == Rank(2) {
            let since = Instant::now();
            drop(proxy);
            group.barrier().unwrap();
            return (None, since.elapsed());
        }
        group.barrier().unwrap();
        let others: Vec<_> = ends.iter_mut().filter(|ends| ends.peer != Rank(2)).collect();
        assert_eq!(others.len(), 1);
        let mut rest: Vec<_> = ends.into_iter().filter(|ends| ends.peer != Rank(2)).collect();
        talk(group.rank(), &mut rest, 50, 100);
        (proxy.failure(), Duration::ZERO)
    });
    for (failure, took) in outcomes {
        assert_eq!(failure, None);
        assert!(took < Duration::from_secs(2), "leaving took {took:?}");
    }
}

/// Leaves before the others make their links, and waits until they have seen it.
fn leave(proxy: Proxy, group: &Group) {
    drop(proxy);
    group.barrier().unwrap();
    group.barrier().unwrap();
}

#[test]
fn whoever_leaves_before_links_stand_is_no_failure() {
    let failures = run(2, |group| {
        let proxy = Proxy::start(group.clone(), config(), Abort::new()).unwrap();
        if group.rank() == Rank(0) {
            let _ends = connect_all(&proxy, &group, &SHAPES);
            leave(proxy, &group);
            return None;
        }
        group.barrier().unwrap();
        let _ends = connect_all(&proxy, &group, &SHAPES);
        wait_for(|| (proxy.waits()[0].links == ["has left in order"]).then_some(()));
        group.barrier().unwrap();
        proxy.failure()
    });
    assert_eq!(failures, [None, None]);
}

/// A link that never carries anything.
struct Idle {
    /// While this is so, looking at it takes long.
    slow: Arc<AtomicBool>,
    /// When this is so, looking at it panics.
    panics: Arc<AtomicBool>,
}

impl SendEndpoint for Idle {
    fn posted(&mut self) -> u64 {
        if self.slow.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(300));
        }
        assert!(!self.panics.load(Ordering::Acquire), "as the test wants it");
        0
    }

    fn message(&self, _: u64) -> Piece {
        Piece { offset: 0, bytes: 0 }
    }

    fn release(&mut self, _: u64) {}
}

/// Links as [`connect`] makes them, of which send endpoints are idle.
fn connect_idly(proxy: &Proxy, peer: Rank, slow: &Arc<AtomicBool>, panics: &Arc<AtomicBool>) {
    let mut pair = ring_buffers::pair(&SHAPES, &proxy.doorbell()).unwrap();
    for send_endpoint in &mut pair.endpoints.send_endpoints {
        *send_endpoint = Box::new(Idle { slow: slow.clone(), panics: panics.clone() });
    }
    proxy.connect(peer, pair.endpoints).unwrap();
}

/// The peer has its links while whoever leaves has not heard so yet, being slow.
#[test]
fn whoever_leaves_while_links_stand_at_the_peer_alone_is_no_failure() {
    let diary = Arc::new(Diary::default());
    let stands = |peer| {
        let line = format!("links to r{peer} go over");
        let diary = diary.clone();
        move || diary.lines().iter().any(|line_of_log| line_of_log.starts_with(&line)).then_some(())
    };
    let failures = run(3, |group| {
        let Rank(me) = group.rank();
        let log: Arc<dyn Log> = if me == 0 { diary.clone() } else { Arc::new(()) };
        let proxy = Proxy::start(group.clone(), Config { log, ..config() }, Abort::new()).unwrap();
        let [slow, never] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        match me {
            1 => connect_idly(&proxy, Rank(2), &slow, &never),
            2 => {
                connect_idly(&proxy, Rank(1), &slow, &never);
                wait_for(|| (!proxy.waits()[0].rails.is_empty()).then_some(()));
                slow.store(true, Ordering::Release);
                connect_idly(&proxy, Rank(0), &never, &never);
            }
            _ => {}
        }
        group.barrier().unwrap();
        if me == 0 {
            connect_idly(&proxy, Rank(2), &never, &never);
            wait_for(|| {
                proxy.waits()[0].links.contains(&"has left in order".to_owned()).then_some(())
            });
        } else if me == 2 {
            wait_for(stands(2));
            drop(proxy);
            group.barrier().unwrap();
            return None;
        }
        group.barrier().unwrap();
        proxy.failure()
    });
    assert_eq!(failures, [None, None, None]);
}

#[test]
fn whoever_leaves_with_messages_and_without_links_is_a_failure() {
    let failures = run(2, |group| {
        let config = Config { drain_timeout: Duration::from_millis(50), ..config() };
        let proxy = Proxy::start(group.clone(), config, Abort::new()).unwrap();
        if group.rank() == Rank(1) {
            let mut ends = connect_all(&proxy, &group, &SHAPES);
            ends[0].senders[0].try_reserve().unwrap().commit(1);
            leave(proxy, &group);
            return None;
        }
        group.barrier().unwrap();
        let _ends = connect_all(&proxy, &group, &SHAPES);
        let failure = wait_for(|| proxy.failure());
        group.barrier().unwrap();
        Some(failure)
    });
    let text = failures[0].as_ref().unwrap().to_string();
    let expected = "the peer has given up: it has left, and the links did not stand in time";
    assert!(text.contains("r1 on host") && text.contains(expected), "{text}");
}

#[test]
fn a_panic_of_the_thread_is_a_failure_of_all_its_links() {
    let outcomes = run(3, |group| {
        let proxy = Proxy::start(group.clone(), config(), Abort::new()).unwrap();
        let (slow, panics) = (Arc::default(), Arc::default());
        let peers = (0..3).map(Rank).filter(|peer| *peer != group.rank());
        peers.for_each(|peer| connect_idly(&proxy, peer, &slow, &panics));
        wait_for(|| proxy.waits().iter().all(|wait| !wait.rails.is_empty()).then_some(()));
        group.barrier().unwrap();
        assert_eq!(proxy.failures(), []);
        panics.store(group.rank() == Rank(0), Ordering::Release);
        let enough = if group.rank() == Rank(0) { 2 } else { 1 };
        let failures = wait_for(|| Some(proxy.failures()).filter(|all| all.len() == enough));
        if group.rank() == Rank(0) {
            let since = Instant::now();
            (0..100).for_each(|_| assert!(proxy.waits().is_empty()));
            assert!(
                since.elapsed() < Duration::from_secs(20),
                "nobody answers, and all wait for it"
            );
        }
        group.barrier().unwrap();
        failures
    });
    let own: Vec<_> = outcomes[0].iter().map(|failure| (failure.peer, failure.kind)).collect();
    assert_eq!(own, [1, 2].map(|peer| (Rank(peer), ErrorKind::System)));
    let text = outcomes[0][0].to_string();
    assert!(text.contains("the proxy of r0: its thread has panicked"), "{text}");
    assert!(outcomes[1..].iter().all(|failures| failures[0].peer == Rank(0)), "{outcomes:?}");
}

#[test]
fn ends_that_do_not_fit_are_refused() {
    let failures = run(2, |group| {
        let Rank(me) = group.rank();
        let shapes = [RingBufferShape { depth: 4 + me, slot_bytes: 64 }];
        let proxy = Proxy::start(group.clone(), config(), Abort::new()).unwrap();
        let _ends = connect_all(&proxy, &group, &shapes);
        let failure = wait_for(|| proxy.failure());
        group.barrier().unwrap();
        failure
    });
    assert_eq!(failures[0].kind, ErrorKind::Mismatch);
    let text = failures[0].to_string();
    let expected = "link 0 has 4 slots of 64 bytes on this rank, 5 of 64 on the peer";
    assert!(text.contains("r1 on host") && text.contains(expected), "{text}");
    assert_eq!(failures[1].peer, Rank(0));
}

#[test]
fn an_abort_ends_the_thread_without_waiting() {
    run(2, |group| {
        let abort = Abort::new();
        let proxy = Proxy::start(group.clone(), config(), abort.clone()).unwrap();
        let mut ends = connect_all(&proxy, &group, &SHAPES);
        talk(group.rank(), &mut ends, 0, 10);
        group.barrier().unwrap();
        // Full ring buffers would keep an orderly end waiting.
        while let Some(slot) = ends[0].senders[0].try_reserve() {
            slot.commit(1);
        }
        abort.raise("enough");
        let since = Instant::now();
        wait_for(|| proxy.waits().is_empty().then_some(()));
        drop(proxy);
        assert!(since.elapsed() < Duration::from_secs(2));
    });
}

/// The peer takes nothing for a while, then all: an end waits for that, but no longer than it may.
#[test]
fn an_end_waits_for_peers_within_its_limit() {
    for (limit, expected) in [(60_000, 700..60_000), (200, 200..3_000)] {
        let took = run(2, |group| {
            let config = Config { drain_timeout: Duration::from_secs(60), ..config() };
            let proxy = Proxy::start(group.clone(), config, Abort::new()).unwrap();
            let mut ends = connect_all(&proxy, &group, &SHAPES[..1]);
            talk(group.rank(), &mut ends, 0, 10);
            let mut since = Instant::now();
            if group.rank() == Rank(0) {
                // What fits into the ring buffers of both ends.
                for _ in 0..2 * SHAPES[0].depth {
                    let slot = ends[0].senders[0].reserve(&Abort::new(), crate::world::PATIENCE);
                    slot.unwrap().commit(1);
                }
                group.barrier().unwrap();
                since = Instant::now();
                proxy.leave_within(Duration::from_millis(limit));
                drop(proxy);
            } else {
                group.barrier().unwrap();
                thread::sleep(Duration::from_millis(700));
                while let Some(message) = ends[0].receivers[0].try_peek() {
                    message.release();
                    thread::sleep(Duration::from_millis(5));
                }
                // What did not arrive in time is missed.
                assert_eq!(proxy.failure().is_some(), limit < 700);
            }
            group.barrier().unwrap();
            since.elapsed()
        });
        let took_ms = took[0].as_millis() as u64;
        assert!(expected.contains(&took_ms), "{took_ms} ms where {limit} ms are allowed");
    }
}

#[test]
fn an_abort_on_one_rank_is_a_failure_on_the_other() {
    let failures = run(2, |group| {
        let abort = Abort::new();
        let proxy = Proxy::start(group.clone(), config(), abort.clone()).unwrap();
        let mut ends = connect_all(&proxy, &group, &SHAPES);
        talk(group.rank(), &mut ends, 0, 10);
        group.barrier().unwrap();
        if group.rank() == Rank(0) {
            abort.raise("enough");
            group.barrier().unwrap();
            return None;
        }
        let failure = wait_for(|| proxy.failure());
        group.barrier().unwrap();
        Some(failure)
    });
    let failure = failures[1].as_ref().unwrap();
    assert_eq!((failure.peer, failure.kind), (Rank(0), ErrorKind::Network));
    assert!(failure.rail.starts_with("TCP 0 "), "{failure}");
}

#[test]
fn a_hang_is_described() {
    run(2, |group| {
        let proxy = Proxy::start(group.clone(), config(), Abort::new()).unwrap();
        if group.rank() == Rank(1) {
            group.barrier().unwrap();
            let mut ends = connect_all(&proxy, &group, &SHAPES[..1]);
            talk(Rank(1), &mut ends, 0, 2);
            group.barrier().unwrap();
            return;
        }
        let mut ends = connect_all(&proxy, &group, &SHAPES[..1]);
        assert_eq!(
            proxy.waits()[0].to_string(),
            "the links to r1 over no rail: has not requested links yet"
        );
        group.barrier().unwrap();
        talk(Rank(0), &mut ends, 0, 2);
        for _ in 0..8 {
            let slot = ends[0].senders[0].reserve(&Abort::new(), crate::world::PATIENCE).unwrap();
            slot.commit(1);
        }
        let description = wait_for(|| {
            let description = proxy.waits()[0].links.join("; ");
            description.ends_with("4 more wait for slots").then_some(description)
        });
        let expected = "message 3 on link 0 was sent with 3 behind it; the peer has taken 2; 4 \
                        more wait for slots";
        assert_eq!(description, expected);
        group.barrier().unwrap();
    });
}

#[test]
fn strangers_change_nothing() {
    let diary = Arc::new(Diary::default());
    run(2, |group| {
        let config = Config { log: diary.clone(), ..config() };
        let proxy = Proxy::start(group.clone(), config, Abort::new()).unwrap();
        let address = format!("{proxy:?}");
        let address = address.split("at ").nth(1).unwrap().split(", doorbell").next().unwrap();
        let address = address.to_socket_addrs().unwrap().next().unwrap();
        let mut strangers: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
        for unauthenticated in &mut strangers[..3] {
            unauthenticated.write_all(&[7; 100]).unwrap();
        }
        let mut ends = connect_all(&proxy, &group, &SHAPES);
        talk(group.rank(), &mut ends, 0, 20);
        group.barrier().unwrap();
        assert_eq!(proxy.failure(), None);
    });
    let lines = diary.lines();
    assert!(lines.iter().any(|line| line.contains("it speaks another protocol")), "{lines:#?}");
}

/// Descriptors of this process, and its threads.
fn held() -> (usize, usize) {
    let count = |folder| std::fs::read_dir(folder).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

#[test]
fn nothing_is_left_behind() {
    // A process of its own, since other tests open things at the same time.
    crate::processes::alone("endings::a_hundred_lives_leave_nothing");
}

#[test]
#[ignore = "run in a process of its own by `nothing_is_left_behind`"]
fn a_hundred_lives_leave_nothing() {
    let first = AtomicBool::new(true);
    run(2, |group| {
        let mut before = (0, 0);
        for life in 0..100 {
            let proxy = Proxy::start(group.clone(), config(), Abort::new()).unwrap();
            let mut ends = vec![connect(&proxy, Rank(1 - group.rank().0), &SHAPES[..2])];
            talk(group.rank(), &mut ends, 0, 3);
            drop(proxy);
            drop(ends);
            group.barrier().unwrap();
            if life == 0 && first.swap(false, Ordering::AcqRel) {
                // Threads vanish a moment after they were joined.
                thread::sleep(Duration::from_millis(100));
                before = held();
            }
            group.barrier().unwrap();
        }
        if before != (0, 0) {
            thread::sleep(Duration::from_millis(100));
            assert_eq!(held(), before, "descriptors and threads");
        }
        group.barrier().unwrap();
    });
}

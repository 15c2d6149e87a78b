//! What a round over many ports costs, on a board of counts as kernels of a GPU have one.
//!
//! `cargo test --release -p msccl-proxy --lib cost -- --ignored --nocapture`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::super::{RemoteEndpoint, Session};
use crate::endpoint::{Piece, ReceiveEndpoint, SendEndpoint};
use crate::poll_schedule::{Look, PollSchedule};
use crate::rail::{Broken, Posted, Rail, RailEvent, Write};

/// Wires of a pair of ranks each way: for collectives, and for transfers.
const WIRES: usize = 16 + 16;

/// A count, as far from the next as heads of wires are.
#[derive(Default)]
#[repr(align(128))]
struct Head(AtomicU64);

/// A port whose executor counts on the board.
struct Port(Arc<[Head]>, usize);

impl Port {
    fn count(&self) -> u64 {
        self.0[self.1].0.load(Ordering::Acquire)
    }
}

impl SendEndpoint for Port {
    fn posted(&mut self) -> u64 {
        self.count()
    }

    fn message(&self, _: u64) -> Piece {
        Piece { offset: 0, bytes: 8 }
    }

    fn release(&mut self, _: u64) {}
}

impl ReceiveEndpoint for Port {
    fn depth(&self) -> u32 {
        4
    }

    fn slot_bytes(&self) -> u32 {
        8
    }

    fn taken(&mut self) -> u64 {
        self.count()
    }

    fn slot(&self, _: u64) -> u64 {
        0
    }

    fn commit(&mut self, _: u64, _: u32) -> Result<(), String> {
        Ok(())
    }
}

/// A rail on which everything is sent at once and nothing comes.
#[derive(Default)]
struct Sink(usize);

impl Rail for Sink {
    fn describe(&self) -> String {
        "a sink".to_owned()
    }

    fn post(&mut self, _: &Write) -> Result<Posted, Broken> {
        self.0 += 1;
        Ok(Posted::Yes)
    }

    fn poll(&mut self, events: &mut Vec<RailEvent>) -> Result<(), Broken> {
        events.extend((0..std::mem::take(&mut self.0)).map(|_| RailEvent::Sent));
        Ok(())
    }

    fn close(&mut self) {}
}

fn session(board: &Arc<[Head]>, first: usize) -> Session {
    let far = || RemoteEndpoint { slot_bytes: 8, slots: vec![0; 4] };
    let port = |at| Box::new(Port(board.clone(), first + at));
    let send_endpoints = (0..WIRES).map(|wire| (port(2 * wire) as Box<dyn SendEndpoint>, far()));
    let receive_endpoints = (0..WIRES).map(|wire| port(2 * wire + 1) as Box<dyn ReceiveEndpoint>);
    Session::new(
        vec![Box::<Sink>::default()],
        send_endpoints.collect(),
        receive_endpoints.collect(),
    )
}

/// As the thread of a proxy goes round its peers.
fn round(sessions: &mut [Session], poll_schedule: &mut PollSchedule, look: Look) -> bool {
    let chosen = poll_schedule.begin(look);
    let mut busy = false;
    for &peer in &chosen {
        if sessions[peer].advance(poll_schedule.within(peer, look)).unwrap() {
            poll_schedule.wake(peer);
            busy = true;
        }
    }
    poll_schedule.end(chosen);
    busy
}

/// What `round` takes when nobody disturbs it: the best of many short bursts.
fn ns(mut round: impl FnMut()) -> f64 {
    const ROUNDS: u32 = 64;
    let burst = |_| {
        let since = Instant::now();
        (0..ROUNDS).for_each(|_| round());
        since.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    };
    (0..500).map(burst).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "a measurement, which proves nothing"]
fn rounds_over_many_wires() {
    println!(
        "peers · everything · all asleep · a wire of two peers awake · first message seen after"
    );
    for peers in [1, 2, 7, 31, 63] {
        let board: Arc<[Head]> = (0..peers * WIRES * 2).map(|_| Head::default()).collect();
        let mut sessions: Vec<_> =
            (0..peers).map(|peer| session(&board, peer * WIRES * 2)).collect();
        let mut poll_schedule = PollSchedule::new(peers);
        let mut look = |look| ns(|| _ = round(&mut sessions, &mut poll_schedule, look));
        let (whole, asleep) = (look(Look::Whole), look(Look::Part));
        let awake = ns(|| {
            for (peer, session) in sessions.iter_mut().enumerate().take(2) {
                poll_schedule.wake(peer);
                session.send_endpoints.wake(3);
                session.receive_endpoints.wake(3);
            }
            round(&mut sessions, &mut poll_schedule, Look::Part);
        });
        // Of wires that were never used before.
        let first = |wire: usize| {
            let head = (wire * 7 % peers) * WIRES * 2 + 2 * wire;
            let since = Instant::now();
            board[head].0.store(1, Ordering::Release);
            while !round(&mut sessions, &mut poll_schedule, Look::Part) {}
            since.elapsed().as_secs_f64() * 1e9
        };
        let mut first: Vec<_> = (4..WIRES).map(first).collect();
        first.sort_by(f64::total_cmp);
        let (median, most) = (first[first.len() / 2], first[first.len() * 9 / 10]);
        println!(
            "{peers:>5} · {whole:>6.0} ns · {asleep:>6.0} ns · {awake:>6.0} ns · {median:>6.0} ns, \
             ninetieth percentile {most:>6.0} ns"
        );
    }
}

//! Two sessions and a network that does its worst: whatever happens in whatever order, every
//! message arrives once, whole and in order, as long as one rail stands.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cost;
mod network;

use std::sync::{Arc, Mutex};

use network::{Memories, STEPS, Side, TestEndpoint, Wire, WireEnd};
use proptest::prelude::*;

use super::{Ended, RemoteEndpoint, Session};
use crate::endpoint::{ReceiveEndpoint, SendEndpoint};
use crate::poll_schedule::Look;
use crate::rail::Rail;

const SLOT_BYTES: usize = 24;

/// As a proxy looks while there is traffic.
const LOOK: Look = Look::Part;

/// What a test chooses.
#[derive(Clone, Debug)]
struct SessionWorld {
    rails: usize,
    links: usize,
    depth: u64,
    room: usize,
    sent_implies_arrived: bool,
    messages: u64,
    /// A rail that takes long for every step, in this direction.
    slow: (usize, Side),
}

/// Two ranks and what is between them.
struct SessionPair {
    world: SessionWorld,
    wires: Vec<Arc<Mutex<Wire>>>,
    sessions: [Option<Session>; 2],
    ended: [Option<Ended>; 2],
    /// Rings by side and link.
    send_endpoints: [Vec<TestEndpoint>; 2],
    receive_endpoints: [Vec<TestEndpoint>; 2],
}

impl SessionPair {
    fn new(world: &SessionWorld) -> Self {
        let slot_memory_bytes = world.depth as usize * SLOT_BYTES;
        let memories: Memories =
            [(); 2].map(|()| Arc::new(Mutex::new(vec![0; 2 * world.links * slot_memory_bytes])));
        let ring_buffers = |side: Side, half: usize| -> Vec<TestEndpoint> {
            let start = |link| (half * world.links + link) * slot_memory_bytes;
            let test_endpoint =
                |link| TestEndpoint::new(&memories[side], start(link), world.depth, SLOT_BYTES);
            (0..world.links).map(test_endpoint).collect()
        };
        let (send_endpoints, receive_endpoints) =
            ([0, 1].map(|side| ring_buffers(side, 0)), [0, 1].map(|side| ring_buffers(side, 1)));
        let wire = |_| Wire::new(memories.clone(), world.room, world.sent_implies_arrived);
        let wires: Vec<_> = (0..world.rails).map(|rail| Arc::new(Mutex::new(wire(rail)))).collect();
        let sessions = [0, 1].map(|side| {
            Some(session(
                side,
                &wires,
                &send_endpoints[side],
                &receive_endpoints[side],
                &receive_endpoints[1 - side],
            ))
        });
        Self {
            world: world.clone(),
            wires,
            sessions,
            ended: [None, None],
            send_endpoints,
            receive_endpoints,
        }
    }

    /// Does what `choice` stands for.
    fn act(&mut self, choice: u32) {
        let mut rest = choice as usize;
        let mut pick = |choices: usize| {
            let picked = rest % choices;
            rest /= choices;
            picked
        };
        let (what, side) = (pick(8), pick(2));
        match what {
            0 | 1 => self.advance(side),
            2 | 3 => drop(self.put(side, pick(self.world.links))),
            4 => drop(self.take(side, pick(self.world.links))),
            _ => {
                let (rail, step) = (pick(self.world.rails), STEPS[pick(4)]);
                if (rail, side) != self.world.slow || pick(24) == 0 {
                    self.wires[rail].lock().unwrap().step(side, step);
                }
            }
        }
    }

    fn advance(&mut self, side: Side) {
        if let Some(session) = &mut self.sessions[side]
            && let Err(ended) = session.advance(LOOK)
        {
            self.ended[side] = Some(ended);
            self.sessions[side] = None;
        }
    }

    fn put(&mut self, side: Side, link: usize) -> bool {
        let test_endpoint = &self.send_endpoints[side][link];
        let number = test_endpoint.put_so_far() + 1;
        number <= self.world.messages && test_endpoint.put(&sample(side, link, number))
    }

    fn take(&mut self, side: Side, link: usize) -> bool {
        let test_endpoint = &self.receive_endpoints[side][link];
        let number = test_endpoint.taken() + 1;
        let Some(message) = test_endpoint.take() else { return false };
        assert_eq!(message, sample(1 - side, link, number), "message {number} of link {link}");
        true
    }

    /// One side notices that a rail has failed; the other may later, or is informed.
    fn fail(&mut self, rail: usize, side: Side) {
        self.wires[rail].lock().unwrap().failed[side] = true;
    }

    /// Everybody goes on, in turn, until all messages have arrived.
    fn finish(&mut self) {
        for _ in 0..200 * (1 + self.world.messages) {
            if self.is_complete() {
                return;
            }
            for side in [0, 1] {
                self.advance(side);
                for link in 0..self.world.links {
                    self.put(side, link);
                    self.take(side, link);
                }
                for wire in &self.wires {
                    for step in STEPS {
                        wire.lock().unwrap().step(side, step);
                    }
                }
            }
        }
        let descriptions =
            self.sessions.each_mut().map(|session| session.as_mut().map(Session::describe));
        panic!("nothing moves: {descriptions:#?}, ended {:?}", self.ended);
    }

    /// As [`SessionPair::advance`], of a side that leaves; it is gone once it may be.
    fn leave(&mut self, side: Side) {
        let Some(session) = &mut self.sessions[side] else { return };
        if session.is_drained() {
            session.say_farewell();
        }
        session.advance(LOOK).unwrap();
        if session.has_parted() {
            self.sessions[side] = None;
        }
    }

    fn is_complete(&self) -> bool {
        let all = self.receive_endpoints.iter().flatten();
        all.into_iter().all(|test_endpoint| test_endpoint.taken() == self.world.messages)
    }
}

fn session(
    side: Side,
    wires: &[Arc<Mutex<Wire>>],
    send_endpoints: &[TestEndpoint],
    receive_endpoints: &[TestEndpoint],
    far: &[TestEndpoint],
) -> Session {
    let end = |(rail, wire): (usize, &Arc<Mutex<Wire>>)| {
        let name = format!("rail {rail}");
        Box::new(WireEnd { wire: wire.clone(), side, name }) as Box<dyn Rail>
    };
    let remote_endpoint = |test_endpoint: &TestEndpoint| RemoteEndpoint {
        slot_bytes: test_endpoint.slot_bytes as u32,
        slots: (1..=test_endpoint.depth).map(|number| test_endpoint.slot(number)).collect(),
    };
    let send_endpoints = send_endpoints.iter().zip(far);
    let send_endpoints = send_endpoints.map(|(test_endpoint, far)| {
        (Box::new(test_endpoint.clone()) as Box<dyn SendEndpoint>, remote_endpoint(far))
    });
    let receive_endpoints = receive_endpoints
        .iter()
        .map(|test_endpoint| Box::new(test_endpoint.clone()) as Box<dyn ReceiveEndpoint>);
    Session::new(
        wires.iter().enumerate().map(end).collect(),
        send_endpoints.collect(),
        receive_endpoints.collect(),
    )
}

fn sample(from: Side, link: usize, number: u64) -> Vec<u8> {
    let seed = number as usize * 31 + link * 7 + from * 3;
    (0..seed % (SLOT_BYTES + 1)).map(|i| (seed * 5 + i) as u8).collect()
}

fn worlds() -> impl Strategy<Value = SessionWorld> {
    let sizes = (1..=3_usize, 1..=4_usize, 1..=3_u64, 1..=6_usize);
    let slow = (0..3_usize, 0..2_usize);
    (sizes, any::<bool>(), 1..=25_u64, slow).prop_map(
        |(sizes, sent_implies_arrived, messages, slow)| {
            let (rails, links, depth, room) = sizes;
            SessionWorld { rails, links, depth, room, sent_implies_arrived, messages, slow }
        },
    )
}

/// Rails other than one, the survivor, fail on one side or both at these moments.
fn failures() -> impl Strategy<Value = (usize, Vec<(usize, usize, Side)>)> {
    (0..3_usize, prop::collection::vec((0..1500_usize, 0..3_usize, 0..2_usize), 0..6))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn every_message_arrives_once_as_long_as_a_rail_stands(
        world in worlds(),
        choices in prop::collection::vec(any::<u32>(), 0..1500),
        (survivor, failures) in failures(),
    ) {
        let mut pair = SessionPair::new(&world);
        for (moment, choice) in choices.into_iter().enumerate() {
            for (_, rail, side) in failures.iter().filter(|(at, _, _)| *at == moment) {
                if *rail < world.rails && *rail != survivor % world.rails {
                    pair.fail(*rail, *side);
                }
            }
            pair.act(choice);
        }
        pair.finish();
        prop_assert_eq!(pair.ended, [None, None]);
    }
}

proptest! {
    /// One leaves, at some time the other one does so too, and neither waits for what cannot come:
    /// who is gone answers nothing.
    #[test]
    fn whoever_leaves_is_let_go(
        world in worlds(),
        first in 0..2_usize,
        turns in prop::collection::vec(any::<u32>(), 0..60),
    ) {
        let mut pair = SessionPair::new(&world);
        pair.finish();
        let mut left = turns.len();
        for turn in turns {
            left -= 1;
            let (side, rail) = (turn as usize % 2, turn as usize / 2 % world.rails);
            match turn as usize / 8 % 3 {
                0 if side == first || left < 20 => pair.leave(side),
                0 => pair.advance(side),
                _ => {
                    let step = STEPS[turn as usize / 32 % 4];
                    pair.wires[rail].lock().unwrap().step(side, step);
                }
            }
        }
        for _ in 0..100 {
            for side in [first, 1 - first] {
                pair.leave(side);
                for wire in &pair.wires {
                    for step in STEPS {
                        wire.lock().unwrap().step(side, step);
                    }
                }
            }
        }
        prop_assert!(pair.sessions.iter().all(Option::is_none), "somebody waits in vain");
        prop_assert_eq!(pair.ended, [None, None]);
    }
}

#[test]
fn the_last_rail_takes_the_session_with_it() {
    let slow = (9, 0);
    let (sent_implies_arrived, messages) = (true, 10);
    let world = SessionWorld {
        rails: 2,
        links: 1,
        depth: 2,
        room: 2,
        sent_implies_arrived,
        messages,
        slow,
    };
    let mut pair = SessionPair::new(&world);
    pair.put(0, 0);
    pair.advance(0);
    pair.fail(0, 0);
    pair.advance(0);
    assert_eq!(pair.ended, [None, None]);
    pair.fail(1, 0);
    pair.advance(0);
    let ended = Ended { rail: "rail 1".to_owned(), why: "it failed".to_owned() };
    assert_eq!(pair.ended, [Some(ended), None]);
}

#[test]
fn stories_say_what_is_under_way() {
    let slow = (9, 0);
    let (sent_implies_arrived, messages) = (true, 10);
    let world = SessionWorld {
        rails: 1,
        links: 1,
        depth: 2,
        room: 9,
        sent_implies_arrived,
        messages,
        slow,
    };
    let mut pair = SessionPair::new(&world);
    let describe =
        |pair: &mut SessionPair, side: Side| pair.sessions[side].as_mut().unwrap().describe();
    assert!(describe(&mut pair, 0).is_empty());
    pair.put(0, 0);
    pair.put(0, 0);
    pair.advance(0);
    let expected =
        "message 1 on link 0 is on its way over rail 0 with 1 behind it; the peer has taken 0";
    assert_eq!(describe(&mut pair, 0), [expected]);
    for step in [STEPS[0], STEPS[2], STEPS[3], STEPS[0], STEPS[2], STEPS[3]] {
        assert!(pair.wires[0].lock().unwrap().step(0, step));
    }
    pair.advance(1);
    pair.advance(0);
    pair.put(0, 0);
    pair.advance(0);
    let expected = "message 1 on link 0 was sent with 1 behind it; the peer has taken 0; 1 more \
                    wait for slots";
    assert_eq!(describe(&mut pair, 0), [expected]);
    let expected = "all 2 slots of link 0 from the peer are full; message 2 was the last";
    assert_eq!(describe(&mut pair, 1), [expected]);
}

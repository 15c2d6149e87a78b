//! A network in one thread, whose every step is chosen by the test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::endpoint::{Piece, ReceiveEndpoint, SendEndpoint};
use crate::rail::{Broken, Posted, Rail, RailEvent, Write};

pub type Side = usize;

/// What a wire can do next, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Reads the bytes of the next post from the sender's memory.
    Read,
    /// Puts half of the bytes that were read first into the receiver's memory.
    LandHalf,
    /// Puts all of them there, and informs the receiver.
    Land,
    /// Tells the sender that the next post was sent.
    DescribeWaits,
}

pub const STEPS: [Step; 4] = [Step::Read, Step::LandHalf, Step::Land, Step::DescribeWaits];

/// The memory of both sides.
pub type Memories = [Arc<Mutex<Vec<u8>>>; 2];

/// One rail with both its ends.
pub struct Wire {
    memories: Memories,
    room: usize,
    /// Whether the sender is informed only when the bytes are in the receiver's memory, as over
    /// RDMA.
    sent_implies_arrived: bool,
    ways: [Way; 2],
    pub failed: [bool; 2],
    closed: [bool; 2],
}

/// What goes from one side, named by its index, to the other.
#[derive(Default)]
struct Way {
    unread: VecDeque<Write>,
    read: VecDeque<(Write, Vec<u8>)>,
    /// Posts of which the sender may be informed, and those of which it was.
    sent: usize,
    outstanding: usize,
    mark_reported: VecDeque<RailEvent>,
    landed: VecDeque<RailEvent>,
}

impl Wire {
    pub fn new(memories: Memories, room: usize, sent_implies_arrived: bool) -> Self {
        let (ways, failed, closed) = (Default::default(), [false; 2], [false; 2]);
        Self { memories, room, sent_implies_arrived, ways, failed, closed }
    }

    /// Takes a step in the direction away from `from`, if it is possible. A wire goes on carrying
    /// what was posted, though an end has failed, until its receiver closes it.
    pub fn step(&mut self, from: Side, step: Step) -> bool {
        let way = &mut self.ways[from];
        match step {
            Step::Read if !self.closed[from] => {
                let Some(write) = way.unread.pop_front() else { return false };
                let memory = self.memories[from].lock().unwrap();
                let start = write.from as usize;
                let bytes = memory[start..start + write.bytes as usize].to_vec();
                way.read.push_back((write, bytes));
                way.sent += usize::from(!self.sent_implies_arrived);
            }
            Step::LandHalf if !self.closed[1 - from] => {
                let Some((write, bytes)) = way.read.front() else { return false };
                let half = bytes.len() / 2;
                let start = write.to as usize;
                let mut memory = self.memories[1 - from].lock().unwrap();
                memory[start..start + half].copy_from_slice(&bytes[..half]);
                return false;
            }
            Step::Land if !self.closed[1 - from] => {
                let Some((write, bytes)) = way.read.pop_front() else { return false };
                let start = write.to as usize;
                let mut memory = self.memories[1 - from].lock().unwrap();
                memory[start..start + bytes.len()].copy_from_slice(&bytes);
                let Write { bytes, tag, .. } = write;
                way.landed.push_back(RailEvent::Arrived { tag, bytes });
                way.sent += usize::from(self.sent_implies_arrived);
            }
            Step::DescribeWaits if way.sent > 0 => {
                way.sent -= 1;
                way.mark_reported.push_back(RailEvent::Sent);
            }
            _ => return false,
        }
        true
    }
}

/// One end of a wire.
pub struct WireEnd {
    pub wire: Arc<Mutex<Wire>>,
    pub side: Side,
    pub name: String,
}

impl Rail for WireEnd {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn post(&mut self, write: &Write) -> Result<Posted, Broken> {
        let mut wire = self.wire.lock().unwrap();
        assert!(!wire.closed[self.side], "a post on a closed rail");
        if wire.failed[self.side] {
            return Err(Broken { why: "it failed".to_owned() });
        }
        let room = wire.room;
        let way = &mut wire.ways[self.side];
        if way.outstanding >= room {
            return Ok(Posted::Full);
        }
        way.outstanding += 1;
        way.unread.push_back(*write);
        Ok(Posted::Yes)
    }

    fn poll(&mut self, events: &mut Vec<RailEvent>) -> Result<(), Broken> {
        let mut wire = self.wire.lock().unwrap();
        assert!(!wire.closed[self.side], "a closed rail is polled");
        if wire.failed[self.side] {
            return Err(Broken { why: "it failed".to_owned() });
        }
        let way = &mut wire.ways[self.side];
        way.outstanding -= way.mark_reported.len();
        events.extend(way.mark_reported.drain(..));
        events.extend(wire.ways[1 - self.side].landed.drain(..));
        Ok(())
    }

    fn close(&mut self) {
        self.wire.lock().unwrap().closed[self.side] = true;
    }
}

/// A ring buffer in the memory of a side, both of whose ends the test sees.
#[derive(Clone)]
pub struct TestEndpoint {
    memory: Arc<Mutex<Vec<u8>>>,
    start: usize,
    pub depth: u64,
    pub slot_bytes: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    lengths: Vec<u32>,
    taken: u64,
}

impl TestEndpoint {
    pub fn new(memory: &Arc<Mutex<Vec<u8>>>, start: usize, depth: u64, slot_bytes: usize) -> Self {
        let memory = memory.clone();
        Self { memory, start, depth, slot_bytes, state: Arc::default() }
    }

    fn place(&self, number: u64) -> usize {
        self.start + ((number - 1) % self.depth) as usize * self.slot_bytes
    }

    pub fn put_so_far(&self) -> u64 {
        self.state.lock().unwrap().lengths.len() as u64
    }

    pub fn taken(&self) -> u64 {
        self.state.lock().unwrap().taken
    }

    /// Puts the next message into its slot, if that is free.
    pub fn put(&self, message: &[u8]) -> bool {
        let mut state = self.state.lock().unwrap();
        let number = state.lengths.len() as u64 + 1;
        if number > state.taken + self.depth {
            return false;
        }
        let place = self.place(number);
        self.memory.lock().unwrap()[place..place + message.len()].copy_from_slice(message);
        state.lengths.push(message.len() as u32);
        true
    }

    /// Takes the next message, if there is one, and spoils its slot.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock().unwrap();
        let length = *state.lengths.get(state.taken as usize)? as usize;
        state.taken += 1;
        let place = self.place(state.taken);
        let mut memory = self.memory.lock().unwrap();
        let message = memory[place..place + length].to_vec();
        memory[place..place + self.slot_bytes].fill(0xdd);
        Some(message)
    }
}

impl SendEndpoint for TestEndpoint {
    fn posted(&mut self) -> u64 {
        self.put_so_far()
    }

    fn message(&self, number: u64) -> Piece {
        let state = self.state.lock().unwrap();
        assert!(number > state.taken, "message {number} was released");
        let bytes = state.lengths[number as usize - 1];
        Piece { offset: self.place(number) as u64, bytes }
    }

    fn release(&mut self, number: u64) {
        let before = self.taken();
        assert!(number > before && number <= self.put_so_far());
        for released in before + 1..=number {
            let place = self.place(released);
            self.memory.lock().unwrap()[place..place + self.slot_bytes].fill(0xee);
        }
        self.state.lock().unwrap().taken = number;
    }
}

impl ReceiveEndpoint for TestEndpoint {
    fn depth(&self) -> u32 {
        self.depth as u32
    }

    fn slot_bytes(&self) -> u32 {
        self.slot_bytes as u32
    }

    fn taken(&mut self) -> u64 {
        TestEndpoint::taken(self)
    }

    fn slot(&self, number: u64) -> u64 {
        self.place(number) as u64
    }

    fn commit(&mut self, number: u64, bytes: u32) -> Result<(), String> {
        let mut state = self.state.lock().unwrap();
        assert_eq!(number, state.lengths.len() as u64 + 1, "commits are in order");
        assert!(number <= state.taken + self.depth, "a slot that is not free");
        state.lengths.push(bytes);
        Ok(())
    }
}

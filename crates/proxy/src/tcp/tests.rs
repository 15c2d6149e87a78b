//! TCP rails between two ends in one thread.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod sigpipe;

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use msccl_fabric::SharedMemory;
use proptest::prelude::*;

use super::TcpRail;
use crate::endpoint::{Copies, Memory};
use crate::rail::{Broken, Posted, Rail, RailEvent, Write};

const BYTES: usize = 1 << 20;
const SILENCE: Duration = Duration::from_secs(40);

struct SharedBytes(SharedMemory);

impl Memory for SharedBytes {
    fn address(&self) -> *mut u8 {
        self.0.as_ptr()
    }

    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

impl SharedBytes {
    fn new() -> Arc<Self> {
        Arc::new(Self(SharedMemory::create(BYTES).unwrap()))
    }

    fn word(&self, index: usize) -> u64 {
        self.0.word(8 * index).unwrap().load(std::sync::atomic::Ordering::Relaxed)
    }

    fn set_word(&self, index: usize, value: u64) {
        self.0.word(8 * index).unwrap().store(value, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The same memory, as if processors did not reach it.
struct Copied(Arc<SharedBytes>);

impl Memory for Copied {
    fn address(&self) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn copies(&self) -> Option<&dyn Copies> {
        Some(self)
    }
}

impl Copies for Copied {
    fn fetch(&self, from: u64, into: &mut [u8]) -> Result<(), String> {
        for (index, bytes) in into.as_chunks_mut().0.iter_mut().enumerate() {
            *bytes = self.0.word(from as usize / 8 + index).to_ne_bytes();
        }
        Ok(())
    }

    fn put(&self, to: u64, bytes: &[u8]) -> Result<(), String> {
        for (index, bytes) in bytes.as_chunks().0.iter().enumerate() {
            self.0.set_word(to as usize / 8 + index, u64::from_ne_bytes(*bytes));
        }
        Ok(())
    }
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    for stream in [&one, &other] {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    (one, other)
}

fn rail(stream: TcpStream, memory: &Arc<SharedBytes>) -> TcpRail {
    TcpRail::new(stream, memory.clone(), "rail".to_owned(), SILENCE)
}

/// Polls until something has happened or the rail is broken.
fn await_news(rail: &mut TcpRail) -> (Vec<RailEvent>, Option<Broken>) {
    let mut events = Vec::new();
    for _ in 0..5000 {
        let broken = rail.poll(&mut events).err();
        if broken.is_some() || !events.is_empty() {
            return (events, broken);
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("nothing happens");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Writes of any length arrive in order and in place, whether or not processors reach the
    /// memory.
    #[test]
    fn writes_arrive_in_order_and_in_place(
        writes in prop::collection::vec(
            (0..BYTES as u64 / 8, 0..30_000_u64, prop::bool::ANY), 1..60,
        ),
        copied in any::<[bool; 2]>(),
    ) {
        let (near, far) = (SharedBytes::new(), SharedBytes::new());
        (0..BYTES / 8).for_each(|index| near.set_word(index, index as u64 * 3 + 1));
        let (one, other) = connection();
        let memory = |copied, memory: &Arc<SharedBytes>| -> Arc<dyn Memory> {
            if copied { Arc::new(Copied(memory.clone())) } else { memory.clone() }
        };
        let rail = |stream, memory| TcpRail::new(stream, memory, "rail".to_owned(), SILENCE);
        let mut one = rail(one, memory(copied[0], &near));
        let mut other = rail(other, memory(copied[1], &far));
        let writes: Vec<_> = writes.into_iter().enumerate().map(|(tag, (start, words, empty))| {
            let words = if empty { 0 } else { words.min(BYTES as u64 / 8 - start) };
            Write { from: 8 * start, to: 8 * start, bytes: 8 * words as u32, tag: tag as u32 }
        }).collect();
        let (mut waiting, mut sent, mut arrived) = (writes.iter(), 0, 0);
        let mut next = waiting.next();
        while arrived < writes.len() || sent < writes.len() {
            while let Some(write) = next && one.post(write) == Ok(Posted::Yes) {
                next = waiting.next();
            }
            let mut events = Vec::new();
            one.poll(&mut events).unwrap();
            prop_assert!(events.iter().all(|what| *what == RailEvent::Sent));
            sent += events.len();
            events.clear();
            other.poll(&mut events).unwrap();
            for what in events {
                let Write { tag, bytes, to, .. } = writes[arrived];
                prop_assert_eq!(what, RailEvent::Arrived { tag, bytes });
                for index in (to..to + u64::from(bytes)).step_by(8).map(|place| place / 8) {
                    prop_assert_eq!(far.word(index as usize), index * 3 + 1);
                }
                arrived += 1;
            }
        }
    }
}

/// The header of a write, as it goes over the wire.
fn header(to: u64, bytes: u32, tag: u32) -> Vec<u8> {
    let numbers = [bytes.to_le_bytes(), tag.to_le_bytes()].concat();
    [to.to_le_bytes().to_vec(), numbers].concat()
}

#[test]
fn what_comes_byte_by_byte_arrives() {
    let memory = SharedBytes::new();
    let (mut peer, near) = connection();
    let mut near = rail(near, &memory);
    let bytes = [header(16, 8, 7), 42_u64.to_le_bytes().to_vec(), header(0, 0, 8)].concat();
    let mut events = Vec::new();
    for byte in bytes {
        peer.write_all(&[byte]).unwrap();
        thread::sleep(Duration::from_millis(1));
        near.poll(&mut events).unwrap();
    }
    let expected =
        [RailEvent::Arrived { tag: 7, bytes: 8 }, RailEvent::Arrived { tag: 8, bytes: 0 }];
    assert_eq!(events, expected);
    assert_eq!(memory.word(2), 42);
}

#[test]
fn a_write_that_lies_outside_breaks_the_rail() {
    for (to, bytes) in [(BYTES as u64 - 7, 8), (u64::MAX - 3, 8), (0, u32::MAX), (u64::MAX, 0)] {
        let memory = SharedBytes::new();
        let (mut peer, near) = connection();
        let mut near = rail(near, &memory);
        peer.write_all(&[header(8, 8, 1), vec![1; 8], header(to, bytes, 2), vec![9; 64]].concat())
            .unwrap();
        let (events, broken) = await_news(&mut near);
        assert_eq!(events, [RailEvent::Arrived { tag: 1, bytes: 8 }]);
        let why = broken.or_else(|| await_news(&mut near).1).unwrap().why;
        let expected = format!("a message of the peer, {bytes} bytes at offset {to}, lies outside");
        assert!(why.starts_with(&expected), "{why}");
        assert!((0..BYTES / 8).all(|index| index == 1 || memory.word(index) == 0));
        assert!(near.post(&Write { from: 0, to: 0, bytes: 0, tag: 0 }).is_err());
    }
}

#[test]
fn what_came_before_the_end_counts() {
    let (mut peer, near) = connection();
    let mut near = rail(near, &SharedBytes::new());
    peer.write_all(&header(0, 0, 5)).unwrap();
    drop(peer);
    thread::sleep(Duration::from_millis(20));
    let (events, broken) = await_news(&mut near);
    assert_eq!(events, [RailEvent::Arrived { tag: 5, bytes: 0 }]);
    assert_eq!(broken.unwrap().why, "the peer has closed the connection");
}

#[test]
fn a_closed_rail_reports_nothing() {
    let (one, other) = connection();
    let (mut one, mut other) = (rail(one, &SharedBytes::new()), rail(other, &SharedBytes::new()));
    one.close();
    assert!(one.poll(&mut Vec::new()).is_err());
    assert!(await_news(&mut other).1.is_some());
}

//! Where the ring buffers of one piece of shared memory lie.
//!
//! ```text
//! header      magic · number of ring buffers · stopped                    one line
//! directory   offset · depth · slot bytes                          per ring buffer
//! ring buffer        what the sender writes                               one line
//!             what the receiver writes                             one line
//!             message lengths                                      depth words
//!             slots                                                depth × slot bytes, in lines
//! ```
//!
//! A line is 128 bytes, so that the two ends never write to one cache line (nor to a pair that is
//! fetched together). Whoever opens the memory checks that all of it lies inside.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::RingBufferShape;
use crate::shared::SharedMemory;

const MAGIC: u64 = u64::from_le_bytes(*b"msccl-r1");
const LINE: usize = 128;
const ENTRY_BYTES: usize = 24;
const WORD: usize = 8;

/// More ring buffers than any communicator has; bounds what a damaged header can ask for.
const RING_BUFFERS_LIMIT: usize = 1 << 20;

/// All places, and the size that they take.
pub(super) struct Layout {
    pub(super) places: Vec<Place>,
    pub(super) bytes: usize,
}

/// Where one ring buffer lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    offset: usize,
    pub(super) shape: RingBufferShape,
}

/// The control words of a ring buffer.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    /// Messages committed; written by the sender.
    pub(super) sent: &'a AtomicU64,
    pub(super) sender_taken: &'a AtomicU64,
    /// Changes when the sender wakes the receiver.
    pub(super) sent_bell: &'a AtomicU32,
    /// Whether the sender sleeps or is about to.
    pub(super) sender_sleeps: &'a AtomicU32,
    /// Messages released; written by the receiver.
    pub(super) taken: &'a AtomicU64,
    pub(super) receiver_taken: &'a AtomicU64,
    /// Changes when the receiver wakes the sender.
    pub(super) taken_bell: &'a AtomicU32,
    /// Whether the receiver sleeps or is about to.
    pub(super) receiver_sleeps: &'a AtomicU32,
}

impl Layout {
    /// `None` if a ring buffer has no slots or all do not fit into an address space.
    pub(super) fn new(shapes: &[RingBufferShape]) -> Option<Self> {
        let directory = ENTRY_BYTES.checked_mul(shapes.len())?;
        let mut bytes = lines(LINE.checked_add(directory)?)?;
        let mut places = Vec::with_capacity(shapes.len());
        for shape in shapes {
            let place = Place { offset: bytes, shape: *shape };
            bytes = bytes.checked_add(place.bytes()?)?;
            places.push(place);
        }
        (shapes.len() <= RING_BUFFERS_LIMIT && isize::try_from(bytes).is_ok())
            .then_some(Self { places, bytes })
    }

    pub(super) fn write(&self, memory: &SharedMemory) {
        for (index, place) in self.places.iter().enumerate() {
            let RingBufferShape { depth, slot_bytes } = place.shape;
            let entry = [place.offset as u64, u64::from(depth), slot_bytes as u64];
            for (field, value) in entry.into_iter().enumerate() {
                word(memory, LINE + index * ENTRY_BYTES + field * WORD)
                    .store(value, Ordering::Relaxed);
            }
        }
        word(memory, WORD).store(self.places.len() as u64, Ordering::Relaxed);
        word(memory, 0).store(MAGIC, Ordering::Release);
    }

    /// The places that the directory of `memory` lists; the text says what is wrong with it.
    pub(super) fn read(memory: &SharedMemory) -> Result<Vec<Place>, &'static str> {
        let get = |offset: usize| {
            let word = memory.word(offset).ok_or("it is too short")?;
            usize::try_from(word.load(Ordering::Acquire)).map_err(|_| "a number is absurd")
        };
        if get(0)? as u64 != MAGIC {
            return Err("it begins otherwise");
        }
        let count = get(WORD)?;
        if count > RING_BUFFERS_LIMIT {
            return Err("it lists too many");
        }
        let shape = |index: usize| {
            let entry = LINE + index * ENTRY_BYTES;
            let depth = u32::try_from(get(entry + WORD)?).map_err(|_| "a number is absurd")?;
            Ok(RingBufferShape { depth, slot_bytes: get(entry + 2 * WORD)? })
        };
        let shapes: Vec<_> = (0..count).map(shape).collect::<Result<_, &'static str>>()?;
        let layout = Self::new(&shapes).ok_or("a ring buffer has an impossible shape")?;
        if layout.bytes != memory.len() {
            return Err("its size is not what its ring buffers take");
        }
        Ok(layout.places)
    }
}

impl Place {
    fn bytes(&self) -> Option<usize> {
        let depth = usize::try_from(self.shape.depth).ok().filter(|depth| *depth > 0)?;
        let lengths = lines(depth.checked_mul(WORD)?)?;
        let slots = lines(self.shape.slot_bytes)?.checked_mul(depth)?;
        (2 * LINE).checked_add(lengths)?.checked_add(slots)
    }

    pub(super) fn ends<'a>(&self, memory: &'a SharedMemory) -> Ends<'a> {
        let (sender, receiver) = (self.offset, self.offset + LINE);
        Ends {
            sent: word(memory, sender),
            sender_taken: word(memory, sender + WORD),
            sent_bell: half_word(memory, sender + 2 * WORD),
            sender_sleeps: half_word(memory, sender + 2 * WORD + 4),
            taken: word(memory, receiver),
            receiver_taken: word(memory, receiver + WORD),
            taken_bell: half_word(memory, receiver + 2 * WORD),
            receiver_sleeps: half_word(memory, receiver + 2 * WORD + 4),
        }
    }

    /// Where the length of message number `message` stands.
    pub(super) fn length<'a>(&self, memory: &'a SharedMemory, message: u64) -> &'a AtomicU64 {
        word(memory, self.offset + 2 * LINE + self.turn(message) * WORD)
    }

    /// Where the slot of message number `message` starts.
    pub(super) fn slot(&self, message: u64) -> usize {
        let depth = self.shape.depth as usize;
        let slots = self.offset + 2 * LINE + (depth * WORD).next_multiple_of(LINE);
        slots + self.turn(message) * self.shape.slot_bytes.next_multiple_of(LINE)
    }

    fn turn(&self, message: u64) -> usize {
        (message % u64::from(self.shape.depth)) as usize
    }
}

/// Set when all waits shall end.
pub(super) fn stopped(memory: &SharedMemory) -> &AtomicU64 {
    word(memory, 2 * WORD)
}

/// `bytes`, rounded up to whole lines.
fn lines(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(LINE)
}

fn word(memory: &SharedMemory, offset: usize) -> &AtomicU64 {
    match memory.word(offset) {
        Some(word) => word,
        // `Layout::bytes` covers every place and all offsets in it are multiples of eight; memory
        // of another size is not opened.
        None => unreachable!("offset {offset} lies outside of the ring buffers"),
    }
}

fn half_word(memory: &SharedMemory, offset: usize) -> &AtomicU32 {
    match memory.half_word(offset) {
        Some(word) => word,
        // As in `word`.
        None => unreachable!("offset {offset} lies outside of the ring buffers"),
    }
}

//! The reader of recordings.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;

use super::description::{
    Call, CallShapeDescription, ClockSample, Header, LaunchKind, NamedTrack, PeerClockSample,
    PlanDescription,
};
use super::frame::{FORMAT_VERSION, FRAME_HEAD_BYTES, FrameKind, MAGIC};
use crate::record::{PackedRecord, Record};

/// The recording of one rank.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// Who recorded.
    pub header: Header,
    /// The plans, by id.
    pub plans: BTreeMap<u32, PlanDescription>,
    /// The call shapes, by id.
    pub shapes: BTreeMap<u32, CallShapeDescription>,
    /// The calls, in the order of the file.
    pub calls: Vec<Call>,
    /// Readings of the device's clock, in the order of the file.
    pub clock: Vec<ClockSample>,
    /// Readings of the clocks of other hosts.
    pub peer_clocks: Vec<PeerClockSample>,
    /// What each track recorded, by its number.
    pub tracks: BTreeMap<u32, Track>,
    /// How the file ends.
    pub ending: Ending,
}

/// What a track recorded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Track {
    /// Its description, if it is no thread block of a launch.
    pub named: Option<NamedTrack>,
    /// Records without a loss between them, in order.
    pub pieces: Vec<Piece>,
    /// Records that were overwritten before they were read, as the writer says.
    pub lost: u64,
}

/// Consecutive records of a track.
#[derive(Clone, PartialEq, Debug)]
pub struct Piece {
    /// The number of the first in the order of the track.
    pub first: u64,
    /// The records.
    pub records: Vec<Record>,
}

/// How the file of a recording ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Its writer ended it.
    Whole,
    /// Its writer ended it; the limit was reached before.
    Full {
        /// Records that were left out.
        left_out: u64,
    },
    /// It ends between frames or within one: its writer was killed, or still writes.
    Cut,
}

/// Why bytes are no recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// They begin otherwise.
    NoRecording,
    /// The version of the format is not one that is read.
    Version {
        /// The version found.
        found: u32,
    },
    /// The first frame is no header, or is not whole.
    NoHeader,
    /// A frame holds something else than its kind says.
    Frame {
        /// The byte at which the frame begins.
        at: usize,
        /// What is wrong.
        problem: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecording => f.write_str(
                "expected a recording, which begins with `MSCCLREC`, found something else; \
                 `MSCCL_TRACE` makes recordings",
            ),
            Self::Version { found } => write!(
                f,
                "expected a recording of format {FORMAT_VERSION}, found format {found}; use the \
                 `msccl` command of the version that recorded"
            ),
            Self::NoHeader => f.write_str(
                "expected a header at the begin of the recording, found none; its process was \
                 killed before it recorded anything",
            ),
            Self::Frame { at, problem } => {
                write!(f, "the frame at byte {at} of the recording is damaged: {problem}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl Recording {
    /// Reads a recording, up to its end or to where its writer was killed.
    ///
    /// # Errors
    ///
    /// The bytes are no recording, of another version, or damaged.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(ReadError::NoRecording)?;
        let found = rest.first_chunk().copied().map(u32::from_le_bytes);
        match found.ok_or(ReadError::NoHeader)? {
            FORMAT_VERSION => {}
            found => return Err(ReadError::Version { found }),
        }
        let mut frames = Frames { bytes, at: MAGIC.len() + 4 };
        let header = match frames.next() {
            Some(Frame { kind: Some(FrameKind::Header), at, payload }) => description(at, payload)?,
            _ => return Err(ReadError::NoHeader),
        };
        let mut recording = Self {
            header,
            plans: BTreeMap::new(),
            shapes: BTreeMap::new(),
            calls: Vec::new(),
            clock: Vec::new(),
            peer_clocks: Vec::new(),
            tracks: BTreeMap::new(),
            ending: Ending::Cut,
        };
        for frame in frames {
            recording.take(frame)?;
        }
        Ok(recording)
    }

    fn take(&mut self, frame: Frame<'_>) -> Result<(), ReadError> {
        let Frame { kind, at, payload } = frame;
        let Some(kind) = kind else { return Ok(()) };
        match kind {
            FrameKind::Header => return Err(damaged(at, "it is a second header")),
            FrameKind::Plan => {
                let plan: PlanDescription = description(at, payload)?;
                self.plans.insert(plan.id, plan);
            }
            FrameKind::CallShape => {
                let shape: CallShapeDescription = description(at, payload)?;
                self.shapes.insert(shape.id, shape);
            }
            FrameKind::Call => self.calls.push(call(at, payload)?),
            FrameKind::Clock => {
                let [before_ns, device_ns, after_ns] = numbers(at, payload)?;
                self.clock.push(ClockSample { before_ns, device_ns, after_ns });
            }
            FrameKind::Records => self.take_records(at, payload)?,
            FrameKind::Lost => {
                let [track, count] = numbers(at, payload)?;
                let lost = &mut self.tracks.entry(track as u32).or_default().lost;
                *lost = lost.saturating_add(count);
            }
            FrameKind::NamedTrack => {
                let named: NamedTrack = description(at, payload)?;
                let track = self.tracks.entry(named.track).or_default();
                track.named = Some(named);
            }
            FrameKind::PeerClock => self.peer_clocks.push(description(at, payload)?),
            FrameKind::Full => {}
            FrameKind::End => {
                let [left_out] = numbers(at, payload)?;
                self.ending = if left_out == 0 { Ending::Whole } else { Ending::Full { left_out } };
            }
        }
        Ok(())
    }

    fn take_records(&mut self, at: usize, payload: &[u8]) -> Result<(), ReadError> {
        let (head, packed) = payload.split_at_checked(16).unwrap_or((payload, &[]));
        let [track, first] = numbers(at, head)?;
        let (packed, []) = packed.as_chunks() else {
            return Err(damaged(at, "a part of a record follows the last record"));
        };
        let track = self.tracks.entry(track as u32).or_default();
        for (number, &packed) in packed.iter().enumerate() {
            track.push(first.saturating_add(number as u64), packed);
        }
        Ok(())
    }
}

impl Track {
    /// Adds the record that has this number in the order of the track. One that cannot be read
    /// counts as lost.
    fn push(&mut self, number: u64, packed: PackedRecord) {
        let Some(record) = Record::unpack(packed) else {
            self.lost = self.lost.saturating_add(1);
            return;
        };
        match self.pieces.last_mut() {
            Some(last) if last.first.saturating_add(last.records.len() as u64) == number => {
                last.records.push(record);
            }
            _ => self.pieces.push(Piece { first: number, records: vec![record] }),
        }
    }
}

/// A whole frame.
struct Frame<'a> {
    /// `None` for a kind that is not known.
    kind: Option<FrameKind>,
    /// The byte at which it begins.
    at: usize,
    payload: &'a [u8],
}

/// The whole frames from a place on.
struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.bytes.get(self.at..)?.split_first_chunk::<FRAME_HEAD_BYTES>()?;
        let head = u64::from_le_bytes(*head);
        let (kind, length) = (head as u32, (head >> 32) as usize);
        let (at, payload) = (self.at, rest.get(..length)?);
        self.at += FRAME_HEAD_BYTES + length;
        Some(Frame { kind: FrameKind::from_code(kind), at, payload })
    }
}

fn damaged(at: usize, problem: impl fmt::Display) -> ReadError {
    ReadError::Frame { at, problem: problem.to_string() }
}

fn description<T: DeserializeOwned>(at: usize, payload: &[u8]) -> Result<T, ReadError> {
    serde_json::from_slice(payload).map_err(|error| damaged(at, error))
}

/// `N` numbers of eight bytes.
fn numbers<const N: usize>(at: usize, payload: &[u8]) -> Result<[u64; N], ReadError> {
    let found = payload.len();
    let wrong = || damaged(at, format_args!("expected {} bytes, found {found}", 8 * N));
    let (chunks, []) = payload.as_chunks() else { return Err(wrong()) };
    let chunks: [[u8; 8]; N] = chunks.try_into().map_err(|_| wrong())?;
    Ok(chunks.map(u64::from_le_bytes))
}

fn call(at: usize, payload: &[u8]) -> Result<Call, ReadError> {
    let [number, enqueue_ns, rest] = numbers(at, payload)?;
    let launch = match rest >> 32 {
        0 => LaunchKind::Stream,
        1 => LaunchKind::Captured,
        other => {
            return Err(damaged(
                at,
                format_args!("expected a launch of kind 0 or 1, found {other}"),
            ));
        }
    };
    Ok(Call { number, shape: rest as u32, launch, enqueue_ns })
}

//! The writer of a recording.

use std::io::{self, Write};

use super::description::{
    Call, CallShapeDescription, ClockSample, Header, LaunchKind, NamedTrack, PeerClockSample,
    PlanDescription,
};
use super::frame::{self, FORMAT_VERSION, FRAME_HEAD_BYTES, FrameKind, MAGIC};
use crate::record::PackedRecord;

/// Bytes below the limit that only frames may take that say what was left out, and clock samples.
const RESERVE_BYTES: u64 = 32 << 10;

/// The least limit of a recording.
pub const LIMIT_BYTES_MIN: u64 = 2 * RESERVE_BYTES;

/// Writes the recording of one rank.
///
/// It has no thread and keeps no frame back: each method writes one whole frame in one call of the
/// sink, so that a process that is killed leaves a file that can be read. A sink without a buffer
/// is best for files.
///
/// A recording has a limit in bytes. When it is reached, the *newest* frames are left out, and the
/// recording says how many records these were; later clock samples are kept while they fit.
#[derive(Debug)]
pub struct Recorder<W> {
    sink: W,
    limit_bytes: u64,
    written_bytes: u64,
    fullness: Fullness,
    left_out: u64,
    frame: Vec<u8>,
}

/// Whether the limit is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fullness {
    Open,
    Full,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording of at most `limit_bytes` bytes, or of [`LIMIT_BYTES_MIN`] if that is
    /// more. The sink is at its begin.
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn new(sink: W, header: &Header, limit_bytes: u64) -> io::Result<Self> {
        let mut recorder = Self {
            sink,
            limit_bytes: limit_bytes.max(LIMIT_BYTES_MIN),
            written_bytes: 0,
            fullness: Fullness::Open,
            left_out: 0,
            frame: Vec::new(),
        };
        recorder.frame.extend_from_slice(MAGIC);
        recorder.frame.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        frame::append(&mut recorder.frame, FrameKind::Header, &[&frame::json(header)?])?;
        recorder.put_frame()?;
        Ok(recorder)
    }

    /// Describes a plan, before the first call shape with it.
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn plan(&mut self, plan: &PlanDescription) -> io::Result<()> {
        self.within_limit(FrameKind::Plan, &[&frame::json(plan)?]).map(|_| ())
    }

    /// Describes calls of one shape, before the first of them.
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn call_shape(&mut self, shape: &CallShapeDescription) -> io::Result<()> {
        self.within_limit(FrameKind::CallShape, &[&frame::json(shape)?]).map(|_| ())
    }

    /// Describes a track that is no thread block of a launch, before its first records.
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn named_track(&mut self, track: &NamedTrack) -> io::Result<()> {
        self.within_limit(FrameKind::NamedTrack, &[&frame::json(track)?]).map(|_| ())
    }

    /// Notes a call. It may stand behind its records.
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn call(&mut self, call: Call) -> io::Result<()> {
        let Call { number, shape, launch, enqueue_ns } = call;
        let launch: u32 = match launch {
            LaunchKind::Stream => 0,
            LaunchKind::Captured => 1,
        };
        let parts: [&[u8]; 4] = [
            &number.to_le_bytes(),
            &enqueue_ns.to_le_bytes(),
            &shape.to_le_bytes(),
            &launch.to_le_bytes(),
        ];
        self.within_limit(FrameKind::Call, &parts).map(|_| ())
    }

    /// Notes records of `track`, of which the first has the number `first` in the order of the
    /// track, from 0. Records must be read before they are overwritten, or be counted in
    /// [`Recorder::lost`].
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn records(&mut self, track: u32, first: u64, records: &[PackedRecord]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let (track, first) = (u64::from(track).to_le_bytes(), first.to_le_bytes());
        let written =
            self.within_limit(FrameKind::Records, &[&track, &first, records.as_flattened()])?;
        if written == Fullness::Full {
            self.left_out += records.len() as u64;
        }
        Ok(())
    }

    /// Notes that `count` records of `track` were overwritten before they were read.
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn lost(&mut self, track: u32, count: u64) -> io::Result<()> {
        let parts: [&[u8]; 2] = [&u64::from(track).to_le_bytes(), &count.to_le_bytes()];
        self.within_limit(FrameKind::Lost, &parts).map(|_| ())
    }

    /// Notes a reading of the device's clock.
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn clock(&mut self, sample: ClockSample) -> io::Result<()> {
        let ClockSample { before_ns, device_ns, after_ns } = sample;
        let parts: [&[u8]; 3] =
            [&before_ns.to_le_bytes(), &device_ns.to_le_bytes(), &after_ns.to_le_bytes()];
        self.within_reserve(FrameKind::Clock, &parts)
    }

    /// Notes a reading of the clock of another host.
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn peer_clock(&mut self, sample: &PeerClockSample) -> io::Result<()> {
        self.within_reserve(FrameKind::PeerClock, &[&frame::json(sample)?])
    }

    /// Whether the limit is reached, so that nothing more is recorded.
    pub fn is_full(&self) -> bool {
        self.fullness == Fullness::Full
    }

    /// Ends the recording: says what was left out, and flushes the sink.
    ///
    /// # Errors
    ///
    /// The sink fails.
    pub fn finish(mut self) -> io::Result<W> {
        frame::append(&mut self.frame, FrameKind::End, &[&self.left_out.to_le_bytes()])?;
        self.put_frame()?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    /// Writes a frame while the limit is not reached; whether it is now.
    fn within_limit(&mut self, kind: FrameKind, parts: &[&[u8]]) -> io::Result<Fullness> {
        if self.fullness == Fullness::Open {
            if self.fits(parts, self.limit_bytes - RESERVE_BYTES) {
                frame::append(&mut self.frame, kind, parts)?;
                self.put_frame()?;
                return Ok(Fullness::Open);
            }
            self.fullness = Fullness::Full;
            frame::append(&mut self.frame, FrameKind::Full, &[])?;
            self.put_frame()?;
        }
        Ok(Fullness::Full)
    }

    /// Writes a short frame that is still of use when the limit is reached, if it fits; the end
    /// frame always does.
    fn within_reserve(&mut self, kind: FrameKind, parts: &[&[u8]]) -> io::Result<()> {
        const END_FRAME_BYTES: u64 = 64;
        if self.fits(parts, self.limit_bytes - END_FRAME_BYTES) {
            frame::append(&mut self.frame, kind, parts)?;
            self.put_frame()?;
        }
        Ok(())
    }

    fn fits(&self, parts: &[&[u8]], limit_bytes: u64) -> bool {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.written_bytes + (FRAME_HEAD_BYTES + bytes) as u64 <= limit_bytes
    }

    fn put_frame(&mut self) -> io::Result<()> {
        let written = self.sink.write_all(&self.frame);
        self.written_bytes += self.frame.len() as u64;
        self.frame.clear();
        written
    }
}

//! The rings into which recording kernels write, and what of them has been read.
//!
//! A thread block shows how much it has written; what it wrote before is there by the time that the
//! host has read that number and copies the records. New records take the places of the oldest.
//! While records are copied a launch may go on writing: records that lie closer to the end of their
//! ring than [`MARGIN`] count as lost. What is older than the record before it has not arrived yet,
//! and is read the next time.

use msccl_gpu::{Context, DeviceBuffer, DeviceSpan, Error};
use msccl_kernels::recording::RING_RECORDS;
use msccl_trace::record::{PackedRecord, RECORD_BYTES};

use super::super::control_block::RING_ENTRY_BYTES;
use super::super::copier::Copier;
use super::expand::DeviceRecord;

/// Records that a thread block may write before it shows how many there are, at most, and a launch
/// between two looks of the host.
const MARGIN: u64 = 1024;

/// The rings of a rank, by thread block.
pub(super) struct Rings {
    memory: DeviceBuffer,
    copier: Copier,
    tracks: Vec<TrackReader>,
}

/// What has been read of a ring.
#[derive(Clone, Copy)]
struct TrackReader {
    read: u64,
    last_ns: u64,
}

/// New records of a track.
pub(super) struct Fresh {
    pub track: usize,
    /// How many were overwritten before these.
    pub lost: u64,
    /// As files have them.
    pub records: Vec<PackedRecord>,
}

impl Rings {
    /// Rings for `tracks` thread blocks, which kernels find by `table` from now on. The clock of
    /// records has passed `now_ns`.
    pub fn new(
        context: &Context,
        table: DeviceSpan<'_>,
        tracks: usize,
        now_ns: u64,
    ) -> Result<Self, Error> {
        let memory = DeviceBuffer::zeroed(context, tracks * ring_bytes())?;
        let copier = Copier::new(context)?;
        let entry = |track: usize| [memory.ptr().offset(track * ring_bytes()).0, 0];
        let words: Vec<u8> = (0..tracks).flat_map(entry).flat_map(u64::to_ne_bytes).collect();
        copier.put(table, &words)?;
        Ok(Self { memory, copier, tracks: vec![TrackReader { read: 0, last_ns: now_ns }; tracks] })
    }

    /// What has been written since the last time, as `table` shows.
    pub fn read(&mut self, table: DeviceSpan<'_>) -> Result<Vec<Fresh>, Error> {
        let mut copied = Vec::new();
        for (track, written) in self.written(table)?.into_iter().enumerate() {
            let (first, _) = self.tracks[track].begin(written);
            if first < written {
                copied.push((track, first, self.fetch(track, first, written)?));
            }
        }
        if copied.is_empty() {
            return Ok(Vec::new());
        }
        // What was overwritten meanwhile is none of these records.
        let written = self.written(table)?;
        let fresh = |(track, first, records): (usize, u64, Vec<PackedRecord>)| {
            let reader = &mut self.tracks[track];
            let (kept_from, lost) = reader.begin(written[track]);
            let gone = (kept_from - first).min(records.len() as u64);
            reader.read = first + gone;
            let records = reader.take(&records[gone as usize..]);
            Fresh { track, lost, records }
        };
        Ok(copied.into_iter().map(fresh).collect())
    }

    /// How many records each thread block has written.
    fn written(&self, table: DeviceSpan<'_>) -> Result<Vec<u64>, Error> {
        let mut bytes = vec![0; RING_ENTRY_BYTES * self.tracks.len()];
        self.copier.fetch(table, &mut bytes)?;
        let word = |entry: &[u8]| {
            let half = entry.get(8..).and_then(|half| half.first_chunk().copied());
            half.map_or(0, u64::from_ne_bytes)
        };
        Ok(bytes.chunks(RING_ENTRY_BYTES).map(word).collect())
    }

    /// Records number `first` to `end` of a track.
    fn fetch(&self, track: usize, first: u64, end: u64) -> Result<Vec<PackedRecord>, Error> {
        let place = |number: u64| (number % RING_RECORDS as u64) as usize;
        let mut records = Vec::with_capacity((end - first) as usize);
        let mut at = first;
        while at < end {
            let count = (end - at).min((RING_RECORDS - place(at)) as u64) as usize;
            let start = track * ring_bytes() + place(at) * RECORD_BYTES;
            let span = self.memory.span().slice(start..start + count * RECORD_BYTES)?;
            let mut bytes = vec![0; count * RECORD_BYTES];
            self.copier.fetch(span, &mut bytes)?;
            records.extend(bytes.as_chunks::<RECORD_BYTES>().0);
            at += count as u64;
        }
        Ok(records)
    }
}

impl TrackReader {
    /// From which record on those can be read of which `written` were written, and how many are
    /// gone.
    fn begin(self, written: u64) -> (u64, u64) {
        let kept = RING_RECORDS as u64 - MARGIN;
        let first = self.read.max(written.saturating_sub(kept));
        (first, first - self.read)
    }

    /// Takes the first of `records`, which come next, as far as they have arrived: times never step
    /// back.
    fn take(&mut self, records: &[PackedRecord]) -> Vec<PackedRecord> {
        let mut taken = Vec::with_capacity(records.len());
        for packed in records {
            let Some(record) = DeviceRecord::unpack(packed) else { break };
            let Some(time_ns) = record.time_ns(self.last_ns) else { break };
            record.expand(time_ns, &mut taken);
            self.last_ns = time_ns;
            self.read += 1;
        }
        taken
    }
}

const fn ring_bytes() -> usize {
    RING_RECORDS * RECORD_BYTES
}

#[cfg(test)]
mod tests {
    use msccl_trace::record::{Record, RecordKind};

    use super::*;

    fn record(time_ns: u64) -> PackedRecord {
        Record { time_ns, kind: RecordKind::Move, step: 0, message: 0 }.pack()
    }

    #[test]
    fn what_is_about_to_be_overwritten_is_lost() {
        let reader = TrackReader { read: 10, last_ns: 0 };
        assert_eq!(reader.begin(10), (10, 0));
        assert_eq!(reader.begin(500), (10, 0));
        let kept = RING_RECORDS as u64 - MARGIN;
        assert_eq!(reader.begin(kept + 10), (10, 0));
        assert_eq!(reader.begin(kept + 15), (15, 5));
    }

    #[test]
    fn records_that_have_not_arrived_are_left_for_later() {
        let mut reader = TrackReader { read: 10, last_ns: 5 };
        let records = [record(5), record(5), record(7), record(3), record(8)];
        assert_eq!(reader.take(&records), records[..3]);
        assert_eq!((reader.read, reader.last_ns), (13, 7));
        assert!(reader.take(&[record(6)]).is_empty(), "that is from the round before");
        assert_eq!(reader.take(&[record(8), [0; RECORD_BYTES]]), [record(8)]);
    }
}

//! The rings into which recording kernels write, and what of them has been read.
//!
//! A thread block shows now and then how many words it has written. [`WordReader`] knows those that
//! have not arrived, and they are read the next time. New words take the places of the oldest.
//! While words are copied a launch may go on writing: words that lie closer to the end of their
//! ring than [`MARGIN`] count as lost.
//!
//! Once in [`SEARCH_PERIOD_NS`] the host also takes what has arrived and is not shown. So the words
//! of a launch that hangs are known; and so is about when each word was written, whose time has too
//! few bits for that.

use msccl_gpu::{Context, DeviceBuffer, DeviceSpan, Error};
use msccl_kernels::recording::{RING_UNSHOWN_WORDS, RING_WORDS};
use msccl_trace::device::WordReader;
use msccl_trace::record::PackedRecord;

use super::super::control_block::RING_ENTRY_BYTES;
use super::super::copier::Copier;

/// Words that a thread block may have written without having shown them: those of a begin, too.
const AHEAD: u64 = 2 * RING_UNSHOWN_WORDS as u64;

/// The same, and what a launch may write while the host copies.
const MARGIN: u64 = 2 * AHEAD;

/// How many words of a thread block are worth copying at once. A ring has room for what comes while
/// they are copied.
const DUE_WORDS: u64 = RING_WORDS as u64 / 8;

/// How long fewer words are left in their ring: to copy them takes time of kernels.
const DUE_PERIOD_NS: u64 = 20_000_000;

/// How often the host looks for words that are not shown.
const SEARCH_PERIOD_NS: u64 = 1_000_000_000;

/// A bound of how wrong the host is about the clock of records. With the period, it leaves no doubt
/// about the high bits of times, of which words have 32.
const CLOCK_ERROR_NS: u64 = 1_000_000_000;

const WORD_BYTES: usize = size_of::<u64>();

/// What of the rings is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadExtent {
    /// Nothing, unless it is time.
    Due,
    /// All that is shown.
    All,
}

/// The rings of a rank, by thread block.
pub(super) struct Rings {
    memory: DeviceBuffer,
    copier: Copier,
    tracks: Vec<WordReader>,
    /// The clock of records when the host last looked for all words: what it did not find then is
    /// no older.
    searched_ns: u64,
    /// The clock of records when words were last copied.
    copied_ns: u64,
}

/// New records of a track.
pub(super) struct Fresh {
    pub track: usize,
    /// How many words were overwritten before these.
    pub lost: u64,
    /// As files have them.
    pub records: Vec<PackedRecord>,
}

/// Words of a track that were copied, from word number `first` on.
struct Copied {
    track: usize,
    first: u64,
    words: Vec<u64>,
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
        let tracks = vec![WordReader::new(RING_WORDS as u64, now_ns); tracks];
        Ok(Self { memory, copier, tracks, searched_ns: now_ns, copied_ns: now_ns })
    }

    /// What has been written since the last time, as `table` shows, as far as `extent` says. The
    /// clock of records is about at `now_ns`.
    pub fn read(
        &mut self,
        table: DeviceSpan<'_>,
        extent: ReadExtent,
        now_ns: u64,
    ) -> Result<Vec<Fresh>, Error> {
        let searches = now_ns.saturating_sub(self.searched_ns) > SEARCH_PERIOD_NS;
        let ahead = if searches { AHEAD } else { 0 };
        let earliest_ns = self.searched_ns.saturating_sub(CLOCK_ERROR_NS);
        if searches {
            self.searched_ns = now_ns;
        }
        let written = self.written(table)?;
        let waits_ns = now_ns.saturating_sub(self.copied_ns);
        let is_due = searches || is_due(self.most_unread(&written), waits_ns);
        if extent == ReadExtent::Due && !is_due {
            return Ok(Vec::new());
        }
        self.copied_ns = now_ns;
        let mut copied = Vec::new();
        for (track, written) in written.into_iter().enumerate() {
            let first = first_kept(self.tracks[track].read(), written);
            let end = written + ahead;
            if first < end {
                let words = self.fetch(track, first, end)?;
                copied.push(Copied { track, first, words });
            }
        }
        if copied.is_empty() {
            return Ok(Vec::new());
        }
        // What was overwritten meanwhile is none of these words.
        let written = self.written(table)?;
        let fresh = |copied: Copied| {
            let Copied { track, first, words } = copied;
            let reader = &mut self.tracks[track];
            let kept_from = first_kept(reader.read(), written[track]);
            let gone = kept_from.saturating_sub(first).min(words.len() as u64);
            let lost = first + gone - reader.read();
            reader.skip(lost);
            let records = reader.take(&words[gone as usize..], earliest_ns);
            Fresh { track, lost, records }
        };
        Ok(copied.into_iter().map(fresh).collect())
    }

    /// How many words of some thread block have not been read, of which so many are `written`.
    fn most_unread(&self, written: &[u64]) -> u64 {
        let unread = |(written, of): (&u64, &WordReader)| written.saturating_sub(of.read());
        written.iter().zip(&self.tracks).map(unread).max().unwrap_or(0)
    }

    /// How many words each thread block has written. The table has the low 32 bits.
    fn written(&self, table: DeviceSpan<'_>) -> Result<Vec<u64>, Error> {
        let mut bytes = vec![0; RING_ENTRY_BYTES * self.tracks.len()];
        self.copier.fetch(table, &mut bytes)?;
        let low_bits = |entry: &[u8]| {
            let low = entry.get(8..).and_then(|rest| rest.first_chunk().copied());
            low.map_or(0, u32::from_ne_bytes)
        };
        let entries = bytes.chunks(RING_ENTRY_BYTES).zip(&self.tracks);
        Ok(entries.map(|(entry, of)| written(of.read(), low_bits(entry))).collect())
    }

    /// Words number `first` to `end` of a track.
    fn fetch(&self, track: usize, first: u64, end: u64) -> Result<Vec<u64>, Error> {
        let place = |number: u64| (number % RING_WORDS as u64) as usize;
        let mut words = Vec::with_capacity((end - first) as usize);
        let mut at = first;
        while at < end {
            let count = (end - at).min((RING_WORDS - place(at)) as u64) as usize;
            let start = track * ring_bytes() + place(at) * WORD_BYTES;
            let span = self.memory.span().slice(start..start + count * WORD_BYTES)?;
            let mut bytes = vec![0; count * WORD_BYTES];
            self.copier.fetch(span, &mut bytes)?;
            words.extend(bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)));
            at += count as u64;
        }
        Ok(words)
    }
}

/// Whether it is time to copy words, if a thread block has so many and some wait for so long.
fn is_due(unread: u64, waits_ns: u64) -> bool {
    unread >= DUE_WORDS || waits_ns >= DUE_PERIOD_NS
}

/// From which word on those can be read of which `written` were written, if the first `read` were
/// read.
fn first_kept(read: u64, written: u64) -> u64 {
    read.max(written.saturating_sub(RING_WORDS as u64 - MARGIN))
}

/// How many words a thread block shows, by the low bits of their number, if `read` were read. It
/// may show fewer, since words are read that are not shown.
fn written(read: u64, low_bits: u32) -> u64 {
    let more = low_bits.wrapping_sub(read as u32).cast_signed();
    read.saturating_add_signed(more.into())
}

const fn ring_bytes() -> usize {
    RING_WORDS * WORD_BYTES
}

#[cfg(test)]
mod tests {
    use msccl_kernels::recording::headers;
    use msccl_trace::device::{CALL, KIND_SHIFT, LAST_MOVE, TURN_SHIFT};
    use msccl_trace::record::RecordKind;

    use super::*;

    #[test]
    fn what_is_about_to_be_overwritten_is_lost() {
        assert_eq!([10, 500].map(|written| first_kept(10, written)), [10, 10]);
        let kept = RING_WORDS as u64 - MARGIN;
        assert_eq!([10, 15].map(|more| first_kept(10, kept + more)), [10, 15]);
    }

    #[test]
    fn few_words_wait_a_while() {
        let many = RING_WORDS as u64 / 8;
        assert_eq!([many - 1, many].map(|unread| is_due(unread, 2_000_000)), [false, true]);
        assert_eq!([19, 20].map(|waits_ms| is_due(1, waits_ms * 1_000_000)), [false, true]);
    }

    #[test]
    fn counts_go_on_beyond_32_bits() {
        let read = (3 << 32) - 2;
        let shown = [u32::MAX - 3, u32::MAX - 1, u32::MAX, 4].map(|low| written(read, low));
        assert_eq!(shown, [read - 2, read, read + 1, read + 6]);
    }

    #[test]
    fn the_device_has_the_same_codes() {
        let header = headers().iter().find(|(name, _)| name == "record.cuh").unwrap();
        let code = |name: &str| {
            let start = format!("constexpr u32 RECORD_{name} = ");
            let line = header.1.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
            line.split(';').next().unwrap().parse::<u32>().unwrap()
        };
        let names = ["BEGIN", "WAIT_ROOM", "WAIT_DATA", "WAIT_BLOCK", "MOVE", "END", "COUNT"];
        for (kind, name) in RecordKind::ALL.into_iter().zip(names) {
            assert_eq!(kind.code(), code(name), "{name}");
        }
        let others = ["LAST_MOVE", "CALL", "KIND_SHIFT", "TURN_SHIFT"].map(code);
        assert_eq!(others, [LAST_MOVE, CALL, KIND_SHIFT, TURN_SHIFT]);
    }
}

//! From the words that kernels write to the records of files.
//!
//! `kernels/device/record.cuh` says what words hold: a kernel writes what costs it nothing, and
//! this finds the rest. A word has 32 bits of the time; the word at the begin of a launch has
//! [`BEGIN_BITS`] of them. What lies between follows from the time before and from when the words
//! were looked for in vain.
//!
//! ```
//! use msccl_trace::device::WordReader;
//! use msccl_trace::record::{Record, RecordKind};
//!
//! // In the second round through a ring of 4 words a launch begins, as call 7, and moves step 2.
//! let word = |value: u64, kind: u64, step: u64| (kind << 28 | 1 << 27 | step) << 32 | value;
//! let words = [word(1000, 1, 0), word(7, 9, 0), word(1500, 5, 2)];
//! let mut reader = WordReader::new(4, 900);
//! reader.skip(4);
//! let records = reader.take(&words, 900);
//! let of = |time_ns, kind, step, message| Record { time_ns, kind, step, message };
//! let found: Vec<Record> = records.into_iter().filter_map(Record::unpack).collect();
//! let expected = [of(1000, RecordKind::Begin, 0, 7), of(1500, RecordKind::Move, 2, 0)];
//! assert_eq!(found, expected);
//! ```

use crate::record::{PackedRecord, Record, RecordKind};

/// Bits of the time at the begin of a launch.
pub const BEGIN_BITS: u32 = 32 + TURN_SHIFT;

/// The code of a move with which the launch ends.
pub const LAST_MOVE: u32 = 8;

/// The code of the word with the number of the call.
pub const CALL: u32 = 9;

/// The bit of a word's upper half from which its kind stands.
pub const KIND_SHIFT: u32 = 28;

/// The bit below, with the parity of the rounds through the ring.
pub const TURN_SHIFT: u32 = 27;

/// By how much a time may seem to step back: then it is taken for the time before.
const STEP_BACK_NS: u64 = 1 << 20;

/// Reads the words of a thread block in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WordReader {
    ring_words: u64,
    read: u64,
    /// The time of the last word that has one.
    last_ns: u64,
    /// When the launch began whose call comes next.
    begun_ns: Option<u64>,
}

/// What a word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word {
    kind: WordKind,
    step: u32,
    value: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WordKind {
    Plain(RecordKind),
    LastMove,
    Call,
}

impl WordReader {
    /// Of a ring of `ring_words` words, which is empty. The clock of records has passed `now_ns`.
    pub fn new(ring_words: u64, now_ns: u64) -> Self {
        Self { ring_words, read: 0, last_ns: now_ns, begun_ns: None }
    }

    /// How many words have been read or skipped.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Leaves `count` words out: they are lost.
    pub fn skip(&mut self, count: u64) {
        self.read += count;
        if count != 0 {
            self.begun_ns = None;
        }
    }

    /// The records of the first of `words`, which come next, as far as they have arrived. None of
    /// them was there at `earliest_ns`.
    ///
    /// Times are right if no two words, or a word and `earliest_ns`, are 4.29 s apart.
    pub fn take(&mut self, words: &[u64], earliest_ns: u64) -> Vec<PackedRecord> {
        let mut records = Vec::with_capacity(words.len() + 1);
        for &word in words {
            let turn = self.read / self.ring_words % 2;
            let Some(word) = Word::of(word, turn) else { break };
            self.expand(word, earliest_ns, &mut records);
            self.read += 1;
        }
        records
    }

    /// Appends the records of `word`.
    fn expand(&mut self, word: Word, earliest_ns: u64, records: &mut Vec<PackedRecord>) {
        let Word { kind, step, value } = word;
        let mut put = |time_ns: u64, kind, step, message| {
            records.push(Record { time_ns, kind, step, message }.pack());
        };
        match kind {
            WordKind::Plain(RecordKind::Begin) => {
                let bits = u64::from(step) << 32 | u64::from(value);
                self.last_ns = later(self.last_ns, bits, BEGIN_BITS);
                self.begun_ns = Some(self.last_ns);
            }
            WordKind::Call => {
                if let Some(begun_ns) = self.begun_ns.take() {
                    put(begun_ns, RecordKind::Begin, step, value);
                }
            }
            WordKind::Plain(RecordKind::Count) => put(self.last_ns, RecordKind::Count, step, value),
            WordKind::Plain(kind) => put(self.advance(value, earliest_ns), kind, step, 0),
            WordKind::LastMove => {
                let time_ns = self.advance(value, earliest_ns);
                put(time_ns, RecordKind::Move, step, 0);
                put(time_ns, RecordKind::End, 0, 0);
            }
        }
    }

    /// The time whose low bits come next.
    fn advance(&mut self, low_bits: u32, earliest_ns: u64) -> u64 {
        let known_ns = self.last_ns.max(earliest_ns);
        self.last_ns = later(known_ns, low_bits.into(), 32).max(self.last_ns);
        self.last_ns
    }
}

/// The first time from `earliest_ns` on that has these low bits; one that is a little before counts
/// as equal.
fn later(earliest_ns: u64, low_bits: u64, bits: u32) -> u64 {
    let mask = (1 << bits) - 1;
    let ahead_ns = low_bits.wrapping_sub(earliest_ns) & mask;
    if ahead_ns > mask - STEP_BACK_NS { earliest_ns } else { earliest_ns.saturating_add(ahead_ns) }
}

impl Word {
    /// From memory; `None` if it has not arrived in this turn.
    fn of(word: u64, turn: u64) -> Option<Self> {
        let (value, what) = (word as u32, (word >> 32) as u32);
        if u64::from(what >> TURN_SHIFT & 1) != turn {
            return None;
        }
        let kind = match what >> KIND_SHIFT {
            LAST_MOVE => WordKind::LastMove,
            CALL => WordKind::Call,
            code => WordKind::Plain(RecordKind::from_code(code)?),
        };
        Some(Self { kind, step: what & ((1 << TURN_SHIFT) - 1), value })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    const RING_WORDS: u64 = 8;
    const WRAP_NS: u64 = 1 << 32;

    fn word(time: u64, code: u32, step: u32) -> u64 {
        u64::from(code << KIND_SHIFT | step) << 32 | time & 0xffff_ffff
    }

    fn begin(time_ns: u64) -> u64 {
        word(time_ns, 1, (time_ns >> 32) as u32 & ((1 << TURN_SHIFT) - 1))
    }

    fn of(time_ns: u64, kind: RecordKind, step: u32, message: u32) -> Record {
        Record { time_ns, kind, step, message }
    }

    fn take(reader: &mut WordReader, words: &[u64], earliest_ns: u64) -> Vec<Record> {
        let records = reader.take(words, earliest_ns);
        records.into_iter().map(|packed| Record::unpack(packed).unwrap()).collect()
    }

    #[test]
    fn a_launch_comes_out_of_its_words() {
        let start_ns = (1 << 60) + 5;
        let words = [
            begin(start_ns),
            word(9, CALL, 3),
            word(41, 7, 0),
            word(42, 7, 1),
            word(start_ns + 30, 3, 4),
            word(start_ns + 70, LAST_MOVE, 4),
        ];
        let mut reader = WordReader::new(RING_WORDS, start_ns - 1000);
        let expected = [
            of(start_ns, RecordKind::Begin, 3, 9),
            of(start_ns, RecordKind::Count, 0, 41),
            of(start_ns, RecordKind::Count, 1, 42),
            of(start_ns + 30, RecordKind::WaitData, 4, 0),
            of(start_ns + 70, RecordKind::Move, 4, 0),
            of(start_ns + 70, RecordKind::End, 0, 0),
        ];
        assert_eq!(take(&mut reader, &words, 0), expected);
        assert_eq!(reader.read(), 6);
    }

    #[test]
    fn words_that_have_not_arrived_are_left_for_later() {
        let mut reader = WordReader::new(RING_WORDS, 100);
        let of_turn = |word: u64, turn: u64| word | turn << (32 + TURN_SHIFT);
        let moved = word(200, 5, 0);
        assert_eq!(take(&mut reader, &[moved, 0, moved], 0).len(), 1, "a place without a word");
        reader.skip(RING_WORDS - 1);
        assert_eq!(take(&mut reader, &[moved], 0), [], "that is of the round before");
        assert_eq!(take(&mut reader, &[of_turn(moved, 1), moved], 0).len(), 1);
        reader.skip(RING_WORDS - 1);
        assert_eq!(take(&mut reader, &[moved], 0).len(), 1, "the third round is as the first");
    }

    #[test]
    fn times_get_their_high_bits_back() {
        let start_ns = (7 << 40) + WRAP_NS - 5;
        let mut reader = WordReader::new(RING_WORDS, start_ns);
        let mut time_ns = |of_ns: u64, earliest_ns| {
            take(&mut reader, &[word(of_ns, 5, 0)], earliest_ns)[0].time_ns
        };
        assert_eq!(time_ns(start_ns + 8, 0), start_ns + 8, "over the end of the low bits");
        let late_ns = start_ns + 5 * WRAP_NS;
        assert_eq!(time_ns(late_ns + 9, late_ns - WRAP_NS / 2), late_ns + 9, "after 21 s");
        assert_eq!(time_ns(late_ns + 3, 0), late_ns + 9, "a small step back is none");
    }

    #[test]
    fn a_launch_that_is_cut_by_a_loss_has_no_begin() {
        let mut reader = WordReader::new(RING_WORDS, 100);
        assert_eq!(take(&mut reader, &[begin(200)], 0), []);
        reader.skip(2);
        let words = [word(9, CALL, 0), word(300, 5, 1)];
        assert_eq!(take(&mut reader, &words, 0), [of(300, RecordKind::Move, 1, 0)]);
    }
}

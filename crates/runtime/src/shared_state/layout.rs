//! Where everything lies in a shared state.
//!
//! A shared state is a header followed by one part per rank, all of eight-byte words:
//!
//! | part | words | contents |
//! |---|---|---|
//! | header | 0 | the number of the latest request for a report |
//! | | 1 | who reports it: the request in the upper half, the rank in the lower |
//! | rank, first line | 0–4 | [`Field::Collectives`], [`Field::Transfers`], [`Field::Issued`], [`Field::Settled`], [`Field::Messages`]: written by calls |
//! | rank, second line | 0–6 | [`Field::RankState`], [`Field::Answered`], [`Field::Claim`], [`Field::Agreeing`], [`Field::Compares`], [`Field::Ended`], [`Field::Completed`] |
//! | rank | | the reason of its state: a text ([`super::reason`]) |
//! | rank | | records of its last collectives, number `n` at place `n % COLLECTIVES` |
//! | rank | | records of its last groups of transfers, likewise |
//! | rank | | records of its last messages to and from other ranks, likewise |
//! | rank | | once more the record of every [`STRIDE`]-th collective, number `n` at place `n / STRIDE % CHECKPOINTS` |
//! | rank | | its answer to the latest request: a text |
//!
//! Behind all parts, each node has its own *signals*: for each of its ranks, a word for every rank
//! of the node that says how many signals came from that rank, which alone writes it; behind that
//! word the flags of the pair, [`PairFlag`]. They are not replicated, and nodes of more than
//! [`SIGNAL_RANKS_MAX`] ranks have none.
//!
//! A record is eight words, which are one cache line: a guard, the sequence, the shape, the count,
//! the history, what else there is to say, and two of nothing ([`super::record::Contents`]). A text
//! is a version, a length in bytes, and the bytes. Only its rank writes a part, or, where that
//! lives on another node, the [`super::replicator`]; the header is written by compare-and-swap.

use msccl_collective::Rank;

/// Collectives of a rank that are remembered.
pub(crate) const COLLECTIVES: u64 = 256;
/// Groups of point-to-point calls of a rank that are remembered.
pub(crate) const TRANSFERS: u64 = 64;
/// Messages of a rank that are remembered.
pub(crate) const MESSAGES: u64 = 512;
/// Every so many collectives, one is remembered for longer.
pub(crate) const STRIDE: u64 = 16;
/// How many of these are.
pub(crate) const CHECKPOINTS: u64 = 256;
/// The longest reason.
pub(crate) const REASON_BYTES: usize = 1008;
/// The longest answer.
pub(crate) const ANSWER_BYTES: usize = 16 * 1024 - 16;

/// The most ranks of a node that can signal one another: their words are as many as its square.
const SIGNAL_RANKS_MAX: usize = 256;

const WORD_BYTES: usize = 8;
/// The words of a pair of ranks, in one direction.
const PAIR_BYTES: usize = (3 + PIECES as usize) * WORD_BYTES;
const LINE_BYTES: usize = 64;
const RECORD_BYTES: usize = 64;
const TEXT_HEAD_BYTES: usize = 2 * WORD_BYTES;

const HEADER_BYTES: usize = 2 * LINE_BYTES;
const REASON: usize = 2 * LINE_BYTES;
const COLLECTIVE_RING: usize = REASON + TEXT_HEAD_BYTES + REASON_BYTES;
const TRANSFER_RING: usize = COLLECTIVE_RING + COLLECTIVES as usize * RECORD_BYTES;
const MESSAGE_RING: usize = TRANSFER_RING + TRANSFERS as usize * RECORD_BYTES;
const CHECKPOINT_RING: usize = MESSAGE_RING + MESSAGES as usize * RECORD_BYTES;
const ANSWER: usize = CHECKPOINT_RING + CHECKPOINTS as usize * RECORD_BYTES;
/// A multiple of two cache lines, so that ranks do not disturb one another.
const PART_BYTES: usize = ANSWER + TEXT_HEAD_BYTES + ANSWER_BYTES;
const _: () = assert!(PART_BYTES.is_multiple_of(2 * LINE_BYTES));

/// The offset of the number of the latest request.
pub(super) const REQUEST: usize = 0;
/// The offset of the word that names the reporter.
pub(super) const REPORTER: usize = WORD_BYTES;

/// How many pieces of an exchange have flags of their own.
pub(crate) const PIECES: u64 = 16;

/// A flag from one rank to another of its node, by which copies between their buffers keep step
/// (`cuda::copy_engines`): the first raises it, the other takes it down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PairFlag {
    /// The output of the first may be written by the other.
    Ready,
    /// All that the first copies to the other is there.
    Done,
    /// A piece of that is there, by its number modulo [`PIECES`].
    Piece(u64),
}

/// A word of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    /// The number of its last collective.
    Collectives,
    /// The number of its last group of transfers.
    Transfers,
    /// The sequence of its last call.
    Issued,
    /// The sequence up to which its calls need no execution any more.
    Settled,
    /// What became of it.
    RankState,
    /// The latest request that it has answered.
    Answered,
    /// The latest request that it would report on.
    Claim,
    /// The collective on which it waits for the others, to compare arguments; 0 for none.
    Agreeing,
    /// Whether it compares the arguments of calls, for which others need all its records.
    Compares,
    /// Of a rank on another node: whether it has departed and all that it posted is here.
    Ended,
    /// The number of its last message to or from another rank.
    Messages,
    /// Of a rank that has aborted: the number of the last collective of which it had done its part.
    Completed,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Collectives,
        Self::Transfers,
        Self::Issued,
        Self::Settled,
        Self::RankState,
        Self::Answered,
        Self::Claim,
        Self::Agreeing,
        Self::Compares,
        Self::Ended,
        Self::Messages,
        Self::Completed,
    ];
}

/// A ring of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ring {
    /// Of collectives, by number.
    Collectives,
    /// Of groups of transfers, by number.
    Transfers,
    /// Of messages to and from other ranks, by number.
    Messages,
    /// Of every [`STRIDE`]-th collective, by its number divided by that.
    Checkpoints,
}

/// A text of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Text {
    /// Why it is in its state.
    Reason,
    /// What it answers to the latest request.
    Answer,
}

/// The size of the shared state of that many ranks.
pub(super) fn state_bytes(ranks: u32) -> usize {
    HEADER_BYTES + ranks as usize * PART_BYTES
}

/// The size of the signals of a node of that many ranks.
pub(super) fn signal_bytes(node_ranks: usize) -> usize {
    if node_ranks > SIGNAL_RANKS_MAX { 0 } else { node_ranks * node_ranks * PAIR_BYTES }
}

/// In a shared state of `ranks` ranks, the offset of the word that counts the signals from one rank
/// to another of a node of `node_ranks` ranks, both by their places in it; nothing, if the node
/// has none.
pub(super) fn signal(ranks: u32, node_ranks: usize, from: usize, to: usize) -> Option<usize> {
    let is_inside = from < node_ranks && to < node_ranks && node_ranks <= SIGNAL_RANKS_MAX;
    is_inside.then(|| state_bytes(ranks) + (to * node_ranks + from) * PAIR_BYTES)
}

/// How far behind the word of the signals a flag of the same pair lies.
pub(super) fn behind_signal(flag: PairFlag) -> usize {
    match flag {
        PairFlag::Ready => WORD_BYTES,
        PairFlag::Done => 2 * WORD_BYTES,
        PairFlag::Piece(number) => (3 + (number % PIECES) as usize) * WORD_BYTES,
    }
}

fn part(rank: Rank) -> usize {
    HEADER_BYTES + rank.index() * PART_BYTES
}

impl Field {
    /// Its offset.
    pub fn of(self, rank: Rank) -> usize {
        let inside = match self {
            Field::Collectives => 0,
            Field::Transfers => WORD_BYTES,
            Field::Issued => 2 * WORD_BYTES,
            Field::Settled => 3 * WORD_BYTES,
            Field::Messages => 4 * WORD_BYTES,
            Field::RankState => LINE_BYTES,
            Field::Answered => LINE_BYTES + WORD_BYTES,
            Field::Claim => LINE_BYTES + 2 * WORD_BYTES,
            Field::Agreeing => LINE_BYTES + 3 * WORD_BYTES,
            Field::Compares => LINE_BYTES + 4 * WORD_BYTES,
            Field::Ended => LINE_BYTES + 5 * WORD_BYTES,
            Field::Completed => LINE_BYTES + 6 * WORD_BYTES,
        };
        part(rank) + inside
    }
}

impl Ring {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Collectives, Self::Transfers, Self::Messages, Self::Checkpoints];

    /// How many records it holds.
    pub fn length(self) -> u64 {
        match self {
            Ring::Collectives => COLLECTIVES,
            Ring::Transfers => TRANSFERS,
            Ring::Messages => MESSAGES,
            Ring::Checkpoints => CHECKPOINTS,
        }
    }

    /// The number of its last record is that word divided by [`Ring::stride`].
    pub fn count(self) -> Field {
        match self {
            Ring::Collectives | Ring::Checkpoints => Field::Collectives,
            Ring::Transfers => Field::Transfers,
            Ring::Messages => Field::Messages,
        }
    }

    /// Of how many calls one is recorded.
    pub fn stride(self) -> u64 {
        match self {
            Ring::Collectives | Ring::Transfers | Ring::Messages => 1,
            Ring::Checkpoints => STRIDE,
        }
    }

    /// The offset of the words of record `number`.
    pub fn record(self, rank: Rank, number: u64) -> [usize; 6] {
        let ring = match self {
            Ring::Collectives => COLLECTIVE_RING,
            Ring::Transfers => TRANSFER_RING,
            Ring::Messages => MESSAGE_RING,
            Ring::Checkpoints => CHECKPOINT_RING,
        };
        let place = (number % self.length()) as usize;
        let record = part(rank) + ring + place * RECORD_BYTES;
        std::array::from_fn(|word| record + word * WORD_BYTES)
    }
}

impl Text {
    /// Its longest length in bytes.
    pub fn capacity(self) -> usize {
        match self {
            Text::Reason => REASON_BYTES,
            Text::Answer => ANSWER_BYTES,
        }
    }

    /// The offsets of version, length and first byte.
    pub fn of(self, rank: Rank) -> [usize; 3] {
        let inside = match self {
            Text::Reason => REASON,
            Text::Answer => ANSWER,
        };
        let start = part(rank) + inside;
        [start, start + WORD_BYTES, start + TEXT_HEAD_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every place of two ranks, as offset and length in bytes.
    fn places() -> Vec<(usize, usize)> {
        let mut places = vec![(REQUEST, 8), (REPORTER, 8)];
        for rank in [Rank(0), Rank(1)] {
            places.extend(Field::ALL.map(|field| (field.of(rank), 8)));
            for text in [Text::Reason, Text::Answer] {
                let [version, length, bytes] = text.of(rank);
                places.extend([(version, 8), (length, 8), (bytes, text.capacity())]);
            }
            for ring in Ring::ALL {
                let records = (1..=ring.length()).map(|number| ring.record(rank, number)[0]);
                places.extend(records.map(|record| (record, RECORD_BYTES)));
            }
        }
        places
    }

    #[test]
    fn nothing_overlaps_and_all_is_inside() {
        let mut places = places();
        places.sort_unstable();
        let mut end = 0;
        for (offset, bytes) in places {
            assert!(offset >= end && offset.is_multiple_of(WORD_BYTES), "{offset} before {end}");
            end = offset + bytes;
        }
        assert_eq!(end, state_bytes(2));
    }

    #[test]
    fn signals_lie_behind_all_else() {
        let pairs = (0..3).flat_map(|to| (0..3).map(move |from| (from, to)));
        let places: Vec<_> = pairs.map(|(from, to)| signal(2, 3, from, to).unwrap()).collect();
        let expected: Vec<_> = (0..9).map(|place| state_bytes(2) + 152 * place).collect();
        assert_eq!((places, signal_bytes(3)), (expected, 9 * 152));
        let flags = [0, 15, 16].map(PairFlag::Piece).into_iter();
        let flags = [PairFlag::Ready, PairFlag::Done].into_iter().chain(flags);
        assert_eq!(flags.map(behind_signal).collect::<Vec<_>>(), [8, 16, 24, 144, 24]);
        assert_eq!(
            (signal(2, 3, 3, 0), signal(500, 300, 0, 0), signal_bytes(300)),
            (None, None, 0)
        );
    }
}

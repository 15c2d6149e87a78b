//! The memory of ranks: where buffers lie, what it must hold, and what it holds.

use msccl_kernels::recording::RING_WORDS;
use msccl_trace::device::WordReader;
use msccl_trace::record::Record;

use crate::scenario::{MARGIN, Outcome};

/// Where a rank's buffers lie in its memory.
pub struct Lie {
    pub input: usize,
    pub output: usize,
    pub input_bytes: usize,
    pub output_bytes: usize,
}

/// The memory of a rank: `None` where it may hold anything.
pub struct Expected {
    pub before: Vec<u8>,
    pub after: Vec<Option<u8>>,
}

impl Lie {
    pub fn end(&self) -> usize {
        (self.input + self.input_bytes).max(self.output + self.output_bytes) + MARGIN
    }
}

/// What the emulator reads.
#[derive(Default)]
pub struct Words(pub Vec<u8>);

impl Words {
    pub fn put<const N: usize>(&mut self, words: [u64; N]) {
        self.bytes(words.into_iter().flat_map(u64::to_le_bytes));
    }

    pub fn bytes(&mut self, bytes: impl Iterator<Item = u8>) {
        self.0.extend(bytes);
    }
}

/// Bytes that the emulator says of a rank, but for its records.
pub fn of_rank(runs: &[Vec<Expected>], memory_bytes: usize) -> usize {
    8 + runs.len() * (8 + memory_bytes)
}

/// Takes the records of the `blocks` thread blocks of each rank out of `output`, where they stand
/// behind `of_rank` bytes.
pub fn split_records(
    output: &[u8],
    of_rank: usize,
    blocks: usize,
) -> (Vec<u8>, Vec<Vec<Vec<Record>>>) {
    let (mut rest, mut others, mut ranks) = (output, Vec::new(), Vec::new());
    while !rest.is_empty() {
        others.extend(take(&mut rest, of_rank));
        let block = |_| {
            let mut word = || u64::from_le_bytes(take(&mut rest, 8).try_into().unwrap());
            let (before, count) = (word(), word());
            records(before, &(0..count).map(|_| word()).collect::<Vec<_>>())
        };
        ranks.push((0..blocks).map(block).collect());
    }
    (others, ranks)
}

/// What the `words` of a thread block say, all of which have arrived, behind so many `before`.
fn records(before: u64, words: &[u64]) -> Vec<Record> {
    let mut reader = WordReader::new(RING_WORDS as u64, 0);
    reader.skip(before);
    let records = reader.take(words, 0);
    assert_eq!(reader.read() - before, words.len() as u64);
    records.into_iter().map(|packed| Record::unpack(packed).unwrap()).collect()
}

/// The first `count` of `rest`, which loses them.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(count);
    *rest = left;
    taken
}

/// Compares what the launches that were done have left.
pub fn compare(
    output: &[u8],
    runs: &[Vec<Expected>],
    memory_bytes: usize,
) -> Result<Outcome, String> {
    let ranks = runs.first().map_or(0, Vec::len);
    let of_launch = 8 + memory_bytes;
    let of_rank = of_rank(runs, memory_bytes);
    assert_eq!(output.len(), ranks * of_rank);
    let mut outcome = Outcome::default();
    for (rank, found) in output.chunks(of_rank).enumerate() {
        let (slots, memories) = found.split_first_chunk().unwrap();
        outcome.used += u64::from_le_bytes(*slots);
        for (launch, (found, run)) in memories.chunks(of_launch).zip(runs).enumerate() {
            let (done, found) = found.split_first_chunk().unwrap();
            if u64::from_le_bytes(*done) == 0 {
                continue;
            }
            outcome.done += 1;
            let pairs = found.iter().zip(&run[rank].after);
            let wrong =
                pairs.clone().filter(|(found, it)| it.is_some_and(|it| it != **found)).count();
            let first = pairs.clone().position(|(found, it)| it.is_some_and(|it| it != *found));
            if let Some(at) = first {
                return Err(format!("launch {launch}, r{rank}: {wrong} bytes, the first at {at}"));
            }
        }
    }
    Ok(outcome)
}

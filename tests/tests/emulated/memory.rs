//! The memory of ranks: where buffers lie, what it must hold, and what it holds.

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

/// Compares what the launches that were done have left.
pub fn compare(
    output: &[u8],
    runs: &[Vec<Expected>],
    memory_bytes: usize,
) -> Result<Outcome, String> {
    let ranks = runs.first().map_or(0, Vec::len);
    let of_launch = 8 + memory_bytes;
    let of_rank = 8 + runs.len() * of_launch;
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

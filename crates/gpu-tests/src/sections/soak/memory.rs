//! The memory of ranks in one round of a scene, before and after.

use msccl_collective::Rank;
use msccl_runtime::Call;

use super::case::{Piece, SoakCase};
use crate::Trouble;
use crate::case::{Case, Image};
use crate::memory::ALIGNMENT;
use crate::random::Random;
use crate::sections::point_to_point::MessagesPart;

/// A scene with all its bytes.
pub struct Prepared {
    /// What is done.
    pub scene: SoakCase,
    /// By round, communicator and rank. The sheets of all rounds have the same layout.
    pub sheets: Vec<Vec<Vec<StepMemory>>>,
}

/// The memory of one rank of a communicator: every piece of the scene, one behind the other.
pub struct StepMemory {
    /// What it holds before.
    pub bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// A piece, as one rank has it.
struct Entry {
    start: usize,
    content: Content,
}

enum Content {
    Collective { case: Case, rank: Rank, image: Image, output: Vec<u8> },
    Messages(MessagesPart),
}

impl Prepared {
    /// `scene` with the bytes of every round; communicators have `ranks` ranks.
    pub fn new(scene: SoakCase, ranks: &[u32]) -> Self {
        let of_round = |seed: u64| {
            let mut random = Random::new(seed);
            let of = |(pieces, ranks): (&Vec<Piece>, &u32)| sheets(pieces, *ranks, &mut random);
            scene.pieces.iter().zip(ranks).map(of).collect()
        };
        let sheets = scene.rounds.iter().map(|round| of_round(round.seed)).collect();
        Self { scene, sheets }
    }
}

/// The sheets of all ranks of one communicator.
fn sheets(pieces: &[Piece], ranks: u32, random: &mut Random) -> Vec<StepMemory> {
    let empty = |_| StepMemory { bytes: Vec::new(), entries: Vec::new() };
    let mut sheets: Vec<StepMemory> = (0..ranks).map(empty).collect();
    for piece in pieces {
        let seed = random.next();
        match piece {
            Piece::Collective(case) => {
                let case = Case { seed, ..*case };
                let inputs = case.inputs(ranks);
                let outputs = case.exact_outputs(ranks, &inputs);
                let of_rank = inputs.iter().zip(outputs).zip((0..ranks).map(Rank));
                for (sheet, ((input, output), rank)) in sheets.iter_mut().zip(of_rank) {
                    let image = case.image(rank, ranks, input);
                    sheet.add(Content::Collective { case, rank, image, output });
                }
            }
            Piece::Messages(messages) => {
                for (rank, sheet) in (0..ranks).zip(&mut sheets) {
                    sheet.add(Content::Messages(MessagesPart::new(messages, rank, seed)));
                }
            }
        }
        // The next piece begins at the same place on all ranks.
        let end = sheets.iter().map(|sheet| sheet.bytes.len()).max().unwrap_or(0);
        sheets.iter_mut().for_each(|sheet| sheet.bytes.resize(end, 0));
    }
    sheets
}

impl StepMemory {
    fn add(&mut self, content: Content) {
        let start = self.bytes.len().next_multiple_of(ALIGNMENT);
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(content.before());
        self.entries.push(Entry { start, content });
    }

    /// The calls of piece number `piece`, where the memory begins at `base`.
    pub fn calls(&self, piece: usize, base: u64, stream: u64) -> Vec<Call> {
        let Entry { start, content } = &self.entries[piece];
        let base = base + *start as u64;
        match content {
            Content::Collective { case, rank, image, output: _ } => {
                vec![case.call(*rank, base, image, stream)]
            }
            Content::Messages(part) => part.calls(base, stream),
        }
    }

    /// Compares all memory with what it must be after a round.
    pub fn check(&self, found: &[u8]) -> Result<(), Trouble> {
        for (number, Entry { start, content }) in self.entries.iter().enumerate() {
            let found = &found[*start..start + content.before().len()];
            content.check(found).map_err(|error| format!("piece {number}: {error}"))?;
        }
        Ok(())
    }
}

impl Content {
    fn before(&self) -> &[u8] {
        match self {
            Content::Collective { image, .. } => &image.bytes,
            Content::Messages(part) => &part.before,
        }
    }

    fn check(&self, found: &[u8]) -> Result<(), Trouble> {
        match self {
            Content::Collective { case, rank: _, image, output } => image
                .check(found, output, case.data_type.size_bytes())
                .map_err(|error| format!("{}: {error}", case.describe()).into()),
            Content::Messages(part) => part.check(found),
        }
    }
}

#[cfg(test)]
impl Prepared {
    /// Expects another result of some rank in round `round`, if anything comes of it at all.
    pub fn spoil(&mut self, round: usize) -> bool {
        let entries = self.sheets[round].iter_mut().flatten().flat_map(|sheet| &mut sheet.entries);
        let mut results = entries.filter_map(|entry| match &mut entry.content {
            Content::Collective { output, .. } => output.first_mut(),
            Content::Messages(part) => part.after.last_mut(),
        });
        results.next().map(|byte| *byte ^= 1).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator::{self, Scope};
    use super::*;

    #[test]
    fn a_byte_that_changes_anywhere_is_noticed() {
        let scope = Scope { ranks: vec![2, 2], on_gpus: false, elements: 2000, ..Scope::default() };
        let mut noticed = 0;
        for number in 0..40 {
            let prepared = Prepared::new(generator::scene(&scope, 1, number), &scope.ranks);
            for sheet in prepared.sheets.iter().flatten().flatten() {
                noticed += usize::from(notices(sheet));
            }
        }
        assert!(noticed > 20, "{noticed}");
    }

    /// Whether there is anything to notice. What is right is accepted; with another byte at some
    /// places, it is not.
    fn notices(sheet: &StepMemory) -> bool {
        let mut right = sheet.bytes.clone();
        let mut free = Vec::new();
        for Entry { start, content } in &sheet.entries {
            match content {
                Content::Messages(part) => {
                    right[*start..][..part.after.len()].copy_from_slice(&part.after);
                }
                Content::Collective { image, output, .. } => {
                    right[start + image.receive..][..output.len()].copy_from_slice(output);
                    free.push(start + image.free.start..start + image.free.end);
                }
            }
        }
        assert!(sheet.check(&right).is_ok());
        let covered: Vec<_> = sheet
            .entries
            .iter()
            .flat_map(|entry| {
                let at = entry.start..entry.start + entry.content.before().len();
                at.step_by(97)
            })
            .collect();
        for &at in covered.iter().filter(|at| !free.iter().any(|free| free.contains(at))) {
            let mut wrong = right.clone();
            wrong[at] ^= 0x10;
            assert!(sheet.check(&wrong).is_err(), "byte {at}");
        }
        !covered.is_empty()
    }
}

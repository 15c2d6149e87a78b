//! Some calls made together: the memory of every rank before and after.

use msccl_collective::Rank;
use msccl_runtime::Call;

use crate::Trouble;
use crate::case::{Case, Image};
use crate::memory::ALIGNMENT;
use crate::oracle::Oracle;

/// Calls, their inputs and what must come of them.
pub struct Trial {
    cases: Vec<Case>,
    /// By rank.
    sheets: Vec<Sheet>,
}

/// The memory of one rank: an image for every call, one behind the other.
pub struct Sheet {
    /// What it holds before the calls.
    pub bytes: Vec<u8>,
    rank: Rank,
    parts: Vec<RankPart>,
}

struct RankPart {
    start: usize,
    image: Image,
    output: Vec<u8>,
}

impl Trial {
    /// The calls `cases`; those that round are known to be served by `algorithm`.
    pub fn new(
        cases: &[Case],
        ranks: u32,
        algorithm: &str,
        oracle: &mut Oracle,
    ) -> Result<Self, Trouble> {
        Self::placed(cases, ranks, algorithm, oracle, |case, _| *case)
    }

    /// The call `case`, which ranks of odd numbers make in place and the others out of place. What
    /// its result is does not depend on that.
    pub fn of_both_placements(
        case: &Case,
        ranks: u32,
        oracle: &mut Oracle,
    ) -> Result<Self, Trouble> {
        let in_place = |rank: Rank| rank.0 % 2 == 1;
        let placed = |case: &Case, rank| Case { in_place: in_place(rank), ..*case };
        Self::placed(&[*case], ranks, "", oracle, placed)
    }

    /// The calls `cases`, of which each rank makes what `own` says.
    fn placed(
        cases: &[Case],
        ranks: u32,
        algorithm: &str,
        oracle: &mut Oracle,
        own: impl Fn(&Case, Rank) -> Case,
    ) -> Result<Self, Trouble> {
        let sheet = |rank| Sheet { bytes: Vec::new(), rank: Rank(rank), parts: Vec::new() };
        let mut sheets: Vec<Sheet> = (0..ranks).map(sheet).collect();
        for case in cases {
            let inputs = case.inputs(ranks);
            let outputs = case.outputs(ranks, &inputs, algorithm, oracle)?;
            for ((sheet, input), output) in sheets.iter_mut().zip(&inputs).zip(outputs) {
                let image = own(case, sheet.rank).image(sheet.rank, ranks, input);
                sheet.add(image, output);
            }
        }
        Ok(Self { cases: cases.to_vec(), sheets })
    }

    /// The memory of `rank`.
    pub fn sheet(&self, rank: Rank) -> &Sheet {
        &self.sheets[rank.index()]
    }

    /// The calls of `rank`, whose memory begins at `base`.
    pub fn calls(&self, rank: Rank, base: u64, stream: u64) -> Vec<Call> {
        let parts = &self.sheet(rank).parts;
        let call = |(case, part): (&Case, &RankPart)| {
            case.call(rank, base + part.start as u64, &part.image, stream)
        };
        self.cases.iter().zip(parts).map(call).collect()
    }

    /// Compares what `rank` has after the calls with what it must have.
    pub fn check(&self, rank: Rank, found: &[u8]) -> Result<(), Trouble> {
        for (case, part) in self.cases.iter().zip(&self.sheet(rank).parts) {
            let found = &found[part.start..part.start + part.image.bytes.len()];
            part.image
                .check(found, &part.output, case.data_type.size_bytes())
                .map_err(|error| format!("{}: {error}", case.describe()))?;
        }
        Ok(())
    }

    /// In a few words, for failures.
    pub fn describe(&self) -> String {
        self.cases.iter().map(Case::describe).collect::<Vec<_>>().join("; ")
    }
}

impl Sheet {
    fn add(&mut self, image: Image, output: Vec<u8>) {
        let start = self.bytes.len().next_multiple_of(ALIGNMENT);
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(&image.bytes);
        self.parts.push(RankPart { start, image, output });
    }
}

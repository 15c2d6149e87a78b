//! Where the steps of a file stand, for whoever shows a fault at its line.

use msccl_ir::StepRef;

use super::gpu::Block;

/// The place of every `<step>`, by rank, thread block and step of the algorithm read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
    ranks: Vec<RankPlaces>,
}

/// The places of one rank's steps, by thread block and step: first bytes of `<step>` elements.
pub(super) type RankPlaces = Vec<Vec<u32>>;

impl Places {
    pub(super) fn new(ranks: Vec<RankPlaces>) -> Self {
        Self { ranks }
    }

    /// The first byte of the `<step>` in the text without byte order mark; `None` if the file has
    /// no such step.
    pub fn of(&self, step: StepRef) -> Option<usize> {
        let block = self.ranks.get(step.rank.index())?.get(step.tb.index())?;
        block.get(step.step.index()).map(|&offset| offset as usize)
    }
}

/// The places of the steps of thread blocks.
pub(super) fn of_blocks(blocks: &[Block]) -> RankPlaces {
    // No file is longer than 2^30 bytes.
    let of_block = |block: &Block| block.rows.iter().map(|row| row.offset as u32).collect();
    blocks.iter().map(of_block).collect()
}

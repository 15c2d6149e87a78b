//! One call whose bits are compared with those of earlier calls: [`crate::invariance`].

use std::hash::{DefaultHasher, Hasher};

use super::check::{PIECE_BYTES, UNTOUCHED};
use super::measure::Measurer;
use crate::error::Error;
use crate::piece::{Compared, Piece, Tables};
use crate::workload::Workload;

impl Measurer<'_> {
    /// Makes the call of `piece`, which is the case of the measurer, and compares.
    pub(super) fn compare_bits(
        mut self,
        piece: &Piece,
        tables: &mut Tables,
    ) -> Result<Compared, Error> {
        let (rank, ranks) = (self.communicator.rank(), self.case.ranks);
        let places = self.places(0)?;
        places.output.fill(UNTOUCHED)?;
        let block_bytes = self.block_bytes();
        for block in 0..self.case.workload.blocks(ranks).input {
            let start = block as usize * block_bytes;
            places.input.slice(start, block_bytes)?.repeat(&piece.input(rank, block))?;
        }
        self.call_once(0)?;
        let mut compared = Compared::default();
        if let Some(first) = first_element(piece, rank) {
            self.compare_output(piece, first, tables, &mut compared)?;
        }
        self.barrier.wait()?;
        self.communicator.check()?;
        Ok(compared)
    }

    fn compare_output(
        &self,
        piece: &Piece,
        first: u64,
        tables: &mut Tables,
        compared: &mut Compared,
    ) -> Result<(), Error> {
        let output = self.places(0)?.output;
        let (block_bytes, size) = (self.block_bytes(), self.case.element.0.size_bytes());
        let mut digest = DefaultHasher::new();
        let mut bytes = vec![0; PIECE_BYTES.min(block_bytes)];
        for start in (0..block_bytes).step_by(PIECE_BYTES) {
            let part = &mut bytes[..PIECE_BYTES.min(block_bytes - start)];
            output.slice(start, part.len())?.read(part)?;
            tables.compare(piece, first + (start / size) as u64, part, compared);
            digest.write(part);
        }
        compared.digest = (self.case.workload == Workload::AllReduce).then(|| digest.finish());
        Ok(())
    }
}

/// Which element of the whole result comes first in the output of `rank`; `None` if it has no part
/// of the result.
fn first_element(piece: &Piece, rank: u32) -> Option<u64> {
    let case = &piece.case;
    match case.workload {
        Workload::ReduceScatter => Some(u64::from(rank) * case.count),
        Workload::Reduce => (rank == case.root).then_some(0),
        _ => Some(0),
    }
}

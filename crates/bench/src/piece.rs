//! Inputs that repeat, and what their reduction was first.

use std::collections::BTreeMap;

use msccl_runtime::reference;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::element::{ElementType, Redop};
use crate::expected::bits;

/// After how many elements inputs repeat. A prime, so that calls of all sizes, and the blocks of
/// their ranks, meet the numbers at other places.
const PERIOD: usize = 8191;

/// A call whose bits are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// What is called. Its offset is where the buffers lie.
    pub(crate) case: Case,
    /// Which element of the pattern comes first.
    pub(crate) first: u64,
}

/// What one rank found in one or more calls.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Compared {
    /// Elements of outputs.
    pub elements: u64,
    /// Elements that had other bits than in the call that had them first.
    pub differ: u64,
    /// The first of them, in words.
    pub example: Option<String>,
    /// Stands for all bits of the output, where ranks must have the same.
    pub digest: Option<u64>,
}

impl Piece {
    /// A period of block `block` of the input of `rank`.
    pub(crate) fn input(&self, rank: u32, block: u64) -> Vec<u8> {
        let Case { element, count, .. } = self.case;
        // Numbers of other ranks must differ; those of other calls must not.
        let mut numbers = reference::rounded(element.0, PERIOD, u64::from(rank) + 1);
        numbers.rotate_left(self.slot(block * count) * element.0.size_bytes());
        numbers
    }

    /// Which element of the pattern stands at `element` of the whole input.
    fn slot(&self, element: u64) -> usize {
        ((self.first + element) % PERIOD as u64) as usize
    }
}

/// What reductions gave first, by type and reduction.
#[derive(Default)]
pub(crate) struct Tables {
    tables: BTreeMap<(&'static str, &'static str), Table>,
}

struct Table {
    bytes: Vec<u8>,
    known: Vec<bool>,
}

impl Tables {
    /// The table of such calls.
    fn table(&mut self, element: ElementType, redop: Redop) -> &mut Table {
        let empty = || Table {
            bytes: vec![0; PERIOD * element.0.size_bytes()],
            known: vec![false; PERIOD],
        };
        self.tables.entry((element.name(), redop.name())).or_insert_with(empty)
    }

    /// Compares `found`, which begins at element `start` of the whole result, with what is known,
    /// and learns the rest.
    pub(crate) fn compare(&mut self, piece: &Piece, start: u64, found: &[u8], into: &mut Compared) {
        let Case { element, redop, .. } = piece.case;
        let size = element.0.size_bytes();
        let table = self.table(element, redop);
        let (mut at, elements) = (0, found.len() / size);
        into.elements += elements as u64;
        while at < elements {
            let slot = piece.slot(start + at as u64);
            let run = (PERIOD - slot).min(elements - at);
            let part = &found[at * size..(at + run) * size];
            if let Some((index, expected)) = table.compare(slot, part, size, &mut into.differ) {
                let found = bits(&part[index * size..][..size]);
                into.example.get_or_insert_with(|| {
                    let digits = 2 * size;
                    let element = start + (at + index) as u64;
                    format!(
                        "element {element}: first the bits {expected:0digits$x}, now \
                         {found:0digits$x}"
                    )
                });
            }
            at += run;
        }
    }
}

impl Table {
    /// Compares from `slot` on; the index of the first element that differs, and its first bits.
    fn compare(
        &mut self,
        slot: usize,
        found: &[u8],
        size: usize,
        differ: &mut u64,
    ) -> Option<(usize, u64)> {
        let bytes = &mut self.bytes[slot * size..][..found.len()];
        let known = &mut self.known[slot..][..found.len() / size];
        if bytes == found && known.iter().all(|known| *known) {
            return None;
        }
        let mut example = None;
        let pairs = bytes.chunks_exact_mut(size).zip(found.chunks_exact(size));
        for (index, ((first, found), known)) in pairs.zip(known).enumerate() {
            if !*known {
                first.copy_from_slice(found);
                *known = true;
            } else if first != found {
                *differ += 1;
                example.get_or_insert_with(|| (index, bits(first)));
            }
        }
        example
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use msccl_collective::{DataType, Reduction};

    fn piece(first: u64, count: u64) -> Piece {
        let (element, redop) = (ElementType(DataType::F32), Redop::Plain(Reduction::Sum));
        let workload = Workload::AllReduce;
        let case = Case { workload, element, redop, root: 0, count, ranks: 2, offset_bytes: None };
        Piece { case, first }
    }

    #[test]
    fn pieces_have_the_numbers_of_the_whole() {
        let (whole, part) = (piece(0, 20_000).input(1, 0), piece(8190, 3).input(1, 0));
        assert_eq!(part[..4], whole[4 * 8190..]);
        assert_eq!(part[4..12], whole[..8]);
        assert_ne!(piece(0, 1).input(0, 0), piece(0, 1).input(1, 0));
    }

    #[test]
    fn what_comes_again_must_be_the_same() {
        let mut tables = Tables::default();
        let mut compared = Compared::default();
        let whole = piece(0, 20_000);
        let mut bytes = whole.input(1, 0).repeat(3);
        bytes.truncate(80_000);
        tables.compare(&whole, 0, &bytes, &mut compared);
        assert_eq!((compared.elements, compared.differ), (20_000, 0));
        let part = piece(100, 50);
        let mut bytes = bytes[400..600].to_vec();
        tables.compare(&part, 0, &bytes, &mut compared);
        assert_eq!((compared.elements, compared.differ), (20_050, 0));
        bytes[41] ^= 1;
        tables.compare(&part, 0, &bytes, &mut compared);
        let Compared { differ, example, .. } = &compared;
        assert_eq!(*differ, 1);
        assert!(
            example.as_ref().unwrap().starts_with("element 10: first the bits "),
            "{example:?}"
        );
        // Another reduction is another table.
        let redop = Redop::Plain(Reduction::Max);
        let other = Piece { case: Case { redop, ..part.case }, ..part };
        tables.compare(&other, 0, &bytes, &mut compared);
        assert_eq!(compared.differ, 1);
    }
}

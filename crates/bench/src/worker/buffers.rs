//! Where the input and the output of each call lie.
//!
//! There are two buffers, one of which calls in place use alone. Successive calls lie one behind
//! the other in them, as far as they fit, so that caches do not make small calls look faster
//! than they are, and so that addresses with all kinds of alignment occur. Where a case asks for an
//! offset, each call lies as far behind an aligned address as that says, and no further apart than
//! that takes.

use super::device::Region;
use crate::case::Case;
use crate::error::Error;
use crate::placement::Placement;

/// Bytes behind each buffer, so that there is something behind every output.
const GUARD_BYTES: usize = 256;

/// The two buffers.
pub(super) struct Buffers {
    input: Region,
    output: Region,
    capacity_bytes: usize,
}

/// Where a call's input and output lie.
#[derive(Clone, Copy)]
pub(super) struct Places {
    /// The input, as long as that of the rank that has most.
    pub(super) input: Region,
    /// The output, likewise.
    pub(super) output: Region,
    /// What lies behind the output.
    pub(super) guard: Region,
}

impl Buffers {
    /// Buffers of `capacity_bytes`, each in what `allocate` gives.
    pub(super) fn new(
        capacity_bytes: usize,
        allocate: impl Fn(usize) -> Result<Region, Error>,
    ) -> Result<Self, Error> {
        let allocated_bytes = capacity_bytes.saturating_add(GUARD_BYTES);
        let input = allocate(allocated_bytes)?;
        Ok(Self { input, output: allocate(allocated_bytes)?, capacity_bytes })
    }

    /// Both, whole.
    pub(super) fn all(&self) -> [Region; 2] {
        [self.input, self.output]
    }

    /// How many calls fit one behind the other.
    pub(super) fn calls(&self, case: &Case) -> usize {
        let bytes = usize::try_from(case.stride_bytes()).unwrap_or(usize::MAX);
        self.capacity_bytes.checked_div(bytes).unwrap_or(1).max(1)
    }

    /// Where call number `turn` of `rank` lies.
    pub(super) fn places(
        &self,
        case: &Case,
        placement: Placement,
        rank: u32,
        turn: usize,
    ) -> Result<Places, Error> {
        let bytes = |blocks: u64| {
            let bytes = case.block_bytes().saturating_mul(blocks);
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        let stride = usize::try_from(case.stride_bytes()).unwrap_or(usize::MAX);
        let offset = usize::try_from(case.offset_bytes.unwrap_or(0)).unwrap_or(usize::MAX);
        let start = (turn % self.calls(case)).saturating_mul(stride).saturating_add(offset);
        let blocks = case.workload.blocks(case.ranks);
        let (input_block, output_block) = case.workload.place_in_common(rank);
        let (buffer, input_start, output_start) = match placement {
            Placement::OutOfPlace => (self.input, start, start),
            Placement::InPlace => {
                (self.output, start + bytes(input_block), start + bytes(output_block))
            }
        };
        let output_bytes = bytes(blocks.output);
        Ok(Places {
            input: buffer.slice(input_start, bytes(blocks.input))?,
            output: self.output.slice(output_start, output_bytes)?,
            guard: self.output.slice(output_start + output_bytes, GUARD_BYTES)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::Device;
    use super::*;
    use crate::element::{ElementType, Redop};
    use crate::workload::Workload;

    fn case(workload: Workload, offset_bytes: Option<u64>) -> Case {
        let [element, ..] = ElementType::ALL;
        let redop = Redop::ALL[0];
        Case { workload, element, redop, root: 0, count: 10, ranks: 3, offset_bytes }
    }

    fn offsets(workload: Workload, placement: Placement, turn: usize) -> (isize, isize, usize) {
        let buffers = Buffers::new(100, |bytes| Device::Host.allocate(bytes)).unwrap();
        let case = case(workload, None);
        let places = buffers.places(&case, placement, 2, turn).unwrap();
        let from =
            |base: Region, region: Region| region.address() as isize - base.address() as isize;
        let base = match placement {
            Placement::OutOfPlace => buffers.input,
            Placement::InPlace => buffers.output,
        };
        (
            from(base, places.input),
            from(buffers.output, places.output),
            places.output.length_bytes(),
        )
    }

    #[test]
    fn calls_lie_behind_one_another_as_far_as_they_fit() {
        let out = Placement::OutOfPlace;
        let starts = [0, 1, 2, 3].map(|turn| offsets(Workload::AllGather, out, turn));
        assert_eq!(starts, [(0, 0, 30), (30, 30, 30), (60, 60, 30), (0, 0, 30)]);
    }

    #[test]
    fn offsets_count_from_aligned_addresses() {
        let case = case(Workload::AllGather, Some(4));
        assert_eq!(case.stride_bytes(), 256);
        let buffers = Buffers::new(600, |bytes| Device::Host.allocate(bytes)).unwrap();
        let base = buffers.input.address() as usize;
        let start = |turn| {
            let places = buffers.places(&case, Placement::OutOfPlace, 1, turn).unwrap();
            places.input.address() as usize - base
        };
        assert_eq!([0, 1, 2].map(start), [4, 260, 4]);
    }

    #[test]
    fn in_place_is_where_the_collective_says() {
        let place = |workload| offsets(workload, Placement::InPlace, 1);
        assert_eq!(place(Workload::AllGather), (30 + 20, 30, 30));
        assert_eq!(place(Workload::ReduceScatter), (30, 30 + 20, 10));
        assert_eq!(place(Workload::AllReduce), (10, 10, 10));
    }
}

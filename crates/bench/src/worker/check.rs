//! Whether a call gives what it must, element by element.
//!
//! Every element of every output about which something is promised is compared on the host,
//! whatever the size, and a strip behind the output must stay as it was. Data are fresh for every
//! check.

use super::buffers::Places;
use super::measure::Measurer;
use crate::error::Error;
use crate::expected::{ExpectedData, bits};
use crate::placement::Placement;
use crate::workload::Blocks;

/// What outputs and what lies behind them hold before the call: no result looks like this for long.
pub(super) const UNTOUCHED: u8 = 0xa5;

/// How much is brought to the host and compared at once.
pub(super) const PIECE_BYTES: usize = 8 << 20;

/// What checks have found.
#[derive(Default)]
pub(super) struct Found {
    /// Wrong elements, and bytes behind the output that were written.
    pub(super) wrong: u64,
    /// The first, in words.
    pub(super) first: Option<String>,
}

impl Measurer<'_> {
    /// Makes and checks as many calls as requested; `None` if the result is not defined or no
    /// checks are requested.
    pub(super) fn check(&mut self) -> Result<Option<Found>, Error> {
        let in_place = self.placement == Placement::InPlace;
        let undefined = in_place && !self.case.workload.is_checked_in_place();
        if undefined || self.method.checks == 0 {
            return Ok(None);
        }
        let mut found = Found::default();
        for turn in 0..self.method.checks as usize {
            let expected =
                ExpectedData::for_rank(&self.case, self.communicator.rank(), turn as u64 + 1);
            let places = self.places(turn)?;
            self.prepare(&expected, &places)?;
            self.call_once(turn)?;
            self.compare(&expected, &places, &mut found)?;
            self.barrier.wait()?;
        }
        Ok(Some(found))
    }

    /// Puts the input where it belongs. In place, that is part of the output.
    fn prepare(&self, expected: &ExpectedData, places: &Places) -> Result<(), Error> {
        places.output.fill(UNTOUCHED)?;
        places.guard.fill(UNTOUCHED)?;
        let block_bytes = self.block_bytes();
        for (block, period) in expected.input.iter().enumerate() {
            places.input.slice(block * block_bytes, block_bytes)?.repeat(period)?;
        }
        Ok(())
    }

    fn compare(
        &self,
        expected: &ExpectedData,
        places: &Places,
        found: &mut Found,
    ) -> Result<(), Error> {
        let block_bytes = self.block_bytes();
        let mut piece = vec![0; PIECE_BYTES.min(block_bytes)];
        for block in 0..expected.output.len() {
            for start in (0..block_bytes).step_by(PIECE_BYTES) {
                let length = PIECE_BYTES.min(block_bytes - start);
                let part = &mut piece[..length];
                places.output.slice(block * block_bytes + start, length)?.read(part)?;
                let (wrong, first) = expected.wrong(block, start, part);
                found.wrong += wrong;
                if let (None, Some(element)) = (&found.first, first) {
                    let at = element * expected.element.0.size_bytes() - start;
                    let bits = bits(&part[at..at + expected.element.0.size_bytes()]);
                    found.first = Some(self.describe(expected, block, element, bits));
                }
            }
        }
        self.compare_guard(places, found)
    }

    fn compare_guard(&self, places: &Places, found: &mut Found) -> Result<(), Error> {
        // In place, the input may go on behind the output, and may be used up.
        let in_place = self.placement == Placement::InPlace;
        let Blocks { input, output } = self.case.workload.blocks(self.case.ranks);
        if in_place && input > output {
            return Ok(());
        }
        let mut guard = vec![0; places.guard.length_bytes()];
        places.guard.read(&mut guard)?;
        let spoilt = guard.iter().filter(|byte| **byte != UNTOUCHED).count() as u64;
        if spoilt > 0 {
            found.wrong += spoilt;
            let rank = self.communicator.rank();
            let text = || format!("{spoilt} bytes behind the output of r{rank} were written");
            found.first.get_or_insert_with(text);
        }
        Ok(())
    }

    fn describe(
        &self,
        expected: &ExpectedData,
        block: usize,
        element: usize,
        found: u64,
    ) -> String {
        let digits = 2 * expected.element.0.size_bytes();
        let expected = expected.promised_bits(block, element);
        let rank = self.communicator.rank();
        let element = block * self.case.count as usize + element;
        format!(
            "output of r{rank}, element {element}: expected the bits {expected:0digits$x}, found \
             {found:0digits$x}"
        )
    }
}

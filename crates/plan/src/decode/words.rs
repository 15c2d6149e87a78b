//! Words, with what is said of those that are wrong.

use super::Corrupt;

#[derive(Clone, Copy)]
pub(super) struct Words<'a>(pub(super) &'a [u32]);

impl Words<'_> {
    pub(super) fn get(self, at: usize) -> Result<u32, Corrupt> {
        let cut = || corrupt(at, format!("the plan ends after {} words", self.0.len()));
        self.0.get(at).copied().ok_or_else(cut)
    }

    pub(super) fn expect(self, at: usize, what: &str, expected: u32) -> Result<(), Corrupt> {
        match self.get(at)? {
            found if found == expected => Ok(()),
            found => Err(corrupt(at, format!("{what} is {expected:#x}, found {found:#x}"))),
        }
    }

    /// The word at `at`, if it is less than `bound`.
    pub(super) fn below(self, at: usize, what: &str, bound: u32) -> Result<u32, Corrupt> {
        match self.get(at)? {
            found if found < bound => Ok(found),
            found => Err(corrupt(at, format!("expected {what} below {bound}, found {found}"))),
        }
    }

    pub(super) fn positive(self, at: u32, what: &str) -> Result<u32, Corrupt> {
        match self.get(at as usize)? {
            0 => Err(corrupt(at as usize, format!("expected {what} of at least 1, found 0"))),
            found => Ok(found),
        }
    }

    /// Where a table of `count` entries ends, if that is inside the plan. Keeps a false count from
    /// claiming memory.
    pub(super) fn table_end(
        self,
        first: usize,
        count: u32,
        length: usize,
    ) -> Result<usize, Corrupt> {
        let end = first.saturating_add((count as usize).saturating_mul(length));
        if end > self.0.len() {
            let message =
                format!("{count} entries of {length} words do not fit {} words", self.0.len());
            return Err(corrupt(first, message));
        }
        Ok(end)
    }
}

pub(super) fn corrupt(word: usize, message: String) -> Corrupt {
    Corrupt { word, message }
}

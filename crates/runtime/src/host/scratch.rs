//! Memory of the engine's own, by address like the caller's.

use std::cell::UnsafeCell;

use crate::error::{Error, ErrorKind};

/// The unit in which it is taken: what vectors are aligned to.
type AlignmentUnit = UnsafeCell<u128>;

/// Memory that grows when more is asked for. What was once given out stays.
#[derive(Default)]
pub(super) struct HostScratch {
    pieces: Vec<Vec<AlignmentUnit>>,
}

impl HostScratch {
    /// Where at least `bytes` bytes lie, aligned to 16; the same as last time, if that was enough.
    pub fn at_least(&mut self, bytes: u64) -> Result<u64, Error> {
        let short =
            |_| Error::new(ErrorKind::System, format!("no memory for {bytes} bytes of scratch"));
        let grains = bytes.div_ceil(size_of::<AlignmentUnit>() as u64);
        let grains = usize::try_from(grains).map_err(|_| short(()))?;
        let has = self.pieces.last().map_or(0, Vec::len);
        if has < grains {
            // At least doubled, so that all pieces together stay below twice the last one.
            let length = grains.max(2 * has);
            let mut piece = Vec::new();
            piece.try_reserve_exact(length).map_err(|_| short(()))?;
            piece.extend(std::iter::repeat_with(|| UnsafeCell::new(0)).take(length));
            self.pieces.push(piece);
        }
        Ok(self.pieces.last().map_or(0, |piece| piece.as_ptr().expose_provenance() as u64))
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| (piece.len() * size_of::<AlignmentUnit>()) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_and_given_again() {
        let mut scratch = HostScratch::default();
        assert_eq!(scratch.at_least(0).unwrap(), 0);
        let first = scratch.at_least(100).unwrap();
        assert_eq!((first % 16, scratch.at_least(112).unwrap()), (0, first));
        let second = scratch.at_least(113).unwrap();
        assert_ne!(first, second);
        assert_eq!(scratch.at_least(200).unwrap(), second);
        let error = scratch.at_least(u64::MAX).unwrap_err().to_string();
        assert_eq!(error, format!("no memory for {} bytes of scratch", u64::MAX));
    }
}

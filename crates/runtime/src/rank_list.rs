//! Ranks in a sentence: `r0-r2, r5`.

use std::collections::BTreeSet;
use std::fmt;

use msccl_collective::Rank;

/// Prints ranks in ascending order; three or more in a row as a run.
pub(crate) struct Ranks<'a>(pub &'a BTreeSet<Rank>);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks: Vec<_> = self.0.iter().copied().collect();
        for (position, run) in ranks.chunk_by(|a, b| a.0 + 1 == b.0).enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            match run {
                [first, _, .., last] => write!(f, "{comma}{first}-{last}")?,
                [first, last] => write!(f, "{comma}{first}, {last}")?,
                [only] => write!(f, "{comma}{only}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined() {
        let check = |ranks: &[u32], expected: &str| {
            let ranks = ranks.iter().copied().map(Rank).collect();
            assert_eq!(Ranks(&ranks).to_string(), expected);
        };
        check(&[], "");
        check(&[4], "r4");
        check(&[1, 0], "r0, r1");
        check(&[2, 0, 1, 5], "r0-r2, r5");
        check(&[0, 2, 3, 5, 6, 7], "r0, r2, r3, r5-r7");
    }
}

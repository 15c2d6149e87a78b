//! Ranks in a sentence: `0-2, 5`.

use std::fmt;

use msccl_collective::Rank;

/// Prints ranks in ascending order as runs: `0-2, 5`.
pub(crate) struct RankList<'a>(pub(crate) &'a [Rank]);

impl fmt::Display for RankList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranks = self.0.to_vec();
        ranks.sort_unstable();
        ranks.dedup();
        for (position, run) in ranks.chunk_by(|a, b| a.0 + 1 == b.0).enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            match run {
                [first, .., last] => write!(f, "{comma}{}-{}", first.0, last.0)?,
                [only] => write!(f, "{comma}{}", only.0)?,
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
            let ranks: Vec<_> = ranks.iter().copied().map(Rank).collect();
            assert_eq!(RankList(&ranks).to_string(), expected);
        };
        check(&[], "");
        check(&[4], "4");
        check(&[2, 0, 1, 5], "0-2, 5");
        check(&[0, 2, 3], "0, 2-3");
    }
}

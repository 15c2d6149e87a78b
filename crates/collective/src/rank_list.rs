//! Lists of ranks in sentences.

use std::fmt;

use crate::Rank;

/// Ranks in a sentence, in ascending order; three or more in a row as a run.
///
/// ```
/// use msccl_collective::{Rank, RankList};
///
/// let ranks = RankList::new([5, 2, 1, 0].map(Rank));
/// assert_eq!(ranks.to_string(), "r0-r2, r5");
/// assert_eq!(format!("ranks {}", ranks.numbers()), "ranks 0-2, 5");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankList {
    ranks: Vec<Rank>,
}

impl RankList {
    /// Of `ranks`, in any order.
    pub fn new(ranks: impl IntoIterator<Item = Rank>) -> Self {
        let mut ranks: Vec<_> = ranks.into_iter().collect();
        ranks.sort_unstable();
        ranks.dedup();
        Self { ranks }
    }

    /// The numbers alone, for a sentence that says that they are ranks.
    pub fn numbers(&self) -> impl fmt::Display {
        self.joined(|rank| rank.0.to_string())
    }

    fn joined(&self, name: impl Fn(&Rank) -> String) -> String {
        let runs = self.ranks.chunk_by(|one, next| one.0 + 1 == next.0);
        let parts = runs.flat_map(|run| match run {
            [first, _, .., last] => vec![format!("{}-{}", name(first), name(last))],
            few => few.iter().map(&name).collect(),
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for RankList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.joined(Rank::to_string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined() {
        let check = |ranks: &[u32], names: &str, numbers: &str| {
            let list = RankList::new(ranks.iter().copied().map(Rank));
            assert_eq!(
                (list.to_string(), list.numbers().to_string()),
                (names.into(), numbers.into())
            );
        };
        check(&[], "", "");
        check(&[4], "r4", "4");
        check(&[1, 0, 1], "r0, r1", "0, 1");
        check(&[2, 0, 1, 5], "r0-r2, r5", "0-2, 5");
        check(&[0, 2, 3, 5, 6, 7], "r0, r2, r3, r5-r7", "0, 2, 3, 5-7");
        check(&[u32::MAX, 0], "r0, r4294967295", "0, 4294967295");
    }
}

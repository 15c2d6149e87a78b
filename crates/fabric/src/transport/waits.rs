//! For whom ranks wait between operations of all, so that who is missing for another one's sake is
//! not blamed.

use std::collections::HashMap;

use msccl_collective::Rank;

/// By group and rank of the world, for whom it waits.
#[derive(Default)]
pub(super) struct Waits(HashMap<(u64, Rank), Rank>);

impl Waits {
    /// `rank` of `group` waits for `awaited`; for itself, if for nobody any more.
    pub(super) fn note(&mut self, group: u64, rank: Rank, awaited: Rank) {
        match rank == awaited {
            true => self.0.remove(&(group, rank)),
            false => self.0.insert((group, rank), awaited),
        };
    }

    /// `group` is over.
    pub(super) fn forget(&mut self, group: u64) {
        self.0.retain(|(of, _), _| *of != group);
    }

    /// Of the `absent` of `group` those who do not wait for others of them; all, if they wait in a
    /// circle.
    pub(super) fn culprits(&self, group: u64, absent: Vec<Rank>) -> Vec<Rank> {
        let waits = |rank: &Rank| {
            let awaited = self.0.get(&(group, *rank));
            awaited.is_some_and(|awaited| absent.contains(awaited))
        };
        let culprits: Vec<_> = absent.iter().copied().filter(|rank| !waits(rank)).collect();
        if culprits.is_empty() { absent } else { culprits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_another_is_not_to_blame() {
        let mut waits = Waits::default();
        let of = |ranks: &[u32]| ranks.iter().copied().map(Rank).collect::<Vec<_>>();
        assert_eq!(waits.culprits(7, of(&[1, 2, 3])), of(&[1, 2, 3]));
        waits.note(7, Rank(2), Rank(3));
        waits.note(8, Rank(3), Rank(1));
        assert_eq!(waits.culprits(7, of(&[2, 3])), of(&[3]));
        // Rank 3 has come, so rank 2 has what it waited for, or keeps the others waiting.
        assert_eq!(waits.culprits(7, of(&[2])), of(&[2]));
        waits.note(7, Rank(3), Rank(2));
        assert_eq!(waits.culprits(7, of(&[2, 3])), of(&[2, 3]));
        waits.note(7, Rank(2), Rank(2));
        assert_eq!(waits.culprits(7, of(&[2, 3])), of(&[2]));
        waits.forget(7);
        assert_eq!(waits.culprits(7, of(&[2, 3])), of(&[2, 3]));
    }
}

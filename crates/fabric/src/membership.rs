//! Which ranks have come to the root, without any network: who came, who is missing, whether they
//! agree.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use msccl_collective::{Rank, RankList};

use crate::abort::seconds;
use crate::error::{self, Error, ErrorKind};
use crate::identity::Peer;
use crate::introduction::Introduction;

/// The ranks that came so far.
#[derive(Default)]
pub(crate) struct Membership {
    came: BTreeMap<Rank, Introduction>,
}

impl Membership {
    /// Notes an arrival; an error is for everyone who came and for the new rank.
    pub(crate) fn arrive(&mut self, introduction: Introduction) -> Result<(), Error> {
        if let Some((_, first)) = self.came.first_key_value()
            && first.ranks != introduction.ranks
        {
            return Err(self.different_sizes(&introduction));
        }
        if let Some(other) = self.came.get(&introduction.peer.rank)
            && other.attempt != introduction.attempt
        {
            return Err(claimed_twice(&other.peer, &introduction.peer));
        }
        self.came.insert(introduction.peer.rank, introduction);
        Ok(())
    }

    /// Strikes out a rank that went away again.
    pub(crate) fn leave(&mut self, rank: Rank) {
        self.came.remove(&rank);
    }

    /// Which call of join `rank` came from, if it came.
    pub(crate) fn attempt_of(&self, rank: Rank) -> Option<u64> {
        self.came.get(&rank).map(|introduction| introduction.attempt)
    }

    /// How many ranks must come, once the first one has said so.
    pub(crate) fn expected(&self) -> Option<u32> {
        self.came.values().next().map(|introduction| introduction.ranks)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.expected().is_some_and(|ranks| self.came.len() == ranks as usize)
    }

    pub(crate) fn missing(&self) -> Vec<Rank> {
        let all = (0..self.expected().unwrap_or(0)).map(Rank);
        all.filter(|rank| !self.came.contains_key(rank)).collect()
    }

    /// Everyone's identity by rank, if all agree on the facts.
    pub(crate) fn table(&self) -> Result<Vec<Peer>, Error> {
        let names = self
            .came
            .values()
            .flat_map(|introduction| introduction.facts.iter().map(|(name, _)| name));
        for name in names.collect::<BTreeSet<_>>() {
            self.agree_on(name)?;
        }
        Ok(self.came.values().map(|introduction| introduction.peer.clone()).collect())
    }

    fn agree_on(&self, name: &str) -> Result<(), Error> {
        let mut sides: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
        for (rank, introduction) in &self.came {
            let value = introduction.facts.iter().find(|(fact, _)| fact == name);
            sides.entry(value.map_or("nothing", |(_, value)| value)).or_default().push(*rank);
        }
        if sides.len() < 2 {
            return Ok(());
        }
        let mut sides: Vec<_> = sides.into_iter().collect();
        sides.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
        let odd: Vec<_> = sides[1..].iter().flat_map(|(_, ranks)| ranks.iter().copied()).collect();
        let say = |(value, ranks): &(&str, Vec<Rank>)| {
            let verb = if ranks.len() == 1 { "rank" } else { "ranks" };
            format!("{verb} {}: `{value}`", RankList::new(ranks.iter().copied()).numbers())
        };
        let sides: Vec<_> = sides.iter().map(say).collect();
        let text = format!("ranks differ in their {name}: {}; make it equal", sides.join("; "));
        Err(Error::mismatch(text).of_ranks(odd))
    }

    fn different_sizes(&self, request: &Introduction) -> Error {
        let came: Vec<_> = self.came.keys().copied().collect();
        let said = self.expected().unwrap_or_default();
        let text = format!(
            "{} says that there are {} ranks, but {} said {said}; pass the same number on all \
             ranks",
            request.peer.describe(),
            request.ranks,
            RankList::new(came).numbers()
        );
        Error::mismatch(text).of_ranks([request.peer.rank])
    }
}

fn claimed_twice(first: &Peer, second: &Peer) -> Error {
    let text = format!(
        "two processes claim one rank: {} and {}; give every process a rank of its own",
        first.describe(),
        second.describe()
    );
    Error::mismatch(text).of_ranks([first.rank])
}

/// Not all ranks reached the root at `address` within `limit`. It learns nothing of a rank that
/// tries in vain, and cannot tell it from one that has not started yet; so no rank fails earlier.
pub(crate) fn nobody_else_came(membership: &Membership, address: SocketAddr, limit: &str) -> Error {
    let absent = error::absent(
        &membership.missing(),
        membership.expected().unwrap_or(0),
        "not connected",
        limit,
    );
    absent.hint(format_args!(
        "a rank that was started and could not reach {address} says so itself: a route must lead \
         there from its host (the process that made the id chose the network interface: \
         NCCL_SOCKET_IFNAME chooses another), past every firewall"
    ))
}

/// The root of the first of several ids, at `address`, did not answer those of the others.
pub(crate) fn first_root_is_silent(address: SocketAddr, limit: Duration) -> Error {
    let text = format!(
        "the root of the first unique id at {address} did not answer for {}; it must be reachable \
         from the processes that made the other ids",
        seconds(limit)
    );
    Error::new(ErrorKind::TimedOut, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity;

    fn introduction(rank: u32, ranks: u32, version: &str) -> Introduction {
        let address = "10.0.0.1:9".parse().unwrap();
        let peer = identity::here(Rank(rank), address, None, b"").unwrap();
        let facts = vec![("version".to_owned(), version.to_owned())];
        Introduction { ranks, attempt: u64::from(rank), head: None, facts, peer }
    }

    fn membership(introductions: &[(u32, &str)]) -> Membership {
        let mut membership = Membership::default();
        let ranks = 4;
        introductions
            .iter()
            .for_each(|(rank, v)| membership.arrive(introduction(*rank, ranks, v)).unwrap());
        membership
    }

    #[test]
    fn complete_when_all_came() {
        let mut membership = membership(&[(2, "a"), (0, "a"), (3, "a")]);
        assert_eq!((membership.is_complete(), membership.missing()), (false, vec![Rank(1)]));
        membership.arrive(introduction(1, 4, "a")).unwrap();
        assert!(membership.is_complete());
        let ranks: Vec<_> = membership.table().unwrap().iter().map(|peer| peer.rank.0).collect();
        assert_eq!(ranks, [0, 1, 2, 3]);
    }

    #[test]
    fn a_rank_may_come_again_but_not_twice() {
        let mut membership = membership(&[(2, "a")]);
        assert!(membership.arrive(introduction(2, 4, "a")).is_ok());
        let twin = Introduction { attempt: 99, ..introduction(2, 4, "a") };
        let error = membership.arrive(twin.clone()).unwrap_err();
        assert!(error.to_string().starts_with("two processes claim one rank: rank 2 (host "));
        membership.leave(Rank(2));
        assert!(membership.arrive(twin).is_ok());
    }

    #[test]
    fn differences_name_the_odd_ranks() {
        let error = membership(&[(0, "a"), (1, "b"), (2, "a"), (3, "a")]).table().unwrap_err();
        let text = "ranks differ in their version: ranks 0, 2, 3: `a`; rank 1: `b`; make it equal";
        assert_eq!((error.to_string().as_str(), error.ranks()), (text, &[Rank(1)][..]));
        let error = membership(&[(0, "a"), (1, "a")]).arrive(introduction(2, 8, "a")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("says that there are 8 ranks, but 0, 1 said 4"), "{text}");
    }
}

//! Who holds up whom.
//!
//! Ranks and waits form a graph. A rank that is waited for and does not itself wait is a *blocker*;
//! it holds up those who wait for it directly, and *through them* those who wait for these.
//! Blockers of which the same is to be said are one. Without a blocker, ranks that wait stand in a
//! circle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::{Rank, RankList};

use super::{PeerStatus, Snapshot};

/// Blockers that a conclusion names.
const BLOCKERS: usize = 4;
/// Ranks of a circle that a conclusion names.
const CIRCLE: usize = 8;

/// Whom every rank waits for.
type Waits = BTreeMap<Rank, BTreeSet<Rank>>;

/// Who holds up whom.
pub(super) struct WaitGraph<'a> {
    snapshot: &'a Snapshot,
    waits: Waits,
    /// Those who hold up most come first.
    blockers: Vec<Blocker>,
}

/// Ranks that others wait for.
struct Blocker {
    ranks: BTreeSet<Rank>,
    /// Why each of them does not help.
    reason: String,
    direct: BTreeSet<Rank>,
    through_them: BTreeSet<Rank>,
}

impl<'a> WaitGraph<'a> {
    /// The graph of `snapshot`.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let mut waits = Waits::new();
        for (rank, wait) in snapshot.waits() {
            if let Some(peer) = wait.peer {
                waits.entry(rank).or_default().insert(peer);
            }
        }
        let mut alike: BTreeMap<String, BTreeSet<Rank>> = BTreeMap::new();
        for (rank, number) in awaited(snapshot) {
            let peer_status =
                snapshot.rank_snapshot(rank).map(|rank_snapshot| rank_snapshot.peer_status(number));
            let call = number.map_or_else(|| "it".to_owned(), |number| format!("call {number}"));
            match peer_status {
                None | Some(PeerStatus::Waits { .. }) => {}
                Some(peer_status) => {
                    alike.entry(peer_status.describe(&call)).or_default().insert(rank);
                }
            }
        }
        let blockers = alike.into_iter().map(|(reason, ranks)| Blocker::new(ranks, reason, &waits));
        let mut blockers: Vec<_> = blockers.collect();
        blockers
            .sort_by_key(|blocker| (Reverse(blocker.holds_up()), blocker.ranks.first().copied()));
        Self { snapshot, waits, blockers }
    }

    /// Whether `rank` holds up others and waits for nobody.
    pub fn is_blocker(&self, rank: Rank) -> bool {
        self.blockers.iter().any(|blocker| blocker.ranks.contains(&rank))
    }

    /// What holds up the ranks: one sentence for each blocker.
    pub fn conclusions(&self) -> Vec<String> {
        let named = self.blockers.iter().take(BLOCKERS).map(Blocker::sentence);
        let mut sentences: Vec<_> = named.collect();
        match self.blockers.iter().skip(BLOCKERS).map(|blocker| blocker.ranks.len()).sum() {
            0 => {}
            1 => sentences.push("one more rank holds up others".to_owned()),
            more => sentences.push(format!("{more} more ranks hold up others")),
        }
        if sentences.is_empty() && self.snapshot.difference.is_none() {
            sentences.push(self.without_blocker());
        }
        sentences
    }

    fn without_blocker(&self) -> String {
        let Some(circle) = self.circle() else {
            return "no rank waits for another one".to_owned();
        };
        let links = circle.windows(2).map(|pair| format!("{} waits for {}", pair[0], pair[1]));
        let named: Vec<_> = links.take(CIRCLE).collect();
        let more = match circle.len() - 1 - named.len() {
            0 => String::new(),
            more => format!(", and so on over {more} more ranks"),
        };
        let named = named.join(", ");
        format!("{named}{more}: a circle; do all ranks make their calls in the same order?")
    }

    /// A circle of ranks that wait for one another, its first rank again at its end.
    fn circle(&self) -> Option<Vec<Rank>> {
        let mut path = vec![*self.waits.keys().next()?];
        loop {
            let next = *self.waits.get(path.last()?)?.first()?;
            let start = path.iter().position(|rank| *rank == next);
            path.push(next);
            if let Some(start) = start {
                return Some(path.split_off(start));
            }
        }
    }
}

/// The ranks that others need, and in which collective, if in one.
fn awaited(snapshot: &Snapshot) -> BTreeMap<Rank, Option<u64>> {
    let mut awaited: BTreeMap<Rank, Option<u64>> = BTreeMap::new();
    for (_, wait) in snapshot.waits() {
        let Some(peer) = wait.peer else { continue };
        let number = awaited.entry(peer).or_default();
        *number = (*number).max(wait.number);
    }
    // Whoever waits in a way that no thread block shows still needs everyone's call.
    let furthest =
        snapshot.ranks.iter().filter_map(|rank_snapshot| rank_snapshot.current_number()).max();
    for (rank, rank_snapshot) in snapshot.ranks.iter().enumerate() {
        if furthest > Some(rank_snapshot.collectives) {
            awaited.entry(Rank::from(rank)).or_insert(furthest);
        }
    }
    awaited
}

impl Blocker {
    fn new(ranks: BTreeSet<Rank>, reason: String, waits: &Waits) -> Self {
        let waiting_for = |target: Rank| {
            waits.iter().filter(move |(_, peers)| peers.contains(&target)).map(|(rank, _)| *rank)
        };
        let direct: BTreeSet<_> = ranks.iter().copied().flat_map(waiting_for).collect();
        let mut all = direct.clone();
        let mut open: Vec<_> = direct.iter().copied().collect();
        while let Some(next) = open.pop() {
            open.extend(waiting_for(next).filter(|rank| all.insert(*rank)));
        }
        let through_them = all.difference(&direct).copied().collect();
        Self { ranks, reason, direct, through_them }
    }

    fn holds_up(&self) -> usize {
        self.direct.len() + self.through_them.len()
    }

    fn sentence(&self) -> String {
        let Self { ranks, reason, direct, through_them } = self;
        let (hold, each, it) = match ranks.len() {
            1 => ("holds", "", "it"),
            _ => ("hold", ": each", "each"),
        };
        let list = |ranks: &BTreeSet<Rank>| RankList::new(ranks.iter().copied());
        let (ranks, direct_ranks) = (list(ranks), list(direct));
        match (direct.is_empty(), through_them.is_empty()) {
            (true, _) => format!("{ranks}{each} {reason}"),
            (false, true) => format!("{ranks} {hold} up {direct_ranks}: {it} {reason}"),
            (false, false) => {
                let indirect = list(through_them);
                let held = format!("{direct_ranks}, and through them {indirect}");
                format!("{ranks} {hold} up {held}: {it} {reason}")
            }
        }
    }
}

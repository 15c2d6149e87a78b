//! Who holds up whom.
//!
//! Ranks and waits form a graph. A rank that is waited for and does not itself wait is a *culprit*; it
//! holds up those who wait for it *directly*, and *through them* those who wait for these. Without a
//! culprit, ranks that wait stand in a circle.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::Rank;

use super::{Predicament, Scene};
use crate::board::Ranks;
use crate::board::check::ADVICE;

/// Culprits that a conclusion names.
const CULPRITS: usize = 4;
/// Ranks of a circle that a conclusion names.
const CIRCLE: usize = 8;

/// Who holds up whom.
pub(super) struct Plot<'a> {
    scene: &'a Scene,
    /// Whom every rank waits for.
    waits: BTreeMap<Rank, BTreeSet<Rank>>,
    culprits: Vec<Culprit>,
}

/// A rank that others wait for.
struct Culprit {
    rank: Rank,
    /// The call in which they do.
    number: Option<u64>,
    direct: BTreeSet<Rank>,
    through_them: BTreeSet<Rank>,
}

impl<'a> Plot<'a> {
    /// The plot of `scene`.
    pub fn of(scene: &'a Scene) -> Self {
        let mut waits: BTreeMap<Rank, BTreeSet<Rank>> = BTreeMap::new();
        let mut wanted: BTreeMap<Rank, Option<u64>> = BTreeMap::new();
        for (rank, wait) in scene.waits() {
            let Some(peer) = wait.peer else { continue };
            waits.entry(rank).or_default().insert(peer);
            let number = wanted.entry(peer).or_default();
            *number = (*number).max(wait.number);
        }
        // Whoever waits in a way that thread blocks do not show still needs everyone's call.
        let furthest = scene.ranks.iter().filter_map(|sight| sight.current_number()).max();
        for (rank, sight) in scene.ranks.iter().enumerate() {
            if furthest > Some(sight.collectives) {
                wanted.entry(Rank::from(rank)).or_insert(furthest);
            }
        }
        let culprits = wanted.into_iter().filter(|(rank, number)| {
            let predicament = scene.sight(*rank).map(|sight| sight.predicament(*number));
            predicament.is_some_and(|predicament| !matches!(predicament, Predicament::Waits { .. }))
        });
        let mut culprits: Vec<_> =
            culprits.map(|(rank, number)| Culprit::new(rank, number, &waits)).collect();
        culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.held_up()));
        Self { scene, waits, culprits }
    }

    /// Whether `rank` holds up others and waits for nobody.
    pub fn is_culprit(&self, rank: Rank) -> bool {
        self.culprits.iter().any(|culprit| culprit.rank == rank)
    }

    /// What holds up the ranks: one sentence for each culprit.
    pub fn conclusions(&self) -> Vec<String> {
        let mut sentences: Vec<_> =
            self.culprits.iter().take(CULPRITS).map(|culprit| self.sentence(culprit)).collect();
        match self.culprits.len().saturating_sub(CULPRITS) {
            0 => {}
            1 => sentences.push("one more rank holds up others".to_owned()),
            more => sentences.push(format!("{more} more ranks hold up others")),
        }
        if sentences.is_empty() {
            sentences.push(self.without_culprit());
        }
        sentences
    }

    fn sentence(&self, culprit: &Culprit) -> String {
        let Culprit { rank, number, direct, through_them } = culprit;
        let predicament = self.scene.sight(*rank).map(|sight| sight.predicament(*number));
        let call = number.map_or_else(|| "it".to_owned(), |number| format!("call {number}"));
        let predicament =
            predicament.map_or_else(String::new, |predicament| predicament.told(&call));
        match (direct.is_empty(), through_them.is_empty()) {
            (true, _) => format!("{rank} {predicament}"),
            (false, true) => format!("{rank} holds up {}: it {predicament}", Ranks(direct)),
            (false, false) => format!(
                "{rank} holds up {}, and through them {}: it {predicament}",
                Ranks(direct),
                Ranks(through_them)
            ),
        }
    }

    fn without_culprit(&self) -> String {
        if self.scene.difference.is_some() {
            return ADVICE.to_owned();
        }
        let Some(circle) = self.circle() else {
            return "no rank waits for another one".to_owned();
        };
        let links: Vec<_> =
            circle.windows(2).map(|pair| format!("{} waits for {}", pair[0], pair[1])).collect();
        let more = match links.len().saturating_sub(CIRCLE) {
            0 => String::new(),
            more => format!(", and so on over {more} more ranks"),
        };
        let links = links[..links.len().min(CIRCLE)].join(", ");
        format!("{links}{more}: a circle; do all ranks make their calls in the same order?")
    }

    /// A circle of ranks that wait for one another, its first rank again at its end.
    fn circle(&self) -> Option<Vec<Rank>> {
        let mut path = vec![*self.waits.keys().next()?];
        loop {
            let next = *self.waits.get(path.last()?)?.first()?;
            if let Some(start) = path.iter().position(|rank| *rank == next) {
                path.push(next);
                return Some(path.split_off(start));
            }
            path.push(next);
        }
    }
}

impl Culprit {
    fn new(rank: Rank, number: Option<u64>, waits: &BTreeMap<Rank, BTreeSet<Rank>>) -> Self {
        let waiting_for = |target: Rank| {
            waits.iter().filter(move |(_, peers)| peers.contains(&target)).map(|(rank, _)| *rank)
        };
        let direct: BTreeSet<_> = waiting_for(rank).collect();
        let mut all = direct.clone();
        let mut open: Vec<_> = direct.iter().copied().collect();
        while let Some(next) = open.pop() {
            open.extend(waiting_for(next).filter(|rank| all.insert(*rank)));
        }
        let through_them = all.difference(&direct).copied().collect();
        Self { rank, number, direct, through_them }
    }

    fn held_up(&self) -> usize {
        self.direct.len() + self.through_them.len()
    }
}

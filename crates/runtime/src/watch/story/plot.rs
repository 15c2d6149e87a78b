//! Who holds up whom.
//!
//! Ranks and waits form a graph. A rank that is waited for and does not itself wait is a *culprit*; it
//! holds up those who wait for it directly, and *through them* those who wait for these. Culprits of
//! which the same is to be said are one. Without a culprit, ranks that wait stand in a circle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::Rank;

use super::{Predicament, Scene};
use crate::board::Ranks;

/// Culprits that a conclusion names.
const CULPRITS: usize = 4;
/// Ranks of a circle that a conclusion names.
const CIRCLE: usize = 8;

/// Whom every rank waits for.
type Waits = BTreeMap<Rank, BTreeSet<Rank>>;

/// Who holds up whom.
pub(super) struct Plot<'a> {
    scene: &'a Scene,
    waits: Waits,
    /// Those who hold up most come first.
    culprits: Vec<Culprit>,
}

/// Ranks that others wait for.
struct Culprit {
    ranks: BTreeSet<Rank>,
    /// Why each of them does not help.
    told: String,
    direct: BTreeSet<Rank>,
    through_them: BTreeSet<Rank>,
}

impl<'a> Plot<'a> {
    /// The plot of `scene`.
    pub fn of(scene: &'a Scene) -> Self {
        let mut waits = Waits::new();
        for (rank, wait) in scene.waits() {
            if let Some(peer) = wait.peer {
                waits.entry(rank).or_default().insert(peer);
            }
        }
        let mut alike: BTreeMap<String, BTreeSet<Rank>> = BTreeMap::new();
        for (rank, number) in wanted(scene) {
            let predicament = scene.sight(rank).map(|sight| sight.predicament(number));
            let call = number.map_or_else(|| "it".to_owned(), |number| format!("call {number}"));
            match predicament {
                None | Some(Predicament::Waits { .. }) => {}
                Some(predicament) => {
                    alike.entry(predicament.told(&call)).or_default().insert(rank);
                }
            }
        }
        let culprits = alike.into_iter().map(|(told, ranks)| Culprit::new(ranks, told, &waits));
        let mut culprits: Vec<_> = culprits.collect();
        culprits
            .sort_by_key(|culprit| (Reverse(culprit.holds_up()), culprit.ranks.first().copied()));
        Self { scene, waits, culprits }
    }

    /// Whether `rank` holds up others and waits for nobody.
    pub fn is_culprit(&self, rank: Rank) -> bool {
        self.culprits.iter().any(|culprit| culprit.ranks.contains(&rank))
    }

    /// What holds up the ranks: one sentence for each culprit.
    pub fn conclusions(&self) -> Vec<String> {
        let named = self.culprits.iter().take(CULPRITS).map(Culprit::sentence);
        let mut sentences: Vec<_> = named.collect();
        match self.culprits.iter().skip(CULPRITS).map(|culprit| culprit.ranks.len()).sum() {
            0 => {}
            1 => sentences.push("one more rank holds up others".to_owned()),
            more => sentences.push(format!("{more} more ranks hold up others")),
        }
        if sentences.is_empty() && self.scene.difference.is_none() {
            sentences.push(self.without_culprit());
        }
        sentences
    }

    fn without_culprit(&self) -> String {
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
fn wanted(scene: &Scene) -> BTreeMap<Rank, Option<u64>> {
    let mut wanted: BTreeMap<Rank, Option<u64>> = BTreeMap::new();
    for (_, wait) in scene.waits() {
        let Some(peer) = wait.peer else { continue };
        let number = wanted.entry(peer).or_default();
        *number = (*number).max(wait.number);
    }
    // Whoever waits in a way that no thread block shows still needs everyone's call.
    let furthest = scene.ranks.iter().filter_map(|sight| sight.current_number()).max();
    for (rank, sight) in scene.ranks.iter().enumerate() {
        if furthest > Some(sight.collectives) {
            wanted.entry(Rank::from(rank)).or_insert(furthest);
        }
    }
    wanted
}

impl Culprit {
    fn new(ranks: BTreeSet<Rank>, told: String, waits: &Waits) -> Self {
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
        Self { ranks, told, direct, through_them }
    }

    fn holds_up(&self) -> usize {
        self.direct.len() + self.through_them.len()
    }

    fn sentence(&self) -> String {
        let Self { ranks, told, direct, through_them } = self;
        let (hold, each, it) = match ranks.len() {
            1 => ("holds", "", "it"),
            _ => ("hold", ": each", "each"),
        };
        let (ranks, direct_ranks) = (Ranks(ranks), Ranks(direct));
        match (direct.is_empty(), through_them.is_empty()) {
            (true, _) => format!("{ranks}{each} {told}"),
            (false, true) => format!("{ranks} {hold} up {direct_ranks}: {it} {told}"),
            (false, false) => {
                let indirect = Ranks(through_them);
                let held = format!("{direct_ranks}, and through them {indirect}");
                format!("{ranks} {hold} up {held}: {it} {told}")
            }
        }
    }
}

//! One choice for both placements.
//!
//! Whether a rank calls a collective in place is its own affair, of which the other ranks learn
//! nothing. So what serves a call in place and what serves the same call out of place must say the
//! same over links: the same messages of the same program by the same protocol over links of the
//! same kind, in as many instances, cut alike. Where the best choices for the two do not, one of
//! them stays: what the user asks for, or else what is best in the [usual](usual_placement)
//! placement. The other placement then has a program that says the same over links, if there is
//! one. It may leave out what only it could offer over direct links
//! ([`Verified::direct_links_beside`](msccl_verify::Verified::direct_links_beside)). Otherwise
//! ranks copy their input first and run what serves the usual placement ([`PlacementFallback`]).
//!
//! Collectives with a root have programs that serve both placements alike, and are not looked at
//! here.

use std::collections::BTreeMap;

use msccl_collective::{CallPlacement, Channel, CollectiveKind, Rank, Reduction};
use msccl_ir::{Algorithm, Place};
use msccl_registry::Entry;

use super::call_shape::CallShape;
use super::decision::{Decision, PlacementFallback};
use super::error::Error;
use super::links::{Links, direct_regions};
use super::prepared::Prepared;
use super::requirements::Requirements;
use super::{Available, Choice, Selector, SelectorCache};

/// What each link of a rank carries, in order, as counts of chunks; links by channel, peer and
/// whether they leave.
type Traffic = BTreeMap<(Channel, Rank, bool), Vec<u32>>;

/// Built-in programs that send the same messages in the same order, and of which some serve one
/// placement alone. Tests of the runtime (`tests/placements.rs`) show that mixtures are right.
const SAME_MESSAGES: [&[&str]; 2] = [
    &["allreduce/one_shot", "allreduce/one_block"],
    &[
        "alltoall/allpairs",
        "alltoall/in_place",
        "alltoall/one_block",
        "alltoall/one_block_in_place",
    ],
];

/// Whether programs of these names send the same messages.
fn have_same_messages(one: &str, other: &str) -> bool {
    let both = |names: &&[&str]| names.contains(&one) && names.contains(&other);
    one == other || SAME_MESSAGES.iter().any(both)
}

/// In which placement most programs call a collective.
pub(crate) fn usual_placement(kind: CollectiveKind) -> CallPlacement {
    match kind {
        // As frameworks sum gradients and activations.
        CollectiveKind::AllReduce => CallPlacement::InPlace,
        CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll
        | CollectiveKind::Broadcast(_)
        | CollectiveKind::Reduce(_)
        | CollectiveKind::Gather(_)
        | CollectiveKind::Scatter(_) => CallPlacement::OutOfPlace,
    }
}

/// What serves one placement best.
struct Best {
    placement: CallPlacement,
    decision: Decision,
    /// Whether the user asks for it, by a file or by a name.
    requested: bool,
}

impl Selector {
    /// What serves `request`: what is pinned, if something is.
    pub(crate) fn decide(
        &self,
        known: &mut SelectorCache,
        request: &CallShape,
    ) -> Result<Decision, Error> {
        match known.pinned.clone() {
            Some(choice) => self.serve_pinned(known, &choice, request),
            None => self.decide_unpinned(known, request),
        }
    }

    /// What serves `request`, while other ranks may call the same in the other placement.
    pub(crate) fn decide_unpinned(
        &self,
        known: &mut SelectorCache,
        request: &CallShape,
    ) -> Result<Decision, Error> {
        let own = self.decide_alone(known, request);
        if request.kind.root().is_some() || self.ranks() == 1 {
            return own;
        }
        let other = self.decide_alone(known, &request.in_other_placement());
        let (own, other) = match (own, other) {
            (Err(error), Err(_)) => return Err(error),
            (Ok(own), Ok(other)) if self.speak_alike(known, request, &own, &other) => {
                return Ok(own);
            }
            (own, other) => (own.ok(), other.ok()),
        };
        let passed_over = own.as_ref().map(|of| of.passed_over.clone()).unwrap_or_default();
        let best = [(request.placement, own), (request.placement.other(), other)];
        let best = best.into_iter().filter_map(|(placement, decision)| {
            let decision = decision?;
            Some(Best { placement, requested: self.is_requested(&decision), decision })
        });
        let mut best: Vec<Best> = best.collect();
        let usual = usual_placement(request.kind);
        best.sort_by_key(|of| (!of.requested, self.position(&of.decision), of.placement != usual));
        let decision = self.one_for_both(known, request, best)?;
        Ok(Decision { passed_over, ..decision })
    }

    /// The first of the `best` for each placement, as it serves a call like `request`.
    fn one_for_both(
        &self,
        known: &mut SelectorCache,
        request: &CallShape,
        best: Vec<Best>,
    ) -> Result<Decision, Error> {
        let pair = best.first().and_then(|first| self.pair(known, request, first, &best));
        let Some(Best { placement, decision, requested: _ }) = best.into_iter().next() else {
            return self.decide_alone(known, request);
        };
        if let Some([one, other]) = pair {
            return Ok(if placement == request.placement { one } else { other });
        }
        let fallback = match placement {
            same if same == request.placement => PlacementFallback::None,
            CallPlacement::InPlace => PlacementFallback::InPlace,
            CallPlacement::OutOfPlace => PlacementFallback::OutOfPlace,
        };
        Ok(Decision { fallback, ..decision })
    }

    /// What serves as `of` does, and what serves the other placement in the same way and says the
    /// same over links. What is among the `best` comes first, then the same algorithm.
    fn pair(
        &self,
        known: &mut SelectorCache,
        request: &CallShape,
        of: &Best,
        best: &[Best],
    ) -> Option<[Decision; 2]> {
        let [own, other] = [of.placement, of.placement.other()]
            .map(|placement| CallShape { placement, ..*request });
        let choice = of.decision.choice();
        let one = self.serve_by(known, &own, &choice)?;
        let is_best = |name: &str| {
            best.iter()
                .any(|of| of.placement == other.placement && of.decision.prepared.name == name)
        };
        let available = self.available(&other);
        let mut names: Vec<&str> = available.iter().map(Available::name).collect();
        names.retain(|name| have_same_messages(name, &choice.algorithm));
        names.sort_by_key(|name| (!is_best(name), *name != choice.algorithm));
        names
            .into_iter()
            .find_map(|name| {
                let choice = Choice { algorithm: name.to_owned(), variant: choice.variant };
                if let Some(other) = self.serve_by(known, &other, &choice) {
                    return self.speak_alike(known, &own, &one, &other).then_some(other);
                }
                self.serve_beside(known, &own, &one, &other, &choice)
            })
            .map(|other| [one, other])
    }

    /// How `choice` serves `request`, if it does exactly so.
    fn serve_by(
        &self,
        known: &mut SelectorCache,
        request: &CallShape,
        choice: &Choice,
    ) -> Option<Decision> {
        self.serve_exactly(request, choice, |entry, terms| {
            self.try_one(known, entry, &choice.variant, terms).ok()
        })
    }

    /// How `choice` serves `request` over direct links that only ranks of the other placement
    /// offer, whose calls `peers_request` are served by `peers`.
    fn serve_beside(
        &self,
        known: &mut SelectorCache,
        peers_request: &CallShape,
        peers: &Decision,
        request: &CallShape,
        choice: &Choice,
    ) -> Option<Decision> {
        if !peers.links.export_buffers() {
            return None;
        }
        let peers_entry = self.entry(peers_request, &peers.prepared)?;
        let found = self.serve_exactly(request, choice, |entry, terms| {
            self.try_beside(known, entry, &peers_entry, &choice.variant, terms)
        });
        found.filter(|of| serve_alike(request, of, peers))
    }

    /// What `serve` makes of the algorithm that `choice` names, if that is `choice`.
    fn serve_exactly(
        &self,
        request: &CallShape,
        choice: &Choice,
        mut serve: impl FnMut(&Entry, &Requirements) -> Option<Decision>,
    ) -> Option<Decision> {
        let terms = Requirements::new(request, self.ranks());
        let available = self.available(request).into_iter();
        let mut named = available.filter(|of| of.name() == choice.algorithm);
        named.find_map(|of| {
            let entry = self.proved(of, request)?;
            serve(&entry, &terms).filter(|found| found.choice() == *choice)
        })
    }

    /// Whether what serves `request` and what serves the same call in the other placement say the
    /// same over links. They are one algorithm, or of one program, or of [`SAME_MESSAGES`], and
    /// their messages are of the same lengths in the same order.
    fn speak_alike(
        &self,
        known: &mut SelectorCache,
        request: &CallShape,
        own: &Decision,
        other: &Decision,
    ) -> bool {
        if !serve_alike(request, own, other)
            || !have_same_messages(&own.prepared.name, &other.prepared.name)
        {
            return false;
        }
        let links = own.links;
        let [own, other] = [&own.prepared, &other.prepared];
        if own.fingerprint == other.fingerprint {
            return true;
        }
        let pair = (own.fingerprint, other.fingerprint, links);
        if let Some(alike) = known.alike.get(&pair) {
            return *alike;
        }
        let entries = [(own, *request), (other, request.in_other_placement())]
            .map(|(of, request)| self.entry(&request, of));
        let alike = match entries {
            [Some(own), Some(other)] => {
                let [own, other] = [&own.verified, &other.verified];
                traffic(own.algorithm()) == traffic(other.algorithm())
                    && match links {
                        Links::Staged => true,
                        Links::Direct => direct_regions(own) == direct_regions(other),
                        // Both placements have the copies of one algorithm.
                        Links::CopyEngine => false,
                    }
            }
            _ => false,
        };
        known.alike.insert(pair, alike);
        alike
    }

    /// The algorithm of which `prepared`, which serves `request`, is a part.
    fn entry(&self, request: &CallShape, prepared: &Prepared) -> Option<Entry> {
        let available = self.available(request).into_iter();
        let named = available.filter(|of| of.name() == prepared.name);
        let mut entries = named.filter_map(|of| self.proved(of, request));
        entries.find(|entry| entry.fingerprint == prepared.fingerprint)
    }

    fn is_requested(&self, decision: &Decision) -> bool {
        self.position(decision).is_some() || {
            let overrides = self.overrides.algorithm.as_deref();
            overrides.is_some_and(|overrides| decision.prepared.name.contains(overrides))
        }
    }

    /// The place of its file among those that were loaded; none if it was not.
    fn position(&self, decision: &Decision) -> Option<usize> {
        let loaded = self.registry.loaded().iter();
        loaded.map(|entry| entry.fingerprint).position(|of| of == decision.prepared.fingerprint)
    }
}

/// Whether two decisions, of which one serves `request` and the other the same call in the other
/// placement, send as many messages of the same lengths in the same way.
fn serve_alike(request: &CallShape, one: &Decision, other: &Decision) -> bool {
    // Averages of integers are formed on the way, or of sums once these are there.
    let averages = |of: &Decision| of.prepared.plan.program().averages(request.data_type);
    let is_average = request.reduction == Some(Reduction::Avg);
    let service = |of: &Decision| (of.protocol, of.links, of.cut, is_average && averages(of));
    service(one) == service(other)
}

/// What the links of every rank carry.
fn traffic(algorithm: &Algorithm) -> Vec<Traffic> {
    let of_rank = |rank: &msccl_ir::RankProgram| {
        let mut traffic = Traffic::new();
        for block in &rank.thread_blocks {
            for step in &block.steps {
                let sources = step.sources.iter().map(|place| (place, false));
                for (place, leaves) in sources.chain(step.destinations.iter().map(|to| (to, true)))
                {
                    if let Place::Link(peer) = place {
                        let link = (block.channel, *peer, leaves);
                        traffic.entry(link).or_default().push(step.count);
                    }
                }
            }
        }
        traffic
    };
    algorithm.ranks.iter().map(of_rank).collect()
}

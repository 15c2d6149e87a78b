//! How the links of a call deliver: what is preferred, and with which algorithms it can be had.
//!
//! Another kind of links is a variant of [`Links`]; the compiler names the rest.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use msccl_collective::{Channel, Protocol, Rank, Region};
use msccl_plan::launch::DIRECT_RANKS_MAX;
use msccl_registry::Entry;
use msccl_verify::{Delivery, DirectLink, Verified};

use super::copies::EngineWork;
use super::{Selector, SelectorCache};

/// How links deliver what their senders have, as `docs/MEMORY.md` describes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Links {
    /// Through slots: the sender copies in, the receiver copies out.
    #[default]
    Staged,
    /// Straight from and to the buffers of callers, where that is proved sound and peers have
    /// mapped them; through slots elsewhere. Only under protocol Simple.
    Direct,
    /// By copy engines, straight to the outputs of peers, where these lie in windows of all ranks:
    /// calls that are nothing but copies then run without a kernel. Other calls of the same shape
    /// have other links.
    CopyEngine,
}

impl Links {
    /// All, the plainest first.
    pub const ALL: [Links; 3] = [Links::Staged, Links::Direct, Links::CopyEngine];

    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Links::Staged => "staged",
            Links::Direct => "direct",
            Links::CopyEngine => "copy-engine",
        }
    }

    /// Whether messages under `protocol` can be delivered so.
    pub fn suit(self, protocol: Protocol) -> bool {
        match (self, protocol) {
            (Links::Staged, _) | (Links::Direct, Protocol::Simple) => true,
            (Links::CopyEngine, Protocol::Simple) => true,
            // Packets carry flags beside the data.
            (Links::Direct | Links::CopyEngine, Protocol::Ll | Protocol::Ll128) => false,
        }
    }

    /// The links of a call that kernels serve, where these are preferred.
    pub fn by_kernels(self) -> Self {
        match self {
            Links::Staged | Links::Direct => self,
            Links::CopyEngine => Links::Direct,
        }
    }

    /// Whether kernels find their peers' buffers, where peers can be offered them.
    pub fn export_buffers(self) -> bool {
        match self {
            // The host knows where windows lie.
            Links::Staged | Links::CopyEngine => false,
            Links::Direct => true,
        }
    }

    /// What counts instead where an engine or an algorithm cannot have them; every one can have
    /// staged ones.
    fn instead(self) -> Option<Self> {
        match self {
            Links::Staged => None,
            Links::Direct => Some(Links::Staged),
            Links::CopyEngine => Some(Links::Direct),
        }
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Links {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Links::ALL.into_iter().find(|links| links.name() == text);
        found.ok_or_else(|| {
            let names = Links::ALL.map(Links::name).join(", ");
            format!("expected links ({names}), found `{text}`")
        })
    }
}

impl Selector {
    /// The links with which `entry` serves where `preferred` ones are preferred.
    pub(crate) fn links(
        &self,
        known: &mut SelectorCache,
        entry: &Entry,
        preferred: Links,
    ) -> Links {
        let mut ever_plainer = std::iter::successors(Some(preferred), |links| links.instead());
        let found = ever_plainer.find(|links| {
            self.capacity.has(*links)
                && match links {
                    Links::Staged => true,
                    Links::Direct => self.can_be_direct(known, entry),
                    Links::CopyEngine => self.engine_work(known, entry).is_some(),
                }
        });
        found.unwrap_or_default()
    }

    /// What copy engines can do of `entry` for this rank; of what is nothing but copies of blocks,
    /// for calls out of place. What is copied in place is decided by that: see
    /// [`carried`](super::carried).
    pub(crate) fn engine_work(
        &self,
        known: &mut SelectorCache,
        entry: &Entry,
    ) -> Option<Arc<EngineWork>> {
        let policy = self.overrides.cta_policy;
        let blocks = self.overrides.combining_blocks();
        let found = known.engine_work.entry(entry.fingerprint).or_insert_with(|| {
            let work = EngineWork::of(&entry.verified, self.rank, policy, blocks)?;
            let serves = match &work {
                EngineWork::Copies(copies) => copies.placement.serves_out_of_place(),
                EngineWork::Reduction { .. } => true,
            };
            serves.then(|| Arc::new(work))
        });
        found.clone()
    }

    /// Whether some link of `entry` can deliver directly, and all ranks say so of the same links.
    fn can_be_direct(&self, known: &mut SelectorCache, entry: &Entry) -> bool {
        let fits = self.ranks() <= DIRECT_RANKS_MAX;
        let found = known.direct.entry(entry.fingerprint);
        *found.or_insert_with(|| {
            let regions = direct_regions(&entry.verified);
            let alike = |twin: &Entry| direct_regions(&twin.verified) == regions;
            fits && !regions.is_empty() && self.twins(entry).iter().all(alike)
        })
    }
}

/// The links that can deliver directly, how, and the regions from or to which they do, message by
/// message.
pub(crate) fn direct_regions(
    verified: &Verified,
) -> Vec<(Rank, Rank, Channel, Delivery, Vec<Region>)> {
    let links = verified.direct_links().into_iter().map(|link| {
        let DirectLink { from, to, channel, delivery, messages } = link;
        let regions = messages.iter().map(|message| message.region).collect();
        (from, to, channel, delivery, regions)
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use msccl_collective::{CallPlacement, CollectiveKind, DataType, Reduction};
    use msccl_plan::Plan;
    use msccl_registry::{Registry, Shape};

    use super::*;
    use crate::CallShape;
    use crate::Capacity;
    use crate::Overrides;
    use crate::{Machine, Tuning};

    /// How four GPUs run an all-reduce of 1 MiB by `row`, if engines export buffers or not,
    /// and with the links that are `forced`.
    #[track_caller]
    fn check_links(row: &str, exports_buffers: bool, forced: Option<Links>, expected: Links) {
        let registry = Arc::new(Registry::new(Shape { ranks: 4, per_node: 4 }, &[]));
        let nominal = Capacity::nominal(Machine::Gpus, registry.shape());
        let capacity = Capacity { exports_buffers, ..nominal };
        let table = format!("msccl-tuning 2\nmachine m\nallreduce any any any {row}\n");
        let tuning = Some(Tuning::parse("t", table.as_bytes()).unwrap());
        let overrides = Overrides { links: forced, ..Overrides::default() };
        let selector = Selector::new(registry, Rank(0), capacity, Machine::Gpus, overrides, tuning);
        let (data_type, reduction) = (DataType::F32, Some(Reduction::Sum));
        let (kind, count) = (CollectiveKind::AllReduce, 1 << 18);
        let request =
            CallShape { kind, placement: CallPlacement::InPlace, data_type, reduction, count };
        let (decision, _) = selector.choose(&request).unwrap();
        assert!(row.ends_with(&decision.prepared.name), "{row}: {}", decision.describe());
        assert_eq!(decision.links, expected, "{row}: {}", decision.describe());
        assert_eq!(decision.describe().contains("direct links"), expected == Links::Direct);
        assert!(!decision.exact);
    }

    #[test]
    fn every_kind_has_a_name_and_ends_as_staged() {
        for links in Links::ALL {
            assert_eq!(links.to_string().parse(), Ok(links));
            let plainest = std::iter::successors(Some(links), |links| links.instead()).last();
            assert_eq!(plainest, Some(Links::Staged));
            assert!(links.suit(Protocol::Simple));
        }
        let text = "gossip".parse::<Links>().unwrap_err();
        assert_eq!(text, "expected links (staged, direct, copy-engine), found `gossip`");
    }

    #[test]
    fn links_are_direct_where_they_should_and_can_be() {
        let (direct, staged) =
            ("Simple direct 4 512 allreduce/two_shot", "Simple staged 4 512 allreduce/two_shot");
        check_links(direct, true, None, Links::Direct);
        check_links(direct, true, Some(Links::Staged), Links::Staged);
        check_links(direct, false, None, Links::Staged);
        check_links(staged, true, None, Links::Staged);
        check_links(staged, true, Some(Links::Direct), Links::Direct);
        check_links(staged, false, Some(Links::Direct), Links::Staged);
        // Packets carry flags beside the data, and not every algorithm has links that could be
        // direct.
        check_links("LL direct 4 512 allreduce/two_shot", true, Some(Links::Direct), Links::Staged);
        check_links("Simple direct 4 512 allreduce/ring", true, None, Links::Staged);
    }

    /// Every rank must take the same kernel, and find the offers that its peers make.
    #[test]
    fn both_placements_of_a_root_deliver_alike_where_links_are_direct() {
        let mut direct = 0;
        for ranks in [2, 3, 4, 8] {
            let registry = Arc::new(Registry::new(Shape { ranks, per_node: ranks }, &[]));
            let (machine, overrides) = (Machine::Gpus, Overrides::default());
            let capacity = Capacity::nominal(machine, registry.shape());
            let selector =
                Selector::new(registry.clone(), Rank(0), capacity, machine, overrides, None);
            let mut known = selector.known.lock().unwrap();
            for kind in CollectiveKind::with_root(Rank(ranks - 1)) {
                for entry in registry.built_in(kind, CallPlacement::OutOfPlace).iter() {
                    let can = selector.can_be_direct(&mut known, entry);
                    for twin in selector.twins(entry) {
                        assert_eq!(
                            selector.can_be_direct(&mut known, &twin),
                            can,
                            "{}",
                            entry.name
                        );
                        let alike =
                            (0..ranks).all(|rank| exports(entry, rank) == exports(&twin, rank));
                        assert!(alike || !can, "{}", entry.name);
                        direct += u32::from(can);
                    }
                }
            }
        }
        assert!(direct > 20, "{direct}");
    }

    fn exports(entry: &Entry, rank: u32) -> [bool; 2] {
        Plan::of(&entry.verified, Rank(rank)).unwrap().program().exports_buffers()
    }
}

//! Whether an algorithm can serve a call, and how it does.

use std::sync::Arc;

use msccl_collective::{Kind, Placement, Protocol, Rank, Reduction};
use msccl_plan::cut::Cut;
use msccl_plan::launch;
use msccl_registry::{Entry, Shape};
use msccl_verify::Verified;

use super::capacity::Capacity;
use super::decision::{Decision, KernelClass, PlacementFallback, Threads};
use super::links::Links;
use super::overrides::Overrides;
use super::packet_order;
use super::prepared::Prepared;
use super::required_order::RequiredOrder;
use super::requirements::Requirements;
use super::tuning::Variant;
use super::unserved::Unserved;
use super::wiring::links_per_pair;

/// What one instance of an algorithm needs on the rank that needs most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Needs {
    /// Links from one rank to another.
    pub links: u32,
    /// The same where the two are on different nodes.
    pub inter_node_links: u32,
    /// Thread blocks.
    pub blocks: u32,
    /// Messages that a link must hold.
    pub depth: u32,
    /// Whether messages must order memory that is not in them, as only protocol Simple does: see
    /// [`packet_order`].
    pub order: bool,
}

impl Needs {
    /// Of `verified` on ranks of `shape`, whose engines hold `capacity`.
    pub fn of(verified: &Verified, shape: Shape, capacity: &Capacity) -> Self {
        let algorithm = verified.algorithm();
        let blocks = algorithm.ranks.iter().map(|rank| rank.thread_blocks.len()).max();
        // Where nothing else is spoken it makes no difference, and is not worth its time.
        let order = capacity.has_packets()
            && (0..)
                .zip(&algorithm.ranks)
                .any(|(rank, program)| packet_order::is_possible(algorithm, Rank(rank), program));
        Self {
            links: links_per_pair(algorithm, |_, _| true),
            inter_node_links: links_per_pair(algorithm, |one, other| {
                !shape.on_one_node(one, other)
            }),
            blocks: blocks.unwrap_or(0) as u32,
            depth: verified.facts().least_link_depth,
            order,
        }
    }

    /// Enough for both.
    pub fn max(self, other: Self) -> Self {
        Self {
            links: self.links.max(other.links),
            inter_node_links: self.inter_node_links.max(other.inter_node_links),
            blocks: self.blocks.max(other.blocks),
            depth: self.depth.max(other.depth),
            order: self.order || other.order,
        }
    }
}

/// What stands for the threads of a block where there is none: the least that a row can name.
const NO_THREADS: u32 = 32;

/// The threads of a block: as many as are forced, or `usual`, as far as kernels for `protocol` have
/// them.
fn threads_within(overrides: &Overrides, protocol: Protocol, usual: u32) -> u32 {
    let most = launch::threads_max(protocol);
    let threads = overrides.threads.unwrap_or(usual.min(overrides.threads_max.unwrap_or(most)));
    threads.min(most).next_multiple_of(32).clamp(32, most)
}

/// An algorithm, on its way to a decision.
pub(crate) struct Candidate<'a> {
    pub entry: &'a Entry,
    /// Whether it was loaded with another one for the other placement, which says the same over
    /// links.
    pub has_twin: bool,
    pub needs: Needs,
    pub prepared: Arc<Prepared>,
    pub capacity: &'a Capacity,
    /// How links deliver, if the protocol allows it.
    pub links: Links,
    /// In which order it must add.
    pub order: RequiredOrder,
}

impl Candidate<'_> {
    /// How `variant` of it serves a call on `terms`, as far as the overrides allow.
    pub fn serve(
        self,
        terms: &Requirements,
        variant: &Variant,
        overrides: &Overrides,
    ) -> Result<Decision, Unserved> {
        self.admits(terms)?;
        self.adds_in(terms)?;
        let protocol = self.protocol(variant, overrides);
        let links = if self.links.suit(protocol) { self.links } else { Links::Staged };
        let program = self.prepared.plan.program();
        let usual = program.threads.unwrap_or(variant.threads);
        let aligned = threads_within(overrides, protocol, usual);
        let unaligned = match (protocol, program.threads) {
            (Protocol::Simple, None) => threads_within(overrides, protocol, u32::MAX),
            (Protocol::Simple, Some(_)) | (Protocol::Ll | Protocol::Ll128, _) => aligned,
        };
        let threads = match links {
            Links::CopyEngine => Threads { aligned: NO_THREADS, unaligned: NO_THREADS },
            Links::Staged | Links::Direct => Threads { aligned, unaligned },
        };
        let forced = match links {
            // Copies are of whole blocks, whoever asks.
            Links::CopyEngine => 1,
            Links::Staged | Links::Direct => overrides.instances.unwrap_or(variant.instances),
        };
        let instances = self.instances(protocol, forced)?;
        let slot_bytes = u64::from(self.capacity.wires(protocol).slot_bytes);
        let element_bytes = terms.data_type.size_bytes() as u64;
        let cut = Cut::within(program, terms.count, element_bytes, instances, protocol, slot_bytes)
            .ok_or_else(|| Unserved(format!("its messages do not fit {slot_bytes} bytes")))?;
        let averages = program.averages(terms.data_type);
        let (prepared, exact, passed_over) = (self.prepared, false, Vec::new());
        let kernel = KernelClass::new(&prepared, (protocol, links), threads, &cut, self.capacity);
        let fallback = PlacementFallback::None;
        Ok(Decision {
            prepared,
            protocol,
            links,
            exact,
            threads,
            cut,
            kernel,
            engine_work: None,
            fallback,
            averages,
            passed_over,
        })
    }

    /// Whether the algorithm is for such calls.
    fn admits(&self, terms: &Requirements) -> Result<(), Unserved> {
        let refuse = |reason: String| Err(Unserved(reason));
        let algorithm = self.entry.verified.algorithm();
        let placement = algorithm.placement;
        let rooted = algorithm.collective.root().is_some();
        // Only the root knows its placement, and others must not need to.
        let alone = self.entry.loaded && rooted && !self.has_twin;
        let serves = match alone {
            true => placement == Placement::Both,
            false => placement.serves(terms.placement),
        };
        if !serves && alone {
            let why = "only the root knows whether a call is in place, so it must run both ways";
            return refuse(format!("it runs {placement} only: {why}"));
        }
        if !serves {
            return refuse(format!("it runs {placement}"));
        }
        // Only the root knows its placement: then all ranks act as if it were in place.
        let may_be_in_place = terms.placement.is_in_place() || self.entry.loaded && rooted;
        let is_custom = matches!(algorithm.collective.kind, Kind::Custom(_));
        if may_be_in_place && self.entry.verified.facts().overwrites_input && !is_custom {
            return refuse(
                "in place it overwrites blocks of the input that the caller keeps".to_owned(),
            );
        }
        let bytes = terms.bytes;
        if !algorithm.sizes.contains(bytes) {
            return refuse(format!("it is for {}, the call has {bytes} bytes", algorithm.sizes));
        }
        let program = self.prepared.plan.program();
        let count = usize::try_from(terms.count).unwrap_or(usize::MAX);
        if !program.serves(count) {
            let chunks = program.geometry.block_chunks;
            return refuse(format!("it serves counts that {chunks} divides"));
        }
        if terms.reduction == Some(Reduction::Avg) && program.average.is_none() {
            return refuse(program.no_average(terms.data_type).into());
        }
        Ok(())
    }

    /// Whether the algorithm adds in the order that is required, if the call reduces.
    fn adds_in(&self, terms: &Requirements) -> Result<(), Unserved> {
        let verified = &self.entry.verified;
        let orders = &verified.facts().addition_orders;
        let refused = self.order.refuses(orders, verified.algorithm().collective.ranks);
        match refused.filter(|_| terms.reduction.is_some()) {
            Some(why) => Err(Unserved(why)),
            None => Ok(()),
        }
    }

    /// The protocol that is forced, or that of `variant` or the likest to it that is allowed, if
    /// the engine has wires for it and the algorithm can speak it; every engine has wires for
    /// Simple, and every algorithm can speak it.
    fn protocol(&self, variant: &Variant, overrides: &Overrides) -> Protocol {
        let Needs { order, links: _, inter_node_links: _, blocks: _, depth: _ } = self.needs;
        let spoken = |of: &Protocol| !order && self.capacity.wires(*of).wires > 0;
        let collective = self.entry.verified.algorithm().collective.name();
        let mut allowed = overrides.protocols.instead_of(variant.protocol, collective);
        let found = match overrides.protocol {
            Some(forced) => Some(forced).filter(spoken),
            None => allowed.find(spoken),
        };
        found.unwrap_or(Protocol::Simple)
    }

    /// As many instances as `forced`, or as fit.
    fn instances(&self, protocol: Protocol, forced: u32) -> Result<u32, Unserved> {
        let at_once = self.capacity.blocks;
        let Needs { links, inter_node_links, blocks, depth, order: _ } = self.needs;
        let shape = self.capacity.wires(protocol);
        let inter_node_wires = self.capacity.inter_node_wires;
        if depth > shape.depth {
            let has = shape.depth;
            return Err(Unserved(format!("its links need a depth of {depth}, there is {has}")));
        }
        let many = |links: u32, between: &str, has: u32| {
            Unserved(format!("it has {links} links from a rank to another{between}, at most {has}"))
        };
        let instances = |wires: u32, links: u32| match links {
            0 => u32::MAX,
            links => wires / links,
        };
        let by_blocks = at_once / blocks.max(1);
        match (
            instances(shape.wires, links),
            instances(inter_node_wires, inter_node_links),
            by_blocks,
        ) {
            (0, _, _) => Err(many(links, "", shape.wires)),
            (_, 0, _) => Err(many(inter_node_links, " on another node", inter_node_wires)),
            (_, _, 0) => {
                Err(Unserved(format!("it has {blocks} thread blocks, {at_once} run at once")))
            }
            (by_wires, by_inter_node_wires, by_blocks) => {
                Ok(forced.clamp(1, by_wires.min(by_inter_node_wires).min(by_blocks)))
            }
        }
    }
}

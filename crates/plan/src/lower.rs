//! From one rank of an algorithm to a [`Program`], one to one: no choice is made here.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::{Buffer, Channel, Collective, Kind, Rank, Slot, StepIndex, TbIndex};
use msccl_ir::{Algorithm, LinkShape, Place, StepRef, Target};
use msccl_verify::{Bundle, Completion, Delivery, DirectLink, RawSources, Verified};

use crate::encode::TooLarge;
use crate::launch::DIRECT_RANKS_MAX;
use crate::program::{
    Alias, Average, Counts, Geometry, LinkLimits, Operand, Program, Step, ThreadBlock,
};
use crate::shape;

/// What the programs of all ranks have in common.
pub(crate) struct Lowering<'a> {
    algorithm: &'a Algorithm,
    links: LinkLimits,
    completion: Option<&'a Completion>,
    raw: Option<&'a RawSources>,
    average: Option<Average>,
    counts: Counts,
    direct: Direct,
    /// Steps that may run as one with the step before them.
    bundled: BTreeSet<StepRef>,
}

/// What links deliver directly.
#[derive(Default)]
struct Direct {
    deliveries: BTreeMap<(Rank, Rank, Channel), Delivery>,
    /// By step and peer: where the peer's region begins that the step reads or writes.
    far: BTreeMap<(StepRef, Rank, bool), Slot>,
}

impl Direct {
    fn of(verified: &Verified) -> Self {
        // A launch has no room for the addresses of more.
        if verified.algorithm().collective.ranks > DIRECT_RANKS_MAX {
            return Self::default();
        }
        Self::of_links(verified.direct_links())
    }

    fn of_links(links: Vec<DirectLink>) -> Self {
        let mut direct = Self::default();
        for link in links {
            direct.deliveries.insert((link.from, link.to, link.channel), link.delivery);
            let pushes = link.delivery == Delivery::Push;
            for message in &link.messages {
                let active =
                    if pushes { (message.send, link.to) } else { (message.receive, link.from) };
                direct.far.insert((active.0, active.1, pushes), message.region.start);
            }
        }
        direct
    }

    fn of_link(&self, from: Rank, to: Rank, channel: Channel) -> Delivery {
        self.deliveries.get(&(from, to, channel)).copied().unwrap_or_default()
    }

    /// The far words of a step.
    fn far(&self, at: StepRef, step: &msccl_ir::Step) -> Vec<Option<Slot>> {
        let far = |places: &[Place], sends| -> Vec<_> {
            let slot = |place: &Place| match *place {
                Place::Local(_) => None,
                Place::Link(peer) => self.far.get(&(at, peer, sends)).copied(),
            };
            places.iter().map(slot).collect()
        };
        let far = [far(&step.sources, false), far(&step.destinations, true)].concat();
        if far.iter().any(Option::is_some) { far } else { Vec::new() }
    }
}

impl<'a> Lowering<'a> {
    /// Reads what concerns all ranks.
    pub(crate) fn of(verified: &'a Verified) -> Result<Self, TooLarge> {
        Self::with_direct(verified, Direct::of(verified))
    }

    /// The same beside ranks whose program makes `links` direct.
    pub(crate) fn beside(verified: &'a Verified, links: Vec<DirectLink>) -> Result<Self, TooLarge> {
        Self::with_direct(verified, Direct::of_links(links))
    }

    fn with_direct(verified: &'a Verified, direct: Direct) -> Result<Self, TooLarge> {
        let algorithm = verified.algorithm();
        let facts = verified.facts();
        let completion = facts.completion.as_ref();
        Ok(Self {
            algorithm,
            links: link_limits(algorithm, verified.target())?,
            completion,
            raw: facts.raw.as_ref(),
            average: sum_size(&algorithm.collective).map(|of| Average {
                of,
                completes: completion.is_some(),
                raw: facts.raw.is_some(),
            }),
            counts: if facts.serves_any_count { Counts::Any } else { Counts::Divisible },
            direct,
            bundled: bundled(verified),
        })
    }

    /// The program of `rank`, which must be a rank of the algorithm.
    pub(crate) fn program(&self, rank: Rank) -> Program {
        let Self { algorithm, links, completion, raw, average, counts, .. } = *self;
        let Self { direct, bundled, .. } = self;
        let collective = &algorithm.collective;
        let source = &algorithm.ranks[rank.index()];
        let completes = |at| completion.is_some_and(|steps| steps.contains(at));
        let blocks = source.thread_blocks.iter().enumerate().map(|(tb, block)| {
            let tb = TbIndex::from(tb);
            let at = |step| StepRef { rank, tb, step };
            lower_block(rank, tb, block, direct, |step, code| Known {
                completes: completes(at(step)),
                raw: raw.map_or_else(Vec::new, |raw| raw_sources(raw, at(step), code)),
                bundled: bundled.contains(&at(step)),
                far: direct.far(at(step), code),
            })
        });
        let mut program = Program {
            rank,
            ranks: collective.ranks,
            protocol: algorithm.protocol,
            placement: algorithm.placement,
            alias: alias(collective, rank),
            geometry: Geometry {
                block_chunks: collective.chunks,
                input_chunks: collective.buffer_chunks(rank, Buffer::Input),
                output_chunks: collective.buffer_chunks(rank, Buffer::Output),
                scratch_chunks: source.scratch_chunks,
            },
            threads: algorithm.threads,
            links,
            average,
            counts,
            thread_blocks: blocks.collect(),
        };
        mark_signals(&mut program);
        program
    }
}

/// How many contributions every sum that `collective` promises has; `None` if they differ.
fn sum_size(collective: &Collective) -> Option<u32> {
    let Kind::Custom(custom) = &collective.kind else {
        return Some(collective.ranks);
    };
    let sums = custom.contract.iter().flat_map(|contract| contract.promised.values());
    let sizes: BTreeSet<_> = sums.map(Vec::len).filter(|&size| size > 1).collect();
    match sizes.len() {
        0 => Some(1),
        1 => sizes.first().and_then(|&size| u32::try_from(size).ok()),
        _ => None,
    }
}

/// For each source of `step`, which stands at `at`, whether it is raw; nothing if none is.
fn raw_sources(raw: &RawSources, at: StepRef, step: &msccl_ir::Step) -> Vec<bool> {
    let sources = 0..step.sources.len();
    let raw: Vec<_> = sources.map(|source| raw.contains(at, source)).collect();
    if raw.contains(&true) { raw } else { Vec::new() }
}

fn bundled(verified: &Verified) -> BTreeSet<StepRef> {
    let bundles = verified.bundles().into_iter();
    let steps = bundles.flat_map(|Bundle { rank, tb, steps }| {
        steps.skip(1).map(move |step| StepRef { rank, tb, step: StepIndex(step) })
    });
    steps.collect()
}

/// What is known of a step beside what it says itself.
struct Known {
    /// Whether it completes sums.
    completes: bool,
    /// Which of its sources are raw.
    raw: Vec<bool>,
    /// Whether it runs as one with the step before it.
    bundled: bool,
    /// Its far words.
    far: Vec<Option<Slot>>,
}

fn lower_block(
    rank: Rank,
    tb: TbIndex,
    block: &msccl_ir::ThreadBlock,
    direct: &Direct,
    known: impl Fn(StepIndex, &msccl_ir::Step) -> Known,
) -> ThreadBlock {
    let msccl_ir::ThreadBlock { channel, sends, receives, steps } = block;
    let incoming = receives.iter().map(|&peer| direct.of_link(peer, rank, *channel));
    let outgoing = sends.iter().map(|&peer| direct.of_link(rank, peer, *channel));
    let deliveries = incoming.chain(outgoing).collect();
    let steps = steps.iter().enumerate();
    ThreadBlock {
        channel: *channel,
        receives: receives.clone(),
        sends: sends.clone(),
        deliveries,
        steps: steps
            .map(|(at, step)| lower_step(step, tb, block, known(StepIndex::from(at), step)))
            .collect(),
    }
}

/// Waits for earlier steps of the thread block itself, `tb`, are left out: steps run in order.
fn lower_step(
    step: &msccl_ir::Step,
    tb: TbIndex,
    block: &msccl_ir::ThreadBlock,
    Known { completes, raw, bundled, far }: Known,
) -> Step {
    let msccl_ir::Step { waits, sources, destinations, count } = step;
    let first_out = block.receives.len();
    let sources: Vec<_> =
        sources.iter().map(|&place| lower_place(place, &block.receives, 0)).collect();
    let destinations: Vec<_> =
        destinations.iter().map(|&place| lower_place(place, &block.sends, first_out)).collect();
    Step {
        kind: shape::kind(&sources, &destinations),
        completes,
        signals: false,
        waits: waits.iter().filter(|wait| wait.tb != tb).copied().collect(),
        sources,
        raw,
        destinations,
        count: *count,
        bundled,
        far,
    }
}

fn lower_place(place: Place, peers: &[Rank], first: usize) -> Operand {
    match place {
        Place::Local(slot) => Operand::Local(slot),
        Place::Link(peer) => {
            // Peers ascend and contain every peer of a step: structural validation saw to both.
            let position = peers.partition_point(|&other| other < peer);
            Operand::Link((first + position) as u32)
        }
    }
}

fn mark_signals(program: &mut Program) {
    let awaited = shape::awaited(&program.thread_blocks).into_iter().flatten();
    let steps = program.thread_blocks.iter_mut().flat_map(|block| &mut block.steps);
    for (step, awaited) in steps.zip(awaited) {
        step.signals = awaited;
    }
}

fn link_limits(algorithm: &Algorithm, target: &Target) -> Result<LinkLimits, TooLarge> {
    let shape = target.link(algorithm.protocol);
    let LinkShape { depth, message_bytes, packing } = shape;
    let steps = algorithm.thread_blocks().flat_map(|(_, _, block)| &block.steps);
    // What only moves within a rank needs to fit no message.
    let on_links = steps.filter(|step| {
        let mut places = step.sources.iter().chain(&step.destinations);
        places.any(|place| matches!(place, Place::Link(_)))
    });
    let count_max = on_links.map(|step| step.count).max().unwrap_or(0);
    let word = |what, bytes| u32::try_from(bytes).map_err(|_| TooLarge::word(what, bytes));
    Ok(LinkLimits {
        depth,
        message_bytes: word("message size in bytes", message_bytes)?,
        slice_bytes: word("slice size in bytes", shape.slice_bytes(count_max))?,
        packing,
        count_limit: target.limits.count,
    })
}

/// How input and output lie on one another in an in-place call: [`Collective::in_place`] in one
/// word.
fn alias(collective: &Collective, rank: Rank) -> Alias {
    match &collective.kind {
        Kind::AllReduce
        | Kind::AllToAll
        | Kind::Broadcast { .. }
        | Kind::Reduce { .. }
        | Kind::Custom(_) => Alias::Same,
        Kind::AllGather => Alias::InputInOutput,
        Kind::ReduceScatter => Alias::OutputInInput,
        Kind::Gather { root } if *root == rank => Alias::InputInOutput,
        Kind::Scatter { root } if *root == rank => Alias::OutputInInput,
        Kind::Gather { .. } | Kind::Scatter { .. } => Alias::None,
    }
}

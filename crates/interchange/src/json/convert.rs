//! Between the IR and the wire. Every struct is taken apart without `..`, so that a new field of
//! the IR stops the build here.

use std::collections::BTreeSet;
use std::sync::Arc;

use msccl_collective::{
    Buffer, Channel, Collective, Contract, Contribution, Custom, Kind, Placement, Protocol, Rank,
    SizeRange, Slot, StepIndex, TbIndex,
};
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock, Wait};

use super::list::{ListIn, ListItem, ListOut};
use super::wire;

pub(super) fn to_wire(algorithm: &Algorithm) -> wire::Algorithm<ListOut<'_, RankProgram>> {
    let Algorithm { name, collective, placement, protocol, sizes, threads, ranks } = algorithm;
    let SizeRange { min_bytes, max_bytes } = *sizes;
    wire::Algorithm {
        format: wire::Format::MscclIr,
        version: wire::Version,
        name: name.clone(),
        collective: collective_to_wire(collective),
        placement: match placement {
            Placement::InPlace => wire::Placement::InPlace,
            Placement::OutOfPlace => wire::Placement::OutOfPlace,
            Placement::Both => wire::Placement::Both,
        },
        protocol: match protocol {
            Protocol::Simple => wire::Protocol::Simple,
            Protocol::Ll => wire::Protocol::Ll,
            Protocol::Ll128 => wire::Protocol::Ll128,
        },
        sizes: wire::Sizes { min_bytes, max_bytes },
        threads: *threads,
        ranks: ListOut(ranks),
    }
}

/// The algorithm, or the path to what makes no sense and why.
pub(super) fn from_wire(
    algorithm: wire::Algorithm<ListIn<RankProgram>>,
) -> Result<Algorithm, (String, String)> {
    let wire::Algorithm {
        format: wire::Format::MscclIr,
        version: wire::Version,
        name,
        collective,
        placement,
        protocol,
        sizes: wire::Sizes { min_bytes, max_bytes },
        threads,
        ranks: ListIn(ranks),
    } = algorithm;
    Ok(Algorithm {
        name,
        collective: collective_from_wire(collective)?,
        placement: match placement {
            wire::Placement::InPlace => Placement::InPlace,
            wire::Placement::OutOfPlace => Placement::OutOfPlace,
            wire::Placement::Both => Placement::Both,
        },
        protocol: match protocol {
            wire::Protocol::Simple => Protocol::Simple,
            wire::Protocol::Ll => Protocol::Ll,
            wire::Protocol::Ll128 => Protocol::Ll128,
        },
        sizes: SizeRange { min_bytes, max_bytes },
        threads,
        ranks,
    })
}

fn collective_to_wire(collective: &Collective) -> wire::Collective {
    let Collective { kind, ranks, chunks } = collective;
    let kind = match kind {
        Kind::AllReduce => wire::Kind::AllReduce,
        Kind::AllGather => wire::Kind::AllGather,
        Kind::ReduceScatter => wire::Kind::ReduceScatter,
        Kind::AllToAll => wire::Kind::AllToAll,
        Kind::Broadcast { root } => wire::Kind::Broadcast { root: root.0 },
        Kind::Reduce { root } => wire::Kind::Reduce { root: root.0 },
        Kind::Gather { root } => wire::Kind::Gather { root: root.0 },
        Kind::Scatter { root } => wire::Kind::Scatter { root: root.0 },
        Kind::Custom(custom) => {
            let Custom { name, input_chunks, output_chunks, contract } = &**custom;
            wire::Kind::Custom {
                name: name.clone(),
                input_chunks: *input_chunks,
                output_chunks: *output_chunks,
                contract: contract.as_ref().map(contract_to_wire),
            }
        }
    };
    wire::Collective { kind, ranks: *ranks, chunks: *chunks }
}

fn collective_from_wire(collective: wire::Collective) -> Result<Collective, (String, String)> {
    let wire::Collective { kind, ranks, chunks } = collective;
    let kind = match kind {
        wire::Kind::AllReduce => Kind::AllReduce,
        wire::Kind::AllGather => Kind::AllGather,
        wire::Kind::ReduceScatter => Kind::ReduceScatter,
        wire::Kind::AllToAll => Kind::AllToAll,
        wire::Kind::Broadcast { root } => Kind::Broadcast { root: Rank(root) },
        wire::Kind::Reduce { root } => Kind::Reduce { root: Rank(root) },
        wire::Kind::Gather { root } => Kind::Gather { root: Rank(root) },
        wire::Kind::Scatter { root } => Kind::Scatter { root: Rank(root) },
        wire::Kind::Custom { name, input_chunks, output_chunks, contract } => {
            let contract = contract.map(contract_from_wire).transpose()?;
            Kind::Custom(Arc::new(Custom { name, input_chunks, output_chunks, contract }))
        }
    };
    Ok(Collective { kind, ranks, chunks })
}

fn contract_to_wire(contract: &Contract) -> wire::Contract {
    let Contract { given, promised } = contract;
    let slot = |&Contribution { rank, index }: &Contribution| wire::Slot { rank: rank.0, index };
    wire::Contract {
        given: given.iter().map(slot).collect(),
        promised: promised
            .iter()
            .map(|(&(rank, index), sum)| wire::Promise {
                rank: rank.0,
                index,
                sum: sum.iter().map(slot).collect(),
            })
            .collect(),
    }
}

fn contract_from_wire(contract: wire::Contract) -> Result<Contract, (String, String)> {
    let wire::Contract { given, promised } = contract;
    let slot = |wire::Slot { rank, index }| Contribution { rank: Rank(rank), index };
    let given: BTreeSet<_> = given.into_iter().map(slot).collect();
    let mut read = Contract { given, promised: Default::default() };
    for (position, wire::Promise { rank, index, sum }) in promised.into_iter().enumerate() {
        let path = || format!("collective.kind.custom.contract.promised[{position}]");
        let mut sum: Vec<_> = sum.into_iter().map(slot).collect();
        sum.sort_unstable();
        if sum.is_empty() {
            let message = "expected at least one input slot in `sum`; leave the promise out if \
                           anything will do";
            return Err((path(), message.to_owned()));
        }
        if read.promised.insert((Rank(rank), index), sum).is_some() {
            let message = format!("a second promise for output slot {index} of rank {rank}");
            return Err((path(), message));
        }
    }
    Ok(read)
}

impl ListItem for RankProgram {
    const LIST: &'static str = "the list of rank programs";
    type Out<'a> = wire::Rank<ListOut<'a, ThreadBlock>>;
    type In = wire::Rank<ListIn<ThreadBlock>>;

    fn to_wire(&self) -> Self::Out<'_> {
        let RankProgram { scratch_chunks, thread_blocks } = self;
        wire::Rank { scratch_chunks: *scratch_chunks, thread_blocks: ListOut(thread_blocks) }
    }

    fn from_wire(wire: Self::In) -> Self {
        let wire::Rank { scratch_chunks, thread_blocks: ListIn(thread_blocks) } = wire;
        Self { scratch_chunks, thread_blocks }
    }
}

impl ListItem for ThreadBlock {
    const LIST: &'static str = "the list of thread blocks";
    type Out<'a> = wire::ThreadBlock<ListOut<'a, Step>>;
    type In = wire::ThreadBlock<ListIn<Step>>;

    fn to_wire(&self) -> Self::Out<'_> {
        let ThreadBlock { channel, sends, receives, steps } = self;
        wire::ThreadBlock {
            channel: channel.0,
            sends: sends.iter().map(|peer| peer.0).collect(),
            receives: receives.iter().map(|peer| peer.0).collect(),
            steps: ListOut(steps),
        }
    }

    fn from_wire(wire: Self::In) -> Self {
        let wire::ThreadBlock { channel, sends, receives, steps: ListIn(steps) } = wire;
        Self {
            channel: Channel(channel),
            sends: sends.into_iter().map(Rank).collect(),
            receives: receives.into_iter().map(Rank).collect(),
            steps,
        }
    }
}

impl ListItem for Step {
    const LIST: &'static str = "the list of steps";
    type Out<'a> = wire::Step;
    type In = wire::Step;

    fn to_wire(&self) -> wire::Step {
        let Step { waits, sources, destinations, count } = self;
        let wait = |&Wait { tb, step }: &Wait| wire::Wait { tb: tb.0, step: step.0 };
        wire::Step {
            waits: waits.iter().map(wait).collect(),
            sources: sources.iter().copied().map(place_to_wire).collect(),
            destinations: destinations.iter().copied().map(place_to_wire).collect(),
            count: *count,
        }
    }

    fn from_wire(wire: wire::Step) -> Self {
        let wire::Step { waits, sources, destinations, count } = wire;
        let wait = |wire::Wait { tb, step }| Wait { tb: TbIndex(tb), step: StepIndex(step) };
        Self {
            waits: waits.into_iter().map(wait).collect(),
            sources: sources.into_iter().map(place_from_wire).collect(),
            destinations: destinations.into_iter().map(place_from_wire).collect(),
            count,
        }
    }
}

fn place_to_wire(place: Place) -> wire::Place {
    match place {
        Place::Local(Slot { buffer: Buffer::Input, index }) => wire::Place::Input(index),
        Place::Local(Slot { buffer: Buffer::Output, index }) => wire::Place::Output(index),
        Place::Local(Slot { buffer: Buffer::Scratch, index }) => wire::Place::Scratch(index),
        Place::Link(peer) => wire::Place::Link(peer.0),
    }
}

fn place_from_wire(place: wire::Place) -> Place {
    let local = |buffer, index| Place::Local(Slot::new(buffer, index));
    match place {
        wire::Place::Input(index) => local(Buffer::Input, index),
        wire::Place::Output(index) => local(Buffer::Output, index),
        wire::Place::Scratch(index) => local(Buffer::Scratch, index),
        wire::Place::Link(peer) => Place::Link(Rank(peer)),
    }
}

//! Random programs for the standard collectives: right by construction, and like nothing a person
//! would write.
//!
//! Every sum that the collective promises grows from its contributions by random joins on random
//! ranks, and its result wanders to the outputs over random others. The sums touch different slots,
//! so their ops are shuffled into one another.

use std::collections::BTreeMap;

use msccl_collective::{
    Buffer, Collective, Contribution, Placement, Promise, Protocol, Rank, SizeRange, Slot,
};
use msccl_compiler::chunk::{At, ChunkDag, Hints, HintsId, Op, Origin, StatementId};
use msccl_compiler::compile_chunks;
use msccl_ir::{Algorithm, Target};
use msccl_syntax::{FileId, Span};

use crate::Trouble;
use crate::random::Random;

/// Most sources of one op.
const SOURCES_MAX: usize = 4;

/// Channels that hints ask for.
const CHANNELS: u32 = 3;

/// An algorithm for `collective` that serves calls of `placement`, named `name`.
pub fn random_algorithm(
    name: &str,
    collective: Collective,
    placement: Placement,
    random: &mut Random,
) -> Result<Algorithm, Trouble> {
    let dag = Grower::new(collective, placement, random).grow(name);
    let compiled = compile_chunks(dag, &Target::native()).map_err(|diagnostics| {
        let texts = diagnostics.into_iter().map(|diagnostic| diagnostic.message);
        texts.collect::<Vec<_>>().join("; ")
    })?;
    // The compiler knows one placement; that both are served is for the verifier to say.
    Ok(Algorithm { placement, ..compiled.schedule.algorithm })
}

struct Grower<'a> {
    collective: Collective,
    placement: Placement,
    random: &'a mut Random,
    scratch_chunks: Vec<u32>,
    /// What must come before everything else: saving inputs that outputs will lie over.
    first: Vec<Op>,
    strands: Vec<Vec<Op>>,
}

/// A value that is promised somewhere, as whole blocks: what it is the sum of, and where it goes.
type Sums = BTreeMap<Vec<Contribution>, Vec<(Rank, u32)>>;

impl<'a> Grower<'a> {
    fn new(collective: Collective, placement: Placement, random: &'a mut Random) -> Self {
        let scratch_chunks = vec![0; collective.ranks as usize];
        Self {
            collective,
            placement,
            random,
            scratch_chunks,
            first: Vec::new(),
            strands: Vec::new(),
        }
    }

    fn grow(mut self, name: &str) -> ChunkDag {
        for (contributions, outputs) in self.sums() {
            for (column, count) in self.runs() {
                self.strand(&contributions, &outputs, column, count);
            }
        }
        let ops = self.shuffled();
        self.finish(name, ops)
    }

    /// The sums, for blocks of one chunk.
    fn sums(&self) -> Sums {
        let whole = Collective { chunks: 1, ..self.collective.clone() };
        let mut sums = Sums::new();
        for rank in whole.all_ranks() {
            for block in 0..whole.output_chunks(rank) {
                let contributions = match whole.promised(rank, block) {
                    None => continue,
                    Some(Promise::One(only)) => vec![only],
                    Some(Promise::Sum(sum)) => sum,
                    Some(Promise::EveryRank { index }) => {
                        whole.all_ranks().map(|rank| Contribution { rank, index }).collect()
                    }
                };
                sums.entry(contributions).or_default().push((rank, block));
            }
        }
        sums
    }

    /// The chunks of a block, cut into runs that move together.
    fn runs(&mut self) -> Vec<(u32, u32)> {
        let chunks = self.collective.chunks;
        let mut runs = Vec::new();
        let mut column = 0;
        while column < chunks {
            let count = 1 + self.random.below((chunks - column) as usize) as u32;
            runs.push((column, count));
            column += count;
        }
        runs
    }

    /// The ops that make one sum and bring it where it is promised.
    fn strand(
        &mut self,
        contributions: &[Contribution],
        outputs: &[(Rank, u32)],
        column: u32,
        count: u32,
    ) {
        let chunks = self.collective.chunks;
        let in_place = self.placement == Placement::InPlace;
        let memory = |this: &Self, buffer, rank, block: u32| {
            let slot = Slot::new(buffer, block * chunks + column);
            let shared = this.collective.in_place(rank, slot);
            // A rank that has only one of the two buffers shares nothing.
            let exists = shared.index < this.collective.buffer_chunks(rank, shared.buffer);
            At { rank, slot: if in_place && exists { shared } else { slot } }
        };
        let mut ops = Vec::new();
        let mut live: Vec<At> = Vec::new();
        for contribution in contributions {
            let at = memory(self, Buffer::Input, contribution.rank, contribution.index);
            live.push(if in_place { self.saved(at, count) } else { at });
        }
        let mut outputs: Vec<At> = outputs
            .iter()
            .map(|(rank, block)| memory(self, Buffer::Output, *rank, *block))
            .collect();
        self.settle(&mut live, &mut outputs, count, &mut ops);
        self.join(&mut live, &mut outputs, count, &mut ops);
        self.spread(live, outputs, count, &mut ops);
        self.strands.push(ops);
    }

    /// Copies an input away before anything is written over it.
    fn saved(&mut self, at: At, count: u32) -> At {
        let to = self.fresh(at.rank, count);
        let op = self.op(to, vec![at], count);
        self.first.push(op);
        to
    }

    /// Where both placements are served, a value that is promised to its own rank goes there first,
    /// and is read from there: in place that changes nothing.
    fn settle(&mut self, live: &mut [At], outputs: &mut Vec<At>, count: u32, ops: &mut Vec<Op>) {
        let ([only], Placement::Both) = (live, self.placement) else { return };
        if let Some(own) = outputs.iter().position(|output| output.rank == only.rank) {
            let to = outputs.swap_remove(own);
            let op = self.op(to, vec![*only], count);
            ops.push(op);
            *only = to;
        }
    }

    /// Joins `live` values until one is left; the last join may write an output, which is then no
    /// longer open.
    fn join(&mut self, live: &mut Vec<At>, outputs: &mut Vec<At>, count: u32, ops: &mut Vec<Op>) {
        while live.len() > 1 {
            let most = live.len().min(SOURCES_MAX);
            let sources: Vec<At> = (0..2 + self.random.below(most - 1))
                .map(|_| live.swap_remove(self.random.below(live.len())))
                .collect();
            let first = sources[0];
            // A join may gather its sources in its destination, which must then not be an input.
            let ends = live.is_empty() && !outputs.is_empty() && self.placement != Placement::Both;
            let to = if ends && self.random.once_in(2) {
                outputs.swap_remove(self.random.below(outputs.len()))
            } else if first.slot.buffer == Buffer::Scratch && self.random.once_in(2) {
                first
            } else {
                self.fresh(first.rank, count)
            };
            live.push(to);
            let op = self.op(to, sources, count);
            ops.push(op);
        }
    }

    /// Brings the value in `have` to every output, each from any place that has it by then.
    fn spread(&mut self, mut have: Vec<At>, mut open: Vec<At>, count: u32, ops: &mut Vec<Op>) {
        while !open.is_empty() {
            let from = have[self.random.below(have.len())];
            // A copy that nobody needs may still be reading when an output over its source is
            // written.
            let detour = self.placement != Placement::Both && self.random.once_in(4);
            let to = if detour {
                self.fresh(from.rank, count)
            } else {
                open.swap_remove(self.random.below(open.len()))
            };
            let op = self.op(to, vec![from], count);
            ops.push(op);
            have.push(to);
        }
    }

    /// Unused scratch, on `rank` or on any other.
    fn fresh(&mut self, rank: Rank, count: u32) -> At {
        let any = Rank::from(self.random.below(self.scratch_chunks.len()));
        let rank = if self.random.once_in(2) { rank } else { any };
        let used = &mut self.scratch_chunks[rank.index()];
        let slot = Slot::new(Buffer::Scratch, *used);
        *used += count;
        At { rank, slot }
    }

    fn op(&mut self, to: At, sources: Vec<At>, count: u32) -> Op {
        let hints = HintsId(self.random.below(CHANNELS as usize + 1) as u32);
        Op { to, sources: sources.into(), count, hints, statement: StatementId(0) }
    }

    /// The ops of all strands, those of each in their order.
    fn shuffled(&mut self) -> Vec<Op> {
        let mut ops = std::mem::take(&mut self.first);
        let strands = std::mem::take(&mut self.strands);
        let mut strands: Vec<_> = strands.into_iter().map(Vec::into_iter).collect();
        while !strands.is_empty() {
            let chosen = self.random.below(strands.len());
            match strands[chosen].next() {
                Some(op) => ops.push(op),
                None => drop(strands.swap_remove(chosen)),
            }
        }
        ops
    }

    fn finish(self, name: &str, ops: Vec<Op>) -> ChunkDag {
        let nowhere = Span { file: FileId(0), start: 0, end: 0 };
        let requested =
            (0..CHANNELS).map(|channel| Hints { channel: Some(channel), ..Hints::default() });
        ChunkDag {
            name: name.to_owned(),
            per_node: self.collective.ranks,
            collective: self.collective,
            placement: match self.placement {
                Placement::InPlace => Placement::InPlace,
                Placement::OutOfPlace | Placement::Both => Placement::OutOfPlace,
            },
            protocol: Protocol::ALL[self.random.below(Protocol::ALL.len())],
            sizes: SizeRange::ALL,
            threads: None,
            instances: 1,
            engine_instances: 1,
            interleaved: 1,
            order_claim: None,
            scratch_chunks: self.scratch_chunks,
            ops,
            hints: std::iter::once(Hints::default()).chain(requested).collect(),
            statements: vec![Origin { span: nowhere, called_from: Vec::new() }],
            warnings: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use msccl_collective::{DataType, Kind, Reduction};
    use msccl_runtime::oracle::{CheckedCall, Executor, Workers, check};
    use msccl_verify::verify;

    use super::*;

    fn prove_and_run(kind: Kind, placement: Placement, seed: u64) {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(4) as u32;
        let chunks = 1 + random.below(4) as u32;
        let collective = Collective { kind, ranks, chunks };
        let algorithm = random_algorithm("random", collective, placement, &mut random).unwrap();
        let name = algorithm.collective.to_string();
        let verified = verify(algorithm, &Target::native());
        let verified = verified.unwrap_or_else(|refusal| panic!("{name} {seed}: {refusal}"));
        let executor = Executor::new(&verified).unwrap();
        let chunk_aligned = chunks as usize * 5;
        let trial = CheckedCall {
            data_type: DataType::I32,
            reduction: Reduction::Sum,
            count: if verified.facts().serves_any_count { 7 } else { chunk_aligned },
            in_place: placement.serves_in_place(),
            seed,
            workers: Workers::Exactly(1),
            timeout: Some(Duration::from_secs(60)),
        };
        check(&executor, &trial).unwrap_or_else(|fault| panic!("{name} {seed}: {fault}"));
    }

    #[test]
    fn random_programs_are_proved_and_right() {
        let root = Rank(1);
        let rooted = [
            Kind::Broadcast { root },
            Kind::Reduce { root },
            Kind::Gather { root },
            Kind::Scatter { root },
        ];
        let plain = [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll];
        for seed in 0..12 {
            let placement = Placement::ALL[seed as usize % 2];
            plain.iter().for_each(|kind| prove_and_run(kind.clone(), placement, seed));
            let placement = Placement::ALL[seed as usize % 3];
            rooted.iter().for_each(|kind| prove_and_run(kind.clone(), placement, seed));
        }
    }
}

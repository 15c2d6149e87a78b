//! The collective's promise, held against the ops in program order.
//!
//! A **value** is a multiset of contributions; a slot that nothing wrote holds the empty one. An op
//! stores the union of what its sources hold. At the end every promised output slot must hold
//! exactly what [`Collective::promised`](msccl_collective::Collective::promised) says.
//!
//! Values are not built but fingerprinted: each contribution has a number of 128 bits that depends
//! on nothing but itself, and a multiset has the sum of its members' numbers. Equal multisets have
//! equal fingerprints, so this check never refuses a right program; different ones have equal
//! fingerprints with a probability of about 2⁻¹²⁸. The time taken is linear in the chunks that ops
//! touch. Only where a fingerprint is wrong is the value itself worked out, to say what is missing.
//!
//! This speaks for the program, on the author's own lines. It says nothing about what becomes of
//! it: that proof is the verifier's, which trusts none of this.

mod fault;
mod responsible;

use msccl_collective::{Buffer, Contribution, Placement, Promise, Rank, Slot};
use msccl_syntax::Diagnostic;
use rustc_hash::FxHashMap;

use super::{At, ChunkDag, StatementId};

/// Checks that every output slot ends up with what the collective promises. Errors stand at the
/// responsible statement: that which added a contribution a second time, otherwise that which wrote
/// a wrong slot last, or the algorithm's head if none did.
pub fn check_promise(dag: &ChunkDag) -> Result<(), Vec<Diagnostic>> {
    let slots = Slots::new(dag);
    let wrong = wrong_slots(dag, &slots);
    if wrong.is_empty() { Ok(()) } else { Err(responsible::reports(dag, &slots, &wrong)) }
}

// --- The slots of all ranks
// ------------------------------------------------------------------------

/// Numbers for the slots of all ranks; aliases have one number.
struct Slots<'a> {
    dag: &'a ChunkDag,
    /// The first number of each rank's buffers; by `3 * rank + buffer`.
    bases: Vec<usize>,
    len: usize,
}

impl<'a> Slots<'a> {
    fn new(dag: &'a ChunkDag) -> Self {
        let mut slots = Self { dag, bases: Vec::new(), len: 0 };
        for rank in dag.collective.all_ranks() {
            for buffer in Buffer::ALL {
                slots.bases.push(slots.len);
                slots.len += slots.chunks(rank, buffer) as usize;
            }
        }
        slots
    }

    fn chunks(&self, rank: Rank, buffer: Buffer) -> u32 {
        match buffer {
            Buffer::Input | Buffer::Output => self.dag.collective.buffer_chunks(rank, buffer),
            Buffer::Scratch => self.dag.scratch_chunks.get(rank.index()).copied().unwrap_or(0),
        }
    }

    /// The number of a memory slot; `None` for one that does not exist.
    #[inline]
    fn number(&self, at: At) -> Option<usize> {
        let buffer = 3 * at.rank.index() + at.slot.buffer as usize;
        let number = *self.bases.get(buffer)? + at.slot.index as usize;
        (number < *self.bases.get(buffer + 1).unwrap_or(&self.len)).then_some(number)
    }

    /// The numbers of the input slots, and what each is given.
    fn given(&self) -> impl Iterator<Item = (usize, Contribution)> {
        let collective = &self.dag.collective;
        let of_rank = move |rank| {
            (0..collective.input_chunks(rank)).filter_map(move |index| {
                let memory = self.memory(rank, Slot::new(Buffer::Input, index));
                Some((self.number(memory)?, collective.given(rank, index)?))
            })
        };
        collective.all_ranks().flat_map(of_rank)
    }

    /// The memory slot of a slot of the caller's buffers.
    fn memory(&self, rank: Rank, slot: Slot) -> At {
        let alias = match self.dag.placement {
            Placement::InPlace => self.dag.collective.in_place(rank, slot),
            Placement::OutOfPlace | Placement::Both => slot,
        };
        let exists = alias.index < self.chunks(rank, alias.buffer);
        At { rank, slot: if exists { alias } else { slot } }
    }
}

/// The slot `chunk` chunks after `at`.
fn after(at: At, chunk: u32) -> At {
    At { rank: at.rank, slot: at.slot.offset(chunk) }
}

// --- Running the program
// ---------------------------------------------------------------------------

/// The promised output slots that end up with anything else. Of the instances of a chunk, which
/// fare alike, only the first is looked at.
fn wrong_slots(dag: &ChunkDag, slots: &Slots<'_>) -> Vec<At> {
    let values = run(dag, slots);
    let mut sums = FxHashMap::default();
    let mut wrong = Vec::new();
    for rank in dag.collective.all_ranks() {
        for index in (0..dag.collective.output_chunks(rank)).step_by(dag.instances as usize) {
            let Some(promise) = dag.collective.promised(rank, index) else { continue };
            let promised = match promise {
                Promise::One(contribution) => fingerprint(contribution),
                Promise::Sum(sum) => sum_of(sum.into_iter()),
                Promise::EveryRank { index } => *sums.entry(index).or_insert_with(|| {
                    sum_of(dag.collective.all_ranks().map(|rank| Contribution { rank, index }))
                }),
            };
            let slot = Slot::new(Buffer::Output, index);
            let held = slots.number(slots.memory(rank, slot)).map(|number| values[number]);
            if held != Some(promised) {
                wrong.push(At { rank, slot });
            }
        }
    }
    wrong
}

/// The fingerprint that every slot holds at the end.
fn run(dag: &ChunkDag, slots: &Slots<'_>) -> Vec<u128> {
    let mut values = vec![0; slots.len];
    for (number, given) in slots.given() {
        values[number] = fingerprint(given);
    }
    for op in &dag.ops {
        for chunk in 0..op.count {
            let held = |&source: &At| slots.number(after(source, chunk)).map_or(0, |n| values[n]);
            let sum = op.sources.iter().map(held).fold(0, u128::wrapping_add);
            if let Some(number) = slots.number(after(op.to, chunk)) {
                values[number] = sum;
            }
        }
    }
    values
}

fn sum_of(contributions: impl Iterator<Item = Contribution>) -> u128 {
    contributions.map(fingerprint).fold(0, u128::wrapping_add)
}

/// A number that looks random, the same for the same contribution.
fn fingerprint(contribution: Contribution) -> u128 {
    let key = u64::from(contribution.rank.0) << 32 | u64::from(contribution.index);
    let high = mix(key ^ 0x6a09_e667_f3bc_c908);
    u128::from(high) << 64 | u128::from(mix(key.wrapping_add(high)))
}

/// Scatters 64 bits over 64 bits, one to one (the finaliser of SplitMix64).
fn mix(key: u64) -> u64 {
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}

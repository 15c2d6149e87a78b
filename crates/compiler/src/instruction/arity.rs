//! Brings ops to the arity that a target has, still in the chunk DAG's terms.
//!
//! | op | MSCCL form | native form |
//! |---|---|---|
//! | `d = a`, `d = d + a` | as it is | as it is |
//! | `d = local + remote` | as it is (`rrc` with another source than destination) | as it is |
//! | `d = a + b`, both local or both remote | `d = a`, then `d = d + b` | as it is |
//! | `d = a + b + c + …` | the first pair, then `d = d + c`, … | as it is |
//! | two sources on one remote rank | (does not arise: one remote source) | the second in an op of its own: a step takes one message per link |
//! | more chunks than a step may count | cut into nearly equal runs | likewise |
//!
//! Legality: `d` is written before later sources are read, so every later source must be disjoint
//! from `d` or be `d` itself; the chunk DAG promises exactly that. If `d` is among the sources it
//! is taken first, so that no other write to it comes before.

use msccl_ir::{StepForm, Target};
use smallvec::{SmallVec, smallvec};

use crate::chunk::{At, Op};

/// Calls `visit` for the ops that take the place of `op` on `target`, in order.
pub fn for_each_lowered<E>(
    op: &Op,
    target: &Target,
    mut visit: impl FnMut(&Op) -> Result<(), E>,
) -> Result<(), E> {
    let limit = target.limits.count.max(1);
    if op.count <= limit && fits(op, target.form) {
        return visit(op);
    }
    let pieces = op.count.div_ceil(limit);
    for piece in 0..pieces {
        let first = piece_start(op.count, pieces, piece);
        let count = piece_start(op.count, pieces, piece + 1) - first;
        for part in parts(&piece_of(op, first, count), target.form) {
            visit(&part)?;
        }
    }
    Ok(())
}

/// Where piece `piece` of `pieces` nearly equal pieces of `count` chunks starts.
fn piece_start(count: u32, pieces: u32, piece: u32) -> u32 {
    (u64::from(count) * u64::from(piece) / u64::from(pieces)) as u32
}

fn piece_of(op: &Op, first: u32, count: u32) -> Op {
    let advance = |at: &At| At { rank: at.rank, slot: at.slot.offset(first) };
    Op {
        to: advance(&op.to),
        sources: op.sources.iter().map(advance).collect(),
        count,
        ..op.clone()
    }
}

fn fits(op: &Op, form: StepForm) -> bool {
    match form {
        StepForm::Msccl => match op.sources.as_slice() {
            [_] => true,
            [first, second] => {
                let remotes = op.sources.iter().filter(|source| is_remote(op, source)).count();
                remotes == 1 || (remotes == 0 && (*first == op.to || *second == op.to))
            }
            _ => false,
        },
        StepForm::Native => {
            let sources = &op.sources;
            (1..sources.len()).all(|index| !repeats_link(op, &sources[..index], &sources[index]))
        }
    }
}

fn is_remote(op: &Op, source: &At) -> bool {
    source.rank != op.to.rank
}

/// Whether `source` comes over a link that one of `earlier` already uses.
fn repeats_link(op: &Op, earlier: &[At], source: &At) -> bool {
    is_remote(op, source) && earlier.iter().any(|other| other.rank == source.rank)
}

/// The ops that compute `op`, each of an arity that `form` has.
fn parts(op: &Op, form: StepForm) -> Vec<Op> {
    let mut rest = op.sources.clone();
    if let Some(own) = rest.iter().position(|source| *source == op.to) {
        rest[..=own].rotate_right(1);
    }
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let start = if parts.is_empty() { SmallVec::new() } else { smallvec![op.to] };
        let mut part = Op { sources: start, ..op.clone() };
        rest.retain(|source| {
            let mut grown = part.clone();
            grown.sources.push(*source);
            let take = fits(&grown, form);
            if take {
                part = grown;
            }
            !take
        });
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use msccl_collective::{Buffer, Rank, Slot};

    use super::*;
    use crate::chunk::{HintsId, StatementId};

    fn at(rank: u32, index: u32) -> At {
        At { rank: Rank(rank), slot: Slot::new(Buffer::Input, index) }
    }

    fn check(target: Target, sources: &[At], count: u32, expected: &[&str]) {
        let op = Op {
            to: at(0, 0),
            sources: sources.into(),
            count,
            hints: HintsId(0),
            statement: StatementId(0),
        };
        let mut lowered = Vec::new();
        let done = for_each_lowered(&op, &target, |op| {
            lowered.push(format!("{:?} = {:?} x{}", op.to, op.sources, op.count));
            Ok::<(), ()>(())
        });
        assert_eq!(done, Ok(()));
        assert_eq!(lowered, expected);
    }

    #[test]
    fn sums_become_pairs_for_msccl() {
        let sources = [at(1, 0), at(0, 0), at(2, 0)];
        let expected = ["r0.i[0] = [r0.i[0], r1.i[0]] x1", "r0.i[0] = [r0.i[0], r2.i[0]] x1"];
        check(Target::msccl(), &sources, 1, &expected);
        check(Target::native(), &sources, 1, &["r0.i[0] = [r1.i[0], r0.i[0], r2.i[0]] x1"]);
    }

    #[test]
    fn two_locals_into_a_third_place_are_copied_first() {
        let expected = ["r0.i[0] = [r0.i[4]] x1", "r0.i[0] = [r0.i[0], r0.i[8]] x1"];
        check(Target::msccl(), &[at(0, 4), at(0, 8)], 1, &expected);
    }

    #[test]
    fn one_message_per_link() {
        let expected = ["r0.i[0] = [r1.i[4], r2.i[4]] x1", "r0.i[0] = [r0.i[0], r1.i[8]] x1"];
        check(Target::native(), &[at(1, 4), at(1, 8), at(2, 4)], 1, &expected);
    }

    #[test]
    fn long_runs_are_cut() {
        let expected = ["r0.i[0] = [r1.i[0]] x50", "r0.i[50] = [r1.i[50]] x50"];
        check(Target::msccl(), &[at(1, 0)], 100, &expected);
    }
}

//! The collective's promise, held against the ops in program order.
//!
//! A **value** is a multiset of contributions; a slot that nothing wrote holds the empty one. An op
//! stores the union of what its sources hold. At the end every promised output slot must hold
//! exactly what [`Collective::promised`](msccl_collective::Collective::promised) says.
//!
//! Values are not built but fingerprinted: each contribution has a number of 128 bits that depends
//! on nothing but itself, and a multiset has the sum of its members' numbers. Equal multisets have equal
//! fingerprints, so this check never refuses a right program; different ones have equal
//! fingerprints with a probability of about 2⁻¹²⁸. The time taken is linear in the chunks that ops
//! touch. Only where a fingerprint is wrong is the value itself worked out, to say what is missing.
//!
//! This speaks for the program, on the author's own lines. It says nothing about what becomes of
//! it: that proof is the verifier's, which trusts none of this.

use std::collections::BTreeMap;

use msccl_collective::{Buffer, Contribution, Placement, Promise, Rank, Slot};
use msccl_syntax::Diagnostic;
use rustc_hash::FxHashMap;

use super::{At, Dag, StatementId};

/// Most wrong statements reported.
const MAX_REPORTS: usize = 20;

/// Most contributions listed in one message.
const MAX_LISTED: usize = 3;

/// Checks that every output slot ends up with what the collective promises. Errors stand at the
/// statement that wrote a wrong slot last, or at the algorithm's head if none did.
pub fn check_promise(dag: &Dag) -> Result<(), Vec<Diagnostic>> {
    let slots = Slots::new(dag);
    let wrong = wrong_slots(dag, &slots);
    if wrong.is_empty() {
        return Ok(());
    }
    let by_statement = last_writers(dag, &slots, &wrong);
    let explain =
        |(statement, of_it): (StatementId, Vec<At>)| explain(dag, &slots, statement, &of_it);
    Err(by_statement.into_iter().take(MAX_REPORTS).map(explain).collect())
}

// --- The slots of all ranks ------------------------------------------------------------------------

/// Numbers for the slots of all ranks; aliases have one number.
struct Slots<'a> {
    dag: &'a Dag,
    /// The first number of each rank's buffers; by `3 * rank + buffer`.
    bases: Vec<usize>,
    len: usize,
}

impl<'a> Slots<'a> {
    fn new(dag: &'a Dag) -> Self {
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

// --- Running the program ---------------------------------------------------------------------------

/// The promised output slots that end up with anything else. Of the instances of a chunk, which
/// fare alike, only the first is looked at.
fn wrong_slots(dag: &Dag, slots: &Slots<'_>) -> Vec<At> {
    let values = run(dag, slots);
    let mut sums = FxHashMap::default();
    let mut wrong = Vec::new();
    for rank in dag.collective.all_ranks() {
        for index in (0..dag.collective.output_chunks(rank)).step_by(dag.instances as usize) {
            let Some(promise) = dag.collective.promised(rank, index) else { continue };
            let wanted = match promise {
                Promise::One(contribution) => fingerprint(contribution),
                Promise::Sum(sum) => sum_of(sum.into_iter()),
                Promise::EveryRank { index } => *sums.entry(index).or_insert_with(|| {
                    sum_of(dag.collective.all_ranks().map(|rank| Contribution { rank, index }))
                }),
            };
            let slot = Slot::new(Buffer::Output, index);
            let held = slots.number(slots.memory(rank, slot)).map(|number| values[number]);
            if held != Some(wanted) {
                wrong.push(At { rank, slot });
            }
        }
    }
    wrong
}

/// The fingerprint that every slot holds at the end.
fn run(dag: &Dag, slots: &Slots<'_>) -> Vec<u128> {
    let mut values = vec![0; slots.len];
    for rank in dag.collective.all_ranks() {
        for index in 0..dag.collective.input_chunks(rank) {
            let memory = slots.memory(rank, Slot::new(Buffer::Input, index));
            let given = dag.collective.given(rank, index);
            if let (Some(given), Some(number)) = (given, slots.number(memory)) {
                values[number] = fingerprint(given);
            }
        }
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

// --- Saying what is wrong --------------------------------------------------------------------------

/// The wrong slots by the statement that wrote them last, in program order; those that none wrote
/// come last, under the head.
fn last_writers(dag: &Dag, slots: &Slots<'_>, wrong: &[At]) -> Vec<(StatementId, Vec<At>)> {
    let number = |at: &At| slots.number(slots.memory(at.rank, at.slot));
    let mut open: FxHashMap<usize, At> =
        wrong.iter().filter_map(|at| Some((number(at)?, *at))).collect();
    let mut found: BTreeMap<StatementId, Vec<At>> = BTreeMap::new();
    for op in dag.ops.iter().rev() {
        for chunk in 0..op.count {
            let written = slots.number(after(op.to, chunk));
            if let Some(at) = written.and_then(|written| open.remove(&written)) {
                found.entry(op.statement).or_default().push(at);
            }
        }
    }
    let mut untouched = found.remove(&StatementId(0)).unwrap_or_default();
    untouched.extend(open.into_values());
    let mut found: Vec<_> = found.into_iter().collect();
    if !untouched.is_empty() {
        found.push((StatementId(0), untouched));
    }
    found.iter_mut().for_each(|(_, slots)| slots.sort_unstable());
    found
}

/// One diagnostic for all the slots that one statement got wrong, by the example of the first.
fn explain(dag: &Dag, slots: &Slots<'_>, statement: StatementId, wrong: &[At]) -> Diagnostic {
    let mut message = String::new();
    let mut others = 0;
    if let [first, rest @ ..] = wrong {
        message = describe(dag, *first, &value_of(dag, slots, *first));
        others = rest.len();
    }
    let origin = &dag.statements[statement.0 as usize];
    let mut diagnostic = Diagnostic::error(origin.span, message);
    if statement != StatementId(0) {
        diagnostic = diagnostic.saying("this wrote it last");
    }
    for caller in origin.called_from.iter().take(3) {
        diagnostic = diagnostic.label(*caller, "called from here");
    }
    if dag.placement == Placement::InPlace {
        diagnostic = diagnostic.hint("in place, input and output are one memory");
    }
    match others {
        0 => diagnostic,
        1 => diagnostic.hint("one more chunk is wrong for the same reason"),
        _ => diagnostic.hint(format!("{others} more chunks that it wrote last are wrong, too")),
    }
}

/// What an output slot holds at the end: contributions, and how often each. Goes back through the
/// program, following only what flows into the slot.
fn value_of(dag: &Dag, slots: &Slots<'_>, at: At) -> BTreeMap<Contribution, u64> {
    let mut wanted: FxHashMap<usize, u64> = FxHashMap::default();
    wanted.extend(slots.number(slots.memory(at.rank, at.slot)).map(|number| (number, 1)));
    for op in dag.ops.iter().rev() {
        for chunk in 0..op.count {
            let written = slots.number(after(op.to, chunk));
            let Some(times) = written.and_then(|written| wanted.remove(&written)) else { continue };
            for &source in &op.sources {
                if let Some(number) = slots.number(after(source, chunk)) {
                    let entry = wanted.entry(number).or_default();
                    *entry = entry.saturating_add(times);
                }
            }
        }
    }
    let mut value = BTreeMap::new();
    for rank in dag.collective.all_ranks() {
        for index in 0..dag.collective.input_chunks(rank) {
            let memory = slots.memory(rank, Slot::new(Buffer::Input, index));
            let times = slots.number(memory).and_then(|number| wanted.get(&number));
            if let (Some(given), Some(&times)) = (dag.collective.given(rank, index), times) {
                value.insert(given, times);
            }
        }
    }
    value
}

fn describe(dag: &Dag, at: At, value: &BTreeMap<Contribution, u64>) -> String {
    let place = format!("output@{}[{}]", at.rank.0, at.slot.index / dag.instances);
    if value.is_empty() {
        return format!("{place} is never given a value");
    }
    let wanted = wanted(dag, at);
    let list = |pick: &dyn Fn(u64, u64) -> bool| -> Vec<Contribution> {
        let all = wanted.keys().chain(value.keys().filter(|key| !wanted.contains_key(key)));
        let times = |of: &BTreeMap<_, u64>, key| of.get(key).copied().unwrap_or(0);
        all.filter(|key| pick(times(&wanted, *key), times(value, *key))).copied().collect()
    };
    let names = |contributions: Vec<Contribution>| name_some(dag, &contributions);
    let missing = names(list(&|wanted, held| held < wanted));
    let extra = names(list(&|wanted, held| wanted > 0 && held > wanted));
    let foreign = names(list(&|wanted, held| wanted == 0 && held > 0));
    let faults = [
        ("lacks", missing, ""),
        ("counts", extra, " more than once"),
        ("holds", foreign, ", which does not belong there"),
    ];
    let faults: Vec<_> = faults
        .iter()
        .filter(|(_, names, _)| !names.is_empty())
        .map(|(verb, names, rest)| format!("{verb} {names}{rest}"))
        .collect();
    format!("{place} {}", faults.join(" and "))
}

/// What an output slot is promised to hold.
fn wanted(dag: &Dag, at: At) -> BTreeMap<Contribution, u64> {
    let sum = match dag.collective.promised(at.rank, at.slot.index) {
        None => Vec::new(),
        Some(Promise::One(contribution)) => vec![contribution],
        Some(Promise::Sum(sum)) => sum,
        Some(Promise::EveryRank { index }) => {
            dag.collective.all_ranks().map(|rank| Contribution { rank, index }).collect()
        }
    };
    let mut wanted = BTreeMap::new();
    for contribution in sum {
        *wanted.entry(contribution).or_default() += 1;
    }
    wanted
}

/// The first few contributions, as the program names them.
fn name_some(dag: &Dag, contributions: &[Contribution]) -> String {
    let name = |one: &Contribution| format!("input@{}[{}]", one.rank.0, one.index / dag.instances);
    let shown: Vec<_> = contributions.iter().take(MAX_LISTED).map(name).collect();
    match contributions.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

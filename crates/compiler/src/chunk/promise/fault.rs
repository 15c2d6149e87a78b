//! What a wrong slot holds, against what it should hold, in the words of the program.

use std::collections::BTreeMap;

use msccl_collective::{Contribution, Promise};
use rustc_hash::FxHashMap;

use super::{At, ChunkDag, Slots, after};

/// Most contributions, or places, listed in one message.
const MAX_LISTED: usize = 3;

/// Contributions, and how often each.
type Value = BTreeMap<Contribution, u64>;

/// How an output slot is wrong.
pub(super) struct SlotFault {
    /// The slot.
    at: At,
    /// Whether it holds nothing at all.
    is_empty: bool,
    missing: Vec<Contribution>,
    extra: Vec<Contribution>,
    foreign: Vec<Contribution>,
    promised: Value,
}

impl SlotFault {
    /// What is wrong with the output slot `at`.
    pub(super) fn of(dag: &ChunkDag, slots: &Slots<'_>, at: At) -> Self {
        let held = held(dag, slots, at);
        let promised = promised(dag, at);
        let pick = |wrong: &dyn Fn(u64, u64) -> bool| -> Vec<Contribution> {
            let all = promised.keys().chain(held.keys().filter(|key| !promised.contains_key(key)));
            let times = |of: &Value, key| of.get(key).copied().unwrap_or(0);
            all.filter(|key| wrong(times(&promised, *key), times(&held, *key))).copied().collect()
        };
        Self {
            at,
            is_empty: held.is_empty(),
            missing: pick(&|promised, held| held < promised),
            extra: pick(&|promised, held| promised > 0 && held > promised),
            foreign: pick(&|promised, held| promised == 0 && held > 0),
            promised,
        }
    }

    /// A contribution that came in too often, how often it may, and whether there are others.
    pub(super) fn doubled(&self) -> Option<(Contribution, u64, bool)> {
        let first = *self.extra.first()?;
        Some((first, self.promised.get(&first).copied().unwrap_or(0), self.extra.len() > 1))
    }

    /// One sentence.
    pub(super) fn describe(&self, dag: &ChunkDag) -> String {
        let SlotFault { at, is_empty, missing, extra, foreign, promised: _ } = self;
        let place = place(dag, at);
        if *is_empty {
            return format!("{place} is never given a value");
        }
        let alien = if foreign.len() == 1 { "does" } else { "do" };
        let faults = [
            ("lacks", missing, String::new()),
            ("counts", extra, " more than once".to_owned()),
            ("holds", foreign, format!(", which {alien} not belong there")),
        ];
        let parts = faults.into_iter().filter(|(_, list, _)| !list.is_empty());
        let parts = parts.map(|(verb, list, rest)| format!("{verb} {}{rest}", inputs(dag, list)));
        format!("{place} {}", parts.collect::<Vec<_>>().join(" and "))
    }
}

/// That `slots` are wrong, too; nothing if there are none.
pub(super) fn companions(dag: &ChunkDag, slots: &[At]) -> Option<String> {
    let listed = some(slots, |at| place(dag, at));
    match slots.len() {
        0 => None,
        1 => Some(format!("1 more chunk is wrong, too: {listed}")),
        more => Some(format!("{more} more chunks are wrong, too: {listed}")),
    }
}

/// What an output slot holds at the end: contributions, and how often each. Goes back through the
/// program, following only what flows into the slot.
fn held(dag: &ChunkDag, slots: &Slots<'_>, at: At) -> Value {
    let mut promised: FxHashMap<usize, u64> = FxHashMap::default();
    promised.extend(slots.number(slots.memory(at.rank, at.slot)).map(|number| (number, 1)));
    for op in dag.ops.iter().rev() {
        for chunk in 0..op.count {
            let written = slots.number(after(op.to, chunk));
            let Some(times) = written.and_then(|written| promised.remove(&written)) else {
                continue;
            };
            for &source in &op.sources {
                if let Some(number) = slots.number(after(source, chunk)) {
                    let entry = promised.entry(number).or_default();
                    *entry = entry.saturating_add(times);
                }
            }
        }
    }
    let given = slots.given();
    given.filter_map(|(number, given)| Some((given, *promised.get(&number)?))).collect()
}

/// What an output slot is promised to hold.
fn promised(dag: &ChunkDag, at: At) -> Value {
    let sum = match dag.collective.promised(at.rank, at.slot.index) {
        None => Vec::new(),
        Some(Promise::One(contribution)) => vec![contribution],
        Some(Promise::Sum(sum)) => sum,
        Some(Promise::EveryRank { index }) => {
            dag.collective.all_ranks().map(|rank| Contribution { rank, index }).collect()
        }
    };
    let mut promised = Value::new();
    for contribution in sum {
        *promised.entry(contribution).or_default() += 1;
    }
    promised
}

/// An output slot, as the program names it.
fn place(dag: &ChunkDag, at: &At) -> String {
    format!("output@{}[{}]", at.rank.0, at.slot.index / dag.instances)
}

/// Contributions, as the program names them.
fn inputs(dag: &ChunkDag, contributions: &[Contribution]) -> String {
    some(contributions, |one| format!("input@{}[{}]", one.rank.0, one.index / dag.instances))
}

/// The first few, and how many others there are.
fn some<T>(all: &[T], name: impl Fn(&T) -> String) -> String {
    let shown = all.iter().take(MAX_LISTED).map(name).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MAX_LISTED) {
        0 => shown,
        1 => format!("{shown} and 1 other"),
        others => format!("{shown} and {others} others"),
    }
}

//! What is best for which size, as data: tables of algorithms, protocols, links, instances and
//! threads.
//!
//! A [`Tuning`] is read from text by [`Tuning::parse`], which specifies the format. The shipped one
//! lies in `crates/select/tuning`; its figures were found by measurement. Machines differ, so rows
//! are preferences: a row that cannot serve a call is passed over. A table prints as text that
//! reads back as the same table.
//!
//! # Guarantees
//!
//! Which rows are for a call depends on nothing but the table and what all ranks of a communicator
//! have in common. Tables of one [`Tuning::fingerprint`] choose alike.
//!
//! Absent: files, the environment, whether an algorithm serves.

mod parse;
mod slower;
mod write;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use msccl_collective::{Placement, Protocol};
use msccl_registry::{Entry, Shape};
use rustc_hash::FxHasher;

pub use parse::TuningError;
pub use slower::Slower;

use super::Available;
use super::call_shape::CallShape;
use super::links::Links;

/// Bytes of a chunk for every instance where nothing was measured.
const INSTANCE_BYTES: u64 = 64 << 10;
/// Most instances where nothing was measured.
const BETWEEN_NODES_MAX: u64 = 16;

/// What kind of machine runs the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machine {
    /// Host threads.
    Host,
    /// GPUs that see one another's memory.
    Gpus,
}

/// A way to run an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Variant {
    /// How messages are laid out.
    pub protocol: Protocol,
    /// How links deliver them; staged where an algorithm has none that could do otherwise.
    pub links: Links,
    /// Copies of the algorithm that run side by side.
    pub instances: u32,
    /// Threads of one thread block.
    pub threads: u32,
}

/// An algorithm and a variant of it: the last five columns of a row, as which it is printed and
/// read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Choice {
    /// A built-in algorithm by its name, or a loaded file by its path or the last part of it.
    pub algorithm: String,
    /// How it runs.
    pub variant: Variant,
}

impl Variant {
    /// How to run what no table names.
    pub(crate) fn fallback(machine: Machine) -> Self {
        let instances = match machine {
            Machine::Host => 1,
            Machine::Gpus => 4,
        };
        Self { protocol: Protocol::Simple, links: Links::default(), instances, threads: 512 }
    }

    /// How to run a built-in algorithm over several nodes, which nobody measured: on GPUs an
    /// instance for every [`INSTANCE_BYTES`] of a chunk, since every instance has messages of its
    /// own, and a thread block alone does not fill the links within a node.
    pub(crate) fn between_nodes(machine: Machine, entry: &Entry, request: &CallShape) -> Self {
        let most = match machine {
            Machine::Host => 1,
            Machine::Gpus => BETWEEN_NODES_MAX,
        };
        let block_bytes = request.count.saturating_mul(request.data_type.size_bytes() as u64);
        let chunks = u64::from(entry.verified.algorithm().collective.chunks.max(1));
        let instances = (block_bytes / chunks / INSTANCE_BYTES).clamp(1, most);
        Self { instances: instances as u32, ..Self::fallback(machine) }
    }

    /// How to run a loaded algorithm that no table names.
    pub(crate) fn loaded(machine: Machine, entry: &Entry) -> Self {
        let protocol = entry.verified.algorithm().protocol;
        Self { protocol, instances: entry.instances, ..Self::fallback(machine) }
    }
}

/// A table of what is best for which calls. Clones share it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tuning {
    name: Arc<str>,
    machine: Arc<str>,
    rows: Arc<[Row]>,
    slower: Arc<[Slower]>,
}

/// An algorithm and a variant of it, for some calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Where it stands in the text, counted from 1.
    pub line: usize,
    /// The name of the collective.
    pub collective: &'static str,
    /// Which calls it is for; [`Placement::Both`] for collectives with a root.
    pub placement: Placement,
    /// For how many ranks, ends included.
    pub ranks: RangeInclusive<u64>,
    /// Whether it says that nobody measured it on as many ranks.
    pub guessed: bool,
    /// On how many nodes.
    pub nodes: RangeInclusive<u64>,
    /// Sizes of the larger buffer, ends included.
    pub bytes: RangeInclusive<u64>,
    /// What serves, and how.
    pub choice: Choice,
}

impl Tuning {
    /// The table that comes with the library.
    pub fn shipped() -> &'static Tuning {
        static SHIPPED: OnceLock<Tuning> = OnceLock::new();
        let text = include_bytes!("../../tuning/h200.tuning");
        // A test reads it. Without a table, whatever serves a call would run it.
        SHIPPED.get_or_init(|| Tuning::parse("shipped table", text).unwrap_or_default())
    }

    /// The table of estimates that comes with the library: what the cost model takes to be best on
    /// several nodes of eight GPUs.
    pub fn estimated() -> &'static Tuning {
        static ESTIMATED: OnceLock<Tuning> = OnceLock::new();
        let text = include_bytes!("../../tuning/nodes.tuning");
        // A test reads it.
        ESTIMATED.get_or_init(|| Tuning::parse("estimated table", text).unwrap_or_default())
    }

    /// Of the shapes that rows are for, the one whose number of nodes is nearest, by ratio, to that
    /// of `shape`; of two alike the smaller one.
    pub(crate) fn nearest(&self, shape: Shape) -> Option<Shape> {
        let nodes = u64::from(shape.nodes());
        let measured = self.rows.iter().map(|row| (*row.ranks.start(), *row.nodes.start()));
        // The ratio as a fraction: the larger number by the smaller one.
        let ratio = |of: u64| (of.max(nodes), of.min(nodes).max(1));
        let is_nearer = |one: u64, other: u64| {
            let ((up, down), (other_up, other_down)) = (ratio(one), ratio(other));
            up * other_down < other_up * down
        };
        let nearest = measured.reduce(|best, next| {
            let is_nearer = is_nearer(next.1, best.1) || !is_nearer(best.1, next.1) && next < best;
            if is_nearer { next } else { best }
        });
        nearest.map(|(ranks, nodes)| {
            let (ranks, nodes) = (ranks as u32, (nodes as u32).max(1));
            Shape { ranks, per_node: ranks / nodes }
        })
    }

    /// A table of `rows`, best first, for `machine`, which messages call `name`. Lines are counted
    /// as they are printed.
    pub fn of(name: &str, machine: &str, rows: Vec<Row>) -> Self {
        let numbered = (write::FIRST_LINE..).zip(rows).map(|(line, row)| Row { line, ..row });
        // A line break would begin another line.
        let machine = machine.split_whitespace().collect::<Vec<_>>().join(" ");
        let (name, machine, rows) = (name.into(), machine.into(), numbered.collect());
        Self { name, machine, rows, slower: Arc::default() }
    }

    /// The rows, best first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The machine that it is for, in words.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// A number that differs, but for chance, between tables that may choose differently for ranks
    /// that loaded `loaded`. Remarks do not count.
    pub fn fingerprint(&self, loaded: &[Entry]) -> u64 {
        let mut hasher = FxHasher::default();
        for row in self.rows.iter() {
            // Whether it is guessed changes nothing.
            let Row { line: _, collective, placement, ranks, guessed: _, nodes, bytes, choice } =
                row;
            (collective, placement, ranks, nodes, bytes, choice).hash(&mut hasher);
            // A path that names a loaded algorithm on one rank may name none on another.
            loaded.iter().for_each(|entry| row.names(entry.into()).hash(&mut hasher));
        }
        self.slower.hash(&mut hasher);
        hasher.finish()
    }

    /// The rows for calls like `request`, best first.
    pub(crate) fn rows_for(&self, request: &CallShape, shape: Shape) -> impl Iterator<Item = &Row> {
        self.rows_like(request, request.bytes(shape.ranks), shape)
    }

    /// The rows for calls like `request`, of so many bytes, on ranks of `shape`, best first.
    pub(crate) fn rows_like(
        &self,
        request: &CallShape,
        bytes: u64,
        shape: Shape,
    ) -> impl Iterator<Item = &Row> {
        let name = request.kind.name();
        self.rows_of_shape(shape).filter(move |row| {
            let Row { collective, placement, bytes: sizes, .. } = row;
            *collective == name && placement.serves(request.placement) && sizes.contains(&bytes)
        })
    }

    /// The rows for calls of such ranks, best first.
    pub(crate) fn rows_of_shape(&self, shape: Shape) -> impl Iterator<Item = &Row> {
        let (ranks, nodes) = (shape.ranks.into(), shape.nodes().into());
        self.rows.iter().filter(move |row| row.ranks.contains(&ranks) && row.nodes.contains(&nodes))
    }

    /// Whether a row, for whatever calls, names an algorithm.
    pub(crate) fn names(&self, available: Available<'_>) -> bool {
        self.rows.iter().any(|row| row.names(available))
    }

    /// Why what `row` names stands where it does.
    pub(crate) fn basis(&self, row: &Row) -> PreferenceReason {
        let guessed_from = (!row.is_measured()).then(|| Arc::clone(&self.machine));
        PreferenceReason::Row { table: Arc::clone(&self.name), line: row.line, guessed_from }
    }
}

impl Choice {
    /// Whether it names an algorithm: one that is built in by its name, a loaded one by its path as
    /// given or by the last part of it.
    pub(crate) fn names(&self, available: Available<'_>) -> bool {
        Self::is_name_of(&self.algorithm, available)
    }

    /// The same of any text.
    fn is_name_of(algorithm: &str, available: Available<'_>) -> bool {
        let name = available.name();
        let last = || Path::new(name).file_name();
        algorithm == name || available.is_loaded() && last().is_some_and(|name| *name == *algorithm)
    }
}

impl Row {
    /// The collective and the numbers of ranks and of nodes that it is for.
    pub fn shape(&self) -> (&'static str, RangeInclusive<u64>, RangeInclusive<u64>) {
        (self.collective, self.ranks.clone(), self.nodes.clone())
    }

    /// Whether somebody measured it on as many ranks: nobody has measured any number of them.
    fn is_measured(&self) -> bool {
        !self.guessed && self.ranks != (0..=u64::MAX)
    }

    /// Whether it names an algorithm.
    pub(crate) fn names(&self, available: Available<'_>) -> bool {
        self.choice.names(available)
    }
}

/// Why an algorithm stands where it does in the order of preference.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PreferenceReason {
    /// It was loaded, and the table in use does not restrict it.
    Loaded,
    /// A row of a table names it for such calls.
    Row {
        /// What the table is called.
        table: Arc<str>,
        /// The line of the row, counted from 1.
        line: usize,
        /// The machine that the table is for, if nobody measured what the row says on as many
        /// ranks.
        guessed_from: Option<Arc<str>>,
    },
    /// Nobody measured such calls, and the cost model was asked.
    Guess,
    /// It is there for want of anything better.
    Fallback,
    /// It was loaded, and measured to be slower than something else.
    Slower {
        /// What the table is called that says so.
        table: Arc<str>,
        /// At which size of the larger buffer, in bytes.
        bytes: u64,
        /// What the best took, in ns.
        least_ns: u64,
        /// What it took itself, in ns.
        ns: u64,
    },
}

impl PreferenceReason {
    /// Why it is a guess, if it is one.
    pub fn guess(&self) -> Option<String> {
        match self {
            PreferenceReason::Loaded
            | PreferenceReason::Slower { .. }
            | PreferenceReason::Row { table: _, line: _, guessed_from: None } => None,
            PreferenceReason::Row { table, line: _, guessed_from: Some(machine) } => {
                Some(format!("nobody measured it on as many ranks; {table} is from {machine}"))
            }
            PreferenceReason::Guess => {
                Some("nobody measured such calls over several nodes".to_owned())
            }
            PreferenceReason::Fallback => Some("no table has a row for such calls".to_owned()),
        }
    }
}

impl fmt::Display for PreferenceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PreferenceReason::Loaded => f.write_str("loaded"),
            PreferenceReason::Row { table, line, guessed_from: _ } => {
                write!(f, "{table} line {line}")
            }
            PreferenceReason::Guess => f.write_str("the cost model"),
            PreferenceReason::Fallback => f.write_str("fallback"),
            PreferenceReason::Slower { table, bytes, least_ns, ns } => {
                let us = |ns: &u64| *ns as f64 / 1000.0;
                let (own, least, size) = (us(ns), us(least_ns), write::size(*bytes));
                write!(f, "slower: {own:.1} us, the best {least:.1} us, at {size} ({table})")
            }
        }
    }
}

#[cfg(test)]
mod tests;

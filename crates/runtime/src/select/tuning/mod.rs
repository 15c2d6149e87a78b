//! What is best for which size, as data: tables of algorithms, protocols, instances and threads.
//!
//! A [`Tuning`] is read from text by [`Tuning::parse`], which specifies the format. The shipped one lies in
//! `crates/runtime/tuning`; its figures were found by measurement. Machines differ, so rows are preferences:
//! a row that cannot serve a call is passed over.
//!
//! # Guarantees
//!
//! Which rows are for a call depends on nothing but the table and what all ranks of a communicator
//! have in common. Tables of one [`Tuning::fingerprint`] choose alike.
//!
//! Absent: files, the environment, whether an algorithm serves.

mod parse;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use msccl_collective::{Placement, Protocol};
use msccl_registry::{Entry, Shape};
use rustc_hash::FxHasher;

pub use parse::TuningError;

use super::request::Request;

/// Bytes of a chunk for every instance where nothing was measured.
const INSTANCE_BYTES: u64 = 64 << 10;
/// Most instances where nothing was measured.
const BETWEEN_NODES_MAX: u64 = 16;

/// What kind of machine runs the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Machine {
    /// Host threads.
    Host,
    /// GPUs that see one another's memory.
    Gpus,
}

/// A way to run an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Way {
    pub protocol: Protocol,
    pub instances: u32,
    pub threads: u32,
}

impl Way {
    /// How to run what no table names.
    pub fn fallback(machine: Machine) -> Self {
        let instances = match machine {
            Machine::Host => 1,
            Machine::Gpus => 4,
        };
        Self { protocol: Protocol::Simple, instances, threads: 512 }
    }

    /// How to run a built-in algorithm over several nodes, which nobody measured: on GPUs an instance for
    /// every [`INSTANCE_BYTES`] of a chunk, since every instance has messages of its own, and a thread
    /// block alone does not fill the links within a node.
    pub fn between_nodes(machine: Machine, entry: &Entry, request: &Request) -> Self {
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
    pub fn loaded(machine: Machine, entry: &Entry) -> Self {
        let protocol = entry.verified.algorithm().protocol;
        Self { protocol, instances: 1, ..Self::fallback(machine) }
    }
}

/// A table of what is best for which calls. Clones share it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tuning {
    name: Arc<str>,
    machine: Arc<str>,
    rows: Arc<[Row]>,
}

/// An algorithm and the way to run it, for some calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// Where it stands in the text, counted from 1.
    pub line: usize,
    /// The name of the collective.
    pub collective: &'static str,
    pub placement: Placement,
    pub ranks: RangeInclusive<u64>,
    /// On how many nodes.
    pub nodes: RangeInclusive<u64>,
    /// Sizes of the larger buffer.
    pub bytes: RangeInclusive<u64>,
    pub algorithm: String,
    pub way: Way,
}

impl Tuning {
    /// The table that comes with the library.
    pub fn shipped() -> &'static Tuning {
        static SHIPPED: OnceLock<Tuning> = OnceLock::new();
        let text = include_bytes!("../../../tuning/h200.tuning");
        // A test reads it. Without a table, whatever serves a call would run it.
        SHIPPED.get_or_init(|| Tuning::parse("shipped table", text).unwrap_or_default())
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The machine that it is for, in words.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// A number that differs, but for chance, between tables that may choose differently for ranks that
    /// loaded `loaded`. Remarks do not count.
    pub(crate) fn fingerprint(&self, loaded: &[Entry]) -> u64 {
        let mut hasher = FxHasher::default();
        for row in self.rows.iter() {
            let Row { line: _, collective, placement, ranks, nodes, bytes, algorithm, way } = row;
            (collective, placement, ranks, nodes, bytes, algorithm, way).hash(&mut hasher);
            // A path that names a loaded algorithm on one rank may name none on another.
            loaded.iter().for_each(|entry| row.names(entry).hash(&mut hasher));
        }
        hasher.finish()
    }

    /// The rows for calls like `request`, best first.
    pub(super) fn rows_for(&self, request: &Request, shape: Shape) -> impl Iterator<Item = &Row> {
        let (name, in_place) = (request.wanted.name(), request.in_place);
        let bytes = request.bytes(shape.ranks);
        let shaped = move |row: &Row| {
            row.ranks.contains(&shape.ranks.into()) && row.nodes.contains(&shape.nodes().into())
        };
        self.rows.iter().filter(move |row| {
            let Row { collective, placement, bytes: sizes, .. } = row;
            let placed = match in_place {
                true => placement.serves_in_place(),
                false => placement.serves_out_of_place(),
            };
            *collective == name && placed && shaped(row) && sizes.contains(&bytes)
        })
    }

    /// Whether a row, for whatever calls, names `entry`.
    pub(super) fn names(&self, entry: &Entry) -> bool {
        self.rows.iter().any(|row| row.names(entry))
    }

    /// Why what `row` names stands where it does.
    pub(super) fn basis(&self, row: &Row) -> Basis {
        Basis::Row { table: Arc::clone(&self.name), line: row.line }
    }
}

impl Row {
    /// Whether it names `entry`: a built-in algorithm by its name, a loaded one by its path as given or by
    /// the last part of it.
    pub fn names(&self, entry: &Entry) -> bool {
        let last = || Path::new(&entry.name).file_name();
        self.algorithm == entry.name
            || entry.loaded && last().is_some_and(|name| *name == *self.algorithm)
    }
}

/// Why an algorithm stands where it does in the order of preference.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Basis {
    /// It was loaded, and the table in use does not restrict it.
    Loaded,
    /// A row of a table names it for such calls.
    Row {
        /// What the table is called.
        table: Arc<str>,
        /// The line of the row, counted from 1.
        line: usize,
    },
    /// Nobody measured such calls, and the time is a guess.
    Guess {
        /// What the call would take, in ns.
        ns: u64,
    },
    /// It is there for want of anything better.
    Fallback,
}

impl Basis {
    /// Whether they are the same but for a guessed time.
    pub fn is_like(&self, other: &Basis) -> bool {
        let guesses = |of: &Basis| matches!(of, Basis::Guess { .. });
        self == other || guesses(self) && guesses(other)
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Basis::Loaded => f.write_str("loaded"),
            Basis::Row { table, line } => write!(f, "{table} line {line}"),
            Basis::Guess { ns } => write!(f, "a guess: {} us", ns.div_ceil(1_000)),
            Basis::Fallback => f.write_str("fallback"),
        }
    }
}

#[cfg(test)]
mod tests;

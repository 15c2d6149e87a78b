//! The available algorithms: built in or loaded, all proved.
//!
//! A [`Registry`] belongs to one [`Shape`] of communicator. Built-in algorithms are `.msccl`
//! programs compiled into this crate; each is instantiated and proved for the shape when it is
//! first asked for, and kept. Until then it is known by its name. Loaded ones come as the bytes of
//! files (XML, JSON, text form or `.msccl`); each is accepted, or refused with one line and, of a
//! program, the lines at fault. Refusing one never harms the others.
//!
//! ```
//! use msccl_collective::{CallPlacement, CollectiveKind};
//! use msccl_registry::{File, Registry, Shape};
//!
//! let program = "algorithm swap(ranks N = 2) implements allreduce() {
//!     for r in 0..N { output@r = input@0 + input@1 }
//! }";
//! let file = |name: &str, content: &str| File {
//!     name: name.to_owned(),
//!     content: Ok(content.as_bytes().to_vec()),
//! };
//! let shape = Shape { ranks: 2, per_node: 2 };
//! let registry = Registry::new(shape, &[file("swap.msccl", program), file("bad.xml", "<algo>")]);
//! assert_eq!(registry.loaded()[0].name, "swap.msccl");
//! assert_eq!(registry.refused()[0].name, "bad.xml");
//! let names = registry.built_in_names(CollectiveKind::AllReduce, CallPlacement::OutOfPlace);
//! assert!(names.count() > 3);
//! ```
//!
//! # Guarantees
//!
//! Everything handed out is [`Verified`] for the native target. What is accepted or refused, in
//! which order, depends on the shape and the files alone, so that all ranks given the same files
//! agree; [`Registry::fingerprint`] lets them make sure.
//!
//! Absent from this crate: which algorithm serves a call, message sizes, files and environment.

#![deny(unsafe_code)]

mod built_in;
mod fingerprint;
mod load;
mod traffic;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use msccl_collective::Rank;
use msccl_collective::{CallPlacement, CollectiveKind};
use msccl_verify::Verified;

pub use built_in::{Purpose, Unsuited, built_in_programs, built_ins, unsuited};
pub use fingerprint::Fingerprint;
pub use load::{File, Refused, Warning};
pub use msccl_compiler::schedule::SourceLines;

/// What a communicator looks like to an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Ranks.
    pub ranks: u32,
    /// Ranks on one node; divides `ranks`. Ranks are numbered node by node; where they lie
    /// otherwise, or nodes differ in size, this is 1: then every rank counts as a node of its own.
    pub per_node: u32,
}

impl Shape {
    /// Nodes.
    pub fn nodes(self) -> u32 {
        self.ranks / self.per_node.max(1)
    }

    /// Whether two ranks are on one node: ranks are numbered node by node.
    pub fn on_one_node(self, one: Rank, other: Rank) -> bool {
        let node = |rank: Rank| rank.0 / self.per_node.max(1);
        node(one) == node(other)
    }
}

/// An available algorithm.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What messages call it: the built-in's name, or the file's.
    pub name: String,
    /// Whether it was loaded; loaded ones go first.
    pub loaded: bool,
    /// The algorithm and its proof.
    pub verified: Arc<Verified>,
    /// What it is, in a number: equal for equal algorithms.
    pub fingerprint: Fingerprint,
    /// Copies of it that its file requests, each on its part of every chunk. Whoever executes it
    /// makes them, as far as there is room; it is not cut itself.
    pub instances: u32,
    /// The lines of the program behind its steps, if it comes from a program.
    pub source: Option<Arc<SourceLines>>,
}

impl Entry {
    /// `verified` under a name.
    pub fn new(name: impl Into<String>, loaded: bool, verified: Verified) -> Self {
        let fingerprint = Fingerprint::of(verified.algorithm());
        let verified = Arc::new(verified);
        Self { name: name.into(), loaded, verified, fingerprint, instances: 1, source: None }
    }

    /// The same in so many instances; 0 counts as 1.
    pub fn with_instances(self, instances: u32) -> Self {
        Self { instances: instances.max(1), ..self }
    }

    /// The same with the lines of its program.
    pub fn with_source(self, source: Option<Arc<SourceLines>>) -> Self {
        Self { source, ..self }
    }
}

/// How well the name that a user gives matches the name of an algorithm, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NameMatch {
    /// It is the name.
    Name,
    /// It is the last part of the name, behind a slash.
    LastPart,
    /// The name contains it.
    Part,
    /// It does not.
    None,
}

impl NameMatch {
    /// How well `called` matches the algorithm `name`.
    pub fn of(name: &str, called: &str) -> Self {
        match name.strip_suffix(called) {
            Some("") => NameMatch::Name,
            Some(before) if before.ends_with('/') || called.starts_with('/') => NameMatch::LastPart,
            _ if name.contains(called) => NameMatch::Part,
            _ => NameMatch::None,
        }
    }
}

/// A built-in algorithm; nothing if it does not serve. Empty until somebody asks for it.
type BuiltIn = Arc<OnceLock<Option<Entry>>>;

/// What has been asked for so far, by collective, placement and name.
type BuiltIns = HashMap<(CollectiveKind, CallPlacement, &'static str), BuiltIn>;

/// The available algorithms for one shape of communicator.
#[derive(Debug)]
pub struct Registry {
    shape: Shape,
    loaded: Vec<Entry>,
    refused: Vec<Refused>,
    warnings: Vec<Warning>,
    built_in: Mutex<BuiltIns>,
}

impl Registry {
    /// The built-in algorithms for `shape`, and `files` in their order.
    pub fn new(shape: Shape, files: &[File]) -> Self {
        let mut loaded = Vec::new();
        let (mut refused, mut warnings) = (Vec::new(), Vec::new());
        for file in files {
            match load::load(file, shape) {
                Ok((entries, noticed)) => {
                    loaded.extend(entries);
                    warnings.extend(noticed);
                }
                Err(refusal) => refused.push(refusal),
            }
        }
        Self { shape, loaded, refused, warnings, built_in: Mutex::default() }
    }

    /// The shape it belongs to.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What serves of the files that were accepted, in their order; two entries of one name, one
    /// after the other, where the placements need their own.
    pub fn loaded(&self) -> &[Entry] {
        &self.loaded
    }

    /// The files that were refused, in their order.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// What is hardly meant in the files that are used, in their order.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The built-in algorithms for `kind`, best for large messages first; at least one. All of
    /// them are compiled and proved, unless they are already.
    pub fn built_in(&self, kind: CollectiveKind, placement: CallPlacement) -> Vec<Entry> {
        let names = self.built_in_names(kind, placement);
        names.filter_map(|name| self.built_in_named(kind, placement, name)).collect()
    }

    /// The names of the built-in algorithms that may serve `kind`, best for large messages first.
    /// Nothing is compiled for them: one that turns out not to serve is found by
    /// [`Registry::built_in_named`].
    pub fn built_in_names(
        &self,
        kind: CollectiveKind,
        placement: CallPlacement,
    ) -> impl Iterator<Item = &'static str> + use<> {
        built_in::names(self.shape, kind, placement.into(), Purpose::Any)
    }

    /// The names of the built-in algorithms that serve `kind` only where the order of additions
    /// must be theirs: others are faster.
    pub fn ordered_built_in_names(
        &self,
        kind: CollectiveKind,
        placement: CallPlacement,
    ) -> impl Iterator<Item = &'static str> + use<> {
        built_in::names(self.shape, kind, placement.into(), Purpose::Order)
    }

    /// The built-in algorithm `name` for `kind`, compiled and proved when it is first asked for;
    /// nothing if it does not serve. Threads that ask for one algorithm wait for one proof; others
    /// do not wait.
    pub fn built_in_named(
        &self,
        kind: CollectiveKind,
        placement: CallPlacement,
        name: &str,
    ) -> Option<Entry> {
        let usual = self.built_in_names(kind, placement);
        let mut names = usual.chain(self.ordered_built_in_names(kind, placement));
        let name = names.find(|known| *known == name)?;
        let mut known = self.built_in.lock().unwrap_or_else(PoisonError::into_inner);
        let built_in = Arc::clone(known.entry((kind, placement, name)).or_default());
        drop(known);
        built_in
            .get_or_init(|| built_in::built_in(self.shape, kind, placement.into(), name))
            .clone()
    }

    /// How many built-in algorithms were compiled so far.
    pub fn compiled_built_ins(&self) -> usize {
        let known = self.built_in.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter(|built_in| built_in.get().is_some()).count()
    }

    /// The built-in algorithms for `purpose` that are not for this shape because they grow too
    /// fast, and why.
    pub fn unsuited(&self, kind: CollectiveKind, purpose: Purpose) -> Vec<Unsuited> {
        unsuited(self.shape, kind, purpose)
    }

    /// What was loaded, in a number: ranks whose numbers differ were given different files.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_all(self.loaded.iter().map(|entry| entry.fingerprint))
    }
}

//! What a named algorithm gives, by the oracle.

use std::collections::HashMap;

use msccl_collective::{CallPlacement, CollectiveKind};
use msccl_registry::{Entry, File, NameMatch, Registry, Shape};
use msccl_runtime::oracle::{Executor, OracleCall, Workers};

use crate::Trouble;

/// The algorithms that a communicator has, each ready to be executed on host threads.
pub struct Oracle {
    registry: Registry,
    executors: HashMap<(String, CollectiveKind, bool), Executor>,
}

impl Oracle {
    /// For communicators of `ranks` ranks with `files` loaded.
    pub fn new(ranks: u32, files: &[File]) -> Self {
        let registry = Registry::new(Shape { ranks, per_node: ranks }, files);
        Self { registry, executors: HashMap::new() }
    }

    /// The files that a communicator refuses, and why.
    pub fn refused(&self) -> Vec<String> {
        self.registry.refused().iter().map(ToString::to_string).collect()
    }

    /// The names of all built-in algorithms for `kind`.
    pub fn built_in(&self, kind: CollectiveKind, in_place: bool) -> Vec<String> {
        let entries = self.registry.built_in(kind, CallPlacement::from_in_place(in_place));
        entries.iter().map(|entry| entry.name.clone()).collect()
    }

    /// What the algorithm gives whose name contains `name`; the error says why it serves no such
    /// call.
    pub fn outputs(
        &mut self,
        name: &str,
        kind: CollectiveKind,
        job: &OracleCall,
    ) -> Result<Vec<Vec<u8>>, Trouble> {
        let key = (name.to_owned(), kind, job.in_place);
        if !self.executors.contains_key(&key) {
            let entry = self.entry(name, kind, job.in_place);
            let entry = entry.ok_or_else(|| format!("no algorithm `{name}` for {kind:?}"))?;
            self.executors.insert(key.clone(), Executor::new(&entry.verified)?);
        }
        let job = OracleCall { workers: Workers::Available, ..job.clone() };
        Ok(self.executors[&key].run(&job)?.outputs)
    }

    /// The algorithm that `MSCCL_ALGO` would name as `name`, if it is there and serves the
    /// placement.
    pub fn entry(&self, name: &str, kind: CollectiveKind, in_place: bool) -> Option<Entry> {
        let serves = |entry: &&Entry| {
            let algorithm = entry.verified.algorithm();
            let placed = match in_place {
                true => algorithm.placement.serves_in_place(),
                false => algorithm.placement.serves_out_of_place(),
            };
            kind.is(&algorithm.collective.kind) && placed
        };
        let placement = CallPlacement::from_in_place(in_place);
        let built_in = self.registry.built_in(kind, placement);
        let serving = self.registry.loaded().iter().chain(built_in.iter()).filter(serves);
        let like = serving.filter(|entry| NameMatch::of(&entry.name, name) != NameMatch::None);
        let like = like.min_by_key(|entry| NameMatch::of(&entry.name, name)).cloned();
        // Those that are there for their order alone are not in the list.
        like.or_else(|| self.registry.built_in_named(kind, placement, name))
    }
}

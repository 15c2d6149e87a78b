//! Consecutive `re` that the runtime of the dialect merges, and thereby runs otherwise than they
//! say.
//!
//! What depends on the call is left to validation: whether input and output are one memory, and the
//! number of sources that the file's protocol has room for.

use msccl_collective::{Placement, Rank, StepIndex, TbIndex};
use msccl_ir::merging::{self, Judge};
use msccl_ir::{Algorithm, Merging, StepRef, ThreadBlock};

use super::WriteError;
use crate::xml::Dialect;

/// How the runtime of the dialect merges the steps of an algorithm, if it does.
pub(super) struct Merged<'a> {
    algorithm: &'a Algorithm,
    runtime: &'static str,
    merging: Option<Merging>,
}

impl<'a> Merged<'a> {
    pub(super) fn new(algorithm: &'a Algorithm, dialect: Dialect) -> Self {
        let rules = dialect.target().rules;
        let merging = rules.merging.map(|merging| {
            let most = merging.sources_max.into_iter().fold(0, u32::max);
            Merging { sources_max: [most; 3], ..merging }
        });
        Self { algorithm, runtime: rules.runtime, merging }
    }

    /// The first step of `block` that must not be merged with those before it, as an error.
    /// `signals` says which of its steps signal.
    pub(super) fn check(
        &self,
        rank: Rank,
        tb: TbIndex,
        block: &ThreadBlock,
        signals: &[bool],
    ) -> Result<(), WriteError> {
        let Some(merging) = self.merging else { return Ok(()) };
        let Algorithm { collective, protocol, .. } = self.algorithm;
        let placement = Placement::OutOfPlace;
        let judge = Judge { merging, protocol: *protocol, collective, placement };
        let chains = merging::chains(block, signals, merging).into_iter();
        let first = chains.flat_map(|chain| judge.misfits(rank, block, chain)).next();
        first.map_or(Ok(()), |(step, misfit)| {
            let at = StepRef { rank, tb, step: StepIndex::from(step) };
            Err(WriteError::step(at, misfit.explain(self.runtime, *protocol)))
        })
    }
}

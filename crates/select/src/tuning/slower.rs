//! What was measured and lost: loaded algorithms that were slower at a size than what a row names.
//!
//! A table that was made with a file among the candidates keeps that file from the sizes at which
//! something else is faster. Rows say where it is best; these lines say where it is not, and by how
//! much.

use std::ops::RangeInclusive;
use std::sync::Arc;

use msccl_collective::Placement;
use msccl_registry::Shape;

#[cfg(doc)]
use super::Row;
use super::{Choice, PreferenceReason, Tuning};
use crate::Available;
use crate::call_shape::CallShape;

/// An algorithm that was slower than the best at a size.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Slower {
    /// The name of the collective.
    pub collective: &'static str,
    /// The placement in which it was measured.
    pub placement: Placement,
    /// On how many ranks, ends included.
    pub ranks: RangeInclusive<u64>,
    /// On how many nodes.
    pub nodes: RangeInclusive<u64>,
    /// The size of the larger buffer.
    pub bytes: u64,
    /// What the best took, in ns.
    pub least_ns: u64,
    /// What it took itself, in ns.
    pub ns: u64,
    /// A loaded file, by its path or the last part of it.
    pub algorithm: String,
}

impl Slower {
    /// The collective and the numbers of ranks and of nodes that it is for, as [`Row::shape`].
    pub fn shape(&self) -> (&'static str, RangeInclusive<u64>, RangeInclusive<u64>) {
        (self.collective, self.ranks.clone(), self.nodes.clone())
    }

    /// Whether it is about calls of the collective and the ranks of `request`, whatever their size.
    fn is_about(&self, request: &CallShape, shape: Shape) -> bool {
        self.collective == request.kind.name()
            && self.ranks.contains(&shape.ranks.into())
            && self.nodes.contains(&shape.nodes().into())
    }

    fn names(&self, available: Available<'_>) -> bool {
        Choice::is_name_of(&self.algorithm, available)
    }
}

impl Tuning {
    /// With what was measured and is slower.
    #[must_use]
    pub fn with_slower(self, slower: Vec<Slower>) -> Self {
        Self { slower: slower.into(), ..self }
    }

    /// What was measured and is slower.
    pub fn slower(&self) -> &[Slower] {
        &self.slower
    }

    /// Why `available` should not serve `request`, if it was measured on such ranks and nothing
    /// else is known of it: what was found at the nearest size, in the same placement if there is
    /// one.
    pub(crate) fn why_slower(
        &self,
        available: Available<'_>,
        request: &CallShape,
        shape: Shape,
    ) -> Option<PreferenceReason> {
        let about = |of: &&Slower| of.names(available) && of.is_about(request, shape);
        let bytes = request.bytes(shape.ranks);
        let distance = |of: &Slower| bytes.max(of.bytes) / bytes.min(of.bytes).max(1);
        let elsewhere = |of: &Slower| !of.placement.serves(request.placement);
        let found = self.slower.iter().filter(about);
        let nearest = found.min_by_key(|of| (elsewhere(of), distance(of)))?;
        let Slower { bytes, least_ns, ns, .. } = *nearest;
        Some(PreferenceReason::Slower { table: Arc::clone(&self.name), bytes, least_ns, ns })
    }
}

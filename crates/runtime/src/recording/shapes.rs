//! Shapes of calls that a recording has described.

use std::hash::Hash;

use msccl_collective::{DataType, Rank, Reduction};
use msccl_plan::Direction;
use msccl_registry::Fingerprint;
use rustc_hash::FxHashMap;

use super::RecordedKernel;
use crate::engine::CallRequest;

/// So many shapes are remembered. A program that has more, since its calls have ever new sizes, has
/// some described again.
const SHAPES_MAX: usize = 4096;

/// What calls of one shape have in common.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct ShapeKey {
    pub request: CallRequest,
    pub kernel: RecordedKernel,
    pub data_type: DataType,
    pub reduction: Reduction,
    pub algorithm: Fingerprint,
    pub instances: u32,
}

/// What transfers of one shape have in common: all else follows from it, in their order.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct TransferKey {
    pub peer: Rank,
    pub way: Direction,
    pub bytes: u64,
}

/// The numbers of shapes that are described.
pub(super) struct KnownShapes<K>(FxHashMap<K, u32>);

impl<K> Default for KnownShapes<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Eq + Hash> KnownShapes<K> {
    /// The number of a shape, if it is remembered.
    pub fn get(&self, key: &K) -> Option<u32> {
        self.0.get(key).copied()
    }

    /// Remembers that shape number `id` is described.
    pub fn insert(&mut self, key: K, id: u32) {
        if self.0.len() >= SHAPES_MAX {
            self.0.clear();
        }
        self.0.insert(key, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ever_new_shapes_take_no_more_memory() {
        let mut known = KnownShapes::default();
        for size in 0..3 * SHAPES_MAX as u32 {
            known.insert(size, size + 1);
            assert_eq!(known.get(&size), Some(size + 1));
            assert!(known.0.len() <= SHAPES_MAX);
        }
        assert_eq!(known.get(&0), None);
    }
}

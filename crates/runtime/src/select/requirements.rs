//! What an algorithm is asked for.

use msccl_collective::{DataType, Reduction};

use crate::call::CallShape;

/// What an algorithm is asked for, apart from the collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Requirements {
    pub in_place: bool,
    pub data_type: DataType,
    pub reduction: Option<Reduction>,
    pub count: u64,
    /// Bytes of the larger buffer.
    pub bytes: u64,
}

impl Requirements {
    /// Those of a call on `ranks` ranks.
    pub fn new(shape: &CallShape, ranks: u32) -> Self {
        let CallShape { wanted: _, in_place, data_type, reduction, count } = *shape;
        Self { in_place, data_type, reduction, count, bytes: shape.bytes(ranks) }
    }
}

//! What an algorithm is asked for.

use msccl_collective::{CallPlacement, DataType, Reduction};

use super::call_shape::CallShape;

/// What an algorithm is asked for, apart from the collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Requirements {
    pub placement: CallPlacement,
    pub data_type: DataType,
    pub reduction: Option<Reduction>,
    pub count: u64,
    /// Bytes of the larger buffer.
    pub bytes: u64,
}

impl Requirements {
    /// Those of a call on `ranks` ranks.
    pub fn new(shape: &CallShape, ranks: u32) -> Self {
        let CallShape { kind: _, placement, data_type, reduction, count } = *shape;
        Self { placement, data_type, reduction, count, bytes: shape.bytes(ranks) }
    }
}

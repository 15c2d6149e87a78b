//! The shape of a call: all on which the choice of what serves it depends.

use std::fmt;

use msccl_collective::{CallPlacement, CollectiveKind, DataType, Reduction};

/// What distinguishes shapes of calls: the key of whatever is remembered of calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallShape {
    /// The collective.
    pub kind: CollectiveKind,
    /// Whether input and output share memory.
    pub placement: CallPlacement,
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine; `None` where they do not.
    pub reduction: Option<Reduction>,
    /// Elements of one block.
    pub count: u64,
}

/// All on which it depends how a named algorithm serves a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedAlgorithmShape {
    /// Whether input and output share memory, in the way the collective defines.
    pub placement: CallPlacement,
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine, where they do.
    pub reduction: Reduction,
    /// Elements of one block.
    pub count: u64,
}

impl CallShape {
    /// Bytes of one block. Where they exceed 64 bits, which no admitted call's do, as many as fit.
    pub fn block_bytes(&self) -> u64 {
        block_bytes(self.count, self.data_type).unwrap_or(u64::MAX)
    }

    /// Bytes of the larger buffer, which is what ranges of sizes and tunings speak of.
    pub fn bytes(&self, ranks: u32) -> u64 {
        let block = self.block_bytes();
        match self.kind {
            CollectiveKind::AllReduce
            | CollectiveKind::Broadcast(_)
            | CollectiveKind::Reduce(_) => block,
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll
            | CollectiveKind::Gather(_)
            | CollectiveKind::Scatter(_) => block.saturating_mul(u64::from(ranks)),
        }
    }

    /// The same call in the other placement.
    pub(crate) fn in_other_placement(&self) -> Self {
        Self { placement: self.placement.other(), ..*self }
    }
}

/// Bytes of `count` elements; nothing if they exceed 64 bits.
pub fn block_bytes(count: u64, data_type: DataType) -> Option<u64> {
    count.checked_mul(data_type.size_bytes() as u64)
}

impl fmt::Display for CallShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CallShape { kind, placement, data_type, reduction, count } = self;
        write!(f, "{kind} of {count} {data_type}")?;
        reduction.iter().try_for_each(|reduction| write!(f, " {reduction}"))?;
        kind.root().iter().try_for_each(|root| write!(f, " root {root}"))?;
        write!(f, " {placement}")
    }
}

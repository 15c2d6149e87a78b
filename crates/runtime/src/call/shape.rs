//! The shape of a call: all on which the choice of what serves it depends.

use std::fmt;

use msccl_collective::{DataType, Reduction};
use msccl_registry::CollectiveKind;

/// What tells shapes of calls apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CallShape {
    pub wanted: CollectiveKind,
    pub in_place: bool,
    pub data_type: DataType,
    /// `None` where nothing is combined.
    pub reduction: Option<Reduction>,
    /// Elements of one block.
    pub count: u64,
}

impl CallShape {
    /// Bytes of the larger buffer, which is what ranges of sizes and tunings speak of.
    pub fn bytes(&self, ranks: u32) -> u64 {
        let block = self.count.saturating_mul(self.data_type.size_bytes() as u64);
        match self.wanted {
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
    pub fn in_other_placement(&self) -> Self {
        Self { in_place: !self.in_place, ..*self }
    }
}

impl fmt::Display for CallShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CallShape { wanted, in_place, data_type, reduction, count } = self;
        write!(f, "{} of {count} {data_type}", wanted.name())?;
        reduction.iter().try_for_each(|reduction| write!(f, " {reduction}"))?;
        wanted.root().iter().try_for_each(|root| write!(f, " root {root}"))?;
        f.write_str(if *in_place { " in place" } else { " out of place" })
    }
}

//! How `avg` is computed on the way of a call.

use std::num::NonZeroU32;

use msccl_collective::{DataType, Reduction};
use msccl_plan::Program;

use super::arithmetic::{reciprocal, scaler};

/// What steps do for an average, beside adding.
pub(crate) enum Average {
    /// Those that complete sums divide them by so many contributions.
    Divides(NonZeroU32),
    /// Those that combine raw contributions multiply each by a factor before.
    Scales(Factor),
}

/// A factor of elements, of their type.
pub(crate) struct Factor {
    scale: fn(elements: &mut [u8], scalar: &[u8]),
    scalar: [u8; 8],
}

impl Average {
    /// What steps of `program` do under `reduction` on elements of `data_type`; nothing where that
    /// is no average, or where the program does not say at which steps.
    pub(crate) fn new(
        program: &Program,
        data_type: DataType,
        reduction: Reduction,
    ) -> Option<Self> {
        if reduction != Reduction::Avg || !program.averages(data_type) {
            return None;
        }
        let of = NonZeroU32::new(program.average?.of)?;
        Some(if data_type.is_float() {
            let (scale, scalar) = (scaler(data_type), reciprocal(data_type, of));
            Self::Scales(Factor { scale, scalar })
        } else {
            Self::Divides(of)
        })
    }
}

impl Factor {
    /// Multiplies each of `elements`, and rounds it once.
    pub(crate) fn scale(&self, elements: &mut [u8]) {
        (self.scale)(elements, &self.scalar);
    }
}

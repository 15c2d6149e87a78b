//! Where the buffers of a call lie to each other.

use serde::{Deserialize, Serialize};

/// Whether input and output share memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// They do not.
    OutOfPlace,
    /// They do, as the collective defines.
    InPlace,
}

impl Placement {
    /// Both, in the order of nccl-tests' columns.
    pub const BOTH: [Self; 2] = [Self::OutOfPlace, Self::InPlace];

    /// Which calls a row of a tuning table is for that was measured so.
    pub(crate) fn serves(self) -> msccl_collective::Placement {
        match self {
            Self::OutOfPlace => msccl_collective::Placement::OutOfPlace,
            Self::InPlace => msccl_collective::Placement::InPlace,
        }
    }

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfPlace => "out-of-place",
            Self::InPlace => "in-place",
        }
    }
}

//! Places as a program names them: chunks of a buffer of one rank.

use msccl_collective::Rank;

/// A buffer of the language; scratch buffers are numbered from 2 on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct BufferId(pub u32);

impl BufferId {
    /// `input`.
    pub const INPUT: BufferId = BufferId(0);
    /// `output`.
    pub const OUTPUT: BufferId = BufferId(1);
}

/// Chunks `start .. start + count` of a buffer of one rank, in the program's places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub buffer: BufferId,
    pub rank: Rank,
    pub start: u32,
    pub count: u32,
}

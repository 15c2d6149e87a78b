//! What a rank does at the ends of its links.

use std::ops::Range;

use super::LinkId;
use super::numbers::Side;

/// One end of a link in a part of a launch: the moves of its messages, in order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LinkEndMoves {
    pub link: LinkId,
    pub side: Side,
    /// The launch of the rank.
    pub launch: u32,
    /// The number of the message before the first, if records show it.
    pub base: Option<u32>,
    /// By message, its move: positions in [`RankLinks::moves`].
    pub moves: Range<usize>,
}

/// The move of a message at one end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct EndMove {
    /// The position of its move in the spans of the rank.
    pub span: u32,
    pub wait: Option<u32>,
}

/// Waits of a step with several links on one side, of which some had nothing to wait for and left
/// no record: which link each waited for is not recorded.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OpenWaits {
    pub side: Side,
    /// The positions of the waits in the spans of the rank, in order.
    pub waits: Vec<u32>,
    /// The links of the step.
    pub links: Vec<LinkId>,
    /// The position of the move.
    pub moved: u32,
}

/// What a rank did at the ends of its links.
#[derive(Default)]
pub(super) struct RankLinks {
    pub ends: Vec<LinkEndMoves>,
    /// Those of one end together. There may be millions of ends of one message each, so that an end
    /// has no memory of its own.
    pub moves: Vec<EndMove>,
    pub open: Vec<OpenWaits>,
}

impl RankLinks {
    /// The moves of an end.
    pub fn moves_of(&self, end: &LinkEndMoves) -> &[EndMove] {
        &self.moves[end.moves.clone()]
    }
}

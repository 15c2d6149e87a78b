//! What an executor keeps of the thread blocks and links under way.

use std::collections::{BTreeMap, VecDeque};

use msccl_collective::{Rank, Slot};
use msccl_verify::{Delivery, DirectMessage, LinkAccess, Touch};

use super::executor::Value;
use crate::definition::Message;

/// A message as a step meets it.
#[derive(Clone, Copy)]
pub struct Met {
    pub link: usize,
    pub message: Message,
    pub direct: Option<(Delivery, DirectMessage)>,
}

/// A load or store that is yet to be made.
#[derive(Clone, Copy)]
pub struct Micro {
    pub touch: Touch,
    pub target: Target,
    /// Which step of the thread block, which of its chunks, and which source if it is a load.
    pub step: usize,
    pub chunk: u32,
    pub source: usize,
    pub access: Option<LinkAccess>,
}

#[derive(Clone, Copy)]
pub enum Target {
    Cell(Rank, Slot),
    /// The slot of a message under way.
    Slot {
        link: usize,
    },
}

/// A thread block under way.
#[derive(Default)]
pub struct Block {
    pub round: u32,
    /// The first step of the next unit.
    pub step: usize,
    /// Loads and stores of the unit that has begun, one chunk of one step after the other.
    pub open: VecDeque<Vec<Micro>>,
    pub sums: BTreeMap<(usize, u32), Value>,
    pub has_begun: bool,
    pub ended: u32,
}

/// A link under way, over all rounds.
#[derive(Default)]
pub struct Queue {
    pub posted: u32,
    pub taken: u32,
    /// Ends of receiving steps.
    pub received: u32,
    pub slots: BTreeMap<(u32, u32), Value>,
}

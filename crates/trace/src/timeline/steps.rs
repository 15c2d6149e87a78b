//! What the steps of a thread block do in calls of one shape: links and bytes.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use msccl_plan::exchange;

use super::numbers::{LinkTable, Side};
use super::{BlockPlace, LinkId, LinkName};
use crate::recording::{
    CallCut, CallShapeDescription, KernelDescription, LinkEnd, PlanDescription, StepDescription,
    Transfer, TransferDirection, Work,
};

/// The steps of a thread block in calls of one shape.
#[derive(Debug, Default)]
pub(super) struct BlockSteps {
    pub place: Option<BlockPlace>,
    /// Its links, by the places that records name them by.
    pub links: BTreeMap<u32, (LinkId, Side)>,
    /// By [`StepFacts::index`].
    pub steps: Vec<StepFacts>,
}

/// A step in calls of one shape.
#[derive(Debug)]
pub(super) struct StepFacts {
    pub index: u32,
    pub reduces: bool,
    /// The links from which each message of it takes one.
    pub receives: Vec<LinkId>,
    /// The links on which each message of it puts one.
    pub sends: Vec<LinkId>,
    size: MoveSize,
}

/// How many bytes its moves have.
#[derive(Clone, Copy, Debug)]
enum MoveSize {
    /// Of a step of a plan.
    Slices {
        /// Chunks of the step, and of one message.
        count: u32,
        chunks_per_message: u32,
        /// Bytes of a chunk that the instance handles in all rounds, and in one.
        part_bytes: u64,
        slice_bytes: u64,
    },
    /// Of a part of a transfer.
    Messages { part_bytes: u64, message_bytes: u64 },
}

/// The round and the bytes of a move.
pub(super) struct MoveFacts {
    pub round: u32,
    pub bytes: u64,
}

impl BlockSteps {
    /// The link at a place among those of the thread block, and which end of it that is.
    pub fn link(&self, place: u32) -> Option<(LinkId, Side)> {
        self.links.get(&place).copied()
    }

    /// The position of the step with a number.
    pub fn position(&self, index: u32) -> Option<usize> {
        self.steps.binary_search_by_key(&index, |step| step.index).ok()
    }
}

impl StepFacts {
    /// What the move is that stands behind `before` others of this step in a launch.
    pub fn move_facts(&self, before: u32) -> MoveFacts {
        match self.size {
            MoveSize::Slices { count, chunks_per_message, part_bytes, slice_bytes } => {
                let per_message = chunks_per_message.max(1);
                let messages = count.div_ceil(per_message).max(1);
                let (round, message) = (before / messages, before % messages);
                let chunks = per_message.min(count.saturating_sub(message * per_message));
                let done = u64::from(round).saturating_mul(slice_bytes);
                let slice = slice_bytes.min(part_bytes.saturating_sub(done));
                MoveFacts { round, bytes: slice.saturating_mul(chunks.into()) }
            }
            MoveSize::Messages { part_bytes, message_bytes } => {
                let done = u64::from(before).saturating_mul(message_bytes);
                let bytes = message_bytes.min(part_bytes.saturating_sub(done));
                MoveFacts { round: before, bytes }
            }
        }
    }
}

/// The steps of all thread blocks of a rank, by call shape and track.
pub(super) struct StepTable<'a> {
    rank: u32,
    plans: &'a BTreeMap<u32, PlanDescription>,
    shapes: &'a BTreeMap<u32, CallShapeDescription>,
    links: &'a mut LinkTable,
    known: HashMap<(u32, u32, u32), Rc<BlockSteps>>,
}

impl<'a> StepTable<'a> {
    pub fn new(
        rank: u32,
        plans: &'a BTreeMap<u32, PlanDescription>,
        shapes: &'a BTreeMap<u32, CallShapeDescription>,
        links: &'a mut LinkTable,
    ) -> Self {
        Self { rank, plans, shapes, links, known: HashMap::new() }
    }

    /// The number of a link.
    pub fn link(&mut self, name: LinkName) -> LinkId {
        self.links.number(name)
    }

    /// The steps of the thread block on `track` in calls of `shape`, in the launch whose first step
    /// is `first_step`; nothing where these are not described.
    pub fn of(&mut self, shape: Option<u32>, track: u32, first_step: u32) -> Rc<BlockSteps> {
        let Some(shape) = shape else { return Rc::default() };
        let key = (shape, track, first_step);
        if let Some(known) = self.known.get(&key) {
            return Rc::clone(known);
        }
        let steps = Rc::new(self.look_up(shape, track, first_step).unwrap_or_default());
        self.known.insert(key, Rc::clone(&steps));
        steps
    }

    fn look_up(&mut self, shape: u32, track: u32, first_step: u32) -> Option<BlockSteps> {
        match &self.shapes.get(&shape)?.work {
            Work::Plan { plan, kernel, cut } => {
                self.of_plan(self.plans.get(plan)?, kernel, cut, track)
            }
            Work::Exchange { kernel: _, transfers } => {
                Some(self.of_exchange(transfers, track, first_step))
            }
        }
    }

    fn of_plan(
        &mut self,
        plan: &PlanDescription,
        kernel: &KernelDescription,
        cut: &CallCut,
        track: u32,
    ) -> Option<BlockSteps> {
        let blocks = u32::try_from(plan.thread_blocks.len()).ok().filter(|blocks| *blocks > 0)?;
        let (instance, thread_block) = (track / blocks, track % blocks);
        let block = plan.thread_blocks.get(thread_block as usize)?;
        let wire =
            |end: &LinkEnd| end.number.saturating_mul(cut.instances).saturating_add(instance);
        let mut number = |from: u32, to: u32, wire: u32| {
            let protocol = kernel.protocol.clone();
            self.links.number(LinkName { from, to, protocol, wire })
        };
        let receives = block.receives.iter().map(|end| number(end.peer, self.rank, wire(end)));
        let receives: Vec<LinkId> = receives.collect();
        let sends = block.sends.iter().map(|end| number(self.rank, end.peer, wire(end)));
        let sends: Vec<LinkId> = sends.collect();
        let before = u64::from(instance).saturating_mul(cut.part_bytes);
        let part_bytes = cut.part_bytes.min(cut.chunk_bytes.saturating_sub(before));
        let facts = |step: &StepDescription| {
            let all = |of: &[u32], links: &[LinkId]| {
                of.iter().filter_map(|at| links.get(*at as usize).copied()).collect()
            };
            StepFacts {
                index: step.index,
                reduces: step.shape.reduces(),
                receives: all(&step.receives, &receives),
                sends: all(&step.sends, &sends),
                size: MoveSize::Slices {
                    count: step.count,
                    chunks_per_message: cut.chunks_per_message,
                    part_bytes,
                    slice_bytes: cut.slice_bytes,
                },
            }
        };
        let place = Some(BlockPlace { instance, thread_block });
        let of_side =
            |links: &[LinkId], side| -> Vec<_> { links.iter().map(|link| (*link, side)).collect() };
        let links = [of_side(&receives, Side::Receive), of_side(&sends, Side::Send)].concat();
        let links = (0..).zip(links).collect();
        let mut steps: Vec<_> = block.steps.iter().map(facts).collect();
        steps.sort_by_key(|step| step.index);
        Some(BlockSteps { place, links, steps })
    }

    /// What a thread block does of `transfers` from `first_step` on: its part of those that are on
    /// its track. What later launches do is no harm: it comes behind.
    fn of_exchange(&mut self, transfers: &[Transfer], track: u32, first_step: u32) -> BlockSteps {
        let mut steps = BlockSteps::default();
        for (index, transfer) in (0..).zip(transfers).skip(first_step as usize) {
            let part = track.checked_sub(transfer.track).filter(|part| *part < transfer.parts);
            let Some(part) = part else { continue };
            let end = self.end_of(transfer, part);
            end.map(|end| steps.links.entry(transfer.link).or_insert(end));
            steps.steps.push(part_facts(index, transfer, part, end));
        }
        steps
    }

    /// The link of a part of a transfer, if it has one.
    fn end_of(&mut self, transfer: &Transfer, part: u32) -> Option<(LinkId, Side)> {
        let (from, to, side) = match transfer.direction {
            TransferDirection::Out => (self.rank, transfer.peer, Side::Send),
            TransferDirection::In => (transfer.peer, self.rank, Side::Receive),
            TransferDirection::Local => return None,
        };
        let (protocol, wire) = (transfer.protocol.clone(), transfer.wire.saturating_add(part));
        Some((self.links.number(LinkName { from, to, protocol, wire }), side))
    }
}

/// Part `part` of transfer number `index`, at one end of a link.
fn part_facts(
    index: u32,
    transfer: &Transfer,
    part: u32,
    end: Option<(LinkId, Side)>,
) -> StepFacts {
    let on = |side| end.filter(|end| end.1 == side).map(|(link, _)| link).into_iter().collect();
    let (start, until) = exchange::part(transfer.bytes, transfer.parts, part);
    StepFacts {
        index,
        reduces: false,
        receives: on(Side::Receive),
        sends: on(Side::Send),
        size: MoveSize::Messages {
            part_bytes: until.saturating_sub(start),
            message_bytes: transfer.message_bytes,
        },
    }
}

//! The pieces of a rank in the order in which its nodes are numbered: thread block after thread
//! block, each round after round.

use msccl_collective::{Channel, Rank, StepIndex, TbIndex};
use msccl_ir::{Step, ThreadBlock};
use rustc_hash::FxHashMap;

use crate::cut::Cut;

/// One piece, and the numbers of its nodes: receives, receives of credits, work, sends, sends of
/// credits, in this order.
pub(crate) struct Piece<'a> {
    pub tb: TbIndex,
    pub channel: Channel,
    pub step: &'a Step,
    pub index: StepIndex,
    pub round: u64,
    pub is_first_of_step: bool,
    /// Bytes of each operand.
    pub bytes: u64,
    /// The number of its first node.
    pub first_id: u64,
    /// The messages that it takes. A credit is one that is returned for it.
    pub received: Vec<LinkMessage>,
    /// The messages that it sends. A credit is one that it waits for.
    pub sent: Vec<LinkMessage>,
}

/// A message of a link.
pub(crate) struct LinkMessage {
    /// The rank at the other end.
    pub peer: Rank,
    /// Its number on the link, from 0.
    pub number: u64,
    /// Whether there is a credit.
    pub has_credit: bool,
}

impl Piece<'_> {
    /// The number of the node that works.
    pub(crate) fn work_id(&self) -> u64 {
        self.first_id + self.received.len() as u64 + credits(&self.sent)
    }

    /// How many nodes it has.
    pub(crate) fn nodes(&self) -> u64 {
        let credits = credits(&self.received) + credits(&self.sent);
        (self.received.len() + self.sent.len()) as u64 + credits + 1
    }
}

fn credits(messages: &[LinkMessage]) -> u64 {
    messages.iter().filter(|message| message.has_credit).count() as u64
}

/// Calls `visit` with every piece of the thread blocks of a rank.
///
/// # Errors
///
/// The first of `visit`.
pub(crate) fn each_piece<'a, E>(
    blocks: &'a [ThreadBlock],
    cut: Cut,
    depth: u64,
    mut visit: impl FnMut(Piece<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let mut first_id = 0;
    for (tb, block) in blocks.iter().enumerate() {
        let mut links = Links::new(block, cut, depth);
        for round in 0..cut.rounds {
            for (index, step) in block.steps.iter().enumerate() {
                let all = msccl_machine::pieces(step, cut.chunks_per_message);
                for (piece, chunks) in all.enumerate() {
                    let piece = Piece {
                        tb: TbIndex::from(tb),
                        channel: block.channel,
                        step,
                        index: StepIndex::from(index),
                        round,
                        is_first_of_step: piece == 0,
                        bytes: chunks.len() as u64 * cut.bytes(round),
                        first_id,
                        received: links.take(step),
                        sent: links.send(step),
                    };
                    first_id += piece.nodes();
                    visit(piece)?;
                }
            }
        }
    }
    Ok(())
}

/// How far the links of a thread block are.
struct Links {
    depth: u64,
    sent: FxHashMap<Rank, u64>,
    taken: FxHashMap<Rank, u64>,
    /// By sender: how many messages come in the whole call.
    to_come: FxHashMap<Rank, u64>,
}

impl Links {
    fn new(block: &ThreadBlock, cut: Cut, depth: u64) -> Self {
        let mut to_come = FxHashMap::default();
        for step in &block.steps {
            let pieces = msccl_machine::pieces(step, cut.chunks_per_message).len() as u64;
            step.receives().for_each(|from| *to_come.entry(from).or_default() += pieces);
        }
        to_come.values_mut().for_each(|messages| *messages *= cut.rounds);
        Self { depth, sent: FxHashMap::default(), taken: FxHashMap::default(), to_come }
    }

    fn take(&mut self, step: &Step) -> Vec<LinkMessage> {
        let Self { depth, sent: _, taken, to_come } = self;
        let next = step.receives().map(|peer| {
            let number = post_increment(taken, peer);
            let uses_again = to_come.get(&peer).is_some_and(|all| number + *depth < *all);
            LinkMessage { peer, number, has_credit: uses_again }
        });
        next.collect()
    }

    fn send(&mut self, step: &Step) -> Vec<LinkMessage> {
        let next = step.sends().map(|peer| {
            let number = post_increment(&mut self.sent, peer);
            LinkMessage { peer, number, has_credit: number >= self.depth }
        });
        next.collect()
    }
}

fn post_increment(numbers: &mut FxHashMap<Rank, u64>, of: Rank) -> u64 {
    let number = numbers.entry(of).or_default();
    *number += 1;
    *number - 1
}

//! A run of a proved schedule with values of one's own, and when its messages can be sent.

use std::collections::{HashMap, VecDeque};

use msccl_collective::{Buffer, Rank, Slot};
use msccl_ir::{Algorithm, Place};
use msccl_machine::{LinkId, Machine, Messages, TbId, Wiring, execute, latest_ready, run};

use crate::step_fault::StepFault;

/// Values that move in a run.
pub(super) trait Values {
    /// What a chunk is.
    type Value: Clone;

    /// What a rank has in a slot that no step has written, which is [`canonical`].
    fn at_first(&self, rank: Rank, slot: Slot) -> Self::Value;

    /// What two chunks become when they are added.
    fn add(&self, one: Self::Value, other: Self::Value) -> Self::Value;

    /// What a receiver gets if a chunk is sent over `link`, as the next message there.
    ///
    /// # Errors
    ///
    /// Whatever ends the run.
    fn send(&mut self, link: LinkId, value: &Self::Value) -> Result<Self::Value, StepFault>;
}

/// Each chunk of a step is a message of its own, and links hold as many as there are.
const MESSAGES: Messages = Messages { chunks_per_message: 1, depth: u32::MAX };

/// Both ends of all links.
pub(super) fn wiring(algorithm: &Algorithm) -> Result<Wiring<'_>, StepFault> {
    Wiring::new(algorithm).map_err(|unwired| StepFault::OtherMessages {
        from: unwired.from.0,
        to: unwired.to.0,
        claimed: 0,
        found: 0,
    })
}

/// Runs the algorithm over `values`, which take what is sent.
///
/// # Errors
///
/// The first that `values` report.
pub(super) fn walk<V: Values>(wiring: &Wiring<'_>, values: &mut V) -> Result<(), StepFault> {
    let mut memory: Memory<V::Value> =
        Memory { slots: HashMap::new(), messages: vec![VecDeque::new(); wiring.links().len()] };
    run(wiring, MESSAGES, latest_ready, |piece| {
        let step = &wiring.block(piece.tb).steps[piece.step as usize];
        let mut block = Block { wiring, memory: &mut memory, values, tb: piece.tb };
        execute(step, piece.chunks, &mut block)
    })?;
    Ok(())
}

/// By link, for each message: the step in which it is sent at the earliest, if each message that is
/// received before it, and each step that is waited for, takes one step, and links take any
/// number of messages in a step. Thread blocks do one thing after the other.
pub(super) fn earliest_steps(wiring: &Wiring<'_>) -> Vec<Vec<u32>> {
    let mut sent: Vec<Vec<u32>> = vec![Vec::new(); wiring.links().len()];
    let mut received = vec![0; wiring.links().len()];
    // After which step each step of each thread block is done.
    let mut done: Vec<Vec<u32>> = vec![Vec::new(); wiring.tb_count()];
    let fired = run(wiring, MESSAGES, latest_ready, |piece| {
        let (tb, rank) = (piece.tb, wiring.rank(piece.tb));
        let step = &wiring.block(tb).steps[piece.step as usize];
        let mut after = done[tb.index()].last().copied().unwrap_or(0);
        for wait in &step.waits {
            let of_block = &done[wiring.tb_id(rank, wait.tb).index()];
            after = after.max(of_block.get(wait.step.index()).copied().unwrap_or(0));
        }
        for link in step.receives().filter_map(|from| wiring.link_from(tb, from)) {
            let message = received[link.index()];
            received[link.index()] += 1;
            after = after.max(sent[link.index()].get(message).copied().unwrap_or(0));
        }
        for link in step.sends().filter_map(|to| wiring.link_to(tb, to)) {
            sent[link.index()].push(after + 1);
        }
        let of_block = &mut done[tb.index()];
        of_block.resize(piece.step as usize + 1, after);
        of_block[piece.step as usize] = after;
        Ok::<(), std::convert::Infallible>(())
    });
    match fired {
        Ok(_) => sent,
        Err(never) => match never {},
    }
}

/// The slot that stands for all that are the same memory as `slot` of `rank`.
pub(super) fn canonical(algorithm: &Algorithm, rank: Rank, slot: Slot) -> Slot {
    if algorithm.placement.serves_in_place() {
        algorithm.collective.in_place(rank, slot)
    } else {
        slot
    }
}

struct Memory<V> {
    slots: HashMap<(Rank, Slot), V>,
    /// By link: what has been sent and not received.
    messages: Vec<VecDeque<V>>,
}

/// A thread block at work.
struct Block<'b, 'w, V: Values> {
    wiring: &'b Wiring<'w>,
    memory: &'b mut Memory<V::Value>,
    values: &'b mut V,
    tb: TbId,
}

impl<V: Values> Machine for Block<'_, '_, V> {
    type Sum = V::Value;
    type Value = V::Value;
    type Error = StepFault;

    fn read(&mut self, from: Place) -> Result<V::Value, StepFault> {
        let rank = self.wiring.rank(self.tb);
        let (at_first, known) = match from {
            Place::Local(slot) => {
                let slot = canonical(self.wiring.algorithm(), rank, slot);
                (slot, self.memory.slots.get(&(rank, slot)).cloned())
            }
            Place::Link(peer) => {
                let link = self.wiring.link_from(self.tb, peer);
                let message = link.and_then(|at| self.memory.messages[at.index()].pop_front());
                // The run fires a step only when its messages are there.
                (Slot::new(Buffer::Scratch, 0), message)
            }
        };
        Ok(known.unwrap_or_else(|| self.values.at_first(rank, at_first)))
    }

    fn add(&mut self, sum: V::Value, from: Place) -> Result<V::Value, StepFault> {
        let other = self.read(from)?;
        Ok(self.values.add(sum, other))
    }

    fn round(&mut self, sum: V::Value) -> V::Value {
        sum
    }

    fn write(&mut self, to: Place, value: &V::Value) -> Result<(), StepFault> {
        match to {
            Place::Local(slot) => {
                let rank = self.wiring.rank(self.tb);
                let slot = canonical(self.wiring.algorithm(), rank, slot);
                self.memory.slots.insert((rank, slot), value.clone());
            }
            Place::Link(peer) => {
                if let Some(link) = self.wiring.link_to(self.tb, peer) {
                    let sent = self.values.send(link, value)?;
                    self.memory.messages[link.index()].push_back(sent);
                }
            }
        }
        Ok(())
    }
}

//! The algorithm as the verifier reads it: dense step numbers, and every receive with its send.

use msccl_collective::Rank;
use msccl_ir::{Algorithm, Step, StepRef};
use msccl_machine::{LinkId, TbId, Wiring};

use crate::refusal::{Event, Fault, FaultKind};

/// A step of any thread block of any rank; numbered in the order of ranks, thread blocks, steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct StepId(pub(crate) u32);

impl StepId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The same as a thread block and a position in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At {
    pub(crate) tb: TbId,
    pub(crate) step: u32,
}

/// A validated algorithm in which every receive has a send of the same count.
pub(crate) struct Program<'a> {
    pub(crate) wiring: Wiring<'a>,
    /// The first step of every thread block, and the number of all.
    first_step: Vec<u32>,
    /// Where the senders of every step start in `senders`, and their number.
    first_sender: Vec<u32>,
    /// For every step and every message that it takes, in the order of its sources: who sent it.
    senders: Vec<StepId>,
}

impl<'a> Program<'a> {
    /// Numbers the steps and pairs the messages of every link, first with first, second with
    /// second.
    ///
    /// # Errors
    ///
    /// A structure fault if a send meets a receive of another count; a deadlock if a receive has no
    /// send.
    pub(crate) fn new(algorithm: &'a Algorithm) -> Result<Self, Fault> {
        let wiring = Wiring::new(algorithm)
            .map_err(|unwired| Fault::new(FaultKind::Structure, unwired.to_string()))?;
        let mut first_step = vec![0];
        for tb in 0..wiring.tb_count() as u32 {
            let steps = wiring.block(TbId(tb)).steps.len() as u32;
            first_step.push(first_step[tb as usize] + steps);
        }
        let mut program =
            Self { wiring, first_step, first_sender: Vec::new(), senders: Vec::new() };
        program.pair()?;
        Ok(program)
    }

    pub(crate) fn algorithm(&self) -> &'a Algorithm {
        self.wiring.algorithm()
    }

    pub(crate) fn step_count(&self) -> usize {
        self.first_step.last().copied().unwrap_or(0) as usize
    }

    pub(crate) fn id(&self, at: At) -> StepId {
        StepId(self.first_step[at.tb.index()] + at.step)
    }

    /// For every rank, the first step number of each of its thread blocks.
    pub(crate) fn first_steps(&self) -> Vec<Vec<u32>> {
        let ranks = self.algorithm().collective.all_ranks();
        let of_rank = |rank| {
            let tbs = self.wiring.tbs_of(rank).map(TbId);
            tbs.map(|tb| self.id(At { tb, step: 0 }).0).collect()
        };
        ranks.map(of_rank).collect()
    }

    pub(crate) fn locate(&self, id: StepId) -> At {
        let tb = self.first_step.partition_point(|&first| first <= id.0) - 1;
        At { tb: TbId(tb as u32), step: id.0 - self.first_step[tb] }
    }

    pub(crate) fn step(&self, at: At) -> &'a Step {
        &self.wiring.block(at.tb).steps[at.step as usize]
    }

    pub(crate) fn step_ref(&self, at: At) -> StepRef {
        self.wiring.step_ref(at.tb, at.step)
    }

    pub(crate) fn rank(&self, at: At) -> Rank {
        self.wiring.rank(at.tb)
    }

    /// The steps of other thread blocks whose ends step `at` waits for. Waits for earlier steps of
    /// its own block say nothing that program order does not.
    pub(crate) fn waits(&self, at: At) -> impl Iterator<Item = At> {
        let rank = self.rank(at);
        let waits = self.step(at).waits.iter();
        let waits =
            waits.map(move |wait| At { tb: self.wiring.tb_id(rank, wait.tb), step: wait.step.0 });
        waits.filter(move |wait| wait.tb != at.tb)
    }

    /// The steps that sent the messages which step `id` takes, in the order of its link sources.
    pub(crate) fn senders(&self, id: StepId) -> &[StepId] {
        let first = self.first_sender[id.index()] as usize;
        let next = self.first_sender[id.index() + 1] as usize;
        &self.senders[first..next]
    }

    /// All steps with their ats, in ascending order.
    pub(crate) fn ats(&self) -> impl Iterator<Item = At> + use<'a> {
        let lengths: Vec<_> = (0..self.wiring.tb_count() as u32)
            .map(|tb| (TbId(tb), self.wiring.block(TbId(tb)).steps.len() as u32))
            .collect();
        lengths.into_iter().flat_map(|(tb, steps)| (0..steps).map(move |step| At { tb, step }))
    }

    fn pair(&mut self) -> Result<(), Fault> {
        let sends = self.sends_by_link();
        let mut taken = vec![0u32; self.wiring.links().len()];
        let mut unsent = None;
        for at in self.ats() {
            self.first_sender.push(self.senders.len() as u32);
            for from in self.step(at).receives() {
                let Some(link) = self.wiring.link_from(at.tb, from) else { continue };
                let order = &mut taken[link.index()];
                match sends.of(link).get(*order as usize) {
                    Some(&send) => self.join(send, at)?,
                    None => unsent = unsent.or(Some((at, from, *order))),
                }
                *order += 1;
            }
        }
        self.first_sender.push(self.senders.len() as u32);
        match unsent {
            Some((at, from, sent)) => Err(self.never_sent(at, from, sent)),
            None => Ok(()),
        }
    }

    fn join(&mut self, send: StepId, receive: At) -> Result<(), Fault> {
        let sender = self.locate(send);
        let (sent, taken) = (self.step(sender).count, self.step(receive).count);
        if sent != taken {
            return Err(self.counts_differ(sender, receive));
        }
        self.senders.push(send);
        Ok(())
    }

    /// The sending steps of every link, in order.
    fn sends_by_link(&self) -> Grouped {
        let mut first = vec![0u32; self.wiring.links().len() + 1];
        for at in self.ats() {
            for to in self.step(at).sends() {
                if let Some(link) = self.wiring.link_to(at.tb, to) {
                    first[link.index() + 1] += 1;
                }
            }
        }
        for link in 1..first.len() {
            first[link] += first[link - 1];
        }
        let mut next = first.clone();
        let mut sends = vec![StepId(0); first.last().copied().unwrap_or(0) as usize];
        for at in self.ats() {
            for to in self.step(at).sends() {
                if let Some(link) = self.wiring.link_to(at.tb, to) {
                    sends[next[link.index()] as usize] = self.id(at);
                    next[link.index()] += 1;
                }
            }
        }
        Grouped { first, sends }
    }

    fn counts_differ(&self, sender: At, receiver: At) -> Fault {
        let (send, receive) = (self.step_ref(sender), self.step_ref(receiver));
        let (sent, taken) = (self.step(sender).count, self.step(receiver).count);
        let channel = self.wiring.block(sender.tb).channel;
        let message = format!(
            "{send} sends {sent} chunks to {} on {channel}, but {receive}, which takes that \
             message, expects {taken}",
            receive.rank
        );
        Fault::new(FaultKind::Structure, message).at([receive, send])
    }

    fn never_sent(&self, receiver: At, from: Rank, sent: u32) -> Fault {
        let receive = self.step_ref(receiver);
        let channel = self.wiring.block(receiver.tb).channel;
        let message = format!(
            "{receive} waits for message {} from {from} on {channel}, but {from} sends only {sent}",
            sent + 1
        );
        let waits = Event::new(receive, format!("waits for a message from {from} for ever"));
        Fault::new(FaultKind::Deadlock, message).at([receive]).with_events([waits])
    }
}

/// Steps grouped by link.
struct Grouped {
    first: Vec<u32>,
    sends: Vec<StepId>,
}

impl Grouped {
    fn of(&self, link: LinkId) -> &[StepId] {
        let first = self.first[link.index()] as usize;
        &self.sends[first..self.first[link.index() + 1] as usize]
    }
}

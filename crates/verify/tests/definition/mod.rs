//! Messages and their order by definition, however long that takes: what proofs of links are held
//! against.

#![allow(dead_code, reason = "each test uses its own part")]

use msccl_collective::Rank;
use msccl_ir::{Algorithm, StepRef};
use msccl_machine::Wiring;

/// A message of one round.
#[derive(Clone, Copy)]
pub struct Message {
    /// Its link, as [`Wiring`] numbers them.
    pub link: usize,
    pub send: StepRef,
    pub receive: StepRef,
}

/// Every message, in order on each link: the k-th send meets the k-th acknowledgement.
pub fn messages(algorithm: &Algorithm) -> Vec<Message> {
    let wiring = Wiring::new(algorithm).expect("validated");
    let mut all = Vec::new();
    for (link, ends) in wiring.links().iter().enumerate() {
        let (from, to) = (wiring.rank(ends.sender), wiring.rank(ends.receiver));
        let (sends, takes) = (wiring.block(ends.sender), wiring.block(ends.receiver));
        let sends = (0..).zip(&sends.steps).filter(|(_, it)| it.sends().any(|peer| peer == to));
        let takes =
            (0..).zip(&takes.steps).filter(|(_, it)| it.receives().any(|peer| peer == from));
        for ((send, _), (take, _)) in sends.zip(takes) {
            let send = wiring.step_ref(ends.sender, send);
            all.push(Message { link, send, receive: wiring.step_ref(ends.receiver, take) });
        }
    }
    all
}

/// Happens-before of one round: the order of thread blocks, of waits and of messages, closed.
pub struct Order {
    steps: Vec<StepRef>,
    before: Vec<Vec<bool>>,
}

impl Order {
    pub fn of(algorithm: &Algorithm, messages: &[Message]) -> Self {
        let mut steps = Vec::new();
        for (rank, tb, block) in algorithm.thread_blocks() {
            steps.extend((0..block.steps.len()).map(|at| StepRef { rank, tb, step: at.into() }));
        }
        let before = vec![vec![false; steps.len()]; steps.len()];
        let mut order = Self { steps, before };
        for (index, &at) in order.steps.clone().iter().enumerate() {
            if at.step.0 > 0 {
                order.before[index - 1][index] = true;
            }
            for wait in &algorithm.step(at).waits {
                order.join(StepRef { rank: at.rank, tb: wait.tb, step: wait.step }, at);
            }
        }
        messages.iter().for_each(|message| order.join(message.send, message.receive));
        order.close();
        order
    }

    /// The steps of `rank`.
    pub fn of_rank(&self, rank: Rank) -> impl Iterator<Item = StepRef> {
        self.steps.iter().copied().filter(move |at| at.rank == rank)
    }

    pub fn is_before(&self, x: StepRef, y: StepRef) -> bool {
        self.before[self.position(x)][self.position(y)]
    }

    fn position(&self, at: StepRef) -> usize {
        self.steps.iter().position(|it| *it == at).expect("a step")
    }

    fn join(&mut self, x: StepRef, y: StepRef) {
        let (x, y) = (self.position(x), self.position(y));
        self.before[x][y] = true;
    }

    fn close(&mut self) {
        for middle in 0..self.steps.len() {
            for from in 0..self.steps.len() {
                if self.before[from][middle] {
                    let beyond = self.before[middle].clone();
                    self.before[from].iter_mut().zip(beyond).for_each(|(to, and)| *to |= and);
                }
            }
        }
    }
}

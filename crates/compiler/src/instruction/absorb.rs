//! When an instruction may take a message itself instead of reading where it was stored.
//!
//! An instruction *j* reads region R of its rank, which the instruction *k* of that rank has
//! received. R is then only a *stage* for the message. If the rules below hold, the message of *k*
//! becomes a source of *j*, at the place where R stood, and *k* is removed:
//!
//! ```text
//! before                                  after
//! k: r1 → s[0]   j: o[0] + s[0] → o[0]    j: o[0] + r1 → o[0]
//! k: r1 → s[0]   l: r2 → s[1]
//!   j: o[0] + s[0] + s[1] → o[0], r3      j: o[0] + r1 + r2 → o[0], r3
//! k: r1 → s[0]   j: s[0] → o[0]           j: r1 → o[0]
//! ```
//!
//! So the sender need not know when *j* may run, as it would have to if the program moved the chunk
//! to *j* in one op: a sum in place overwrites what its rank still has to send, and so has to come
//! after those sends on every rank. The link keeps the message until then. The order in which *j*
//! combines its sources stays.
//!
//! # The exact conditions
//!
//! 1. *Same chunks*: *k* takes one message and stores it in R, and does nothing else; *j* reads R
//!    as one source: same first slot, same count, and every slot of R was last written by *k*.
//! 2. *For nobody else*: no slot of R is read again before it is overwritten, by whatever
//!    instruction (*j* included), and the collective promises nothing about what *k* left in R at
//!    the end.
//! 3. *The link is free*: it carries no other message after the wave of *k* and up to that of *j*.
//!    So the message is the link's first when *j* takes it, and no send finds it still there.
//! 4. *It fits*: an empty link holds the whole message ([`fits_empty_link`]). So its sender never
//!    waits for *j*.
//! 5. *Same place*: both ask for the same channel and the same thread block.
//! 6. *The target has the step*: the native target's steps take any number of messages.
//!
//! A send from R is no *j*: it stands before the receives of its wave. What it could have from the
//! link without delay, *k* passes on by the rules of [`super::fuse`].
//!
//! If *j* passes its result on, or takes messages of its own, it goes on doing so: what these rules
//! ask of a link is what an instruction that receives in the wave of *j* asks of it.

use msccl_ir::{LinkShape, StepForm};

use super::dag::{Instruction, InstructionDag, InstructionId, MessageId, Operand, Phase};
use super::fuse::fits_empty_link;
use super::waves::{LinkNumber, Timetable};
use crate::chunk::Hints;

/// A pair of instructions that keeps rule 1, but for what else *k* does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Staged {
    /// *k*, the last writer of every slot of R.
    pub receive: InstructionId,
    /// *j*, of which R is a source.
    pub reader: InstructionId,
    /// The link of the message that *k* takes.
    pub link: LinkNumber,
}

/// Rule 6: whether the target has a step for what would come of a pair.
pub fn has_step(form: StepForm) -> bool {
    match form {
        StepForm::Msccl => false,
        StepForm::Native => true,
    }
}

/// What the rules look at besides the instructions.
pub struct Absorber<'a> {
    /// The links of the target.
    pub shape: LinkShape,
    /// By [`crate::chunk::HintsId`].
    pub hints: &'a [Hints],
    /// By instruction: how often slots that it wrote are read from memory or promised, slot by
    /// slot.
    pub uses: &'a [u32],
    /// When each link carries messages.
    pub timetable: &'a Timetable,
}

impl Absorber<'_> {
    /// Lets the reader of each pair of `staged` take the message itself where the rules allow it.
    pub fn absorb(&self, dag: &mut InstructionDag, staged: &[Staged]) {
        let mut gone = vec![false; dag.instructions.len()];
        for pair in staged {
            if let Some((message, source)) = self.absorbs(dag, pair) {
                let Staged { receive, reader, link: _ } = *pair;
                let j = &mut dag.instructions[reader.0 as usize];
                j.sources[source] = Operand::Message(message);
                j.phase = j.phase.max(Phase::Receive);
                dag.messages[message.0 as usize].receiver = reader;
                gone[receive.0 as usize] = true;
            }
        }
        dag.remove(&gone);
    }

    /// The message of *k*, and the source of *j* in whose place it may stand.
    fn absorbs(&self, dag: &InstructionDag, pair: &Staged) -> Option<(MessageId, usize)> {
        let (k, j) = (dag.instruction(pair.receive), dag.instruction(pair.reader));
        let (message, stage) = stores_only(k)?;
        let source = j.sources.iter().position(|source| *source == stage)?;
        let for_nobody_else = self.uses[pair.receive.0 as usize] == k.count;
        let link_is_free = self.timetable.is_free(pair.link, k.wave, j.wave);
        let fits = fits_empty_link(self.shape, k.count);
        let absorbs = for_nobody_else && link_is_free && fits && self.same_place(k, j);
        absorbs.then_some((message, source))
    }

    /// Rule 5.
    fn same_place(&self, k: &Instruction, j: &Instruction) -> bool {
        let hints = |instruction: &Instruction| &self.hints[instruction.hints.0 as usize];
        let (k, j) = (hints(k), hints(j));
        k.link_key() == j.link_key() && k.receive_tb == j.receive_tb
    }
}

/// The message that `k` takes and where it stores it, if it does nothing else.
fn stores_only(k: &Instruction) -> Option<(MessageId, Operand)> {
    match (k.sources.as_slice(), k.destinations.as_slice()) {
        (&[Operand::Message(message)], &[stage @ Operand::Local(_)]) => Some((message, stage)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

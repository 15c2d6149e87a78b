//! When an instruction may pass its result on directly.
//!
//! An op *j* that sends region R of rank q finds R last written by the instruction *k* of q. If the
//! rules below hold, no send is made: the message of *j* becomes a destination of *k*. Here are the
//! conditions alone; `lower` asks them (`passer`, `drop_dead_writes`).
//!
//! ```text
//! before                              after                                  MSCCL's name
//! k: r1 → i[4]       j: i[4] → r3     k: r1 → i[4], r3                       rcs
//! k: r1 + i[4] → i[4]  j: i[4] → r3   k: r1 + i[4] → i[4], r3                rrcs
//!   … and i[4] is never used again    k: r1 + i[4] → r3                      rrs
//! k: i[4] + s[0] → i[4]  j: i[4] → r3 k: i[4] + s[0] → i[4], r3              native only
//! k: … → i[4]  several j              k: … → i[4], r3, r5                    native only
//! i[4] → r3  and  i[4] → r5           i[4] → r3, r5                          native only
//! ```
//!
//! # The exact conditions of passing on
//!
//! 1. *Same chunks*: *k* writes exactly R: same first slot, same count, and every slot of R was
//!    last written by *k*.
//! 2. *No delay*: *j* is in the wave right after *k*'s. So nothing else that *j* waits for (the
//!    receiver's slots, its link) is later than *k* itself.
//! 3. *It fits*: a step that takes and sends waits for room before it takes. Round a ring, every
//!    link may still hold the step before; so a link must hold the messages of two such steps
//!    ([`fits_busy_link`]), or all might wait for one another.
//! 4. *Same place*: both ask for the same channel and, on q, for the same thread block.
//! 5. *The target has the step*: MSCCL's steps take one message and send one, and among messages
//!    that will be on one channel each peer taken from has one peer sent to (`Partners`); the
//!    native target's steps take and send any number.
//!
//! # The exact condition of dropping the local write
//!
//! Nothing reads a slot of R that *k* wrote, other than what *k* passes on, and the collective
//! promises nothing about what *k* left in R at the end. MSCCL has no step that forwards without
//! either reducing or writing, so there `rcs` keeps its write.

use msccl_ir::{LinkShape, Packing, StepForm};

use super::dag::{Instruction, Operand, Phase};
use crate::chunk::Hints;
use msccl_collective::Region;

/// Whether an empty link holds all messages of one step over `count` chunks, whatever the size of
/// the call.
pub fn fits_empty_link(link: LinkShape, count: u32) -> bool {
    messages_max(link, count) <= u64::from(link.depth)
}

/// Rule 3: whether a link that still holds one such step holds another.
pub fn fits_busy_link(link: LinkShape, count: u32) -> bool {
    2 * messages_max(link, count) <= u64::from(link.depth)
}

/// Most messages that a step over `count` chunks becomes.
fn messages_max(link: LinkShape, count: u32) -> u64 {
    match link.packing {
        Packing::Whole => 1,
        Packing::Fitting => u64::from(count),
    }
}

/// What op *j* wants to send, and when and where.
pub struct Candidate<'a> {
    /// R, on the rank of the instruction that may pass it on.
    pub region: Region,
    /// The wave of *j*.
    pub wave: u32,
    /// The hints of *j*.
    pub hints: &'a Hints,
}

/// Rules 2, 4 and 5, and rule 1 but for the last writers, for instruction *k* with its hints.
pub fn may_pass_on(form: StepForm, k: &Instruction, k_hints: &Hints, j: &Candidate<'_>) -> bool {
    let same_chunks = stores(k, j.region);
    let no_delay = j.wave == k.wave + 1;
    let same_place =
        k_hints.link_key() == j.hints.link_key() && k_hints.receive_tb == j.hints.send_tb;
    let has_step = match form {
        StepForm::Msccl => k.phase == Phase::Receive,
        StepForm::Native => true,
    };
    same_chunks && no_delay && same_place && has_step
}

/// Whether `k` writes exactly `region` to memory.
pub fn stores(k: &Instruction, region: Region) -> bool {
    k.count == region.count && k.destinations.first() == Some(&Operand::Local(region.start))
}

/// Whether the target has a step for `instruction` without its local write.
pub fn may_drop_write(form: StepForm, instruction: &Instruction) -> bool {
    let passes_on = instruction.phase == Phase::Pass;
    match form {
        StepForm::Msccl => passes_on && instruction.sources.len() > 1,
        StepForm::Native => passes_on,
    }
}

//! Who moves it: every op of the chunk DAG becomes instructions of single ranks, and instructions
//! that belong together become one.
//!
//! [`lower`] takes ops in program order. An op whose sources lie on other ranks becomes one send on
//! each of those ranks and one receiving instruction on the destination's; a local op becomes one
//! local instruction. `fuse` then lets an instruction pass its result on directly, and `absorb`
//! lets one take a message that was only stored for it.
//!
//! # Waves
//!
//! Every op gets a *wave*: the first time at which everything it depends on is done and its links
//! are free. Two ops of one wave never touch the same slot in conflict, and a link carries at most
//! one message per wave. Running the ops wave by wave is therefore one correct run, in which a send
//! and its receive meet, or the message is all that the link holds until a later wave takes it; the
//! schedule keeps every thread block in that order, which is why it cannot deadlock
//! (`docs/ARCHITECTURE.md`, "Why schedules do not deadlock").
//!
//! Rules that fuse are asked at two times. While an op is lowered, `lower` asks `fuse` of it. When
//! all ops are lowered, `absorb` looks at pairs of instructions. `docs/ARCHITECTURE.md`, "Add a
//! fusion rule", says how to add one.
//!
//! Absent from this stage: thread blocks, channels other than those requested, waits, step numbers.

mod absorb;
mod arity;
mod dag;
mod dump;
mod fuse;
mod lower;
mod partners;
mod slots;
#[cfg(test)]
mod tests;
mod waves;

pub use dag::{Instruction, InstructionDag, InstructionId, Message, MessageId, Operand, Phase};
pub use fuse::fits_empty_link;
pub use lower::lower;
pub use slots::SlotTable;
#[cfg(test)]
pub(crate) use tests::program;

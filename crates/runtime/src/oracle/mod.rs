//! The oracle: runs the plans of all ranks on host threads, over links in memory.
//!
//! [`Executor::new`] takes a proved algorithm, makes every rank's plan, decodes the words again and
//! joins both ends of every link; [`Executor::run`] then serves any number of calls, of any count
//! and type. What a step does is [`msccl_machine::execute`]; what is here is memory, links and
//! threads.
//!
//! # Counts
//!
//! The count of a [`OracleCall`] is the number of elements of one block: what one rank contributes
//! to one destination, which is the count argument of the NCCL C API.
//!
//! | collective | input elements | output elements |
//! |---|---|---|
//! | all-reduce, reduce¹, broadcast² | count | count |
//! | all-gather, gather¹ | count | ranks · count |
//! | reduce-scatter, scatter² | ranks · count | count |
//! | all-to-all | ranks · count | ranks · count |
//! | custom | input chunks · count | output chunks · count |
//!
//! ¹ output at the root only; ² input at the root only. Any count works: zero, fewer elements than
//! chunks, and counts that the chunks do not divide.
//!
//! # Arithmetic
//!
//! A step combines its sources in order. Integers wrap. `f16`, `bf16` and both fp8 types are summed
//! in `f32` and rounded once, to nearest even, when the step stores or sends; fp8 saturates. `avg`
//! is a sum that is divided once, in the step where it becomes complete, before it is rounded;
//! integers divide toward zero. `min` and `max` ignore a NaN unless all operands are one, and take
//! `-0` to be less than `+0`. A step with one source copies bits.
//!
//! # Threads
//!
//! A fixed pool of workers takes turns with the thread blocks; nobody spins. A standstill is seen
//! at once and reported with who waits for whom ([`Stall`]). For a proved algorithm there is none.

mod bind;
mod call;
mod check;
mod executor;
mod link;
mod memory;
mod pool;
mod rank_memory;
mod run;
mod stall;
#[cfg(test)]
mod tails;

pub use bind::Unlinked;
pub use call::{OracleCall, OracleFailure, Report, Workers};
pub use check::{Checked, CheckedCall, ElementMismatch, Fault, check, compare};
pub use executor::Executor;
pub use stall::{Blocked, Stall, StallKind};

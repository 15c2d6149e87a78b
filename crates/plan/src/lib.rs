//! A verified algorithm as position-independent words: one plan per rank, the ABI with the kernel.
//!
//! [`Plan::of`] takes a [`Verified`](msccl_verify::Verified) algorithm and nothing less, and maps
//! it one to one: a step becomes a step, a wait a wait. The words hold no address. They name what
//! they touch by the ordinal of a [`Symbol`]; binding supplies one address per symbol, so that one
//! plan serves all calls, all message sizes and all data types. `docs/PLAN.md` is the specification
//! of the words.
//!
//! Guarantees: [`decode`]`(`[`encode`]`(p)) == p`; [`decode`] accepts exactly the words that
//! [`encode`] gives, names the first word that is wrong, and never panics.
//!
//! Absent from this crate: addresses, CUDA, message sizes, any choice.

#![deny(unsafe_code)]

pub mod abi;
mod alignment;
pub mod combine;
pub mod cut;
mod decode;
mod encode;
pub mod exchange;
pub mod launch;
pub mod layout;
mod low_latency;
mod lower;
mod plan;
mod program;
pub mod record;
mod shape;
mod table;

pub use alignment::{Alignment, OperandPlacement};
pub use decode::{Corrupt, decode};
pub use encode::{TooLarge, encode};
pub use low_latency::{LowLatency, LowLatencyPlan};
pub use msccl_verify::Delivery;
pub use plan::Plan;
pub use program::{
    Alias, Average, Counts, Direction, Geometry, LinkEnd, LinkLimits, Operand, Program, Step,
    Symbol, ThreadBlock,
};

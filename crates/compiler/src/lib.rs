//! From a program to an algorithm:
//!
//! ```text
//! ast ──evaluate──▶ ChunkDag ──lower──▶ InstructionDag ──schedule──▶ ir::Algorithm
//!                   what moves          who moves it,                where, when,
//!                   where               fused                        after what
//! ```
//!
//! Absent from this crate: bytes, addresses, files, the verifier.

#![deny(unsafe_code)]

pub mod chunk;
pub mod evaluate;
pub mod instruction;
mod pipeline;
pub mod schedule;

pub use pipeline::{Compiled, compile, compile_chunks};

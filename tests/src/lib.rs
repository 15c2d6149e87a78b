//! What tests that cross rooms share.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod example;
pub mod mutant;
pub mod program;
pub mod witness;

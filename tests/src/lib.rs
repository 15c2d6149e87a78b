//! What tests that cross rooms share.

pub mod example;
pub mod mutant;
pub mod program;
pub mod witness;

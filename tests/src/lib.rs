//! What tests that cross rooms share.

pub mod example;
pub mod program;
pub mod witness;

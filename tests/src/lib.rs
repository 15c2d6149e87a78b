//! What tests that cross rooms share.

pub mod program;

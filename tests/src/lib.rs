//! What tests that cross rooms share.

pub mod example;
#[allow(missing_docs, reason = "named as in the sources that they follow")]
pub mod interpreter;
pub mod mutant;
pub mod program;
pub mod source_tree;
pub mod witness;

//! What tests across crates share; what needs no runtime is in `msccl-testkit`.

pub mod example;
#[allow(missing_docs, reason = "named as in the sources that they follow")]
pub mod interpreter;
pub mod modules;
pub mod mutant;
pub mod rust_text;
pub mod source_tree;
pub mod witness;

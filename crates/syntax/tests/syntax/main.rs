//! The syntax crate through its public interface: trees, messages, bounds, layout.

mod bounded;
mod files;
mod formatted;
mod generated;
mod malformed;
mod parsed;
mod rendered;
mod repository;
mod tree;

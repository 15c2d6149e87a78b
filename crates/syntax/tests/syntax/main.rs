//! The syntax crate through its public interface: trees, messages, bounds, layout.

#![deny(unsafe_code)]

mod bounded;
mod files;
mod formatted;
mod generated;
mod malformed;
mod parsed;
mod rendered;
mod repository;
mod tree;

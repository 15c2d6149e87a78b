//! What tests of several crates share.
//!
//! * [`case_files`]: tests as files, with what is expected beside each program;
//! * [`Numbers`]: random numbers that follow from a seed.
//!
//! Crates name this one under `[dev-dependencies]` alone. Helpers that need the runtime are in
//! `msccl-tests`.

pub mod case_files;
mod numbers;

pub use numbers::Numbers;

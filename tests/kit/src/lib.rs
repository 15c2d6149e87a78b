//! What tests of several crates share.
//!
//! * [`case_files`]: tests as files, with what is expected beside each program;
//! * [`Numbers`]: random numbers that follow from a seed;
//! * [`random`]: random programs and algorithms;
//! * [`by_hand`], [`families`], [`collectives`]: algorithms written step by step, and right ones of
//!   any number of ranks;
//! * [`malformed`]: files with one thing wrong;
//! * [`ranks`]: ranks as threads;
//! * [`recordings`]: recordings of runs that never were, with faults;
//! * [`share`](share()): a share of the cases of a slow suite, other ones every day.
//!
//! Crates name this one under `[dev-dependencies]` alone. Helpers that need the runtime are in
//! `msccl-tests`.

pub mod by_hand;
pub mod case_files;
pub mod collectives;
pub mod families;
pub mod malformed;
mod numbers;
pub mod random;
pub mod ranks;
pub mod recordings;
mod share;

pub use numbers::Numbers;
pub use share::share;

//! The machine over symbols in chosen orders, and over time.
//!
//! * [`random_run`] and [`exhaustive`] execute an algorithm, proved or not, under interleavings
//!   that the caller chooses: witnesses for or against what the verifier says.
//! * [`timeline`](timeline()) estimates how long it takes on one host.
//!
//! Absent from this crate: claims of proof, bytes, threads.

#![deny(unsafe_code)]

mod rounds;
pub mod timeline;
mod witness;
mod world;

pub use timeline::timeline;
pub use witness::{Ending, Explored, Setting, exhaustive, random_run};
pub use world::Wrong;

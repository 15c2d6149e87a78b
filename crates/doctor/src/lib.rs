//! What will work on a machine, what will be slow, and why: [`Facts`] become [`Finding`]s.
//!
//! [`facts`] says what is known of a machine and its environment; whoever uses this crate finds it
//! out. [`library`] recognises a file that is an NCCL library, and says in which order a loader
//! looks for one. `variables` knows which variables have no effect. [`examine()`] judges.
//!
//! # Guarantees
//!
//! * Nothing is found out here: the same facts give the same findings, in the same order.
//! * What could not be found out is no finding, or says that it is not known.
//! * Each finding that something fails, or is slow, says what to do.
//!
//! Absent from this crate: files, variables of this process, GPUs, printing.

#![deny(unsafe_code)]

pub mod facts;
pub mod library;

mod examine;
mod finding;
mod host;
mod processes;
mod variables;

pub use examine::examine;
pub use facts::Facts;
pub use finding::{Finding, Severity, Topic};

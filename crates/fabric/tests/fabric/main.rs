//! The fabric as its users see it: ranks as threads, as processes, in network namespaces.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "children report; skips are loud")]

mod endurance;
mod join;
mod links;
mod namespaces;
mod operations;
mod processes;
mod world;

//! The proxy as its users see it: ranks on threads and in processes, over TCP.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "children report; skips are loud")]

mod endings;
mod processes;
mod traffic;
mod world;

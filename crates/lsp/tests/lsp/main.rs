//! The server as an editor meets it: messages in, messages out.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "measurements are said aloud")]

mod client;
mod diagnostics;
mod edits;
mod features;
mod latency;
mod names;
mod proofs;

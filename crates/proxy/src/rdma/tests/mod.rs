//! The loader, the wrapping of a library, and links over queue pairs, all without hardware.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fake;
mod links;
mod loopback;

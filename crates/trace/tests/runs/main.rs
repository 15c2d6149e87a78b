//! Descriptions of plans, and timelines of imagined runs.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod description;
mod joining;
mod plans;

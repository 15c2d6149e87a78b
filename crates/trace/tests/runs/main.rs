//! Descriptions of plans, timelines of imagined runs, and the files made of them.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod description;
mod exchanges;
mod exports;
mod faults;
mod growth;
mod joining;
mod kernels;
mod named;
mod page;
mod plans;
mod predictions;
mod protobuf;

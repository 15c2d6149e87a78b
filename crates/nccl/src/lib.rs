//! The C ABI layer: `libnccl.so.2`, a drop-in for NCCL 2.30.7.
//!
//! # Guarantees
//!
//! * All functions of 2.30.7 are there under both of their names (`nccl…`, and `pnccl…` for
//!   profilers), with its numbers and layouts; functions of later versions are there too and answer
//!   that they are not supported. Beside them stand few of our own (`include/msccl.h`).
//! * What is not supported is an error with a text, never a wrong answer.
//! * A panic ends in `ncclInternalError`, not in the caller.
//! * A handle that was never given out, or was given back, is refused unread; so is one in a fork
//!   of the process that it was given to.
//! * The places of results are set on every path.
//! * On a machine without a GPU, or if the user wants it so, ranks run on the host: the same
//!   functions work on host memory, streams are ignored, and calls return when they are done.
//!
//! # Not guaranteed
//!
//! Device code that was written for NCCL's device interface cannot run on our windows; that
//! interface answers that it is not supported.
//!
//! # Reading order
//!
//! [`exports`] has every exported function, each a few lines long, by subject. Behind it:
//! `arguments` (a call), `create` (communicators), `group` and `task` (when things happen), `comm`
//! (what a handle stands for), `place` and `memory` (where things are), `requests` and `log` (the
//! user), `observation`, `profiler` and `metrics` (who follows calls). `abi` is what C fixes.
//!
//! Absent from this crate: which algorithm serves a call, how it is executed, how ranks meet.

#![deny(unsafe_code)]

mod abi;
mod arguments;
mod comm;
mod create;
mod dump;
pub mod exports;
mod fault;
mod group;
mod guard;
mod last_error;
mod launched;
mod log;
mod memory;
mod metrics;
mod network;
mod observation;
mod one_sided;
mod place;
mod process;
mod profiler;
mod recording_folder;
mod requests;
mod session;
mod signal;
mod task;
mod text_result;
mod trace_switch;

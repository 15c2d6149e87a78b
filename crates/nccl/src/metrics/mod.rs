//! Metrics of communicators as a file for Prometheus (`MSCCL_METRICS`; `docs/TRACING.md`).
//!
//! Every rank of this process counts its calls ([`RankMetrics`]); one thread writes the file every
//! [`writer::PERIOD`], and whoever ends a communicator writes it, too. The file is replaced as a
//! whole, so that readers never see a part of it.
//!
//! The format is version 0.0.4 of Prometheus's text.

mod rank;
mod text;
mod totals;
mod writer;

pub use rank::RankMetrics;
pub use writer::{follow, write_now};

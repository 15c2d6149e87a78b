//! Measures and checks any library with the NCCL interface, several side by side.
//!
//! The figures and their table are those of nccl-tests; what is new is that nothing has to be built
//! for it, that several libraries run in turns within one run, that one-shot latency and the host's
//! time are measured, too, and that everything can be tried without a GPU.
//!
//! Reading order: [`Workload`] and [`Case`] are what is called; [`ExpectedData`] is what must come
//! out; [`run()`] is a whole benchmark, with one process per rank ([`serve`] is such a process);
//! [`Report`] is what it gave, [`Layout`] the table of it, [`ReportJson`] the same for programs,
//! and [`svg`] its picture; [`comparisons`] say where a library stands against another, and
//! [`with_powers`] sizes against powers of two. [`compare_bits`] says whether the bits of a result
//! depend on the call. [`tune`] finds the best candidate for calls and
//! makes tuning tables of it. Where a launcher has started one process per rank, they are a
//! [`ProcessGroup`], and [`run_launched`] is the same benchmark with a worker in each.
//!
//! # Guarantees
//!
//! * Every element of every output is compared, bit for bit where all orders of reduction
//!   fail_together.
//! * A library that fails, dies or hangs is ended in the time requested, and does not disturb the
//!   others.
//!
//! Not guaranteed: that a library which does not keep to the interface leaves its worker alone. It
//! has a process of its own for that.
//!
//! Absent from this crate: printing, files, the environment; how our library works.

#![deny(unsafe_code)]

mod case;
mod comparison;
mod connection;
mod element;
mod error;
mod expected;
mod invariance;
mod json;
mod library_under_test;
mod machine;
mod piece;
mod placement;
mod plot;
mod powers;
mod process_group;
mod protocol;
mod registration;
mod report;
mod requested;
mod run;
#[cfg(test)]
mod sample_report;
mod session;
mod table;
pub mod tune;
mod worker;
mod worker_pool;
mod workload;

pub use case::{Case, Factor, Sizes, Step, Sweep};
pub use comparison::{Comparison, comparisons};
pub use element::{ElementType, Redop};
pub use error::Error;
pub use expected::ExpectedData;
pub use invariance::{
    InvarianceObserver, InvarianceReport, InvarianceRow, LibraryBits, compare_bits,
};
pub use json::ReportJson;
pub use library_under_test::LibraryUnderTest;
pub use machine::{DeviceSelection, Gpu, Machine, Place};
pub use placement::Placement;
pub use plot::svg;
pub use powers::{Pair, PowerComparison, compare_with_powers, with_powers};
pub use process_group::ProcessGroup;
pub use protocol::{Method, Quantiles, Sample, Waiting};
pub use registration::Registration;
pub use report::{
    Average, LibraryReport, Measurement, Outcome, Ratios, Report, Row, Served, Spread,
};
pub use requested::{RequestedAlgorithm, RequestedAlgorithms};
pub use run::{RunObserver, run, run_launched};
pub use session::{Plan, SessionObserver};
pub use table::Layout;
pub use worker::serve;
pub use workload::{Bandwidth, Blocks, Rounding, Workload};

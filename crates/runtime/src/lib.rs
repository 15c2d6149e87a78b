//! Executes plans: on host threads and on GPUs, behind one communicator.
//!
//! * [`Communicator`] joins ranks, chooses an algorithm for every call, binds it and launches it.
//! * [`oracle`] runs a proved algorithm of all ranks in one process, one call after another: the
//!   executor that everything else is compared with.
//! * [`mod@reference`] says what a call must give, the plain way.
//!
//! Absent from this crate: file formats, the front end, printing, the environment.

#![deny(unsafe_code)]

mod call;
mod communicator;
mod cuda;
mod engine;
mod error;
mod event_log;
mod host;
mod nodes;
mod number;
pub mod oracle;
pub mod reference;
mod select;
mod settings;
mod shared_state;
mod specialised;
mod walk;
mod watch;
mod wiring;

pub use call::{Blocks, Call, Combine, Operation, Scalar};
pub use communicator::{Batch, Communicator, NamedAlgorithmCall, submit};
pub use error::{Error, ErrorKind};
pub use event_log::EventLog;
pub use msccl_topology::PathType;
pub use select::{
    Allowed, Alternative, Choice, Family, Links, PreferenceReason, Question, Row, ServiceSummary,
    Tuning, TuningError, Variant, explain, multiprocessors,
};
pub use settings::{
    Event, Extent, GraphOrder, InterNodeFifo, Log, OnFailure, Overrides, PlaceOfRank, Settings,
};
pub use specialised::{
    KernelCache, Made, Origin, Specialisation, SpecialiseMode, SpecialisedKernel,
    compile_specialised, serves_low_latency, specialised_kernel, specialised_kernels,
};
pub use watch::request_report;

//! Executes plans: on host threads and on GPUs, behind one communicator.
//!
//! * [`Communicator`] joins ranks, chooses an algorithm for every call, binds it and launches it.
//! * [`oracle`] runs a proved algorithm of all ranks in one process, one call after another: the
//!   executor that everything else is compared with.
//! * [`mod@reference`] says what a call must give, the plain way.
//!
//! Absent from this crate: file formats, the front end, printing, the environment.

mod call;
mod communicator;
mod cuda;
mod engine;
mod error;
mod event;
mod event_log;
mod host;
mod nodes;
mod nominal;
mod number;
pub mod oracle;
mod rank_list;
mod recent;
pub mod reference;
mod select;
mod settings;
mod shared_state;
mod specialised;
mod walk;
mod watch;
mod wiring;

pub use call::{
    AdmissionError, AdmittedCall, Blocks, BufferRole, Buffers, Call, CallShape, Combine,
    NamedAlgorithmCall, Operation, Refusal, Scalar,
};
pub use communicator::{Batch, Communicator, submit};
pub use error::{Error, ErrorKind};
pub use event::{Event, Log};
pub use event_log::EventLog;
pub use msccl_topology::PathType;
pub use nominal::{
    Question, SpecialisedKernel, compile_specialised, explain, specialised_kernel,
    specialised_kernels,
};
pub use select::{
    Allowed, Alternative, Choice, Family, KernelClass, Links, Overrides, PreferenceReason, Row,
    ServiceSummary, Tuning, TuningError, Variant, multiprocessors,
};
pub use settings::{Extent, GraphOrder, InterNodeFifo, OnFailure, PlaceOfRank, Settings};
pub use specialised::{KernelCache, Made, Origin, Specialisation, SpecialiseMode};
pub use watch::request_report;

//! Executes plans: on host threads and on GPUs, behind one communicator.
//!
//! * [`Communicator`] joins ranks, chooses an algorithm for every call, binds it and launches it.
//! * [`oracle`] runs a proved algorithm of all ranks in one process, one call after another: the
//!   executor that everything else is compared with.
//! * [`mod@reference`] says what a call must give, the plain way.
//!
//! Which algorithm serves a call is a function of the registry, the call and the user's settings;
//! `msccl_select` is that function.
//!
//! Running an algorithm, all ranks of it on threads of this process:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_collective::{CallPlacement, CollectiveKind, DataType, Reduction};
//! use msccl_registry::{Registry, Shape};
//! use msccl_runtime::oracle::{Executor, OracleCall, Workers};
//!
//! let registry = Registry::new(Shape { ranks: 2, per_node: 2 }, &[]);
//! let out_of_place = CallPlacement::OutOfPlace;
//! let entry = registry.built_in(CollectiveKind::AllReduce, out_of_place).swap_remove(0);
//! let report = Executor::new(&entry.verified)?.run(&OracleCall {
//!     data_type: DataType::U8,
//!     reduction: Reduction::Sum,
//!     count: 3,
//!     in_place: false,
//!     inputs: vec![vec![1, 2, 3], vec![10, 20, 30]],
//!     workers: Workers::Available,
//!     timeout: None,
//! })?;
//! assert_eq!(report.outputs, [[11, 22, 33], [11, 22, 33]]);
//! # Ok(())
//! # }
//! ```
//!
//! Absent from this crate: file formats, the front end, printing, the environment.

#![deny(unsafe_code)]

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
mod observer;
pub mod oracle;
mod proxy_records;
mod recent;
mod recording;
mod recordings;
pub mod reference;
mod settings;
mod shared_state;
mod specialised;
mod waiting;
mod walk;
mod watch;

pub use call::{
    AdmissionError, AdmittedCall, Blocks, BufferRole, Buffers, Call, CallTag, Combine,
    NamedAlgorithmCall, Operation, Refusal, Scalar,
};
pub use communicator::{
    Batch, BufferPlaces, Communicator, ExpectedSignals, MemoryUse, Put, SharedPart, Window,
    WindowMemory, submit,
};
pub use error::{Error, ErrorKind};
pub use event::{Event, Log};
pub use event_log::EventLog;
pub use msccl_select::{
    Allowed, Alternative, CallShape, Choice, CtaPolicy, Family, KernelCache, KernelClass, Links,
    Overrides, PreferenceReason, Question, RequiredOrder, Row, ServiceSummary, Slower,
    Specialisation, SpecialiseMode, Tuning, TuningError, UnknownOrder, Variant, explain,
    multiprocessors,
};
pub use msccl_topology::PathType;
pub use nominal::{
    SpecialisedKernel, compile_specialised, specialised_kernel, specialised_kernels,
};
pub use observer::{
    BlockSpan, CallObserver, ObservedCollective, ObservedPlace, ObservedRank, ObservedTransfer,
    ObservedTransfers, TransferWay,
};
pub use recordings::{RecordingSwitch, Recordings};
pub use settings::{Extent, GraphOrder, InterNodeFifo, OnFailure, PlaceOfRank, Settings};
pub use specialised::{Made, Origin};
pub use watch::{
    CallProgress, CallState, CommunicatorState, RankSummary, WaitState, request_report,
};

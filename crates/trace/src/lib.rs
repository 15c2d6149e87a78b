//! What every step of a real run did: recordings, and what they say.
//!
//! Each rank of a communicator writes a *recording* while it runs: 16 bytes for each wait and each
//! step of a thread block ([`record`]), with descriptions of its plans ([`describe()`]) and calls
//! ([`recording`]).
//!
//! ```
//! use msccl_trace::record::{Record, RecordKind};
//! use msccl_trace::recording::{ClockSample, Engine, Header, Moment, Recorder, Recording};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let header = Header {
//!     host: "a".to_owned(),
//!     process: 1,
//!     rank: 0,
//!     ranks: 2,
//!     communicator: "4711".to_owned(),
//!     name: String::new(),
//!     engine: Engine::Host,
//!     start: Moment { unix_ns: 1_800_000_000_000_000_000, monotonic_ns: 10 },
//! };
//! let mut recorder = Recorder::new(Vec::new(), &header, 1 << 20)?;
//! recorder.clock(ClockSample { before_ns: 10, device_ns: 12, after_ns: 14 })?;
//! let begin = Record { time_ns: 20, kind: RecordKind::Begin, step: 0, message: 1 };
//! recorder.records(3, 0, &[begin.pack()])?;
//! let file = recorder.finish()?;
//!
//! let recording = Recording::read(&file)?;
//! assert_eq!(recording.header, header);
//! assert_eq!(recording.tracks[&3].pieces[0].records, [begin]);
//! # Ok(())
//! # }
//! ```
//!
//! Absent from this crate: files, engines, what a plan is for, the time that a model predicts.

#![deny(unsafe_code)]

pub mod clock;
mod describe;
pub mod device;
pub mod export;
pub mod predict;
pub mod record;
pub mod recording;
pub mod report;
pub mod timeline;

pub use describe::{PlanName, StepGrouping, describe};

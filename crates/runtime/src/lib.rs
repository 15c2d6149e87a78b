//! Executes plans on host threads, and knows what their results must be.
//!
//! * [`host`] runs a proved algorithm: one call after another, on threads of this process.
//! * [`mod@reference`] says what a call must give, the plain way.
//!
//! Absent from this crate: file formats, the front end, printing, the environment.

pub mod host;
mod number;
pub mod reference;

//! A library as a run is given it.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::registration::Registration;
use crate::report::LibraryReport;
use crate::requested::RequestedAlgorithms;

/// A library to measure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryUnderTest {
    /// What reports call it.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Variables set for its workers alone.
    pub environment: Vec<(OsString, OsString)>,
    /// How its buffers are registered.
    pub registration: Registration,
    /// Which algorithms were requested of it.
    pub requested: RequestedAlgorithms,
}

impl LibraryUnderTest {
    /// What is known of it before it has joined.
    pub(crate) fn report(&self) -> LibraryReport {
        let Self { name, path, environment: _, registration, requested: _ } = self;
        LibraryReport { registration: *registration, ..LibraryReport::new(name, path) }
    }
}

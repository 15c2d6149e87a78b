//! A library as a run is given it.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::registration::Registration;
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

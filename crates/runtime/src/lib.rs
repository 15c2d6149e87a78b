//! Executes plans on host threads
pub mod host;

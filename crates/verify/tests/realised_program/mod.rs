//! Random programs, and an executor of what is made of them.

pub mod executor;
pub mod generator;

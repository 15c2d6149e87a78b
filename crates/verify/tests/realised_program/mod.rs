//! Random programs, and an executor of what is made of them.

mod accesses;
pub mod averaging;
pub mod executor;
pub mod generator;
mod parts;
mod sequential;

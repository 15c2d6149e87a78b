//! Random programs, and an executor of what is made of them.

pub mod averaging;
pub mod executor;
pub mod generator;
mod parts;
mod sequential;

//! An executor of what is made of random programs.

pub mod averaging;
pub mod executor;
mod micros;
mod parts;

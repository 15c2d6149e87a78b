//! Measures.
mod case;
mod connection;
mod element;
mod error;
mod machine;
mod protocol;
mod truth;
mod worker;
mod workload;
pub use case::*;
pub use element::{ElementType, Redop};
pub use truth::Truth;
pub use workload::{Bandwidth, Blocks, Rounding, Workload};
pub use worker::serve;

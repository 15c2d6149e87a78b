//! Measures.

mod case;
mod element;
mod truth;
mod workload;
pub use case::*;
pub use element::{ElementType, Redop};
pub use truth::Truth;
pub use workload::{Bandwidth, Blocks, Rounding, Workload};

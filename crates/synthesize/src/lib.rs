//! From a machine to a program.

#![deny(unsafe_code)]

mod certificate;
mod comments;
mod error;
mod forest;
mod mixed;
mod network;
mod pack;
mod plan;
mod program;
mod share;
mod time_limit;

pub use certificate::{Certificate, CertificateError};
pub use comments::annotated;
pub use error::SynthesisError;
pub use forest::{Forest, Tree, TreeEdge};
pub use network::routed_cluster;
pub use plan::{Ending, Options, Phase, Plan, plan};
pub use program::program;

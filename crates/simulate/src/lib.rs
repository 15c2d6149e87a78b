//! The machine over symbols in chosen orders, and over time.
//!
//! * [`random_run`] and [`exhaustive`] execute an algorithm, proved or not, under interleavings
//!   that the caller chooses: witnesses for or against what the verifier says.
//! * [`replay`](replay()) shows one run event by event.
//! * [`timeline`](timeline()) estimates how long it takes on one host.
//! * [`link_loads`] counts what crosses each link of a cluster.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_simulate::{Ending, Setting, exhaustive, random_run};
//!
//! let text = r#"
//!     algorithm "copy"
//!     collective broadcast ranks 2 chunks 1 root r0
//!     placement in place
//!     protocol Simple
//!     bytes 0..
//!     r0 scratch 0
//!       tb0 ch0 send r1
//!         s0: i[0] -> r1
//!     r1 scratch 0
//!       tb0 ch0 receive r0
//!         s0: r0 -> o[0]
//! "#;
//! let algorithm = msccl_ir::text::parse(text)?;
//! let setting = Setting { depth: 2, chunks_per_message: 1, in_place: true, rounds: 3 };
//! let seed = 7;
//! assert_eq!(random_run(&algorithm, setting, seed).unwrap(), Ending::Right);
//! assert!(exhaustive(&algorithm, setting, 1000).unwrap().is_right());
//! # Ok(())
//! # }
//! ```
//!
//! Absent from this crate: claims of proof, bytes, threads.

#![deny(unsafe_code)]

mod loads;
pub mod model;
mod replay;
mod rounds;
mod routes;
pub mod timeline;
pub mod warnings;
mod witness;
mod world;

pub use loads::{LinkLoads, LoadError, link_loads};
pub use replay::{Held, NoReplay, Replay, ReplayEnding, ReplayEvent, replay};
pub use routes::{all_routes, route_gb_per_s};
pub use timeline::timeline;
pub use witness::{Ending, Explored, Setting, exhaustive, random_run};
pub use world::Wrong;

//! From a machine to a program that is as fast there as any can be, with a certificate.
//!
//! [`plan()`] finds trees for a collective on a [`Cluster`](msccl_topology::cluster::Cluster),
//! [`program()`] writes them in the language, [`annotated`] puts comments before them. A
//! [`Certificate`] says what the links of the *proved* schedule are busy with, and what no schedule
//! can beat; it is read and checked from scratch. There is no way round compiler and proof: what
//! comes out is text.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_collective::CollectiveKind;
//! use msccl_synthesize::{Layout, Options, plan, program};
//! use msccl_topology::cluster::presets::preset;
//!
//! let cluster = preset("mi300x-8").ok_or("no such preset")?;
//! let plan = plan(&cluster, CollectiveKind::AllGather, &Options::default())?;
//! // No schedule is faster: every GPU sends its block to each of the others itself.
//! assert_eq!(plan.seconds_per_byte(), plan.bound.seconds_per_byte);
//! let text = program(&plan, &Layout::default());
//! assert!(text.contains("copy_along([[0, [1, 2, 3, 4, 5, 6, 7]]], 0..1) on channel 0"));
//! # Ok(())
//! # }
//! ```
//!
//! # How trees are found
//!
//! 1. `network`: messages between two GPUs take one route, that of `msccl_simulate`. Links that no
//!    route takes are left out.
//! 2. [`msccl_bounds`] says what no schedule can beat there, with a cut.
//! 3. `search`: `k` trees for each root, of equal chunks. At the bound, links of the cut carry a
//!    whole number of trees each, so `k` is a multiple of a known number. If that is more than
//!    [`Options::chunks_max`], the least loss with fewer chunks is looked for.
//! 4. `share`: capacity of links becomes capacity between GPUs.
//! 5. `routed`: where no trees are found near to the bound of cuts, for up to 32 GPUs, the optimum
//!    over the routes, by linear programming: a higher bound, or capacities that reach the cut.
//! 6. `pack`: trees that share these capacities.
//! 7. `hierarchy`: of many equal nodes, trees of one node in trees over nodes.
//!
//! Small calls take fewer messages than trees have: [`level_plans`] are exchanges in groups of
//! ranks.
//!
//! An all-to-all has no trees: `alltoall` finds paths by linear programming. Trees that others
//! found are read by [`ForestCollTrees`].
//!
//! When the time is over before anything is found, `greedy` has trees at once.
//!
//! Data is copied from roots to leaves, sums go from leaves to roots on the links turned round. An
//! all-reduce does both.
//!
//! Guarantees: a plan never claims less time than its trees take on their links; a certificate that
//! passes its check is true, whoever wrote it.
//!
//! Absent: latency (trees are kept low, and that is all), the compiler, files.

#![deny(unsafe_code)]

mod alltoall;
mod certificate;
mod comments;
mod error;
mod forest;
mod forestcoll;
mod greedy;
mod hierarchy;
mod layout;
pub mod least_steps;
mod levels;
mod mixed;
mod network;
mod pack;
mod plan;
mod planner;
mod program;
mod routed;
mod search;
mod share;
mod simplex;
mod step_fault;
mod time_limit;
mod whole;

pub use alltoall::{Exchange, Path};
pub use certificate::{Certificate, CertificateError};
pub use comments::annotated;
pub use error::SynthesisError;
pub use forest::{Forest, NestedTrees, Tree, TreeEdge, Trees};
pub use forestcoll::{ForestCollError, ForestCollTrees};
pub use layout::{BlockSpread, Layout};
pub use levels::{Level, LevelKind, Levels};
pub use network::routed_cluster;
pub use plan::{Ending, Options, Phase, Plan};
pub use planner::{level_plans, plan, plan_of_trees};
pub use program::program;

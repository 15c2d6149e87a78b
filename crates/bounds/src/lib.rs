//! How fast a collective can be at best on a [`Cluster`](msccl_topology::cluster::Cluster), with a
//! witness that anybody can check.
//!
//! [`bound()`] finds a time that no schedule can beat, as an exact fraction of seconds per byte,
//! and a [`Witness`] for it: a cut that all data must pass, a partition of the GPUs, or lengths of
//! links. [`check()`] takes the bound and its witness, adds up the rates again, and shares no code
//! with the search. [`latency()`] and [`check_latency`] do the same for the time of small calls.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_bounds::{SwitchModel, bound, check};
//! use msccl_collective::CollectiveKind;
//! use msccl_topology::bandwidth::Bandwidth;
//! use msccl_topology::cluster::{Cluster, Medium, VertexKind};
//!
//! let mut cluster = Cluster::new("four GPUs behind a switch");
//! let switch = cluster.add("switch", VertexKind::Switch, Some(0));
//! for rank in 0..4 {
//!     let gpu = cluster.add(format!("gpu{rank}"), VertexKind::Gpu, Some(0));
//!     cluster.join(gpu, switch, Bandwidth::from_mb_per_s(100_000), 500, Medium::NvLink);
//! }
//! // Each GPU must receive three of four blocks over its link of 100 GB/s.
//! let found = bound(&cluster, CollectiveKind::AllGather, SwitchModel::Forward)?;
//! assert_eq!(found.seconds_per_byte.to_string(), "3/400000000000");
//! check(&cluster, &found)?;
//!
//! // A bound that claims more than its witness shows is refused.
//! let mut tampered = found;
//! tampered.seconds_per_byte *= 2;
//! assert!(check(&cluster, &tampered).is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # Bytes of a call
//!
//! Times are per byte of a call's largest buffer, as bandwidths of collectives are usually given:
//! all blocks of an all-gather's output, of a reduce-scatter's or a scatter's input, of a gather's
//! output, of either buffer of an all-to-all; the one buffer of the other collectives.
//!
//! # Which bounds are the best possible
//!
//! | collective | witness | is the bound the optimum of bandwidth? |
//! |---|---|---|
//! | all-gather, reduce-scatter | cut | yes where every vertex has as much rate in as out |
//! | broadcast, reduce | cut | likewise |
//! | gather, scatter | cut | yes: flows of one kind of data |
//! | all-reduce | cut, partition | if reduce-scatter, then all-gather reach it |
//! | all-to-all | cut, lengths | not known: the search tries some cuts and lengths |
//!
//! [`optimum()`] answers for a cluster. "Yes" means that a schedule which cuts data finely enough
//! comes as near as one likes; see [`Theorem`] for what each theorem supposes. Latency and
//! bandwidth are bounded apart. A call takes at least the larger of both bounds, not their sum.
//!
//! Where messages take given routes, a bound may be higher: [`check_over_routes`] knows one more
//! witness, [`Witness::Routes`]. The search for it is not here, since it takes trees as well.
//!
//! [`FlowNetwork`] is the maximum flow that the searches use, for other crates too.
//!
//! Guarantees: a bound that is given out is a theorem's, and its witness passes [`check()`]; no
//! rounding anywhere; the cut is the best of all cuts, for every collective but all-to-all.
//!
//! Absent: schedules that reach a bound, the time of a given schedule, collectives with a contract
//! of their own.

#![deny(unsafe_code)]

mod balls;
mod bound;
mod check;
mod cut;
mod flow;
mod graph;
mod latency;
mod lengths;
mod optimum;
mod over_routes;
mod partition;
mod search;
mod shortest_paths;

pub use bound::{Bound, BoundError, Crossing, Routes, SwitchModel, Theorem, VertexSet, Witness};
pub use check::{WitnessError, check, check_latency, witnessed};
pub use flow::FlowNetwork;
pub use latency::{LatencyBound, latency};
pub use optimum::{Optimum, Reason, optimum};
pub use over_routes::{check_over_routes, witnessed_over_routes};
pub use search::bound;

//! Programs of the fewest steps, for small calls.
//!
//! The model: in a *step*, a rank sends at most one chunk to each other rank, over the route of
//! messages, and a link carries at most so many chunks as one says. A chunk is a block, or the
//! whole buffer of a collective without blocks. What a rank sends it has after the step before: a
//! block as it is, or the sum of its own contribution and of sums that came to it. Steps are those
//! of SCCL
//! (Cai, Liu, Maleki, Musuvathi, Mytkowicz, Nelson, Saarikivi, "Synthesizing optimal collective
//! algorithms", 2021) with one round each; sums on all ranks are searched for as such, where SCCL
//! joins a reduce-scatter and an all-gather.
//!
//! 1. `model`: who may send to whom, over which links. Sums to roots are the spread of blocks with
//!    links and time turned round.
//! 2. `search`: from messages that are found at once, one step fewer at a time. `spread` and `sum`
//!    write `cnf` clauses for so many steps, `solver` looks for a solution.
//! 3. `bound`: why fewer steps are too few. A `cut` in time or the growth of what ranks have needs
//!    no search; else the clauses have no solution, and `hints` makes a proof of what the solver
//!    learnt, which `lrat` checks.
//! 4. `program`: the messages as text.
//! 5. `certificate`: what is claimed of the compiled program. `contents` finds out which message is
//!    which, `timing` checks the steps in which they are sent.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_collective::{CollectiveKind, Protocol};
//! use msccl_synthesize::least_steps::{StepOptions, fewest_steps};
//! use msccl_topology::cluster::degrade::without;
//! use msccl_topology::cluster::presets::preset;
//!
//! let cluster = preset("dgx1-v100").ok_or("no such preset")?;
//! let mesh = without(&cluster, "pci*")?;
//! let plan = fewest_steps(&mesh, CollectiveKind::AllGather, &StepOptions::default())?;
//! assert_eq!(plan.steps(), 2);
//! assert!(plan.is_least());
//! assert!(plan.program(Protocol::Ll).contains("// Step 2 of 2."));
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees: a certificate that passes its check is true, whoever wrote it. The check shares with
//! the search what says what a step is (`model`, `spread`, `sum`), and nothing that is clever.
//!
//! Absent: rates of links, blocks of several chunks, all-to-all.

mod annotated;
mod bound;
mod certificate;
mod clauses;
mod cnf;
mod contents;
mod cut;
mod hints;
mod lrat;
mod model;
mod plan;
mod program;
mod search;
mod solver;
mod spread;
mod sum;
mod timing;
mod walk;

pub use bound::{StepBound, StepReason};
pub use certificate::{CertificateLines, StepCertificate};
pub use cnf::Literal;
pub use cut::StepCut;
pub use lrat::Lemma;
pub use plan::{StepOptions, StepPlan, fewest_steps};

pub use crate::step_fault::{ProofFault, StepBoundFault, StepFault};

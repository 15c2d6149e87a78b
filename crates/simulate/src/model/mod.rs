//! The cost model: how long a call takes on a cluster, as the runtime would run it.
//!
//! What runs is the plan of every rank: the steps that the kernels see, bundles among them. How it
//! runs is an [`Execution`]: the kernel, the threads of a block, the cut into instances and rounds.
//! Where it runs is a [`Cluster`](msccl_topology::cluster::Cluster), whose GPUs are the ranks in
//! order. What the GPUs take for each part of a step are [`Rates`].
//!
//! # The model
//!
//! * A thread block works on one message at a time. It begins when the steps that it waits for have
//!   ended, a message has come on every incoming link, and every outgoing link has room. Its step
//!   then takes a fixed time, and the time to move the bytes.
//! * A move goes no faster than its thread block can: [`KernelRates`] say what a byte takes for
//!   every operand. It also goes over links of the cluster and the memory of its GPU, which all
//!   moves under way share max–min fairly: none can be faster without making a slower one slower.
//! * A message under Simple arrives a latency after the move has ended. Packets of LL and LL128
//!   arrive one by one: the receiver follows the sender at that distance.
//! * A slot is free again, for its sender, a credit latency after it was read.
//! * Between nodes a proxy carries messages of a link one after another while the thread block goes
//!   on.
//! * Instances do the same. Where there is one round, they are in step: one is simulated, and
//!   counts for all. Over several rounds they part, so that some send while others receive: up to
//!   three are simulated, which begin a little after one another, each for its part of all.
//! * Of many rounds the first [`ROUNDS_MAX`] are simulated. The others take as long as the later
//!   ones of these.
//!
//! Caches, clocks, contention within a switch, and everything random are left out.

mod calibration;
mod engine;
mod fit;
mod rates;
mod result;
mod sharing;
mod workload;

pub use calibration::{Calibration, CalibrationError, Origin};
pub use engine::{ROUNDS_MAX, estimate, trace};
pub use fit::{Effort, Measured, fit, log_error};
pub use rates::{ByteCost, KernelKind, KernelRates, Rates};
pub use result::{Cause, Estimate, Row, Span, Untimed};
pub use workload::{Execution, Workload, WorkloadError};

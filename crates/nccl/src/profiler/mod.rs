//! Profiler plugins of NCCL, versions 4 to 6 of their interface (`docs/TRACING.md`, section 6).
//!
//! A plugin is loaded once in a process ([`plugin()`]), as NCCL loads it, and follows every
//! communicator that is made from then on ([`RankProfile`]). Events and their parents:
//!
//! ```text
//! GroupApi ─┬─ CollApi ── Coll ── KernelCh      a collective, by its thread blocks
//!           ├─ P2pApi ─── P2p ─── KernelCh      a send or a receive
//!           └─ KernelLaunch
//! Group                                         version 4: parent of Coll and P2p
//! ```
//!
//! An event begins if its kind, or one below it, is in the plugin's mask. A call that moves nothing
//! between ranks has no Coll or P2p. Nothing here waits, and what a plugin returns of an event is
//! ignored, as NCCL ignores it.

mod api;
mod event;
mod layout;
mod load;
mod logger;
mod plugin;
mod rank;
mod texts;

pub use api::{CallArguments, Closing, call, group_end_begins, group_end_stops};
pub use load::plugin;
pub use rank::RankProfile;
pub use texts::function as function_name;

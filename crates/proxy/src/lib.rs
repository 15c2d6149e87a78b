//! Links between hosts: messages leave a rank by an [`Outlet`], cross the network on [`Rail`]s, and reach the
//! peer by an [`Inlet`].
//!
//! To whoever executes a plan a link to another host looks like any other: a ring of slots in memory of
//! its own host. A *proxy*, one thread per rank, is the other end of all these rings. It posts what lies in
//! outlets as writes into the peer's inlets, and lets the peer's proxy know when slots are free again.
//! So a link is still a bounded queue with one writer and one reader, only longer, and what was proved of
//! the algorithm holds.

mod port;
mod rail;
pub mod rdma;

pub use port::{Inlet, Memory, Outlet, Piece};
pub use rail::{Broken, Happened, Posted, Rail, Write};

//! Links between hosts: messages leave a rank by a [`SendEndpoint`], cross the network on
//! [`Rail`]s, and reach the peer by a [`ReceiveEndpoint`].
//!
//! For an executor of plans, a link to another host looks like any other link: a ring buffer in
//! memory of its own host. A *proxy*, one thread per rank, is the other end of all these ring
//! buffers. It posts the messages of send endpoints as writes into the peer's receive endpoints,
//! and reports to the peer's proxy which slots are free again.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use msccl_collective::Rank;
//! # use msccl_fabric::{Abort, Group, RingBufferShape};
//! # use msccl_proxy::{Config, Error, Proxy, ring_buffers};
//! # fn links(group: Arc<Group>, abort: Abort) -> Result<(), Error> {
//! let proxy = Proxy::start(group, Config::default(), abort)?;
//! let links = [RingBufferShape { depth: 8, slot_bytes: 1 << 16 }; 4];
//! let pair = ring_buffers::pair(&links, &proxy.doorbell())?;
//! proxy.connect(Rank(1), pair.endpoints)?;
//! // An executor sends by `pair.senders[link]` and receives by `pair.receivers[link]`, as on one
//! // host.
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! * Messages of a link arrive once, in order and whole, or its peer's links fail as a whole: then
//!   [`Proxy::failure`] names the peer, its host, the rail and the reason. A rail that breaks while
//!   others stand loses nothing.
//! * No wait is unexplained: [`Proxy::waits`] says what is under way and what is missing. If the
//!   thread ends by a defect, all links have failed.
//! * Connections from outside the group change nothing. Dropping a proxy ends its thread and closes
//!   its descriptors.
//!
//! Not guaranteed: secrecy, nor safety from a peer that breaks the protocol on purpose; the network
//! between ranks is trusted. A failure of links does not end the waits of executors: their owner
//! looks at [`Proxy::failure`] and stops the ring buffers.
//!
//! A link to another host is a longer queue, but still bounded, with one writer and one reader. So
//! what was proved of the algorithm holds.

#![deny(unsafe_code)]

#[cfg(test)]
extern crate self as msccl_proxy;

mod config;
mod connect;
mod endpoint;
mod error;
mod event_loop;
mod log;
mod pace;
mod poll_schedule;
mod processors;
mod proxy;
mod rail;
pub mod rdma;
pub mod ring_buffers;
mod session;
mod shared;
mod tag;
mod tcp;

pub use config::{Config, Gpu, MachineFacts, Nics, RdmaConfig};
pub use endpoint::{Copies, DmaBuf, Endpoints, Memory, Piece, ReceiveEndpoint, SendEndpoint};
pub use error::{Error, Failure};
pub use log::{Event, Log};
pub use proxy::Proxy;
pub use rail::{Broken, Posted, Rail, RailEvent, Wake, Write};
pub use rdma::Registered;
pub use shared::Wait;

//! What happens between hosts, for whoever prints.

use std::fmt;
use std::net::SocketAddr;

use msccl_collective::Rank;

/// Receives what happens. Called by a proxy's thread, so it must not wait.
pub trait Log: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event);
}

impl Log for () {
    fn event(&self, _: &Event) {}
}

/// Something worth a line in a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Which devices there are for RDMA, or why there are none.
    Devices {
        /// In words.
        description: String,
    },
    /// Links to a peer go over these rails.
    Connected {
        /// The peer.
        peer: Rank,
        /// The rails.
        rails: Vec<String>,
        /// Why these.
        why: String,
        /// Where this rank's slots lie, and why there, as [`crate::Memory::describe`] says.
        slots: Option<String>,
    },
    /// A rail broke; others carry on.
    RailLost {
        /// The peer.
        peer: Rank,
        /// The name of its host.
        host: String,
        /// The rail.
        rail: String,
        /// What happened to it.
        why: String,
        /// How many rails to that peer are left.
        left: usize,
    },
    /// A connection that does not speak the protocol, or belongs to another group, was closed.
    StrayConnection {
        /// From where, if that is known.
        from: Option<SocketAddr>,
        /// What was wrong with it.
        why: String,
    },
    /// So many more such connections were closed within a second, without a line each.
    StrayConnections {
        /// How many.
        count: u64,
    },
    /// Something failed that does no harm to the callers.
    Trouble(String),
}

impl Event {
    /// Whether someone who reads warnings only should see this.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::RailLost { .. } | Self::Trouble(_) => true,
            Self::Devices { .. }
            | Self::Connected { .. }
            | Self::StrayConnection { .. }
            | Self::StrayConnections { .. } => false,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Devices { description } => write!(f, "RDMA: {description}"),
            Self::Connected { peer, rails, why, slots } => {
                write!(f, "links to r{} go over {} ({why})", peer.0, rails.join(", "))?;
                slots.as_ref().map_or(Ok(()), |slots| write!(f, ", with slots in {slots}"))
            }
            Self::RailLost { peer, host, rail, why, left } => {
                let plural = if *left == 1 { "rail carries" } else { "rails carry" };
                write!(f, "r{} on host {host}: {rail} broke: {why}; {left} {plural} on", peer.0)
            }
            Self::StrayConnection { from, why } => {
                let from = from.map_or_else(String::new, |from| format!(" from {from}"));
                write!(f, "a stray connection{from} was closed: {why}")
            }
            Self::StrayConnections { count } => {
                write!(f, "{count} more stray connections were closed")
            }
            Self::Trouble(text) => f.write_str(text),
        }
    }
}

//! What happens, for the log of whoever asks.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use msccl_collective::{Rank, RankList};

use crate::abort::seconds;

/// Receives events; called from background threads as well, so it must not wait for a group.
pub trait Log: Send + Sync {
    /// Takes note of `event`.
    fn event(&self, event: &Event);
}

/// Receives nothing.
impl Log for () {
    fn event(&self, _: &Event) {}
}

/// Something a person who reads the log may want to know. `Display` is one line.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The root of a unique id accepts ranks.
    RootListens {
        /// Where.
        address: SocketAddr,
        /// The network interface, if one was chosen by rule.
        interface: Option<String>,
    },
    /// A rank accepts its peers' connections.
    RankListens {
        /// Who.
        rank: Rank,
        /// Where.
        address: SocketAddr,
        /// The network interface, if one was chosen by rule.
        interface: Option<String>,
    },
    /// The root has waited for a while; not an error yet.
    StillWaiting {
        /// How many ranks must come.
        expected: u32,
        /// Who has not.
        missing: Vec<Rank>,
        /// Where the root waits for them.
        address: SocketAddr,
        /// Since the first one came.
        waited: Duration,
    },
    /// All ranks are connected.
    Joined {
        /// This rank.
        rank: Rank,
        /// The number of ranks.
        ranks: u32,
        /// Since the call.
        took: Duration,
    },
    /// A connection that does not speak the protocol, or belongs to another group, was closed.
    StrayConnection {
        /// From where, over a network.
        from: Option<SocketAddr>,
        /// What was wrong with it.
        why: String,
    },
    /// So many more such connections were closed within a second, without a line each.
    StrayConnections {
        /// How many.
        count: u64,
    },
    /// A rank died, or its host or network did.
    RankLost {
        /// Who, by its rank in the group that was joined (not in a split of it).
        rank: Rank,
        /// What is known of it.
        description: String,
    },
    /// Something failed that does no harm to the callers.
    Trouble(String),
}

impl Event {
    /// Whether someone who reads warnings only should see this.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::StillWaiting { .. } | Self::RankLost { .. } | Self::Trouble(_) => true,
            Self::RootListens { .. }
            | Self::RankListens { .. }
            | Self::Joined { .. }
            | Self::StrayConnection { .. }
            | Self::StrayConnections { .. } => false,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let via = |interface: &Option<String>| {
            interface.as_ref().map(|name| format!("{name}:")).unwrap_or_default()
        };
        match self {
            Self::RootListens { address, interface } => {
                write!(f, "the root listens on {}{address}", via(interface))
            }
            Self::RankListens { rank, address, interface } => {
                write!(f, "rank {} listens on {}{address}", rank.0, via(interface))
            }
            Self::StillWaiting { expected, missing, address, waited } => {
                let (missing, waited) = (RankList::new(missing.iter().copied()), seconds(*waited));
                let missing = missing.numbers();
                let who = format_args!("ranks {missing} of {expected} to reach {address}");
                write!(f, "after {waited}, still waiting for {who}")
            }
            Self::Joined { rank, ranks, took } => {
                write!(f, "rank {} of {ranks} joined in {}", rank.0, seconds(*took))
            }
            Self::StrayConnection { from: Some(from), why } => {
                write!(f, "a stray connection from {from} was closed: {why}")
            }
            Self::StrayConnection { from: None, why } => {
                write!(f, "a stray connection for file descriptors was closed: {why}")
            }
            Self::StrayConnections { count } => {
                write!(f, "{count} more stray connections were closed")
            }
            Self::RankLost { rank, description } => {
                write!(f, "rank {} is lost: {description}", rank.0)
            }
            Self::Trouble(text) => f.write_str(text),
        }
    }
}

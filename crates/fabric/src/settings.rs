//! What the front ends decide for the fabric; nothing here is read from the environment.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::abort::Abort;
use crate::interface::Choice;
use crate::log::Log;
use crate::secret::Secret;

/// How ranks find one another and how long they wait.
#[derive(Clone)]
pub struct Settings {
    /// Which network interface to listen on.
    pub interface: Choice,
    /// Where the root listens, if the user fixed it; the id then needs no transport (all ranks
    /// make it from the same address), and rank 0 opens the listener.
    pub root: Option<SocketAddr>,
    /// What guards a root at a fixed address, the same on all ranks; the text says why it cannot be
    /// had, and then no such root is used.
    pub secret: Option<Result<Secret, String>>,
    /// An address that other ranks are known to reach: where `interface` names none, a root without
    /// a fixed address listens in the same network, if this host is in it.
    pub near: Option<SocketAddr>,
    /// Replaces the identity and the name that are found for this host; hosts with equal names are
    /// one host.
    pub host: Option<String>,
    /// How long a rank tries to reach the root or a peer that refuses connections.
    pub connect_timeout: Duration,
    /// How long the ranks of a group wait for one another to come, from the first one's arrival: to
    /// a join, a split or a shrink.
    pub join_timeout: Duration,
    /// How long a root waits for its first rank before its thread ends.
    pub root_timeout: Duration,
    /// How long an operation of a group waits; `None` waits as long as nobody dies or aborts.
    pub operation_timeout: Option<Duration>,
    /// How long the network may be away, or a peer's host silent, before a connection to it counts
    /// as lost.
    pub silence_timeout: Duration,
    /// Ends every wait when raised.
    pub abort: Abort,
    /// Receives what happens.
    pub log: Arc<dyn Log>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interface: Choice::default(),
            root: None,
            secret: None,
            near: None,
            host: None,
            connect_timeout: Duration::from_secs(60),
            join_timeout: Duration::from_secs(600),
            root_timeout: Duration::from_secs(3600),
            operation_timeout: None,
            silence_timeout: Duration::from_secs(40),
            abort: Abort::new(),
            log: Arc::new(()),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("interface", &self.interface)
            .field("root", &self.root)
            .field("secret", &self.secret)
            .field("near", &self.near)
            .field("host", &self.host)
            .field("connect_timeout", &self.connect_timeout)
            .field("join_timeout", &self.join_timeout)
            .field("root_timeout", &self.root_timeout)
            .field("operation_timeout", &self.operation_timeout)
            .field("silence_timeout", &self.silence_timeout)
            .field("abort", &self.abort)
            .finish_non_exhaustive()
    }
}

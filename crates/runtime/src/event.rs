//! What people who read a log may want to know.

use std::fmt;
use std::time::Duration;

use msccl_collective::Rank;

/// Receives events; called from background threads as well.
pub trait Log: Send + Sync {
    /// Takes note of `event`.
    fn event(&self, event: &Event);
}

/// Ignores all events.
impl Log for () {
    fn event(&self, _: &Event) {}
}

/// Something a person who reads the log may want to know. `Display` is the text, which may have
/// several lines only for [`Event::HangReport`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A communicator is ready.
    Ready {
        /// This rank.
        rank: Rank,
        /// All ranks.
        ranks: u32,
        /// Where it runs and how its links are realised, for people.
        place: String,
        /// Since the call.
        took: Duration,
    },
    /// Which ranks live on which of several nodes, for people.
    Nodes(String),
    /// What a file serves from now on, or what is remarkable about it. Logged by the first rank.
    Loaded(String),
    /// In which order all reductions add. Logged by the first rank.
    Order(String),
    /// A request of the user that has no effect: a file is not used, a setting has no effect.
    /// Logged by the first rank.
    Unmet(String),
    /// For the first time, this serves a shape of call.
    Serves {
        /// The shape of call.
        call: String,
        /// What serves it.
        by: String,
    },
    /// A loaded algorithm could not serve a call.
    PassedOver {
        /// The call.
        call: String,
        /// Which algorithm, and why.
        reason: String,
    },
    /// How many specialised kernels serve, and where they come from.
    Specialised(String),
    /// Why specialised kernels do not serve that should.
    Unspecialised(String),
    /// Who waits for whom.
    HangReport(String),
    /// The communicator failed.
    Failed(String),
}

impl Event {
    /// Whether this deserves the attention of someone who reads warnings only.
    pub fn is_warning(&self) -> bool {
        match self {
            Event::Unmet(_) | Event::HangReport(_) | Event::Failed(_) => true,
            // All is well without them.
            Event::Specialised(_) | Event::Unspecialised(_) => false,
            Event::Ready { .. }
            | Event::Nodes(_)
            | Event::Loaded(_)
            | Event::Order(_)
            | Event::Serves { .. }
            | Event::PassedOver { .. } => false,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Ready { rank, ranks, place, took } => {
                write!(f, "{rank} of {ranks} is ready on {place} after {} ms", took.as_millis())
            }
            Event::Nodes(text)
            | Event::Loaded(text)
            | Event::Order(text)
            | Event::Unmet(text)
            | Event::Specialised(text)
            | Event::Unspecialised(text)
            | Event::HangReport(text)
            | Event::Failed(text) => f.write_str(text),
            Event::Serves { call, by } => write!(f, "{call}: served by {by}"),
            Event::PassedOver { call, reason } => write!(f, "{call}: {reason}"),
        }
    }
}

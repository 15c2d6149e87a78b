//! The objects of verbs, each ended by its owner's end, in an order that verbs allows.
//!
//! A [`Region`] and a [`Pair`] keep their [`Adapter`] open. What is here does what it is called for
//! and counts nothing; what is to be done, and in what order, is [`crate::rail`]'s and
//! [`crate::machine`]'s.

mod adapter;
mod events;
mod pair;
mod region;

use std::fmt;
use std::io;

pub use adapter::{Adapter, Found, PortFacts, find};
pub use events::{Event, EventOf};
pub use pair::{
    Completion, Depth, Pair, Patience, Queue, QueuePairId, RECEIVES_AT_ONCE, Route, Signal, Target,
};
pub use region::{Mapped, Region};

/// A call of libibverbs that was refused.
#[derive(Debug)]
pub struct Refused {
    /// Which.
    pub call: &'static str,
    /// What it said.
    pub error: io::Error,
}

impl Refused {
    /// Of a call that puts its reason in `errno`.
    fn by_errno(call: &'static str) -> Self {
        Self { call, error: io::Error::last_os_error() }
    }

    /// Of a call that answers 0, or its reason as a number, or -1 and puts it in `errno`.
    fn check(call: &'static str, answer: i32) -> Result<(), Self> {
        match answer {
            0 => Ok(()),
            -1 => Err(Self::by_errno(call)),
            code => Err(Self { call, error: io::Error::from_raw_os_error(code.abs()) }),
        }
    }

    /// Whether the kernel, the driver or the device does not offer that at all.
    pub fn is_unsupported(&self) -> bool {
        let errno = self.error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
        matches!(errno, Some(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS))
    }

    /// Whether nobody answered within the time that the kernel has for that.
    pub fn is_unanswered(&self) -> bool {
        self.error.kind() == io::ErrorKind::TimedOut
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.call, self.error)
    }
}

//! Rails over TCP.

mod listener;
mod rail;
mod region;
mod socket;
#[cfg(test)]
mod tests;

pub(crate) use listener::{Expected, IncomingConnection, Listener};
pub(crate) use rail::TcpRail;
pub(crate) use socket::{Dial, Dialled, WELCOME};

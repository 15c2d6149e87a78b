//! Ranks find one another and share memory.
//!
//! A [`UniqueId`] made by one process brings ranks together; [`Group::join`] returns on all of them
//! once all have come, or says who did not. A [`Group`] then exchanges bytes and file descriptors,
//! notices the death of peers, and splits.
//!
//! Guarantees: every wait can be aborted and can have a time limit, and its error names the ranks
//! that did not come. Connections from outside the group (port scanners, other groups) change
//! nothing. Dropping the last group of a world ends its thread and closes all its descriptors.
//!
//! Thousands of ranks: `docs/SCALE.md` has what each holds and sends, and what was measured.
//!
//! Whoever does not know the id cannot take part: both ends of every connection prove that they
//! know its token ([`Dialler`], [`Challenger`]), which never crosses one, and what unauthenticated
//! connections can make a rank hold is bounded ([`Acceptor`]). Not guaranteed: secrecy of what
//! ranks say to one another, nor that nobody on the way changes it once a connection stands.
//! `docs/SECURITY.md` has the whole.
//!
//! Absent from this crate: devices, algorithms, plans; environment variables and printing, which
//! belong to the front ends: what they read comes in as [`Settings`], what they print goes to a
//! [`Log`].

#![deny(unsafe_code)]

mod abort;
mod acceptor;
mod departure;
mod descriptors;
mod dial;
mod endurance;
mod error;
mod frame;
mod group;
mod handshake;
mod identity;
mod interface;
mod introduction;
mod join;
mod key;
mod log;
mod membership;
mod ring_buffer;
mod root;
mod secret;
mod settings;
mod shared;
mod socket;
mod table;
mod transport;
mod unique_id;
mod wire;

pub use abort::Abort;
pub use acceptor::{Acceptor, Admitted, Notice};
pub use departure::{Departure, DepartureReason};
pub use endurance::{Endurance, Retransmission};
pub use error::{Error, ErrorKind};
pub use group::Group;
pub use handshake::{
    CHALLENGE_BYTES, Challenger, Dialler, Kind, OPENING_BYTES, PROOF_BYTES, Purpose,
};
pub use identity::{Domain, HostId, Peer};
pub use interface::{AddressFamily, Choice, Filter, parse_address};
pub use join::JoinRequest;
pub use key::Key;
pub use log::{Event, Log};
pub use ring_buffer::{Doorbell, Message, Receiver, RingBufferShape, RingBuffers, Sender, Slot};
pub use secret::Secret;
pub use settings::Settings;
pub use shared::SharedMemory;
pub use unique_id::{UNIQUE_ID_BYTES, UniqueId};

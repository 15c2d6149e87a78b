//! Ranks find one another and share memory.
//!
//! A [`UniqueId`] made by one process brings ranks together; [`Group::join`] returns on all of them
//! once all have come, or says who did not. A [`Group`] then exchanges bytes and file descriptors,
//! notices the death of peers, and splits.
//!
//! Guarantees: every wait can be aborted and, if wished, is bounded, and its error names the ranks
//! that did not come. Strangers who connect (port scanners, other groups) change nothing. Dropping the
//! last group of a world ends its thread and closes all its descriptors.
//!
//! Thousands of ranks: `docs/SCALE.md` has what each holds and sends, and what was measured.
//!
//! Not guaranteed: secrecy and authenticity. Whoever can read the traffic can imitate a rank; the
//! network between ranks is trusted, as in every library of this kind.
//!
//! Absent from this crate: devices, algorithms, plans; environment variables and printing, which
//! belong to the doors: what they read comes in as [`Settings`], what they print goes to a [`Log`].

mod abort;
mod departure;
mod descriptors;
mod error;
mod frame;
mod group;
mod hello;
mod identity;
mod interface;
mod join;
mod log;
mod rank_list;
mod ring;
mod roll;
mod root;
mod settings;
mod shared;
mod socket;
mod switchboard;
mod table;
mod unique_id;
mod wire;

pub use abort::Abort;
pub use departure::{Departure, Manner};
pub use error::{Error, ErrorKind};
pub use group::Group;
pub use identity::{Domain, HostId, Peer, random_u128};
pub use interface::{Choice, Family, Filter, parse_address};
pub use join::Newcomer;
pub use log::{Event, Log};
pub use ring::{Doorbell, Message, Receiver, RingShape, Rings, Sender, Slot};
pub use settings::Settings;
pub use shared::SharedMemory;
pub use unique_id::{UNIQUE_ID_BYTES, UniqueId};

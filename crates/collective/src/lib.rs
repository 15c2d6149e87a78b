//! The field's nouns, and what each collective promises.
//!
//! Every other crate speaks in these words: a [`Rank`] holds three [`Buffer`]s of chunks; a
//! [`Slot`] is the place of one chunk on a rank and a [`Region`] a run of slots; a [`Collective`]
//! says which input chunks every output chunk must combine.
//!
//! Guarantees: index types are plain `u32` newtypes that print the same everywhere (`r3`, `tb2`,
//! `s17`, `ch0`); [`Collective`] answers are pure functions of its fields.
//!
//! Absent from this crate: algorithms, message sizes, addresses.

mod buffer;
mod collective;
mod contract;
mod data_type;
mod index;
mod kind;
mod protocol;

pub use buffer::{Buffer, Region, Slot};
pub use collective::{Collective, Custom, Kind};
pub use contract::{Contract, Contribution, Promise};
pub use data_type::{DataType, Reduction};
pub use index::{Channel, Rank, StepIndex, TbIndex};
pub use kind::CollectiveKind;
pub use protocol::{CallPlacement, Placement, Protocol, SizeRange};

//! The field's nouns, and what each collective promises.
//!
//! The first crate of all: every other one speaks in these words. A [`Rank`] holds three
//! [`Buffer`]s of chunks; a [`Slot`] is the place of one chunk on a rank and a [`Region`] a run of
//! slots; a [`Collective`] says which input chunks every output chunk must combine.
//!
//! ```
//! use msccl_collective::{Collective, Kind, Promise, Rank};
//!
//! let gather = Collective { kind: Kind::AllGather, ranks: 4, chunks: 2 };
//! assert_eq!((gather.input_chunks(Rank(0)), gather.output_chunks(Rank(0))), (2, 8));
//! // Output chunk 5 of every rank is the second chunk of rank 2.
//! let Some(Promise::One(chunk)) = gather.promised(Rank(0), 5) else { panic!("one chunk") };
//! assert_eq!((chunk.rank, chunk.index), (Rank(2), 1));
//! ```
//!
//! Guarantees: index types are plain `u32` newtypes that print the same everywhere (`r3`, `tb2`,
//! `s17`, `ch0`); [`Collective`] answers are pure functions of its fields.
//!
//! Absent from this crate: algorithms, message sizes, addresses.

#![deny(unsafe_code)]

mod buffer;
mod collective;
mod contract;
mod data_type;
mod index;
mod kind;
mod order;
mod protocol;
mod rank_list;

pub use buffer::{Buffer, Region, Slot};
pub use collective::Collective;
pub use contract::{Contract, Contribution, Promise};
pub use data_type::{DataType, Reduction};
pub use index::{Channel, Rank, StepIndex, TbIndex};
pub use kind::{CollectiveKind, Custom, Kind};
pub use order::NamedOrder;
pub use protocol::{CallPlacement, Placement, Protocol, SizeRange};
pub use rank_list::RankList;

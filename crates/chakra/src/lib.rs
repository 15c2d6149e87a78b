//! Algorithms as Chakra execution traces, which simulators such as ASTRA-sim read.
//!
//! A trace says what one rank does in one call of one size: a graph of nodes that receive, work
//! and send. [`Traces`] holds what the traces of all ranks have in common and writes each of them.
//!
//! # What becomes what
//!
//! A thread block runs each step in pieces, one message on each of its links at a time, round
//! after round ([`msccl_machine::pieces`]). Every piece becomes:
//!
//! | node | how many | depends on |
//! |---|---|---|
//! | `COMM_RECV_NODE` | one for each message that the piece takes | the piece before (control) |
//! | `COMM_RECV_NODE` of a credit | one for each message that finds its link full | the piece before (control) |
//! | `COMP_NODE` | one: the piece itself | its messages (data); the piece before, its credits, the steps that it waits for (control) |
//! | `COMM_SEND_NODE` | one for each message that the piece sends | the `COMP_NODE` (data) |
//! | `COMM_SEND_NODE` of a credit | one for each message taken whose slot is used again | the `COMP_NODE` (control) |
//!
//! So the `COMP_NODE`s of a thread block form a chain, and a step ends with its last `COMP_NODE`.
//! A thread block does not wait until what it sent has arrived: links hold `depth` messages.
//!
//! A link has room for message `m` when its receiver is done with message `m - depth`. That is a
//! node of another rank, which a trace cannot name. So the receiver sends a **credit** back, a
//! message of [`CREDIT_BYTES`], and the sender's piece depends on receiving it. The first `depth`
//! messages need no credit, and the last `depth` return none.
//!
//! Tags distinguish the messages of a pair of ranks: `2 × (m × channels + channel)`, and one more
//! for the credit that message `m` returns.
//!
//! A rank without steps has one `COMP_NODE`, since ASTRA-sim does not end a trace without nodes.
//!
//! # What is left out
//!
//! Chunks are taken to be equally long. A `COMP_NODE` takes no time unless [`Call`] has a rate;
//! traces count whole microseconds. What a piece works and what its messages travel follow one
//! another in a simulator, while a kernel overlaps them.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_chakra::{Call, Traces};
//! use msccl_collective::Rank;
//! use msccl_ir::Target;
//!
//! let text = r#"
//!     algorithm "copy"
//!     collective broadcast ranks 2 chunks 1 root r0
//!     placement in place
//!     protocol Simple
//!     bytes 0..
//!     r0 scratch 0
//!       tb0 ch0 send r1
//!         s0: i[0] -> r1
//!     r1 scratch 0
//!       tb0 ch0 receive r0
//!         s0: r0 -> o[0]
//! "#;
//! let algorithm = msccl_ir::text::parse(text)?;
//! let call = Call { bytes: 4096, tb_bytes_per_us: None };
//! let traces = Traces::new(&algorithm, &Target::native(), call)?;
//! let mut trace = Vec::new();
//! traces.write_to(Rank(1), &mut trace)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Format
//!
//! `schema/protobuf/et_def.proto` of `mlcommons/chakra`: every message stands behind its length as
//! a varint, first a `GlobalMetadata`, then a `Node` each. Attributes are those that ASTRA-sim
//! reads (`CustomAlgorithm.cc`): `comm_size` as an int64, `comm_src`, `comm_dst` and `comm_tag` as
//! int32.
//!
//! Absent from this crate: files, readers of traces, whether an algorithm is right.

#![deny(unsafe_code)]

mod call;
mod cut;
mod node;
mod pieces;
mod protobuf;
mod rank;
mod traces;

pub use call::{CREDIT_BYTES, Call};
pub use traces::{MOST_NODES, Traces, Untraceable, file_name};

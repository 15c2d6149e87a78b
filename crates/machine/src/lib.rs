//! What a step means, once, for every domain of values.
//!
//! Three readers share this crate: the verifier (values are symbols), the simulator (values are
//! numbers) and the host executor (values are slices of elements, links are real queues). What they
//! must agree on stands here, in reading order:
//!
//! * [`execute`] is the meaning of one step, written against a [`Machine`] that knows what a value,
//!   a slot and a message are;
//! * [`pieces`] cuts a counted step into messages;
//! * [`Wiring`] numbers the thread blocks and links of an algorithm densely and joins the two ends
//!   of every link;
//! * [`run`] fires the pieces of all thread blocks in any order that waits and links allow, on one
//!   thread, and either completes or returns a [`Stall`] that says who waits for whom.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::convert::Infallible;
//!
//! use msccl_machine::{Messages, Outcome, Wiring, latest_ready, run};
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
//! let wiring = Wiring::new(&algorithm).expect("both ends of every link are there");
//! let mut pieces = 0;
//! let outcome = run(
//!     &wiring,
//!     Messages { chunks_per_message: 1, depth: 1 },
//!     latest_ready,
//!     |_| Ok::<(), Infallible>(pieces += 1),
//! )?;
//! assert_eq!(outcome, Outcome::Completed { leftover: Vec::new() });
//! assert_eq!(pieces, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! [`run`] fires every piece exactly once, after everything it waits for; it takes time linear in
//! pieces and operands, whatever the order in which the caller picks among the thread blocks that
//! are ready. Whether it completes, and how many messages stay behind, does not depend on that
//! order (`docs/VERIFICATION.md`, section 3).
//!
//! Absent from this crate: values, memory, bytes, time, which thread block goes first.

#![deny(unsafe_code)]

mod run;
mod stall;
mod step;
mod wiring;

pub use run::{Messages, Outcome, Piece, latest_ready, run};
pub use stall::{Blocked, Reason, Stall};
pub use step::{Machine, execute, pieces};
pub use wiring::{Link, LinkId, TbId, Unwired, Wiring};

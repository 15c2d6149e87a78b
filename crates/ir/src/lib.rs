//! The waist: one algorithm as ranks × thread blocks × steps.
//!
//! Everything above this crate (language, compiler, readers) produces an [`Algorithm`]; everything
//! below (verifier, plan, simulator, writers) reads one, and nothing else.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_ir::{Target, text, validate};
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
//! let algorithm = text::parse(text)?;
//! assert_eq!(validate(&algorithm, &Target::msccl()), Ok(()));
//! assert_eq!(text::parse(&text::print(&algorithm))?, algorithm);
//! # Ok(())
//! # }
//! ```
//!
//! # What a program means
//!
//! Every rank runs all its thread blocks at once; a thread block runs its steps in order. A
//! [`Step`] first waits until every step that it names in `waits` (of the same rank) has
//! finished. Then it reads its sources, combines them with the collective's
//! reduction in the order written, and writes the result to every destination. A source is a local
//! region of `count` slots or the next message of an incoming link; a destination is a local region
//! or the next message of an outgoing link. A step without sources and destinations only waits.
//!
//! A link is the first-in first-out path from one rank to another on one channel. It belongs to one
//! thread block at each end and holds a bounded number of messages ([`Target`] says how many): a
//! step that sends into a full link waits for room.
//!
//! A call whose chunks are larger than one message runs the whole program once per slice, in
//! rounds; see `docs/IR.md` for rounds, messages and the splitting of counted steps.
//!
//! # Guarantees
//!
//! [`validate()`] accepts an algorithm exactly if it is well formed: afterwards every index is in
//! bounds, and every link has one owner at each end and a partner at the other. It says nothing
//! about results, races or deadlocks: that is the verifier's affair.
//!
//! Absent from this crate: where an algorithm came from, passes that change one, bytes, addresses.

#![deny(unsafe_code)]

mod algorithm;
pub mod merging;
mod target;
pub mod text;
pub mod validate;

pub use algorithm::{
    Algorithm, Operands, Place, RankProgram, Step, StepKind, StepRef, ThreadBlock, Wait, Waits,
};
pub use target::{
    FileLimits, Limits, LinkShape, Merging, MessageOrder, Packing, Proxies, RootedCall, Rounds,
    Rules, SmallerMessages, StepForm, Target, Threads,
};
pub use validate::{Violation, ViolationClass, validate};

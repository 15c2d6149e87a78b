//! Do the bits of an element depend on the call that it is part of?
//!
//! Inputs repeat after a prime number of elements ([`crate::piece`]), so that each element occurs
//! in calls of all sizes, at all offsets. The bits that it got first are the bits that it must get
//! in every other call. The first call is the largest: the *whole*, of which the others are pieces.
//! Every size is then reduced in and out of place, at several offsets, and by every algorithm,
//! protocol and delivery that the library would let serve it, where it can name them.
//!
//! All-reduces must give all ranks the same bits, too. Reduce-scatters and reduces of the same type
//! and reduction are compared with the all-reduce, if there is one.

mod report;
mod run;

pub use report::{InvarianceReport, InvarianceRow, LibraryBits};
pub use run::{InvarianceObserver, compare_bits};

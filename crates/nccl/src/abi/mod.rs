//! What the C interface fixes: numbers, layouts, pointers.
//!
//! Everything here is as in NCCL 2.30.7; sizes and offsets are asserted at compile time. Reading
//! order: [`code`], [`constant`], [`layout`], [`mod@pointer`].

pub mod code;
pub mod constant;
pub mod layout;
pub mod pointer;

pub use code::{Code, Outcome};
pub use layout::{ConfigFields, PropertiesFields, SignalWait, Team, UniqueIdBytes};
pub use pointer::{
    Argument, ConfigPointer, In, Out, OutArray, PropertiesPointer, SimulationPointer,
};

/// The version that callers see: 2.30.7.
pub const VERSION: i32 = 23007;

/// The same in words, as [`VERSION`] has it.
pub const VERSION_TEXT: &str = "2.30.7";

/// A `ncclComm_t`: zero, or a number that this library gave out. It is the address of a small
/// shell, so that it looks like the pointer that C takes it for, but the library never goes
/// there before it has found the number among those it gave out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct CommHandle(pub usize);

/// An address of the caller's that the library passes on and never goes to: a buffer, a stream.
pub type Address = usize;

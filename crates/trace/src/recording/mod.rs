//! Recordings: what one rank of one communicator writes while it runs.
//!
//! # The file
//!
//! ```text
//! "MSCCLREC", u32 version, then frames: u32 kind, u32 length, payload of so many bytes
//! ```
//!
//! Numbers are little endian. Payloads are JSON for descriptions and raw for what is written often:
//!
//! | kind | payload |
//! |---|---|
//! | 1 header | JSON [`Header`]; the first frame |
//! | 2 plan | JSON [`PlanDescription`], before the first call shape with it |
//! | 3 call shape | JSON [`CallShapeDescription`], before the first call with it |
//! | 4 call | u64 number, u64 enqueue_ns, u32 shape, u32 launch: 0 by stream, 1 in a capture |
//! | 5 clock sample | u64 before_ns, u64 device_ns, u64 after_ns |
//! | 6 records | u32 track, u32 0, u64 sequence number of the first, records of 16 bytes |
//! | 7 lost | u32 track, u32 0, u64 count: records that were overwritten before they were read |
//! | 8 named track | JSON [`NamedTrack`], before its first records |
//! | 9 peer clock sample | JSON [`PeerClockSample`] |
//! | 10 full | nothing: the limit is reached, and what follows is left out |
//! | 11 end | u64 records left out because the limit was reached |
//!
//! A file that ends within a frame, or without an end frame, is read up to there, and says so: its
//! process was killed. Readers skip kinds of frames that they do not know.

mod description;
mod frame;
mod read;
mod recorder;

pub use description::{
    Call, CallCut, CallShapeDescription, ClockSample, Engine, Header, KernelDescription,
    LaunchKind, LinkEnd, Moment, NamedTrack, PeerClockSample, PlanDescription, SlotRange,
    StepAddress, StepDescription, StepShape, ThreadBlockDescription, TrackClock, TrackLink,
    Transfer, TransferDirection, Work,
};
pub use frame::{FORMAT_VERSION, MAGIC};
pub use read::{Ending, Piece, ReadError, Recording, Track};
pub use recorder::{LIMIT_BYTES_MIN, Recorder};

/// Tracks from this number on are named; those below are thread blocks of launches.
pub const NAMED_TRACKS: u32 = 1 << 20;

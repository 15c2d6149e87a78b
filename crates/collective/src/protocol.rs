//! Protocols, placements and size ranges: which calls a schedule serves, and over what packets.

use std::fmt;
use std::str::FromStr;

use crate::data_type::by_name;

/// How a link's messages are laid out in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protocol {
    /// Plain data, with a separate flag: highest bandwidth.
    Simple,
    /// Eight-byte packets, half data and half flag: lowest latency.
    Ll,
    /// 128-byte packets, 120 bytes of data.
    Ll128,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Protocol; 3] = [Protocol::Simple, Protocol::Ll, Protocol::Ll128];

    /// The name used in MSCCL XML and in the language.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "Simple",
            Protocol::Ll => "LL",
            Protocol::Ll128 => "LL128",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::ALL, Self::name, "protocol", text)
    }
}

/// Which calls a schedule serves: those whose output lies over their input, those where it does
/// not, or both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Placement {
    /// Input and output share memory, in the way the collective defines.
    InPlace,
    /// Input and output are disjoint, and the input is read only.
    OutOfPlace,
    /// Either.
    Both,
}

impl Placement {
    /// Every placement.
    pub const ALL: [Placement; 3] = [Placement::InPlace, Placement::OutOfPlace, Placement::Both];

    /// The name used in dumps and messages.
    pub fn name(self) -> &'static str {
        match self {
            Placement::InPlace => "in place",
            Placement::OutOfPlace => "out of place",
            Placement::Both => "in or out of place",
        }
    }

    /// Whether calls in `placement` are served.
    pub fn serves(self, placement: CallPlacement) -> bool {
        match placement {
            CallPlacement::InPlace => self.serves_in_place(),
            CallPlacement::OutOfPlace => self.serves_out_of_place(),
        }
    }

    /// Whether in-place calls are served.
    pub fn serves_in_place(self) -> bool {
        matches!(self, Placement::InPlace | Placement::Both)
    }

    /// Whether out-of-place calls are served.
    pub fn serves_out_of_place(self) -> bool {
        matches!(self, Placement::OutOfPlace | Placement::Both)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the output of a call lies over its input.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CallPlacement {
    /// Input and output are disjoint, and the input is read only.
    OutOfPlace,
    /// Input and output share memory, in the way the collective defines.
    InPlace,
}

impl CallPlacement {
    /// Both.
    pub const ALL: [CallPlacement; 2] = [CallPlacement::OutOfPlace, CallPlacement::InPlace];

    /// That of calls that are `in_place`, or not.
    pub fn from_in_place(in_place: bool) -> Self {
        if in_place { CallPlacement::InPlace } else { CallPlacement::OutOfPlace }
    }

    /// Whether it is in place.
    pub fn is_in_place(self) -> bool {
        self == CallPlacement::InPlace
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            CallPlacement::InPlace => CallPlacement::OutOfPlace,
            CallPlacement::OutOfPlace => CallPlacement::InPlace,
        }
    }
}

impl From<CallPlacement> for Placement {
    fn from(placement: CallPlacement) -> Self {
        match placement {
            CallPlacement::InPlace => Placement::InPlace,
            CallPlacement::OutOfPlace => Placement::OutOfPlace,
        }
    }
}

impl fmt::Display for CallPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Placement::from(*self).fmt(f)
    }
}

/// The message sizes a schedule serves, in bytes. The size of a call is that of its larger buffer
/// (the gathered one for all-gather and gather, the scattered one for reduce-scatter and scatter).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SizeRange {
    /// Smallest size served, in bytes.
    pub min_bytes: u64,
    /// Largest size served, in bytes; `None` is no limit.
    pub max_bytes: Option<u64>,
}

impl SizeRange {
    /// Every size.
    pub const ALL: SizeRange = SizeRange { min_bytes: 0, max_bytes: None };

    /// Whether a call of `bytes` is served.
    pub fn contains(self, bytes: u64) -> bool {
        self.min_bytes <= bytes && self.max_bytes.is_none_or(|max| bytes <= max)
    }
}

impl fmt::Display for SizeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max_bytes {
            Some(max) => write!(f, "{}..={max} bytes", self.min_bytes),
            None if self.min_bytes == 0 => f.write_str("all sizes"),
            None => write!(f, "{} bytes and more", self.min_bytes),
        }
    }
}

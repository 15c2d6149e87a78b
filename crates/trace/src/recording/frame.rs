//! Frames of a recording, as bytes.

use std::io;

use serde::Serialize;

/// The first bytes of a recording.
pub const MAGIC: &[u8; 8] = b"MSCCLREC";

/// The version of the format that this crate writes, and the only one that it reads.
pub const FORMAT_VERSION: u32 = 3;

/// Bytes of a frame before its payload.
pub(super) const FRAME_HEAD_BYTES: usize = 8;

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameKind {
    Header,
    Plan,
    CallShape,
    Call,
    Clock,
    Records,
    Lost,
    NamedTrack,
    PeerClock,
    Full,
    End,
}

impl FrameKind {
    const ALL: [Self; 11] = [
        Self::Header,
        Self::Plan,
        Self::CallShape,
        Self::Call,
        Self::Clock,
        Self::Records,
        Self::Lost,
        Self::NamedTrack,
        Self::PeerClock,
        Self::Full,
        Self::End,
    ];

    pub fn code(self) -> u32 {
        match self {
            Self::Header => 1,
            Self::Plan => 2,
            Self::CallShape => 3,
            Self::Call => 4,
            Self::Clock => 5,
            Self::Records => 6,
            Self::Lost => 7,
            Self::NamedTrack => 8,
            Self::PeerClock => 9,
            Self::Full => 10,
            Self::End => 11,
        }
    }

    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A frame whose payload is `parts`, one behind the other, at the end of `bytes`.
pub(super) fn append(bytes: &mut Vec<u8>, kind: FrameKind, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).map_err(|_| {
        let message = format!("expected a frame of less than 4 GiB, found one of {length} bytes");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })?;
    bytes.extend_from_slice(&kind.code().to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    Ok(())
}

/// A description as JSON.
pub(super) fn json(description: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(description).map_err(io::Error::from)
}

//! Records: what one lane of a thread block writes after each wait and each step.
//!
//! A record is 16 bytes, little endian:
//!
//! ```text
//! u64 time_ns   clock of the rank's device: globaltimer of a GPU, CLOCK_MONOTONIC of a host
//! u32 step      kind (high 4 bits), number of the step in its thread block (low 28 bits)
//! u32 message   see `RecordKind`
//! ```
//!
//! A record stands at the end of a span. The span begins at the record before it of the same
//! thread block, so that a thread block has neither gaps nor overlaps. Records of kind
//! [`RecordKind::Count`] have no span: they stand behind the begin of a launch, with its time.
//!
//! Links count their messages from 1, alike at both ends, for as long as they exist. Who writes
//! records may leave out the numbers of messages, if it writes what each link has had before:
//! every move is one message more on each link of its step.

/// Bytes of a record.
pub const RECORD_BYTES: usize = 16;

/// The greatest number of a step that a record can hold.
pub const STEP_MAX: u32 = (1 << STEP_BITS) - 1;

const STEP_BITS: u32 = 28;

/// A record as it lies in memory and in files.
pub type PackedRecord = [u8; RECORD_BYTES];

/// The end of a span of a thread block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// When, by the clock of the rank's device.
    pub time_ns: u64,
    /// What has ended.
    pub kind: RecordKind,
    /// The step in its thread block; of several that run as one, the first; at most [`STEP_MAX`].
    pub step: u32,
    /// What [`RecordKind`] says.
    pub message: u32,
}

/// What has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordKind {
    /// Nothing: the thread block begins its part of a launch. `message` has the low 32 bits of the
    /// number of the call. A replay of a CUDA graph has the number of the captured call. Of a call
    /// that takes several launches, `step` is the first of this one; otherwise 0.
    Begin,
    /// A wait for room in a link that the step sends by. `message` has the low 32 bits of the
    /// number of the message on its link, or 0: it follows from [`Self::Count`].
    WaitRoom,
    /// A wait for data of a link that the step receives from. `message` is the number of the
    /// message on that link, or 0.
    WaitData,
    /// A wait for a step of another thread block of the same rank.
    WaitBlock,
    /// Copying or reducing one message of the step; it is committed. `message` is the number of the
    /// message on the first link that the step sends by; else on the first that it receives from;
    /// else the round; or 0, if it is not recorded.
    Move,
    /// The thread block's part of the launch.
    End,
    /// Nothing: a link had so many messages before the launch, as the low 32 bits in `message` say.
    /// `step` is the link's place in its thread block: links that it receives from, then links that
    /// it sends by.
    Count,
}

impl RecordKind {
    /// All kinds, in the order of their codes, which begin at 1.
    pub const ALL: [Self; 7] = [
        Self::Begin,
        Self::WaitRoom,
        Self::WaitData,
        Self::WaitBlock,
        Self::Move,
        Self::End,
        Self::Count,
    ];

    /// The code in a record.
    pub const fn code(self) -> u32 {
        match self {
            Self::Begin => 1,
            Self::WaitRoom => 2,
            Self::WaitData => 3,
            Self::WaitBlock => 4,
            Self::Move => 5,
            Self::End => 6,
            Self::Count => 7,
        }
    }

    /// The kind of a code.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl Record {
    /// As it lies in memory. Of a step beyond [`STEP_MAX`] the low bits are kept.
    pub const fn pack(self) -> PackedRecord {
        let Self { time_ns, kind, step, message } = self;
        let step = kind.code() << STEP_BITS | step & STEP_MAX;
        let time = (time_ns as u128).to_le_bytes();
        let rest = ((step as u128) << 64 | (message as u128) << 96).to_le_bytes();
        let (mut packed, mut at) = ([0; RECORD_BYTES], 0);
        while at < RECORD_BYTES {
            packed[at] = time[at] | rest[at];
            at += 1;
        }
        packed
    }

    /// From memory; `None` if its kind is none.
    pub fn unpack(packed: PackedRecord) -> Option<Self> {
        let bits = u128::from_le_bytes(packed);
        let (time_ns, step, message) = (bits as u64, (bits >> 64) as u32, (bits >> 96) as u32);
        let kind = RecordKind::from_code(step >> STEP_BITS)?;
        Some(Self { time_ns, kind, step: step & STEP_MAX, message })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        for kind in RecordKind::ALL {
            for (time_ns, step, message) in [(0, 0, 0), (u64::MAX, STEP_MAX, u32::MAX), (1, 2, 3)] {
                let record = Record { time_ns, kind, step, message };
                assert_eq!(Record::unpack(record.pack()), Some(record));
            }
        }
    }

    #[test]
    fn fields_lie_where_devices_write_them() {
        let (time_ns, kind) = (0x0102_0304_0506_0708, RecordKind::Move);
        let packed = Record { time_ns, kind, step: 0x0a_0b0c, message: 0x1112_1314 }.pack();
        let expected = [8, 7, 6, 5, 4, 3, 2, 1, 0x0c, 0x0b, 0x0a, 0x50, 0x14, 0x13, 0x12, 0x11];
        assert_eq!(packed, expected);
    }

    #[test]
    fn memory_without_a_record_is_none() {
        assert_eq!(Record::unpack([0; RECORD_BYTES]), None);
        assert_eq!(Record::unpack([0xff; RECORD_BYTES]), None);
    }
}

//! Messages of one-sided transfers between nodes: what a sender puts into a window, and how many
//! signals that makes.
//!
//! A message has three words (little-endian), then bytes for a window:
//!
//! | word | meaning |
//! |---|---|
//! | window | in which window of the receiver the bytes go, counted from 1; 0 without bytes |
//! | offset | where in it, in bytes |
//! | signals | how many signals the sender has sent by now, this one included; 0 is none yet |
//!
//! A put is as many messages as its bytes take; the last one has its signal.

/// Bytes before those that go into a window.
pub(super) const HEADER_BYTES: usize = 24;

/// Where the bytes of a message go, and what it signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PutHeader {
    /// The window, counted from 1.
    pub window: u64,
    /// Where in it, in bytes.
    pub offset_bytes: u64,
    /// Signals of the sender so far; none yet, if zero.
    pub signals: u64,
}

impl PutHeader {
    /// Writes it to the start of `slot`, which has room for it; where the bytes go.
    pub fn write(self, slot: &mut [u8]) -> &mut [u8] {
        let Self { window, offset_bytes, signals } = self;
        let (header, data) = slot.split_at_mut(HEADER_BYTES);
        for (word, value) in header.chunks_exact_mut(8).zip([window, offset_bytes, signals]) {
            word.copy_from_slice(&value.to_le_bytes());
        }
        data
    }

    /// What stands at the start of `message`, and the bytes behind it; nothing if it is too short.
    pub fn read(message: &[u8]) -> Option<(Self, &[u8])> {
        let (header, data) = message.split_at_checked(HEADER_BYTES)?;
        let (words, []) = header.as_chunks::<8>() else { return None };
        let &[window, offset_bytes, signals] = words else { return None };
        let [window, offset_bytes, signals] =
            [window, offset_bytes, signals].map(u64::from_le_bytes);
        Some((Self { window, offset_bytes, signals }, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_travel() {
        let header = PutHeader { window: 3, offset_bytes: 1 << 40, signals: 7 };
        let mut slot = [0; 32];
        header.write(&mut slot)[..2].copy_from_slice(&[8, 9]);
        assert_eq!(PutHeader::read(&slot[..26]), Some((header, &[8, 9][..])));
        assert_eq!(PutHeader::read(&slot[..24]), Some((header, &[][..])));
        assert_eq!(PutHeader::read(&slot[..23]), None);
    }
}

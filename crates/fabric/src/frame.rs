//! Messages between ranks, each a header of 21 bytes and a body.

use std::sync::Arc;

use crate::wire::{Malformed, Reader, Writer};

const HEADER_BYTES: usize = 1 + 8 + 8 + 4;

/// The longest body; the fabric carries addresses and agreements, not tensors.
pub(crate) const BODY_LIMIT_BYTES: usize = 1 << 30;

/// What a message is, and how its number is meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Subject {
    /// From one rank to another; the number is the caller's tag.
    Message,
    /// To the hub: a rank has entered operation `number` of the group, with its bytes.
    Contribution,
    /// From the hub: how operation `number` ended.
    Outcome,
    /// To the hub: who has not entered operation `number`?
    Question,
    /// From the hub: those ranks.
    Answer,
    /// The sender has dropped the group; the number means nothing.
    Leave,
    /// Rank `number`, the sender or one of whose end it informs, has given up what it set up; the
    /// body says why. Belongs to no group.
    Reason,
    /// Rank `number` has departed; the body says how. Belongs to no group.
    Departure,
    /// The sender leaves in order; nothing follows. Belongs to no group.
    Goodbye,
    /// To the hub: between two operations the sender waits for rank `number` of the world; for
    /// itself, if for nobody any more.
    Waiting,
}

impl Subject {
    const ALL: [Self; 10] = [
        Self::Message,
        Self::Contribution,
        Self::Outcome,
        Self::Question,
        Self::Answer,
        Self::Leave,
        Self::Reason,
        Self::Departure,
        Self::Goodbye,
        Self::Waiting,
    ];
}

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) subject: Subject,
    pub(crate) group: u64,
    pub(crate) number: u64,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    pub(crate) fn to_bytes(&self) -> Arc<Vec<u8>> {
        let Self { subject, group, number, body } = self;
        let mut writer = Writer(Vec::with_capacity(HEADER_BYTES + body.len()));
        writer.u8(*subject as u8);
        writer.u64(*group);
        writer.u64(*number);
        writer.u32(body.len() as u32);
        writer.0.extend(body);
        Arc::new(writer.0)
    }

    /// Takes the first frame from `bytes`, if it is there as a whole.
    pub(crate) fn take(bytes: &mut &[u8]) -> Result<Option<Self>, Malformed> {
        let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else { return Ok(None) };
        let mut reader = Reader(header);
        let subject = reader.u8()?;
        let subject = Subject::ALL.into_iter().find(|known| *known as u8 == subject);
        let subject = subject.ok_or(Malformed("a message is of no known kind"))?;
        let (group, number, length) = (reader.u64()?, reader.u64()?, reader.u32()? as usize);
        if length > BODY_LIMIT_BYTES {
            return Err(Malformed("a message is too long"));
        }
        let Some((body, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        *bytes = rest;
        Ok(Some(Self { subject, group, number, body: body.to_vec() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_one_by_one_once_complete() {
        let frame = |subject, length| Frame { subject, group: 3, number: 9, body: vec![7; length] };
        let frames = Subject::ALL.map(|subject| frame(subject, 5 * subject as usize));
        let stream: Vec<u8> = frames.iter().flat_map(|frame| frame.to_bytes().to_vec()).collect();
        for cut in 0..=stream.len() {
            let mut front = &stream[..cut];
            let taken: Vec<_> = std::iter::from_fn(|| Frame::take(&mut front).unwrap()).collect();
            assert_eq!(taken, frames[..taken.len()]);
            let taken_bytes: usize =
                taken.iter().map(|frame| HEADER_BYTES + frame.body.len()).sum();
            assert_eq!(front.len(), cut - taken_bytes);
        }
        assert!(Frame::take(&mut &[99; 40][..]).is_err());
        let mut long = frame(Subject::Message, 0).to_bytes().to_vec();
        long[17..].fill(255);
        assert!(Frame::take(&mut &long[..]).is_err());
    }
}

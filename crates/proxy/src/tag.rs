//! What a write says to the peer's proxy, in 32 bits.
//!
//! ```text
//! bits 31..29  28..16   15..0
//!      kind    link     number
//! ```
//!
//! Numbers of messages are cut to 16 bits. That is enough: whoever reads one knows it but for less
//! than twice a ring buffer's depth, and depths are at most [`DEPTH_LIMIT`].

/// Links of one direction between two ranks; what the tag has room for.
pub(crate) const LINKS_LIMIT: usize = 1 << 13;

/// Slots of one ring buffer.
pub(crate) const DEPTH_LIMIT: u32 = 1 << 14;

/// Rails between two ranks; what the mask of [`Tag::Closed`] has room for.
pub(crate) const RAILS_LIMIT: usize = 16;

/// What a write says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tag {
    /// These bytes are message `number` of `link`.
    Message { link: u16, number: u16 },
    /// All messages of `link` up to `number` were taken; their slots are free.
    Taken { link: u16, number: u16 },
    /// All messages of `link` up to `number` have arrived.
    Arrived { link: u16, number: u16 },
    /// In a report: message `number` of `link` has arrived, ahead of others.
    Ahead { link: u16, number: u16 },
    /// A report begins: the sender has closed these rails, and says for every link what has
    /// arrived.
    Closed { rails: u16 },
    /// The report is complete.
    Reported,
    /// The sender leaves in order; it posts no message any more and takes none.
    Farewell,
    /// The sender has read the farewell, and with it all that came before.
    Understood,
}

impl Tag {
    pub(crate) fn encode(self) -> u32 {
        let (kind, link, number) = match self {
            Self::Message { link, number } => (0, link, number),
            Self::Taken { link, number } => (1, link, number),
            Self::Arrived { link, number } => (2, link, number),
            Self::Ahead { link, number } => (3, link, number),
            Self::Closed { rails } => (4, 0, rails),
            Self::Reported => (5, 0, 0),
            Self::Farewell => (6, 0, 0),
            Self::Understood => (7, 0, 0),
        };
        debug_assert!(usize::from(link) < LINKS_LIMIT, "checked when links are connected");
        (kind << 29) | (u32::from(link) << 16) | u32::from(number)
    }

    pub(crate) fn decode(tag: u32) -> Self {
        let link = ((tag >> 16) & (LINKS_LIMIT as u32 - 1)) as u16;
        let number = tag as u16;
        match tag >> 29 {
            0 => Self::Message { link, number },
            1 => Self::Taken { link, number },
            2 => Self::Arrived { link, number },
            3 => Self::Ahead { link, number },
            4 => Self::Closed { rails: number },
            5 => Self::Reported,
            6 => Self::Farewell,
            _ => Self::Understood,
        }
    }
}

/// The number that is cut to `cut`, and lies `floor` or less than 2^16 above it.
pub(crate) fn whole(cut: u16, floor: u64) -> u64 {
    floor + u64::from(cut.wrapping_sub(floor as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive() {
        let (link, number) = (8191, 65535);
        let tags = [
            Tag::Message { link, number },
            Tag::Message { link: 0, number: 0 },
            Tag::Taken { link, number },
            Tag::Arrived { link, number: 7 },
            Tag::Ahead { link: 3, number },
            Tag::Closed { rails: 0x8001 },
            Tag::Reported,
            Tag::Farewell,
            Tag::Understood,
        ];
        for tag in tags {
            assert_eq!(Tag::decode(tag.encode()), tag);
        }
    }

    #[test]
    fn cut_numbers_become_whole_again() {
        for floor in [0_u64, 1, 65_530, 65_536, 1 << 40] {
            for ahead in [0, 1, 100, 65_535] {
                assert_eq!(whole((floor + ahead) as u16, floor), floor + ahead);
            }
        }
    }
}

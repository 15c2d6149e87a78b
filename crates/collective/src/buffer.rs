//! Places for chunks: buffers, slots and regions.

use std::fmt;

/// One of a rank's three buffers. Named scratch buffers of the language are laid out in `Scratch`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Buffer {
    /// What the caller passes in.
    Input = 0,
    /// What the caller gets back.
    Output = 1,
    /// Working memory that belongs to the algorithm; its content is undefined at the start.
    Scratch = 2,
}

impl Buffer {
    /// All buffers, in the order of their letters in dumps.
    pub const ALL: [Buffer; 3] = [Buffer::Input, Buffer::Output, Buffer::Scratch];

    /// The one-letter name used in dumps and in MSCCL XML: `i`, `o`, `s`.
    pub fn letter(self) -> char {
        match self {
            Buffer::Input => 'i',
            Buffer::Output => 'o',
            Buffer::Scratch => 's',
        }
    }

    /// The name used in the language: `input`, `output`, `scratch`.
    pub fn name(self) -> &'static str {
        match self {
            Buffer::Input => "input",
            Buffer::Output => "output",
            Buffer::Scratch => "scratch",
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The place of one chunk on a rank (the rank is known from context); prints as `i[4]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The buffer.
    pub buffer: Buffer,
    /// The position in the buffer, in chunks.
    pub index: u32,
}

impl Slot {
    /// Slot `index` of `buffer`.
    pub fn new(buffer: Buffer, index: u32) -> Self {
        Self { buffer, index }
    }

    /// The run of `count` slots that starts here.
    pub fn run(self, count: u32) -> Region {
        Region { start: self, count }
    }

    /// The slot `chunks` further on in the same buffer.
    pub fn offset(self, chunks: u32) -> Self {
        Self { buffer: self.buffer, index: self.index + chunks }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.buffer.letter(), self.index)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A run of `count` consecutive slots of one buffer; prints as `i[4]` or `i[4..8]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region {
    /// The first slot.
    pub start: Slot,
    /// How many slots, in chunks.
    pub count: u32,
}

impl Region {
    /// The slots, in ascending order.
    pub fn slots(self) -> impl ExactSizeIterator<Item = Slot> {
        (0..self.count).map(move |offset| self.start.offset(offset))
    }

    /// Whether the two regions of one rank share a slot, aliasing aside.
    pub fn overlaps(self, other: Region) -> bool {
        self.start.buffer == other.start.buffer
            && u64::from(self.start.index) < u64::from(other.start.index) + u64::from(other.count)
            && u64::from(other.start.index) < u64::from(self.start.index) + u64::from(self.count)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Region { start, count } = *self;
        match count {
            1 => write!(f, "{start}"),
            _ => {
                let end = u64::from(start.index) + u64::from(count);
                write!(f, "{}[{}..{end}]", start.buffer.letter(), start.index)
            }
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_print_as_half_open_ranges() {
        let slot = Slot::new(Buffer::Output, 4);
        assert_eq!(slot.run(1).to_string(), "o[4]");
        assert_eq!(slot.run(4).to_string(), "o[4..8]");
    }

    #[test]
    fn neighbours_do_not_overlap() {
        let low = Slot::new(Buffer::Input, 0).run(4);
        assert!(!low.overlaps(Slot::new(Buffer::Input, 4).run(1)));
        assert!(low.overlaps(Slot::new(Buffer::Input, 3).run(2)));
        assert!(!low.overlaps(Slot::new(Buffer::Output, 0).run(4)));
    }
}

//! A dense set of small integers.

/// One bit for each of `0 .. len`.
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// `len` bits, all clear.
    pub fn new(len: u64) -> Self {
        Self { words: vec![0; len.div_ceil(64) as usize] }
    }

    /// Whether a bit is set.
    #[inline]
    pub fn get(&self, bit: u64) -> bool {
        self.words[(bit / 64) as usize] & (1 << (bit % 64)) != 0
    }

    /// Sets a bit.
    #[inline]
    pub fn set(&mut self, bit: u64) {
        self.words[(bit / 64) as usize] |= 1 << (bit % 64);
    }
}

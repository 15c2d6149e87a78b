//! Scratch memory: as much as the largest call so far needed.
//!
//! A larger piece does not replace a smaller one, because a graph may hold that. Pieces at least
//! double, so all together they are less than twice the largest.

use msccl_gpu::{CaptureModeGuard, Context, DeviceBuffer};

use crate::error::Error;

/// The smallest piece, in bytes.
const LEAST_BYTES: u64 = 1 << 20;

/// The scratch memory of a rank.
pub(super) struct CudaScratch {
    context: Context,
    pieces: Vec<DeviceBuffer>,
}

impl CudaScratch {
    pub fn new(context: &Context) -> Self {
        Self { context: context.clone(), pieces: Vec::new() }
    }

    /// Gives everything back; nobody may be using it.
    pub fn clear(&mut self) {
        self.pieces.clear();
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.length_bytes() as u64).sum()
    }

    /// The address of at least `bytes` bytes; 0 for none.
    pub fn of(&mut self, bytes: u64) -> Result<u64, Error> {
        if bytes == 0 {
            return Ok(0);
        }
        let largest = self.pieces.last();
        if let Some(piece) = largest.filter(|piece| piece.length_bytes() as u64 >= bytes) {
            return Ok(piece.ptr().0);
        }
        let doubled = largest.map_or(LEAST_BYTES, |piece| 2 * piece.length_bytes() as u64);
        let _relaxed = CaptureModeGuard::relaxed(self.context.device().driver())?;
        let allocate = |bytes: u64| DeviceBuffer::new(&self.context, bytes as usize);
        let piece = allocate(doubled.max(bytes)).or_else(|_| allocate(bytes))?;
        let address = piece.ptr().0;
        self.pieces.push(piece);
        Ok(address)
    }
}

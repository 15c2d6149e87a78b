//! Memory of one rank, which cases write, let calls use, and read back.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use msccl_gpu::{DeviceBuffer, DeviceSpan, VmmAllocation, VmmMapping};
use msccl_runtime::PlaceOfRank;

use crate::Trouble;

/// Where an memory begins: at a multiple of this.
pub const ALIGNMENT: usize = 256;

/// Memory that grows to what a case needs.
pub struct RankMemory {
    place: PlaceOfRank,
    /// On a GPU: whether in virtual memory.
    is_virtual: bool,
    memory: Memory,
    /// What it had on a GPU before it grew. The driver frees memory only when a device is idle, so
    /// it is freed at the end.
    outgrown: Vec<Memory>,
}

/// The least that an memory allocates, so that it seldom grows.
const LENGTH_MIN: usize = 1 << 20;

enum Memory {
    None,
    /// Bytes that an engine may write while others look; `offset` is where the memory begins.
    Host {
        bytes: Vec<AtomicU8>,
        offset: usize,
    },
    Device(DeviceBuffer),
    Virtual(VmmMapping),
}

impl RankMemory {
    /// An empty memory.
    pub fn new(place: PlaceOfRank) -> Self {
        Self { place, is_virtual: false, memory: Memory::None, outgrown: Vec::new() }
    }

    /// An empty memory that is going to lie in virtual memory, if that is of a GPU.
    pub fn in_virtual_memory(place: PlaceOfRank) -> Self {
        Self { is_virtual: true, ..Self::new(place) }
    }

    /// An empty memory of the same kind.
    pub fn another(&self) -> Self {
        Self { is_virtual: self.is_virtual, ..Self::new(self.place.clone()) }
    }

    /// Grows to `length` bytes, if it is smaller; it may lie elsewhere afterwards.
    pub fn reserve(&mut self, length: usize) -> Result<(), Trouble> {
        if self.length_bytes() < length {
            let length = length.next_power_of_two().max(LENGTH_MIN);
            let outgrown = std::mem::replace(&mut self.memory, Memory::None);
            match outgrown {
                Memory::None | Memory::Host { .. } => drop(outgrown),
                Memory::Device(_) | Memory::Virtual(_) => self.outgrown.push(outgrown),
            }
            self.memory = Memory::new(&self.place, self.is_virtual, length)?;
        }
        Ok(())
    }

    /// Writes `bytes` at its beginning, growing it if it must; it may lie elsewhere afterwards.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.reserve(bytes.len())?;
        self.write_at(0, bytes)
    }

    /// Writes `bytes` from byte `start` on; it is long enough.
    pub fn write_at(&self, start: usize, bytes: &[u8]) -> Result<(), Trouble> {
        let range = start..start + bytes.len();
        match &self.memory {
            Memory::None => {}
            Memory::Host { bytes: memory, offset } => {
                let cells = memory[*offset..][range].iter();
                cells.zip(bytes).for_each(|(cell, byte)| cell.store(*byte, Ordering::Relaxed));
            }
            Memory::Device(buffer) => buffer.span().slice(range)?.write(bytes)?,
            Memory::Virtual(mapping) => mapping.span().slice(range)?.write(bytes)?,
        }
        Ok(())
    }

    /// Sets every byte of `range` to `byte`; it is long enough.
    pub fn fill(&self, range: Range<usize>, byte: u8) -> Result<(), Trouble> {
        match &self.memory {
            Memory::None => {}
            Memory::Host { bytes, offset } => {
                let cells = bytes[*offset..][range].iter();
                cells.for_each(|cell| cell.store(byte, Ordering::Relaxed));
            }
            Memory::Device(buffer) => buffer.span().slice(range)?.fill(byte)?,
            Memory::Virtual(mapping) => mapping.span().slice(range)?.fill(byte)?,
        }
        Ok(())
    }

    /// Its first `length` bytes.
    pub fn read(&self, length: usize) -> Result<Vec<u8>, Trouble> {
        self.read_at(0..length)
    }

    /// Its bytes in `range`; it is long enough.
    pub fn read_at(&self, range: Range<usize>) -> Result<Vec<u8>, Trouble> {
        match &self.memory {
            Memory::None => Ok(Vec::new()),
            Memory::Host { bytes, offset } => {
                let cells = bytes[*offset..][range].iter();
                Ok(cells.map(|cell| cell.load(Ordering::Relaxed)).collect())
            }
            Memory::Device(buffer) => read(buffer.span().slice(range)?),
            Memory::Virtual(mapping) => read(mapping.span().slice(range)?),
        }
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        match &self.memory {
            Memory::None => 0,
            Memory::Host { bytes, offset } => bytes[*offset..].as_ptr().addr() as u64,
            Memory::Device(buffer) => buffer.ptr().0,
            Memory::Virtual(mapping) => mapping.ptr().0,
        }
    }

    /// How long it is.
    pub fn length_bytes(&self) -> usize {
        match &self.memory {
            Memory::None => 0,
            Memory::Host { bytes, offset } => bytes.len() - offset,
            Memory::Device(buffer) => buffer.length_bytes(),
            Memory::Virtual(mapping) => mapping.length_bytes(),
        }
    }
}

fn read(span: DeviceSpan<'_>) -> Result<Vec<u8>, Trouble> {
    let mut bytes = vec![0; span.length_bytes()];
    span.read(&mut bytes)?;
    Ok(bytes)
}

impl Memory {
    fn new(place: &PlaceOfRank, is_virtual: bool, length: usize) -> Result<Self, Trouble> {
        match place {
            PlaceOfRank::Host => {
                let bytes: Vec<_> = (0..length + ALIGNMENT).map(|_| AtomicU8::new(0)).collect();
                let offset = bytes.as_ptr().addr().wrapping_neg() % ALIGNMENT;
                Ok(Self::Host { bytes, offset })
            }
            PlaceOfRank::Gpu(context) if is_virtual => {
                let allocation = VmmAllocation::new(context, length)?;
                Ok(Self::Virtual(allocation.map(&[context.device()])?))
            }
            PlaceOfRank::Gpu(context) => Ok(Self::Device(DeviceBuffer::new(context, length)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_begins_aligned() {
        let mut memory = RankMemory::new(PlaceOfRank::Host);
        for length in [1, 3, 1000, 5] {
            let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            memory.write(&bytes).unwrap();
            assert_eq!(memory.read(length).unwrap(), bytes);
            assert_eq!(memory.address() % ALIGNMENT as u64, 0);
        }
        memory.write_at(2, &[7, 8]).unwrap();
        memory.fill(3..5, 9).unwrap();
        assert_eq!(memory.read_at(1..5).unwrap(), [1, 7, 9, 9]);
    }
}

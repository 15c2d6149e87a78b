//! The buffers of one rank.

use msccl_collective::{Buffer, Collective, Rank, Slot};
use msccl_gpu::{DeviceBuffer, Error};
use msccl_runtime::PlaceOfRank;

/// Where an output that shares no memory with the input begins: at a multiple of this.
const ALIGNMENT_BYTES: usize = 256;

/// What buffers hold before a call, except for the input.
const UNWRITTEN: u8 = 0xa5;

/// Where input and output of a rank lie in one piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BufferLayout {
    /// Length of the memory.
    pub bytes: usize,
    /// Where the input begins.
    send: usize,
    /// Where the output begins.
    receive: usize,
    output_bytes: usize,
}

impl BufferLayout {
    /// The layout of a call on blocks of `block_bytes` bytes.
    pub fn of(collective: &Collective, rank: Rank, in_place: bool, block_bytes: usize) -> Self {
        let chunks = collective.chunks.max(1) as usize;
        let bytes = |chunk: u32| (chunk as usize / chunks).saturating_mul(block_bytes);
        let input_bytes = bytes(collective.input_chunks(rank));
        let output_bytes = bytes(collective.output_chunks(rank));
        let first = |buffer| collective.in_place(rank, Slot::new(buffer, 0));
        let (input, output) = (first(Buffer::Input), first(Buffer::Output));
        if in_place && input.buffer == output.buffer {
            let (send, receive) = (bytes(input.index), bytes(output.index));
            let bytes =
                (send.saturating_add(input_bytes)).max(receive.saturating_add(output_bytes));
            return Self { bytes, send, receive, output_bytes };
        }
        let receive = input_bytes.checked_next_multiple_of(ALIGNMENT_BYTES).unwrap_or(usize::MAX);
        let bytes = receive.saturating_add(output_bytes);
        Self { bytes, send: 0, receive, output_bytes }
    }
}

/// Memory of a rank, as long as its calls need, and what lies where in it.
pub struct Buffers {
    place: PlaceOfRank,
    memory: Memory,
    layout: BufferLayout,
}

enum Memory {
    None,
    Host(Vec<u8>),
    Gpu(DeviceBuffer),
}

impl Buffers {
    /// No buffers yet.
    pub fn new(place: PlaceOfRank) -> Self {
        Self { place, memory: Memory::None, layout: BufferLayout::default() }
    }

    /// Makes buffers of that layout with `input` in place.
    pub fn fill(&mut self, layout: BufferLayout, input: &[u8]) -> Result<(), Error> {
        if self.layout.bytes < layout.bytes || matches!(self.memory, Memory::None) {
            // What is outgrown is freed first.
            self.memory = Memory::None;
            self.memory = Memory::new(&self.place, layout.bytes.max(1))?;
        }
        self.layout = layout;
        let at = layout.send..layout.send + input.len();
        match &mut self.memory {
            Memory::None => {}
            Memory::Host(bytes) => {
                bytes.fill(UNWRITTEN);
                bytes[at].copy_from_slice(input);
            }
            Memory::Gpu(buffer) => {
                buffer.span().fill(UNWRITTEN)?;
                buffer.span().slice(at)?.write(input)?;
            }
        }
        Ok(())
    }

    /// Where the input lies and the output goes, as a call names them.
    pub fn addresses(&mut self) -> (u64, u64) {
        let start = match &mut self.memory {
            Memory::None => 0,
            Memory::Host(bytes) => bytes.as_mut_ptr().expose_provenance() as u64,
            Memory::Gpu(buffer) => buffer.ptr().0,
        };
        (start + self.layout.send as u64, start + self.layout.receive as u64)
    }

    /// The whole output.
    pub fn output(&self) -> Result<Vec<u8>, Error> {
        let BufferLayout { receive, output_bytes, .. } = self.layout;
        let at = receive..receive + output_bytes;
        match &self.memory {
            Memory::None => Ok(Vec::new()),
            Memory::Host(bytes) => Ok(bytes[at].to_vec()),
            Memory::Gpu(buffer) => {
                let mut output = vec![0; output_bytes];
                buffer.span().slice(at)?.read(&mut output)?;
                Ok(output)
            }
        }
    }
}

impl Memory {
    fn new(place: &PlaceOfRank, bytes: usize) -> Result<Self, Error> {
        match place {
            PlaceOfRank::Host => Ok(Memory::Host(vec![0; bytes])),
            PlaceOfRank::Gpu(context) => Ok(Memory::Gpu(DeviceBuffer::new(context, bytes)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use msccl_collective::Kind;

    use super::*;

    /// The layout on r1 of three ranks, in blocks of 8 bytes.
    #[track_caller]
    fn check(kind: Kind, in_place: bool, bytes: usize, send: usize, receive: usize) {
        let collective = Collective { kind, ranks: 3, chunks: 2 };
        let layout = BufferLayout::of(&collective, Rank(1), in_place, 8);
        assert_eq!((layout.bytes, layout.send, layout.receive), (bytes, send, receive));
    }

    #[test]
    fn layouts_share_memory_as_the_collective_says() {
        let root = Rank(1);
        check(Kind::AllReduce, true, 8, 0, 0);
        check(Kind::AllReduce, false, 264, 0, 256);
        check(Kind::AllToAll, true, 24, 0, 0);
        check(Kind::AllGather, true, 24, 8, 0);
        check(Kind::ReduceScatter, true, 24, 0, 8);
        check(Kind::Gather { root }, true, 24, 8, 0);
        check(Kind::Gather { root: Rank(0) }, true, 256, 0, 256);
        check(Kind::Scatter { root }, true, 24, 0, 8);
        check(Kind::Scatter { root: Rank(0) }, true, 8, 0, 0);
        check(Kind::Broadcast { root: Rank(0) }, true, 8, 0, 0);
    }
}

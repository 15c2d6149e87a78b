//! How one call cuts its buffers: chunks, parts, slices and rounds.
//!
//! A block of `E` elements has `K` chunks of `L = ceil(E / K)` elements; elements from `E` on do
//! not exist. Where the plan serves every count, `L` is rounded up so that chunks start at
//! multiples of [`ALIGNMENT_BYTES`]; where it serves only counts that `K` divides, no chunk may be
//! shorter than another, so `L` stays. Each of the instances that run side by side handles one part
//! of every chunk, and each round one slice of that part; both start at multiples of the alignment
//! unit. What is proved of rounds holds of instances: they touch different memory and different
//! links.
//!
//! Where `E` is no multiple of what chunks and alignment units make, the last chunk of a block
//! *ends early*. Its slice there is cut as all others are: kernels move what all operands have as
//! they move whole chunks, and only what is missing to an alignment unit, or to the end of the
//! chunk, aside.

use msccl_collective::Protocol;
use msccl_ir::Packing;

use crate::program::{Counts, LinkLimits, Program};

/// What a thread loads at once.
pub const ALIGNMENT_BYTES: u64 = 16;

/// What caches move at once; slices of several rounds begin with one.
const LINE_BYTES: u64 = 128;

/// The measures of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Bytes of one block of input or output.
    pub block_bytes: u64,
    /// Bytes of a chunk at full length.
    pub chunk_bytes: u64,
    /// Bytes of a chunk that one instance handles, a multiple of the alignment unit; the last part
    /// may be shorter or empty.
    pub part_bytes: u64,
    /// Bytes of a part that one round handles, a multiple of the alignment unit; the last slice may
    /// be shorter or empty. Slices of several rounds are as alike as lines of caches allow: a short
    /// last one would take nearly as long as a whole one, and leave the others longer, for which
    /// the next rank waits.
    pub slice_bytes: u64,
    /// How often the program runs.
    pub rounds: u32,
    /// Copies of the program that run side by side.
    pub instances: u32,
    /// Chunks of a counted step that share one message.
    pub chunks_per_message: u32,
}

impl Cut {
    /// A call of `program` on blocks of `elements` elements by `instances` instances; `None` if a
    /// number exceeds its field.
    pub fn new(
        program: &Program,
        elements: u64,
        element_bytes: u64,
        instances: u32,
    ) -> Option<Self> {
        let slice_limit = u64::from(program.links.slice_bytes);
        Self::with_slices(program, elements, element_bytes, instances, slice_limit)
    }

    /// The same call where a message under `protocol` has `slot_bytes` bytes on its link. A proof
    /// for whole messages holds for slices of any length, so they are as long as fit; otherwise no
    /// longer than the program says. `None` also if not even the shortest slice fits.
    pub fn within(
        program: &Program,
        elements: u64,
        element_bytes: u64,
        instances: u32,
        protocol: Protocol,
        slot_bytes: u64,
    ) -> Option<Self> {
        let LinkLimits { message_bytes, slice_bytes, packing, count_limit, .. } = program.links;
        let (chunks, proved) = match packing {
            // Slices are the message divided by the largest count of any step of any rank.
            Packing::Whole => (message_bytes / slice_bytes.max(1), u64::MAX),
            Packing::Fitting => (count_limit, u64::from(slice_bytes)),
        };
        let slice_limit = data_bytes(protocol, slot_bytes / u64::from(chunks.max(1))).min(proved);
        let cut = Self::with_slices(program, elements, element_bytes, instances, slice_limit)?;
        (slice_limit >= ALIGNMENT_BYTES).then_some(cut)
    }

    fn with_slices(
        program: &Program,
        elements: u64,
        element_bytes: u64,
        instances: u32,
        slice_limit: u64,
    ) -> Option<Self> {
        let instances = instances.max(1);
        let chunk_bytes = chunk_bytes(program, elements, element_bytes)?;
        let part_bytes = aligned(chunk_bytes.div_ceil(u64::from(instances)))?;
        let most = (slice_limit / ALIGNMENT_BYTES * ALIGNMENT_BYTES).max(ALIGNMENT_BYTES);
        let rounds = part_bytes.div_ceil(most);
        // Nothing has no slices.
        let alike = part_bytes.div_ceil(rounds.max(1)).checked_next_multiple_of(LINE_BYTES)?;
        let slice_bytes = alike.min(part_bytes).min(most);
        Some(Self {
            block_bytes: elements.checked_mul(element_bytes)?,
            chunk_bytes,
            part_bytes,
            slice_bytes,
            rounds: u32::try_from(rounds).ok()?,
            instances,
            chunks_per_message: program.links.chunks_per_message(part_bytes),
        })
    }

    /// Bytes that a scratch buffer of `chunks` chunks needs: each starts at a multiple of the
    /// alignment unit.
    pub fn scratch_bytes(&self, chunks: u32) -> Option<u64> {
        aligned(self.chunk_bytes)?.checked_mul(u64::from(chunks))
    }

    /// Bytes that the largest message of this call takes in a slot under `protocol`, when no step
    /// counts more than `count_max` chunks; a multiple of 128.
    pub fn message_wire_bytes(&self, protocol: Protocol, count_max: u32) -> Option<u64> {
        let chunks = u64::from(self.chunks_per_message.min(count_max.max(1)));
        let bytes = wire_bytes(protocol, self.slice_bytes).checked_mul(chunks)?;
        bytes.checked_next_multiple_of(128)
    }
}

/// Bytes of a chunk at full length in a call of `program` on blocks of `elements` elements; `None`
/// if that exceeds 64 bits.
pub fn chunk_bytes(program: &Program, elements: u64, element_bytes: u64) -> Option<u64> {
    let chunk = elements.div_ceil(u64::from(program.geometry.block_chunks.max(1)));
    let bytes = chunk.checked_mul(element_bytes)?;
    match program.counts {
        Counts::Any => aligned(bytes),
        Counts::Divisible => Some(bytes),
    }
}

/// Bytes that `data_bytes` bytes of a chunk take in a slot under `protocol`. Every chunk of a
/// message starts afresh.
pub fn wire_bytes(protocol: Protocol, data_bytes: u64) -> u64 {
    match protocol {
        Protocol::Simple => data_bytes.div_ceil(16) * 16,
        // Eight of sixteen bytes are data.
        Protocol::Ll => data_bytes.div_ceil(8) * 16,
        // 120 of 128 bytes are data.
        Protocol::Ll128 => data_bytes.div_ceil(120) * 128,
    }
}

/// Most bytes of a chunk, in whole alignment units, that take no more than `wire_bytes` bytes under
/// `protocol`.
pub fn data_bytes(protocol: Protocol, wire_bytes: u64) -> u64 {
    let data_bytes = match protocol {
        Protocol::Simple => wire_bytes,
        Protocol::Ll => wire_bytes / 16 * 8,
        Protocol::Ll128 => wire_bytes / 128 * 120,
    };
    data_bytes / ALIGNMENT_BYTES * ALIGNMENT_BYTES
}

/// `bytes`, rounded up to whole alignment units.
fn aligned(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(ALIGNMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use msccl_collective::{Placement, Rank};

    use super::*;
    use crate::program::{Alias, Geometry};

    fn program(block_chunks: u32, slice_bytes: u32, counts: Counts) -> Program {
        let (depth, message_bytes, packing) = (4, slice_bytes, Packing::Whole);
        let (input_chunks, output_chunks, scratch_chunks) = (block_chunks, block_chunks, 0);
        Program {
            rank: Rank(0),
            ranks: 1,
            protocol: Protocol::Simple,
            placement: Placement::Both,
            alias: Alias::Same,
            geometry: Geometry { block_chunks, input_chunks, output_chunks, scratch_chunks },
            threads: None,
            links: LinkLimits { depth, message_bytes, slice_bytes, packing, count_limit: 8 },
            average: None,
            counts,
            thread_blocks: Vec::new(),
        }
    }

    /// Every byte of a chunk belongs to one round of one instance.
    fn check(program: &Program, elements: u64, element_bytes: u64, instances: u32) {
        let cut = Cut::new(program, elements, element_bytes, instances).unwrap();
        let chunks = u64::from(program.geometry.block_chunks);
        assert!(cut.chunk_bytes * chunks >= cut.block_bytes);
        let mut seen = vec![0; cut.chunk_bytes as usize];
        for instance in 0..u64::from(cut.instances) {
            for round in 0..u64::from(cut.rounds) {
                let part_end = ((instance + 1) * cut.part_bytes).min(cut.chunk_bytes);
                let start = (instance * cut.part_bytes + round * cut.slice_bytes).min(part_end);
                let end = (start + cut.slice_bytes).min(part_end);
                assert!(start.is_multiple_of(ALIGNMENT_BYTES) || start == end);
                (start..end).for_each(|byte| seen[byte as usize] += 1);
            }
        }
        assert!(seen.iter().all(|&times| times == 1), "{cut:?} {seen:?}");
    }

    #[test]
    fn every_byte_of_a_chunk_is_handled_once() {
        for elements in [0, 1, 7, 8, 1000, 1245] {
            for (element_bytes, block_chunks) in [(1, 1), (2, 3), (4, 8), (8, 3)] {
                for (slice, instances) in [(16, 1), (48, 3), (100, 2), (1 << 20, 5)] {
                    for counts in [Counts::Any, Counts::Divisible] {
                        let program = program(block_chunks, slice, counts);
                        check(&program, elements, element_bytes, instances);
                    }
                }
            }
        }
    }

    /// Bytes of all chunks that are not moved as whole chunks are, in a call on aligned buffers.
    fn bytes_aside(program: &Program, cut: &Cut) -> u64 {
        let mut all = 0;
        for instance in 0..u64::from(cut.instances) {
            for round in 0..u64::from(cut.rounds) {
                let part_end = ((instance + 1) * cut.part_bytes).min(cut.chunk_bytes);
                let start = (instance * cut.part_bytes + round * cut.slice_bytes).min(part_end);
                let length = cut.slice_bytes.min(part_end - start);
                for chunk in 0..u64::from(program.geometry.block_chunks) {
                    let exists = cut.block_bytes.saturating_sub(chunk * cut.chunk_bytes + start);
                    all += length - exists.min(length) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
                }
            }
        }
        all
    }

    #[test]
    fn what_ends_early_costs_no_rounds_and_is_short() {
        let sevenths = std::iter::successors(Some(1000_u64), |bytes| Some(bytes * 7 / 5));
        let sizes: Vec<u64> = sevenths.take_while(|bytes| *bytes < 1 << 30).collect();
        for (block_chunks, instances) in
            [(1, 16), (4, 1), (4, 32), (8, 4), (8, 16), (16, 8), (64, 2)]
        {
            let program = program(block_chunks, 1 << 20, Counts::Any);
            let cut = |elements| {
                Cut::within(&program, elements, 4, instances, Protocol::Simple, 128 << 10).unwrap()
            };
            for bytes in &sizes {
                for elements in [bytes / 4, (bytes / 4) | 1] {
                    let (odd, even) = (cut(elements), cut(elements.next_power_of_two()));
                    assert!(odd.rounds <= even.rounds, "{odd:?}, {even:?}");
                    assert!(odd.slice_bytes <= even.slice_bytes, "{odd:?}, {even:?}");
                    // To an element and an alignment unit for each chunk, and what is left of one.
                    let most = u64::from(block_chunks) * (4 + ALIGNMENT_BYTES) + ALIGNMENT_BYTES;
                    assert!(bytes_aside(&program, &odd) < most, "{odd:?}");
                }
            }
        }
    }

    #[test]
    fn rounds_are_alike() {
        let program = program(1, 1 << 20, Counts::Any);
        let slices = |bytes: u64, slot_bytes: u64| {
            let cut = Cut::within(&program, bytes, 1, 1, Protocol::Simple, slot_bytes).unwrap();
            (cut.slice_bytes, cut.rounds)
        };
        assert_eq!(slices(128 << 10, 128 << 10), (128 << 10, 1));
        // Not 128 KiB and one alignment unit.
        assert_eq!(slices((128 << 10) + 16, 128 << 10), ((64 << 10) + 128, 2));
        assert_eq!(slices(384 << 10, 128 << 10), (128 << 10, 3));
        assert_eq!(slices(1_000_000, 77_824), (76_928, 13));
        assert_eq!(slices(100, 48), (48, 3));
    }

    #[test]
    fn whole_blocks_are_whole_everywhere() {
        let mut program = program(8, 1 << 20, Counts::Any);
        for power in 10..30 {
            let cut = Cut::within(&program, 1 << (power - 2), 4, 8, Protocol::Simple, 128 << 10);
            let cut = cut.unwrap();
            assert_eq!(bytes_aside(&program, &cut), 0, "{cut:?}");
            assert_eq!(cut.slice_bytes, cut.part_bytes.min(128 << 10), "{cut:?}");
        }
        // Ranks with more blocks than others cut as the others do.
        let odd = Cut::within(&program, (3 << 20) + 1, 4, 8, Protocol::Simple, 128 << 10);
        program.geometry.output_chunks *= 2;
        let several = Cut::within(&program, (3 << 20) + 1, 4, 8, Protocol::Simple, 128 << 10);
        assert_eq!(several, odd);
    }

    #[test]
    fn chunks_are_rounded_where_some_may_be_short() {
        assert_eq!(chunk_bytes(&program(8, 64, Counts::Any), 8, 4), Some(16));
        assert_eq!(chunk_bytes(&program(8, 64, Counts::Divisible), 8, 4), Some(4));
    }

    #[test]
    fn nothing_runs_for_empty_blocks() {
        assert_eq!(Cut::new(&program(8, 64, Counts::Any), 0, 4, 2).unwrap().rounds, 0);
    }

    #[test]
    fn a_message_has_room_for_flags() {
        let cut = Cut::new(&program(1, 1 << 20, Counts::Any), 300, 1, 1).unwrap();
        assert_eq!(cut.chunk_bytes, 304);
        assert_eq!(cut.message_wire_bytes(Protocol::Simple, 1), Some(384));
        assert_eq!(cut.message_wire_bytes(Protocol::Ll, 1), Some(640));
        assert_eq!(cut.message_wire_bytes(Protocol::Ll128, 2), Some(768));
    }

    #[test]
    fn slices_fit_their_slots() {
        let mut program = program(2, 64, Counts::Any);
        for protocol in Protocol::ALL {
            for (slot_bytes, chunks) in [(128, 1), (1 << 10, 3), (128 << 10, 8)] {
                program.links.message_bytes = 1 << 20;
                program.links.slice_bytes = (1 << 20) / chunks;
                let cut = Cut::within(&program, 1 << 20, 4, 3, protocol, slot_bytes).unwrap();
                let taken = wire_bytes(protocol, cut.slice_bytes) * u64::from(chunks);
                assert!(cut.slice_bytes > 0 && taken <= slot_bytes, "{protocol} {slot_bytes}");
            }
        }
        assert_eq!(Cut::within(&program, 64, 4, 1, Protocol::Ll, 16), None);
    }

    #[test]
    fn too_large_a_call_is_refused() {
        assert_eq!(Cut::new(&program(1, 64, Counts::Any), u64::MAX / 2, 8, 1), None);
        assert_eq!(chunk_bytes(&program(1, 64, Counts::Any), u64::MAX, 1), None);
    }
}

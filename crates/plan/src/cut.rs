//! How one call cuts its buffers: chunks, parts, slices and rounds.
//!
//! A block of `E` elements has `K` chunks of `L = ceil(E / K)` elements; elements from `E` on do not
//! exist. Where the plan serves every count, `L` is rounded up so that chunks start at multiples of
//! [`GRAIN_BYTES`]; where it serves only counts that `K` divides, no chunk may be shorter than
//! another, so `L` stays. Each of the instances that run side by side handles one part of every
//! chunk, and each round one slice of that part; both start at multiples of the grain. What is proved
//! of rounds holds of instances: they touch different memory and different links.
//!
//! Where `E` is no multiple of what chunks and grains make, the last chunk of a block *ends early*. Packets do not mind.
//! Under protocol Simple the slice in which it does is moved with fewer loads in flight, in every chunk, from its first
//! byte to its last. So there it is a short one of its own, where slices are long: kernels move no more than
//! [`RAGGED_MOST_BYTES`] of a chunk that way because of where a block ends. Blocks that do not *begin* at multiples of
//! the grain are moved so wherever they are cut.

use msccl_collective::Protocol;
use msccl_ir::Packing;

use crate::program::{Counts, LinkLimits, Program};

/// What a thread loads at once.
pub const GRAIN_BYTES: u64 = 16;

/// As much of a chunk as may be moved with few loads in flight, since another slice would take as long: what the threads
/// of the largest block load in two goes.
pub const RAGGED_MOST_BYTES: u64 = 16 << 10;

/// The measures of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Bytes of one block of input or output.
    pub block_bytes: u64,
    /// Bytes of a chunk at full length.
    pub chunk_bytes: u64,
    /// Bytes of a chunk that one instance handles, a multiple of the grain; the last part may be
    /// shorter or empty.
    pub part_bytes: u64,
    /// Bytes of a part that one round handles, a multiple of the grain; the last slice may be shorter
    /// or empty.
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
        Self::with_slices(
            program,
            elements,
            element_bytes,
            instances,
            program.protocol,
            slice_limit,
        )
    }

    /// The same call where a message under `protocol` has `slot_bytes` bytes on its link. A proof for
    /// whole messages holds for slices of any length, so they are as long as fit; otherwise no longer
    /// than the program says. `None` also if not even the shortest slice fits.
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
        let cut =
            Self::with_slices(program, elements, element_bytes, instances, protocol, slice_limit)?;
        (slice_limit >= GRAIN_BYTES).then_some(cut)
    }

    fn with_slices(
        program: &Program,
        elements: u64,
        element_bytes: u64,
        instances: u32,
        protocol: Protocol,
        slice_limit: u64,
    ) -> Option<Self> {
        let instances = instances.max(1);
        let chunk_bytes = chunk_bytes(program, elements, element_bytes)?;
        let part_bytes = grains(chunk_bytes.div_ceil(u64::from(instances)))?;
        let most = (slice_limit / GRAIN_BYTES * GRAIN_BYTES).max(GRAIN_BYTES);
        let block_bytes = elements.checked_mul(element_bytes)?;
        let short_bytes = part_bytes.checked_mul(u64::from(instances))?.saturating_sub(chunk_bytes);
        let ragged_bytes = match (protocol, early_bytes(program, block_bytes, chunk_bytes)?) {
            (Protocol::Ll | Protocol::Ll128, _) | (Protocol::Simple, 0) => 0,
            // Of the last part, which ends with the chunk.
            (Protocol::Simple, early_bytes) => early_bytes + short_bytes,
        };
        let (slice_bytes, rounds) = slices(part_bytes, most, ragged_bytes);
        Some(Self {
            block_bytes,
            chunk_bytes,
            part_bytes,
            slice_bytes,
            rounds: u32::try_from(rounds).ok()?,
            instances,
            chunks_per_message: program.links.chunks_per_message(part_bytes),
        })
    }

    /// Bytes that a scratch buffer of `chunks` chunks needs: each starts at a multiple of the grain.
    pub fn scratch_bytes(&self, chunks: u32) -> Option<u64> {
        grains(self.chunk_bytes)?.checked_mul(u64::from(chunks))
    }

    /// Bytes that the largest message of this call takes in a slot under `protocol`, when no step
    /// counts more than `count_max` chunks; a multiple of 128.
    pub fn message_wire_bytes(&self, protocol: Protocol, count_max: u32) -> Option<u64> {
        let chunks = u64::from(self.chunks_per_message.min(count_max.max(1)));
        let bytes = wire_bytes(protocol, self.slice_bytes).checked_mul(chunks)?;
        bytes.checked_next_multiple_of(128)
    }
}

/// Bytes at the end of the last chunk of a block that do not exist; `None` if they exceed 64 bits. Of blocks alone, which
/// are the same on all ranks: how many blocks a buffer has is not, and all must cut alike.
fn early_bytes(program: &Program, block_bytes: u64, chunk_bytes: u64) -> Option<u64> {
    let chunks = u64::from(program.geometry.block_chunks.max(1));
    Some(chunk_bytes.checked_mul(chunks)?.saturating_sub(block_bytes))
}

/// Bytes of a slice, of at most `most` bytes, and how many a part has at whose end `ragged_bytes` bytes are ragged: these
/// have a last slice of their own, unless that is short anyway.
fn slices(part_bytes: u64, most: u64, ragged_bytes: u64) -> (u64, u64) {
    let even = part_bytes.min(most);
    if even == 0 {
        return (0, 0);
    }
    let rounds = part_bytes.div_ceil(even);
    let last_bytes = part_bytes - (rounds - 1) * even;
    let is_short = (ragged_bytes..=RAGGED_MOST_BYTES).contains(&last_bytes);
    let whole_bytes = part_bytes.saturating_sub(ragged_bytes);
    if ragged_bytes == 0
        || is_short
        || part_bytes <= RAGGED_MOST_BYTES
        || whole_bytes < part_bytes / 2
    {
        return (even, rounds);
    }
    let slice_bytes = whole_bytes / whole_bytes.div_ceil(even) / GRAIN_BYTES * GRAIN_BYTES;
    (slice_bytes, part_bytes.div_ceil(slice_bytes))
}

/// Bytes of a chunk at full length in a call of `program` on blocks of `elements` elements; `None` if
/// that exceeds 64 bits.
pub fn chunk_bytes(program: &Program, elements: u64, element_bytes: u64) -> Option<u64> {
    let chunk = elements.div_ceil(u64::from(program.geometry.block_chunks.max(1)));
    let bytes = chunk.checked_mul(element_bytes)?;
    match program.counts {
        Counts::Any => grains(bytes),
        Counts::Divisible => Some(bytes),
    }
}

/// Bytes that `data_bytes` bytes of a chunk take in a slot under `protocol`. Every chunk of a message
/// starts afresh.
pub fn wire_bytes(protocol: Protocol, data_bytes: u64) -> u64 {
    match protocol {
        Protocol::Simple => data_bytes.div_ceil(16) * 16,
        // Eight of sixteen bytes are data.
        Protocol::Ll => data_bytes.div_ceil(8) * 16,
        // 120 of 128 bytes are data.
        Protocol::Ll128 => data_bytes.div_ceil(120) * 128,
    }
}

/// Most bytes of a chunk, in whole grains, that take no more than `wire_bytes` bytes under `protocol`.
pub fn data_bytes(protocol: Protocol, wire_bytes: u64) -> u64 {
    let data_bytes = match protocol {
        Protocol::Simple => wire_bytes,
        Protocol::Ll => wire_bytes / 16 * 8,
        Protocol::Ll128 => wire_bytes / 128 * 120,
    };
    data_bytes / GRAIN_BYTES * GRAIN_BYTES
}

/// `bytes`, rounded up to whole grains.
fn grains(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(GRAIN_BYTES)
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
            average_of: None,
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
                assert!(start.is_multiple_of(GRAIN_BYTES) || start == end);
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

    /// Of one chunk, or all of them: bytes that kernels move slowly in a call on aligned buffers, and at most at once. A
    /// chunk is moved fast in a slice of whole grains all of which exist.
    fn slow_bytes(program: &Program, cut: &Cut) -> (u64, u64) {
        let (mut all, mut at_once) = (0, 0);
        for instance in 0..u64::from(cut.instances) {
            for round in 0..u64::from(cut.rounds) {
                let part_end = ((instance + 1) * cut.part_bytes).min(cut.chunk_bytes);
                let start = (instance * cut.part_bytes + round * cut.slice_bytes).min(part_end);
                let length = cut.slice_bytes.min(part_end - start);
                for chunk in 0..u64::from(program.geometry.block_chunks) {
                    let exists = cut.block_bytes.saturating_sub(chunk * cut.chunk_bytes + start);
                    if !length.is_multiple_of(GRAIN_BYTES) || exists < length {
                        all += length;
                        at_once = length.max(at_once);
                    }
                }
            }
        }
        (all, at_once)
    }

    #[test]
    fn blocks_that_end_early_are_slow_only_there() {
        let sevenths = std::iter::successors(Some(1000_u64), |bytes| Some(bytes * 7 / 5));
        let sizes: Vec<u64> = sevenths.take_while(|bytes| *bytes < 1 << 30).collect();
        for (block_chunks, instances) in
            [(1, 16), (4, 1), (4, 32), (8, 4), (8, 16), (16, 8), (64, 2)]
        {
            let program = program(block_chunks, 1 << 20, Counts::Any);
            for bytes in &sizes {
                for elements in [bytes / 4, (bytes / 4) | 1] {
                    let cut =
                        Cut::within(&program, elements, 4, instances, Protocol::Simple, 128 << 10);
                    let cut = cut.unwrap();
                    let (all, at_once) = slow_bytes(&program, &cut);
                    assert!(at_once <= RAGGED_MOST_BYTES, "{cut:?}: {at_once}");
                    // Of all chunks one or two end early, where they are long.
                    assert!(all <= 3 * RAGGED_MOST_BYTES, "{cut:?}: {all}");
                    assert!(cut.slice_bytes <= 128 << 10);
                }
            }
        }
    }

    #[test]
    fn whole_blocks_are_cut_evenly_and_never_slow() {
        let mut program = program(8, 1 << 20, Counts::Any);
        for power in 10..30 {
            let cut = Cut::within(&program, 1 << (power - 2), 4, 8, Protocol::Simple, 128 << 10);
            let cut = cut.unwrap();
            assert_eq!(slow_bytes(&program, &cut), (0, 0), "{cut:?}");
            assert_eq!(cut.slice_bytes, cut.part_bytes.min(128 << 10), "{cut:?}");
        }
        // One more slice, and a short one, if there is one element more.
        let more = Cut::within(&program, (3 << 20) + 1, 4, 8, Protocol::Simple, 128 << 10).unwrap();
        let even = Cut::within(&program, 3 << 20, 4, 8, Protocol::Simple, 128 << 10).unwrap();
        assert_eq!(more.rounds, even.rounds + 1);
        // Packets need none.
        let packets = |elements| Cut::within(&program, elements, 4, 8, Protocol::Ll, 128 << 10);
        let (odd, even) = (packets((3 << 20) - 1).unwrap(), packets(3 << 20).unwrap());
        assert_eq!((odd.rounds, odd.slice_bytes), (even.rounds, even.slice_bytes));
        // Ranks with more blocks than others cut as the others do.
        program.geometry.output_chunks *= 2;
        let several = Cut::within(&program, (3 << 20) + 1, 4, 8, Protocol::Simple, 128 << 10);
        assert_eq!(several, Some(more));
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

//! Scratch memory: which blocks of which buffers a rank really uses.
//!
//! A scratch buffer of the language exists on every rank, but a rank pays only for the chunks
//! between the lowest and the highest it uses. Blocks get provisional slots when they are first
//! touched; [`Scratch::pack`] gives the final ones once it is known what is used.

use msccl_collective::Rank;
use rustc_hash::FxHashMap;

use super::bits::Bits;
use super::region::BufferId;

/// The scratch blocks of all ranks.
#[derive(Default)]
pub(super) struct Scratch {
    blocks: Vec<ScratchBlock>,
    by_rank: Vec<Vec<u32>>,
    places: FxHashMap<(BufferId, Rank), u32>,
    /// The last look-up: programs tend to use one buffer many times.
    latest: Option<((BufferId, Rank), u32)>,
    chunks: u64,
}

/// One buffer on one rank.
struct ScratchBlock {
    /// First provisional slot.
    base: u32,
    /// Chunks in the buffer.
    chunks: u32,
    /// One bit for every chunk: has it been written?
    written: Bits,
    /// The chunks used: lowest, and one past the highest.
    used: (u32, u32),
}

/// The block of a buffer on a rank.
#[derive(Clone, Copy)]
pub(super) struct BlockId(u32);

impl Scratch {
    pub fn new(ranks: u32) -> Self {
        Self { by_rank: vec![Vec::new(); ranks as usize], ..Self::default() }
    }

    /// Chunks in all blocks touched so far.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// The block of `buffer` (of `chunks` chunks) on `rank`.
    pub fn block(&mut self, buffer: BufferId, rank: Rank, chunks: u32) -> BlockId {
        let key = (buffer, rank);
        if let Some((latest, block)) = self.latest
            && latest == key
        {
            return BlockId(block);
        }
        let block = match self.places.get(&key) {
            Some(&block) => block,
            None => self.touch(key, chunks),
        };
        self.latest = Some((key, block));
        BlockId(block)
    }

    fn touch(&mut self, key: (BufferId, Rank), chunks: u32) -> u32 {
        let (_, rank) = key;
        let id = self.blocks.len() as u32;
        let ids = &mut self.by_rank[rank.index()];
        let base = ids.last().map_or(0, |&last| {
            let last = &self.blocks[last as usize];
            last.base + last.chunks
        });
        let written = Bits::new(u64::from(chunks));
        self.blocks.push(ScratchBlock { base, chunks, written, used: (chunks, 0) });
        ids.push(id);
        self.places.insert(key, id);
        self.chunks += u64::from(chunks);
        id
    }

    /// Whether a chunk has been written.
    pub fn is_written(&self, BlockId(block): BlockId, chunk: u32) -> bool {
        self.blocks[block as usize].written.get(u64::from(chunk))
    }

    /// Notes that a chunk is written.
    pub fn write(&mut self, BlockId(block): BlockId, chunk: u32) {
        self.blocks[block as usize].written.set(u64::from(chunk));
    }

    /// The provisional slot of a chunk, which is used from now on.
    pub fn slot(&mut self, BlockId(block): BlockId, chunk: u32) -> u32 {
        let block = &mut self.blocks[block as usize];
        block.used = (block.used.0.min(chunk), block.used.1.max(chunk + 1));
        block.base + chunk
    }

    /// The final slots.
    pub fn pack(&self) -> Packed {
        let ranks = self.by_rank.iter().map(|ids| self.pack_rank(ids)).collect();
        Packed { ranks }
    }

    fn pack_rank(&self, ids: &[u32]) -> PackedRank {
        let mut packed = PackedRank { moves: Vec::with_capacity(ids.len()), chunks: 0 };
        for &id in ids {
            let ScratchBlock { base, chunks: _, written: _, used: (low, high) } =
                self.blocks[id as usize];
            if low < high {
                packed.moves.push((base + low, packed.chunks));
                packed.chunks += high - low;
            }
        }
        packed
    }
}

/// Final slots for provisional ones.
pub(super) struct Packed {
    ranks: Vec<PackedRank>,
}

struct PackedRank {
    /// Where each run of slots starts, provisionally and finally; ascending.
    moves: Vec<(u32, u32)>,
    chunks: u32,
}

impl Packed {
    /// Scratch chunks of every rank.
    pub fn chunks(&self) -> Vec<u32> {
        self.ranks.iter().map(|rank| rank.chunks).collect()
    }

    /// The final slot of a provisional one that is in use.
    pub fn slot(&self, rank: Rank, provisional: u32) -> u32 {
        let moves = &self.ranks[rank.index()].moves;
        let run = moves.partition_point(|&(from, _)| from <= provisional);
        match run.checked_sub(1).map(|run| moves[run]) {
            Some((from, to)) => to + (provisional - from),
            None => provisional,
        }
    }
}

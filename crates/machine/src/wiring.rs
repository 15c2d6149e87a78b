//! Dense numbers for thread blocks and links, with the two ends of every link joined.

use std::fmt;
use std::ops::Range;

use msccl_collective::{Channel, Rank, StepIndex, TbIndex};
use msccl_ir::{Algorithm, StepRef, ThreadBlock};
use rustc_hash::FxHashMap;

/// A thread block of any rank; thread blocks are numbered in the order of ranks, then of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TbId(pub u32);

/// A link; links are numbered in the order of their sending thread blocks, then of receiving ranks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

impl TbId {
    /// The position as a table index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// The position as a table index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The two ends of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The thread block that sends.
    pub sender: TbId,
    /// The thread block that receives.
    pub receiver: TbId,
}

/// Who is joined to whom.
#[derive(Clone, Debug)]
pub struct Wiring<'a> {
    algorithm: &'a Algorithm,
    blocks: Vec<Block<'a>>,
    /// The first thread block of every rank, and the number of all.
    first_block: Vec<u32>,
    links: Vec<Link>,
    /// Incoming links of all thread blocks, each block's in the order of its `receives`.
    incoming: Vec<LinkId>,
}

/// A thread block, where it is, and where its link ends start: the outgoing ones in `links`, the
/// incoming ones in `incoming`.
#[derive(Clone, Copy, Debug)]
struct Block<'a> {
    code: &'a ThreadBlock,
    rank: Rank,
    first_outgoing: u32,
    first_incoming: u32,
}

/// A link without a partner at its other end: the algorithm was not validated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unwired {
    /// The sending rank.
    pub from: Rank,
    /// The receiving rank.
    pub to: Rank,
    /// The channel.
    pub channel: Channel,
}

impl fmt::Display for Unwired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unwired { from, to, channel } = self;
        write!(f, "the link from {from} to {to} on {channel} does not have exactly one owner at ")?;
        f.write_str("each end; validate the algorithm first")
    }
}

impl std::error::Error for Unwired {}

impl<'a> Wiring<'a> {
    /// Joins the link ends of `algorithm`.
    ///
    /// # Errors
    ///
    /// The first link that lacks an owner at one end or has two; never for a validated algorithm.
    pub fn new(algorithm: &'a Algorithm) -> Result<Self, Unwired> {
        let mut wiring = Self {
            algorithm,
            blocks: Vec::new(),
            first_block: vec![0],
            links: Vec::new(),
            incoming: Vec::new(),
        };
        let senders = wiring.number_senders()?;
        wiring.join_receivers(senders)?;
        Ok(wiring)
    }

    /// Numbers blocks and links; returns the links by (sender, receiver, channel).
    fn number_senders(&mut self) -> Result<FxHashMap<(Rank, Rank, Channel), LinkId>, Unwired> {
        let mut senders = FxHashMap::default();
        let mut first_incoming = 0;
        for (rank, program) in self.algorithm.ranks.iter().enumerate() {
            let rank = Rank::from(rank);
            for code in &program.thread_blocks {
                let first_outgoing = self.links.len() as u32;
                let sender = TbId(self.blocks.len() as u32);
                self.blocks.push(Block { code, rank, first_outgoing, first_incoming });
                first_incoming += code.receives.len() as u32;
                for &to in &code.sends {
                    let id = LinkId(self.links.len() as u32);
                    self.links.push(Link { sender, receiver: sender });
                    if senders.insert((rank, to, code.channel), id).is_some() {
                        return Err(Unwired { from: rank, to, channel: code.channel });
                    }
                }
            }
            self.first_block.push(self.blocks.len() as u32);
        }
        Ok(senders)
    }

    /// Gives every link its receiver.
    fn join_receivers(
        &mut self,
        mut senders: FxHashMap<(Rank, Rank, Channel), LinkId>,
    ) -> Result<(), Unwired> {
        for (index, block) in self.blocks.iter().enumerate() {
            for &from in &block.code.receives {
                let (to, channel) = (block.rank, block.code.channel);
                let Some(id) = senders.remove(&(from, to, channel)) else {
                    return Err(Unwired { from, to, channel });
                };
                self.links[id.index()].receiver = TbId(index as u32);
                self.incoming.push(id);
            }
        }
        match senders.into_keys().min() {
            Some((from, to, channel)) => Err(Unwired { from, to, channel }),
            None => Ok(()),
        }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> &'a Algorithm {
        self.algorithm
    }

    /// How many thread blocks all ranks have together.
    pub fn tb_count(&self) -> usize {
        self.blocks.len()
    }

    /// All links; a [`LinkId`] is a position in this list.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The thread blocks of `rank`, as numbers of [`TbId`].
    pub fn tbs_of(&self, rank: Rank) -> Range<u32> {
        self.first_block[rank.index()]..self.first_block[rank.index() + 1]
    }

    /// What thread block `tb` runs.
    pub fn block(&self, tb: TbId) -> &'a ThreadBlock {
        self.blocks[tb.index()].code
    }

    /// The rank of `tb`.
    pub fn rank(&self, tb: TbId) -> Rank {
        self.blocks[tb.index()].rank
    }

    /// The position of `tb` on its rank.
    pub fn tb_index(&self, tb: TbId) -> TbIndex {
        TbIndex(tb.0 - self.first_block[self.rank(tb).index()])
    }

    /// Thread block `tb` of `rank`.
    pub fn tb_id(&self, rank: Rank, tb: TbIndex) -> TbId {
        TbId(self.first_block[rank.index()] + tb.0)
    }

    /// The address of step `step` of `tb`.
    pub fn step_ref(&self, tb: TbId, step: u32) -> StepRef {
        StepRef { rank: self.rank(tb), tb: self.tb_index(tb), step: StepIndex(step) }
    }

    /// The links that `tb` sends on, in the order of its `sends`.
    pub fn outgoing(&self, tb: TbId) -> impl ExactSizeIterator<Item = LinkId> + use<> {
        let block = &self.blocks[tb.index()];
        let first = block.first_outgoing;
        (first..first + block.code.sends.len() as u32).map(LinkId)
    }

    /// The links that `tb` receives on, in the order of its `receives`.
    pub fn incoming(&self, tb: TbId) -> &[LinkId] {
        let block = &self.blocks[tb.index()];
        let first = block.first_incoming as usize;
        &self.incoming[first..first + block.code.receives.len()]
    }

    /// The link from `tb` to rank `to`, if `tb` owns one.
    pub fn link_to(&self, tb: TbId, to: Rank) -> Option<LinkId> {
        let block = &self.blocks[tb.index()];
        let position = find(&block.code.sends, to)?;
        Some(LinkId(block.first_outgoing + position as u32))
    }

    /// The link from rank `from` to `tb`, if `tb` owns one.
    pub fn link_from(&self, tb: TbId, from: Rank) -> Option<LinkId> {
        let position = find(&self.blocks[tb.index()].code.receives, from)?;
        self.incoming(tb).get(position).copied()
    }
}

/// The position of `peer` in an ascending list, which most often has one entry.
fn find(peers: &[Rank], peer: Rank) -> Option<usize> {
    match peers {
        [only] => (*only == peer).then_some(0),
        _ => peers.binary_search(&peer).ok(),
    }
}

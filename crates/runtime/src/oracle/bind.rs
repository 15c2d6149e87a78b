//! Linking: the plans of all ranks joined into one executable whole.
//!
//! A plan names its links by number; here both ends of each link get the same queue, and every
//! thread block learns whom to wake.

use std::collections::BTreeMap;
use std::fmt;

use msccl_collective::{Channel, Rank, TbIndex};
use msccl_plan::{Program, ThreadBlock};

use crate::walk::{BoundStep, bind_steps};

/// The thread blocks of all ranks, and the links between them.
pub(crate) struct OracleBinding {
    /// In the order of ranks, then of thread blocks.
    pub(crate) blocks: Vec<OracleBlock>,
    /// All links.
    pub(crate) links: Vec<LinkEnds>,
}

/// A thread block with all that it touches.
pub(crate) struct OracleBlock {
    /// Its rank.
    pub(crate) rank: Rank,
    /// Its position on the rank.
    pub(crate) tb: TbIndex,
    /// The channel of its links.
    pub(crate) channel: Channel,
    /// Position in [`OracleBinding::blocks`] of the first thread block of its rank.
    pub(crate) first_of_rank: usize,
    /// What the signal counters of its rank advance by in one round.
    pub(crate) signal_stride: usize,
    /// Whom it receives from, ascending, and over which link.
    pub(crate) incoming: Vec<(Rank, usize)>,
    /// Whom it sends to, ascending, and over which link.
    pub(crate) outgoing: Vec<(Rank, usize)>,
    /// Thread blocks that wait for some step of this one, as positions in
    /// [`OracleBinding::blocks`].
    pub(crate) waiters: Vec<usize>,
    /// The steps.
    pub(crate) steps: Vec<BoundStep>,
}

/// The thread blocks at the ends of a link, as positions in [`OracleBinding::blocks`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkEnds {
    /// Who sends.
    pub(crate) sender: usize,
    /// Who receives.
    pub(crate) receiver: usize,
    /// Most chunks that one step sends.
    pub(crate) largest_count: u32,
}

/// An algorithm that cannot be made ready to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unlinked {
    message: String,
}

impl Unlinked {
    /// The algorithm cannot be linked because of `error`.
    pub(crate) fn because(error: impl fmt::Display) -> Self {
        Self { message: error.to_string() }
    }
}

impl fmt::Display for Unlinked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Unlinked {}

/// The key of a link: from whom, to whom, on which channel.
type LinkKey = (Rank, Rank, Channel);

impl OracleBinding {
    /// Joins `programs`, one per rank and in their order.
    ///
    /// # Errors
    ///
    /// The first link that lacks an end. Plans of one verified algorithm have none.
    pub(crate) fn new(programs: &[Program]) -> Result<Self, Unlinked> {
        let mut blocks = Vec::new();
        for program in programs {
            let first_of_rank = blocks.len();
            let stride = program.signal_stride() as usize;
            for (tb, block) in program.thread_blocks.iter().enumerate() {
                let tb = TbIndex::from(tb);
                blocks.push(OracleBlock::new(block, program.rank, tb, first_of_rank, stride));
            }
            let of_rank = &mut blocks[first_of_rank..];
            note_waiters(of_rank, first_of_rank);
        }
        let links = join(programs, &mut blocks)?;
        Ok(Self { blocks, links })
    }
}

impl OracleBlock {
    fn new(
        block: &ThreadBlock,
        rank: Rank,
        tb: TbIndex,
        first_of_rank: usize,
        signal_stride: usize,
    ) -> Self {
        Self {
            rank,
            tb,
            channel: block.channel,
            first_of_rank,
            signal_stride,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            waiters: Vec::new(),
            steps: bind_steps(block),
        }
    }

    /// The link from rank `peer`.
    pub(crate) fn link_from(&self, peer: Rank) -> Option<usize> {
        find(&self.incoming, peer)
    }

    /// The link to rank `peer`.
    pub(crate) fn link_to(&self, peer: Rank) -> Option<usize> {
        find(&self.outgoing, peer)
    }
}

fn find(ends: &[(Rank, usize)], peer: Rank) -> Option<usize> {
    let position = ends.binary_search_by_key(&peer, |&(rank, _)| rank).ok()?;
    Some(ends[position].1)
}

/// Records for the thread blocks of one rank who waits for them.
fn note_waiters(of_rank: &mut [OracleBlock], first_of_rank: usize) {
    for waiter in 0..of_rank.len() {
        let steps = of_rank[waiter].steps.iter();
        let mut targets: Vec<_> =
            steps.flat_map(|bound| &bound.step.waits).map(|wait| wait.tb.index()).collect();
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            of_rank[target].waiters.push(first_of_rank + waiter);
        }
    }
}

/// Numbers the links, and enters the numbers at both ends.
fn join(programs: &[Program], blocks: &mut [OracleBlock]) -> Result<Vec<LinkEnds>, Unlinked> {
    let mut links = Vec::new();
    let mut open: BTreeMap<LinkKey, usize> = BTreeMap::new();
    let code = || programs.iter().flat_map(|program| &program.thread_blocks).enumerate();
    for (sender, block) in code() {
        for &to in &block.sends {
            let own = &mut blocks[sender];
            open.insert((own.rank, to, own.channel), links.len());
            own.outgoing.push((to, links.len()));
            links.push(LinkEnds { sender, receiver: sender, largest_count: 0 });
        }
        measure(&blocks[sender], &mut links);
    }
    for (receiver, block) in code() {
        for &from in &block.receives {
            let own = &mut blocks[receiver];
            let Some(link) = open.remove(&(from, own.rank, own.channel)) else {
                return Err(unpaired((from, own.rank, own.channel)));
            };
            own.incoming.push((from, link));
            links[link].receiver = receiver;
        }
    }
    match open.into_keys().next() {
        Some(key) => Err(unpaired(key)),
        None => Ok(links),
    }
}

/// Notes the largest counts that `sender` sends.
fn measure(sender: &OracleBlock, links: &mut [LinkEnds]) {
    for BoundStep { step, .. } in &sender.steps {
        for link in step.sends().filter_map(|peer| sender.link_to(peer)) {
            links[link].largest_count = links[link].largest_count.max(step.count);
        }
    }
}

fn unpaired((from, to, channel): LinkKey) -> Unlinked {
    let link = format!("the link from {from} to {to} on {channel}");
    Unlinked::because(format!("{link} does not have one end on each rank"))
}

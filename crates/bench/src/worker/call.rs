//! A call of the library that is measured. An unsafe boundary.
//!
//! Which functions make up a workload is decided here and nowhere else.

#![expect(unsafe_code, reason = "calls functions of the library under test")]

use std::ffi::{c_int, c_void};

use super::device::Region;
use super::library::{Comm, Functions, int};
use crate::error::Error;
use crate::expected::previous;
use crate::workload::Workload;

/// A call with all its arguments.
pub(super) struct Call {
    pub functions: &'static Functions,
    pub comm: Comm,
    pub stream: *mut c_void,
    pub element: c_int,
    pub count: usize,
    pub block_bytes: usize,
    pub rank: u32,
    pub ranks: u32,
    pub root: u32,
    pub redop: c_int,
    pub input: Region,
    pub output: Region,
}

impl Call {
    /// # Safety
    ///
    /// The regions have as many blocks as the workload needs and stay valid until the stream has
    /// done the call, and again whenever a graph that captured it runs.
    pub unsafe fn make(&self, workload: Workload) -> Result<(), Error> {
        let Self { functions, comm, stream, element, count, redop, .. } = *self;
        let (from, to) = (self.input.address().cast_const(), self.output.address());
        let root = int(self.root)?;
        // SAFETY: promised by the caller; the same for every function below.
        unsafe {
            match workload {
                Workload::AllReduce => {
                    functions.all_reduce(from, to, count, element, redop, comm, stream)
                }
                Workload::ReduceScatter => {
                    functions.reduce_scatter(from, to, count, element, redop, comm, stream)
                }
                Workload::AllGather => functions.all_gather(from, to, count, element, comm, stream),
                Workload::Broadcast => {
                    functions.broadcast(from, to, count, element, root, comm, stream)
                }
                Workload::Reduce => {
                    functions.reduce(from, to, count, element, redop, root, comm, stream)
                }
                Workload::AllToAll if functions.has_all_to_all() => {
                    functions.all_to_all(from, to, count, element, comm, stream)
                }
                Workload::Gather if functions.has_gather() => {
                    functions.gather(from, to, count, element, root, comm, stream)
                }
                Workload::Scatter if functions.has_scatter() => {
                    functions.scatter(from, to, count, element, root, comm, stream)
                }
                Workload::AllToAll
                | Workload::Gather
                | Workload::Scatter
                | Workload::SendRecv
                | Workload::HyperCube => self.point_to_point(workload),
            }
        }
    }

    /// Workloads made of sends and receives.
    ///
    /// # Safety
    ///
    /// As for [`Call::make`].
    unsafe fn point_to_point(&self, workload: Workload) -> Result<(), Error> {
        let (rank, root) = (self.rank, self.root);
        let everyone = || 0..self.ranks;
        if workload == Workload::HyperCube {
            // SAFETY: promised by the caller.
            return unsafe { self.hypercube() };
        }
        let (sends, receives): (Vec<Block>, Vec<Block>) = match workload {
            Workload::AllToAll => {
                (everyone().map(Block::own).collect(), everyone().map(Block::own).collect())
            }
            Workload::Gather if rank == root => {
                (vec![Block::first(root)], everyone().map(Block::own).collect())
            }
            Workload::Gather => (vec![Block::first(root)], vec![]),
            Workload::Scatter if rank == root => {
                (everyone().map(Block::own).collect(), vec![Block::first(root)])
            }
            Workload::Scatter => (vec![], vec![Block::first(root)]),
            _ => {
                let next = (rank + 1) % self.ranks;
                let before = previous(rank, self.ranks);
                (vec![Block::first(next)], vec![Block::first(before)])
            }
        };
        // SAFETY: promised by the caller.
        unsafe { self.exchange(self.input, &sends, &receives) }
    }

    /// An all-gather in which each rank talks to its neighbours on a cube, one after the other, and
    /// passes on all that it has.
    ///
    /// # Safety
    ///
    /// As for [`Call::make`].
    unsafe fn hypercube(&self) -> Result<(), Error> {
        let own = self.output.slice(self.rank as usize * self.block_bytes, self.block_bytes)?;
        if own.address() != self.input.address() {
            self.input.copy_to(own)?;
        }
        let mut edge = 1;
        while edge < self.ranks {
            let mine = self.rank & !(edge - 1);
            let peer = self.rank ^ edge;
            let send = Block { peer, at: mine, blocks: edge };
            let receive = Block { peer, at: mine ^ edge, blocks: edge };
            // SAFETY: promised by the caller.
            unsafe { self.exchange(self.output, &[send], &[receive])? };
            edge <<= 1;
        }
        Ok(())
    }

    /// Sends blocks of `from` and receives blocks of the output, all at once.
    ///
    /// # Safety
    ///
    /// As for [`Call::make`].
    unsafe fn exchange(
        &self,
        from: Region,
        sends: &[Block],
        receives: &[Block],
    ) -> Result<(), Error> {
        let Self { functions, comm, stream, element, count, block_bytes, .. } = *self;
        let part = |region: Region, block: &Block| {
            let (at, blocks) = (block.at as usize, block.blocks as usize);
            let part = region.slice(at * block_bytes, blocks * block_bytes)?;
            Ok::<_, Error>((part.address(), count * blocks, int(block.peer)?))
        };
        // SAFETY: promised by the caller; every part lies inside its region.
        unsafe {
            functions.group_start()?;
            let sent = sends.iter().try_for_each(|block| {
                let (address, count, peer) = part(from, block)?;
                functions.send(address.cast_const(), count, element, peer, comm, stream)
            });
            let received = receives.iter().try_for_each(|block| {
                let (address, count, peer) = part(self.output, block)?;
                functions.receive(address, count, element, peer, comm, stream)
            });
            // The group ends whatever happened inside.
            let ended = functions.group_end();
            sent.and(received).and(ended)
        }
    }
}

/// Blocks for, or from, a peer.
struct Block {
    peer: u32,
    at: u32,
    blocks: u32,
}

impl Block {
    /// The block that has the peer's number.
    fn own(peer: u32) -> Self {
        Self { peer, at: peer, blocks: 1 }
    }

    /// The first block.
    fn first(peer: u32) -> Self {
        Self { peer, at: 0, blocks: 1 }
    }
}

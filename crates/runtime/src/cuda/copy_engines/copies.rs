//! Collectives that are nothing but copies of blocks (`msccl_verify::Verified::block_copies`), into
//! windows of peers, without a kernel.
//!
//! What stays on a rank is copied beside the rest. Copies within a GPU are made by multiprocessors,
//! whatever the driver is asked for: beside kernels that fill the GPU they wait for these. So where
//! multiprocessors are to be left alone ([`LocalWay::ByPeer`]), such a block goes to the rank's own
//! slot in the inbox of a peer ([`super::inbox`]) and back, behind the *ready* of that peer: what
//! the slot held before has been combined.

use msccl_collective::Rank;
use msccl_gpu::{DevicePtr, WORD_OPERATIONS_MAX, WordOperation};
use msccl_select::{EngineWork, LocalWay, RankCopies};
use msccl_verify::BlockCopy;

use super::super::registration::Registration;
use super::super::signals::CudaSignals;
use super::super::stream_order::{self, CallSite};
use super::exchange::{ExchangeWords, PairwiseExchange};
use super::{CopyEngines, EngineState};
use crate::engine::{BlockSignals, CarriedCall, OwnBlock, SIGNAL_BYTES};
use crate::error::Error;

/// What stays on a rank is copied beside the rest from this size on: to begin and to end a branch
/// takes as long as to copy less.
const BRANCH_BYTES: u64 = 1 << 20;

/// A call under way in a stream.
struct Copies<'a> {
    state: &'a EngineState,
    site: CallSite<'a>,
    call: &'a CarriedCall<'a>,
    copies: &'a RankCopies,
    words: ExchangeWords<'a>,
    detour: Option<Detour>,
}

/// Memory of a peer that belongs to this rank.
#[derive(Clone, Copy)]
struct Detour {
    start: u64,
    bytes: u64,
}

impl CopyEngines {
    /// Puts `call` into the stream of `site`.
    pub fn take_up(
        &self,
        site: CallSite<'_>,
        signals: &CudaSignals,
        registration: &Registration,
        call: &CarriedCall<'_>,
    ) -> Result<(), Error> {
        let state = &*self.state;
        let Some(work) = &call.decided.decision.engine_work else {
            return Err(Error::internal("copy engines have nothing to do"));
        };
        let EngineWork::Copies(copies) = &**work else {
            return Err(Error::internal("the algorithm has no copies"));
        };
        state.shared_state.get_or_init(|| call.shared_state.clone());
        state.remember(call.decided.number, work);
        let (receivers, senders) = (copies.receivers(), copies.senders());
        let exchange = PairwiseExchange { number: call.decided.number, receivers, senders };
        let words = ExchangeWords { exchange, state, signals, shared_state: call.shared_state };
        // Ranks open their inboxes together, also those that omit the block.
        let detour = self.detour(registration, copies)?;
        let detour = detour.filter(|_| call.own_block == OwnBlock::Copied);
        Copies { state, site, call, copies, words, detour }.run()
    }

    /// Where what stays on this rank takes a detour, if it does.
    fn detour(
        &self,
        registration: &Registration,
        copies: &RankCopies,
    ) -> Result<Option<Detour>, Error> {
        let peer = match copies.local_way {
            LocalWay::WithinGpu => None,
            LocalWay::ByPeer => copies.receivers().first().copied(),
        };
        let Some(peer) = peer else { return Ok(None) };
        let Some(inbox) = self.inbox.open(registration, self.state.me)? else { return Ok(None) };
        Ok(Some(Detour { start: inbox.slot_at(peer)?, bytes: inbox.slot_bytes() }))
    }
}

impl Copies<'_> {
    fn run(&self) -> Result<(), Error> {
        if let Some((address, blocks)) = self.own_signals() {
            set_signals(self.site, address, blocks, 0)?;
        }
        match self.detour {
            Some(detour) => self.run_with(detour)?,
            None if self.local_bytes() >= BRANCH_BYTES => {
                let mut branch = self.state.branches.begin(self.site)?;
                self.state.operate(self.site, &self.words.begin()?)?;
                self.send()?;
                branch.extend(self.site, 0, |site| self.copy_within(site))?.join(self.site)?;
            }
            None => {
                self.state.operate(self.site, &self.words.begin()?)?;
                self.send()?;
                self.copy_within(self.site)?;
            }
        }
        // What stays on this rank is there by now.
        if let Some(signals) = self.signals_of(self.state.me) {
            for of in &self.copies.local {
                set_signals(self.site, signal(signals, of.output), 1, 1)?;
            }
        }
        self.state.operate(self.site, &self.words.end()?)?;
        match self.call.signals {
            BlockSignals::AtEnd { address, blocks } => set_signals(self.site, address, blocks, 1),
            BlockSignals::None | BlockSignals::ByCopies(_) => Ok(()),
        }
    }

    /// All copies, those that stay on this rank by way of a peer: behind the *ready* of that one.
    fn run_with(&self, detour: Detour) -> Result<(), Error> {
        self.state.operate(self.site, &self.words.begin()?)?;
        let mut branch = self.state.branches.begin(self.site)?;
        self.send()?;
        branch.extend(self.site, 0, |site| self.copy_by_peer(site, detour))?.join(self.site)
    }

    /// The signals of this rank's blocks, which it alone takes down, and how many there are.
    fn own_signals(&self) -> Option<(u64, u64)> {
        match self.call.signals {
            BlockSignals::None => None,
            BlockSignals::AtEnd { address, blocks } => Some((address, blocks)),
            BlockSignals::ByCopies(_) => {
                Some((self.signals_of(self.state.me)?, self.copies.output_blocks()))
            }
        }
    }

    /// Where the signals of the blocks of `rank` begin, if who copies sets them.
    fn signals_of(&self, rank: Rank) -> Option<u64> {
        match self.call.signals {
            BlockSignals::None | BlockSignals::AtEnd { .. } => None,
            BlockSignals::ByCopies(starts) => starts.get(rank.index()).copied(),
        }
    }

    /// Copies to peers, and says so to them.
    fn send(&self) -> Result<(), Error> {
        let bytes = self.block_bytes();
        for BlockCopy { from: _, input, to, output } in &self.copies.sends {
            let start = self.call.outputs.get(to.index());
            let start = start.ok_or_else(|| Error::internal(format!("{to} has no output")))?;
            let address = start + u64::from(*output) * bytes;
            self.copy(self.site, self.input(*input), address, bytes)?;
            if let Some(signals) = self.signals_of(*to) {
                set_signals(self.site, signal(signals, *output), 1, 1)?;
            }
        }
        self.state.operate(self.site, &self.words.is_done()?)
    }

    /// Copies what stays on this rank, within its GPU.
    fn copy_within(&self, site: CallSite<'_>) -> Result<(), Error> {
        self.local_copies().try_for_each(|(from, to)| self.copy(site, from, to, self.block_bytes()))
    }

    /// Copies what stays on this rank to a peer and back, as much at a time as there has room.
    fn copy_by_peer(&self, site: CallSite<'_>, detour: Detour) -> Result<(), Error> {
        for (from, to) in self.local_copies() {
            for start in (0..self.block_bytes()).step_by(detour.bytes.max(1) as usize) {
                let bytes = (self.block_bytes() - start).min(detour.bytes);
                self.copy(site, from + start, detour.start, bytes)?;
                self.copy(site, detour.start, to + start, bytes)?;
            }
        }
        Ok(())
    }

    /// What stays on this rank and does not lie there already: where it lies, and belongs.
    fn local_copies(&self) -> impl Iterator<Item = (u64, u64)> {
        let receive = self.call.decided.buffers.receive;
        let local = match self.call.own_block {
            OwnBlock::Copied => &self.copies.local[..],
            OwnBlock::Omitted => &[],
        };
        let copies = local.iter().map(move |of| {
            (self.input(of.input), receive + u64::from(of.output) * self.block_bytes())
        });
        copies.filter(|(from, to)| from != to)
    }

    fn local_bytes(&self) -> u64 {
        self.block_bytes() * self.local_copies().count() as u64
    }

    /// Where a block of the input lies.
    fn input(&self, block: u32) -> u64 {
        self.call.decided.buffers.send + u64::from(block) * self.block_bytes()
    }

    fn block_bytes(&self) -> u64 {
        self.call.decided.request.count * self.call.decided.data_type.size_bytes() as u64
    }

    fn copy(&self, site: CallSite<'_>, from: u64, to: u64, bytes: u64) -> Result<(), Error> {
        stream_order::copy(&self.state.context, from, to, bytes, site.raw)
    }
}

/// Where the signal of block `block` lies, of those from `signals` on.
fn signal(signals: u64, block: u32) -> u64 {
    signals + SIGNAL_BYTES * u64::from(block)
}

/// Sets `blocks` signals from `address` on to `value`, when the stream gets there.
pub fn set_signals(site: CallSite<'_>, address: u64, blocks: u64, value: u32) -> Result<(), Error> {
    let write = |block: u64| WordOperation::Write32 {
        address: DevicePtr(address + SIGNAL_BYTES * block),
        value,
    };
    let writes: Vec<_> = (0..blocks).map(write).collect();
    for writes in writes.chunks(WORD_OPERATIONS_MAX) {
        // SAFETY: the caller of the library handed the words over for this call.
        unsafe { site.stream().word_operations(writes)? };
    }
    Ok(())
}

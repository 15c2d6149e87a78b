//! Collectives that copy engines carry: nothing but copies of blocks
//! (`msccl_verify::Verified::block_copies`) into windows of peers, without a kernel.
//! `docs/MEMORY.md`, section 9, says why that is right. An unsafe boundary.
//!
//! A call puts into its stream, alike in graphs and outside:
//!
//! 1. *ready* is raised for every rank that sends to it; then it waits for *ready* of every rank to
//!    which it sends, and for the gate, and takes down the flags that it waited for;
//! 2. the copies to peers;
//! 3. *done* is raised for every rank to which it sent;
//! 4. it waits for *done* of every rank that sends to it, and takes down those flags.
//!
//! Beside that it copies from its input to its own output, for which no peer waits ([`branch`]).
//!
//! Each flag belongs to a pair of ranks and a direction ([`PairFlag`]). Between two raisings of
//! *ready* lies the *done* of the call, which its peer raises after it took *ready* down; the same
//! the other way round. So no flag is raised that is up, whatever ranks and calls come next.
//!
//! The *gate* is a word of the rank itself. It closes when the communicator fails: copies that have
//! not begun then do not begin. The *stage* says how far the stream is, for hang reports and for
//! [`release`].

#![expect(unsafe_code, reason = "has streams copy, write and wait for words")]

mod branch;
mod exchange;
mod inbox;
mod reduce;
mod release;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use msccl_collective::Rank;
use msccl_fabric::Group;
use msccl_gpu::{
    Context, DevicePtr, PinnedBuffer, VmmAllocation, WORD_OPERATIONS_MAX, WordOperation,
};
use msccl_select::{EngineWork, RankCopies};
use msccl_verify::BlockCopy;

use super::links::fail_together;
use super::registration::Registration;
use super::signals::CudaSignals;
use super::stream_order::{self, CallSite};
use crate::engine::{BlockSignals, CarriedCall, SIGNAL_BYTES, Waiting};
use crate::error::Error;
use crate::shared_state::{PairFlag, SharedState};
use branch::BranchStream;
use exchange::{ExchangeWords, PairwiseExchange};
use inbox::Inbox;

/// Where the words lie: a cache line apart.
const GATE: usize = 0;
const STAGE: usize = 8;
/// The piece for which a branch waits that combines.
const SUMS: usize = 9;
const WORDS_BYTES: usize = 128;

/// The gate is open.
const OPEN: u64 = 1;
const CLOSED: u64 = 0;

/// What stays on a rank is copied beside the rest from this size on: to begin and to end a branch
/// takes as long as to copy less.
const BRANCH_BYTES: u64 = 1 << 20;

/// How much memory stands in for that of peers in the end, again and again.
const INSTEAD_BYTES: usize = 2 << 20;

/// How many calls are remembered for hang reports.
const REMEMBERED: usize = 256;

/// How far a stream is with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// With none.
    Idle,
    /// It waits for peers' outputs, or for the gate.
    Begins,
    /// It copies.
    Copies,
    /// It waits for sums of what peers copy, or for the gate.
    Sums,
    /// It waits for what peers copy.
    Ends,
}

/// A stage, and the number of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct StageWord {
    stage: Stage,
    call: u64,
}

impl StageWord {
    const BITS: u32 = 3;

    fn to_word(self) -> u64 {
        let stage = match self.stage {
            Stage::Idle => 0,
            Stage::Begins => 1,
            Stage::Copies => 2,
            Stage::Sums => 3,
            Stage::Ends => 4,
        };
        self.call << Self::BITS | stage
    }

    fn read(word: u64) -> Self {
        let stage = match word & ((1 << Self::BITS) - 1) {
            0 => Stage::Idle,
            1 => Stage::Begins,
            2 => Stage::Copies,
            3 => Stage::Sums,
            _ => Stage::Ends,
        };
        Self { stage, call: word >> Self::BITS }
    }
}

/// What a rank needs for calls that copy engines carry.
pub(super) struct CopyEngines {
    state: Arc<EngineState>,
    /// If ranks map one another's memory.
    inbox: Option<Inbox>,
    /// The thread that ends what is under way, once it has begun.
    releaser: Mutex<Option<JoinHandle<()>>>,
}

/// What callers and the thread share.
struct EngineState {
    context: Context,
    me: Rank,
    words: PinnedBuffer,
    branches: BranchStream,
    /// What peers' memory is replaced with in the end, if copies to it are still under way.
    instead: Arc<VmmAllocation>,
    /// What has the flags; known from the first call on.
    shared_state: OnceLock<Arc<SharedState>>,
    /// The last calls.
    last: Mutex<VecDeque<KnownCall>>,
    /// All calls so far.
    count: AtomicU64,
    /// When the gate was closed.
    closed: OnceLock<Instant>,
    ends: AtomicBool,
}

/// A call, by its number.
struct KnownCall {
    number: u64,
    work: Arc<EngineWork>,
}

impl CopyEngines {
    /// For this rank of `group`, if all ranks have them `enabled`. Every rank calls it.
    pub fn join(
        group: &Group,
        context: &Context,
        registration: Option<&Registration>,
        enabled: bool,
    ) -> Result<Option<Self>, Error> {
        let made = enabled.then(|| EngineState::new(group.rank(), context)).transpose();
        let has = matches!(made, Ok(Some(_)));
        let all = group.all_gather(&[u8::from(has)])?;
        let made = made?.filter(|_| all.iter().all(|said| said == &[1]));
        let Some(state) = made else { return Ok(None) };
        let open = |registration| Inbox::open(group, context, registration);
        let inbox = fail_together(group, registration.map(open).transpose())?;
        Ok(Some(Self { state: Arc::new(state), inbox, releaser: Mutex::default() }))
    }

    /// Puts `call` into the stream of `site`.
    pub fn take_up(
        &self,
        site: CallSite<'_>,
        signals: &CudaSignals,
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
        let own_signals = match call.signals {
            BlockSignals::None => None,
            BlockSignals::AtEnd { address, blocks } => Some((address, blocks)),
            BlockSignals::ByCopies(starts) => {
                let own = starts.get(state.me.index()).copied();
                own.map(|address| (address, copies.output_blocks()))
            }
        };
        if let Some((address, blocks)) = own_signals {
            set_signals(site, address, blocks, 0)?;
        }
        let bytes = block_bytes(call);
        let stays_bytes = bytes * copies.local.len() as u64;
        let branch = (stays_bytes >= BRANCH_BYTES).then(|| state.branches.begin(site));
        let branch = branch.transpose()?;
        state.operate(site, &words.begin()?)?;
        let signals_of = |to: Rank| match call.signals {
            BlockSignals::None | BlockSignals::AtEnd { .. } => None,
            BlockSignals::ByCopies(starts) => starts.get(to.index()).copied(),
        };
        for BlockCopy { from: _, input, to, output } in &copies.sends {
            let start = call.outputs.get(to.index());
            let start = start.ok_or_else(|| Error::internal(format!("{to} has no output")))?;
            let address = start + u64::from(*output) * bytes;
            let from = call.decided.buffers.send + u64::from(*input) * bytes;
            stream_order::copy(&state.context, from, address, bytes, site.raw)?;
            if let Some(signals) = signals_of(*to) {
                set_signals(site, signal(signals, *output), 1, 1)?;
            }
        }
        state.operate(site, &words.is_done()?)?;
        match branch {
            None => self.copy_within(site, call, copies)?,
            Some(mut branch) => {
                let copy = |site: CallSite<'_>| self.copy_within(site, call, copies);
                branch.extend(site, 0, copy)?.join(site)?;
            }
        }
        // What stays on this rank is there by now.
        if let Some(signals) = signals_of(state.me) {
            for of in &copies.local {
                set_signals(site, signal(signals, of.output), 1, 1)?;
            }
        }
        state.operate(site, &words.end()?)?;
        match call.signals {
            BlockSignals::AtEnd { address, blocks } => set_signals(site, address, blocks, 1),
            BlockSignals::None | BlockSignals::ByCopies(_) => Ok(()),
        }
    }

    /// Copies what stays on this rank. Beside a kernel that fills the GPU, a
    /// plain copy waits for a multiprocessor; the other kind is meant not to, and cannot be
    /// captured.
    fn copy_within(
        &self,
        site: CallSite<'_>,
        call: &CarriedCall<'_>,
        copies: &RankCopies,
    ) -> Result<(), Error> {
        let context = &self.state.context;
        let (buffers, bytes) = (call.decided.buffers, block_bytes(call));
        for BlockCopy { from: _, input, to: _, output } in &copies.local {
            let from = buffers.send + u64::from(*input) * bytes;
            let to = buffers.receive + u64::from(*output) * bytes;
            if from == to {
                continue;
            }
            if site.capture.is_some() {
                stream_order::copy(context, from, to, bytes, site.raw)?;
                continue;
            }
            let stream = stream_order::stream(context, site.raw);
            // SAFETY: blocks of the buffers that the caller handed over for this call.
            unsafe { stream.copy_beside_kernels(DevicePtr(to), DevicePtr(from), bytes as usize)? };
        }
        Ok(())
    }

    /// Whether all ranks reach the inboxes of all. The same on all ranks; waits for them, the first
    /// time.
    pub fn combines(&self, registration: &Registration) -> Result<bool, Error> {
        let me = self.state.me;
        let inbox = self.inbox.as_ref();
        let found = inbox.map(|inbox| inbox.slot_at(registration, me, me)).transpose()?;
        Ok(found.flatten().is_some())
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.state.count.load(Ordering::Relaxed)
    }

    /// From now on no copies to peers begin.
    pub fn close_gate(&self) {
        self.state.close_gate();
    }

    /// What this rank's stream waits for, if it does.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.state.waiting()
    }
}

impl EngineState {
    fn new(me: Rank, context: &Context) -> Result<Self, Error> {
        let words = PinnedBuffer::new(context, WORDS_BYTES)?;
        let instead = Arc::new(VmmAllocation::new(context, INSTEAD_BYTES)?);
        let (shared_state, last, count, closed, ends) = Default::default();
        let (branches, context) = (BranchStream::new(context)?, context.clone());
        let state =
            Self { context, me, words, branches, instead, shared_state, last, count, closed, ends };
        state.set_gate(OPEN);
        Ok(state)
    }

    /// Has the stream of `site` do what an exchange is ordered by ([`ExchangeWords`]).
    fn operate(&self, site: CallSite<'_>, words: &[WordOperation]) -> Result<(), Error> {
        // SAFETY: all words are aligned; those of this rank live as long as it does, which waits
        // for its streams, and those of the shared state as long as it is known to the device.
        unsafe { site.stream().word_operations(words)? };
        Ok(())
    }

    fn word(&self, at: usize) -> Option<&AtomicU64> {
        self.words.words64().get(at)
    }

    fn set_gate(&self, value: u64) {
        self.word(GATE).inspect(|gate| gate.store(value, Ordering::SeqCst));
    }

    fn close_gate(&self) {
        if self.closed.get().is_none() {
            self.set_gate(CLOSED);
            self.closed.get_or_init(Instant::now);
        }
    }

    fn stage(&self) -> StageWord {
        StageWord::read(self.word(STAGE).map_or(0, |word| word.load(Ordering::SeqCst)))
    }

    /// The piece for which the branch waits, if one does.
    fn sums(&self) -> u64 {
        self.word(SUMS).map_or(0, |word| word.load(Ordering::SeqCst))
    }

    fn last(&self) -> MutexGuard<'_, VecDeque<KnownCall>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, number: u64, work: &Arc<EngineWork>) {
        let mut last = self.last();
        if last.len() >= REMEMBERED {
            last.pop_front();
        }
        last.push_back(KnownCall { number, work: work.clone() });
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn waiting(&self) -> Vec<Waiting> {
        let StageWord { stage, call } = self.stage();
        let known = self.last().iter().rfind(|of| of.number == call).map(|of| of.work.clone());
        let (Some(work), Some(shared_state)) = (known, self.shared_state.get()) else {
            return Vec::new();
        };
        let peers = || shared_state.ranks().filter(|rank| *rank != self.me).collect();
        let [receivers, senders]: [Vec<Rank>; 2] = match &*work {
            EngineWork::Copies(copies) => [copies.receivers(), copies.senders()],
            EngineWork::Reduction(_) => [peers(), peers()],
        };
        let (flag, peers, what) = match stage {
            Stage::Idle | Stage::Copies => return Vec::new(),
            Stage::Begins => (PairFlag::Ready, receivers, "the output of"),
            Stage::Sums => (PairFlag::Piece(self.sums()), senders, "sums with what comes from"),
            Stage::Ends => (PairFlag::Done, senders, "copies from"),
        };
        let is_down = |peer: &Rank| {
            let word = shared_state.flag(*peer, self.me, flag);
            word.is_some_and(|word| word.load(Ordering::Acquire) == 0)
        };
        let wait = |peer: Rank| Waiting {
            call,
            peer: Some(peer),
            text: format!("its stream waits for {what} {peer}"),
        };
        peers.into_iter().filter(is_down).map(wait).collect()
    }
}

/// Where the signal of block `block` lies, of those from `signals` on.
fn signal(signals: u64, block: u32) -> u64 {
    signals + SIGNAL_BYTES * u64::from(block)
}

/// Sets `blocks` signals from `address` on to `value`, when the stream gets there.
pub(super) fn set_signals(
    site: CallSite<'_>,
    address: u64,
    blocks: u64,
    value: u32,
) -> Result<(), Error> {
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

/// How long a block of `call` is.
fn block_bytes(call: &CarriedCall<'_>) -> u64 {
    call.decided.request.count * call.decided.data_type.size_bytes() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read_as_they_were_written() {
        for stage in [Stage::Idle, Stage::Begins, Stage::Copies, Stage::Ends] {
            for call in [0, 1, 1 << 40] {
                let word = StageWord { stage, call };
                assert_eq!(StageWord::read(word.to_word()), word);
            }
        }
        assert_eq!(StageWord::read(0).stage, Stage::Idle);
    }
}

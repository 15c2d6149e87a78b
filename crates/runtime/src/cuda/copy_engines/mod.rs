//! Collectives that copy engines carry. `docs/MEMORY.md`, section 9, says why that is right. An
//! unsafe boundary.
//!
//! A call puts into its stream, alike in graphs and outside:
//!
//! 1. *ready* is raised for every rank that sends to it; then it waits for *ready* of every rank to
//!    which it sends, and for the gate, and takes down the flags that it waited for;
//! 2. the copies to peers;
//! 3. *done* is raised for every rank to which it sent;
//! 4. it waits for *done* of every rank that sends to it, and takes down those flags.
//!
//! Beside that it copies from its input to its own output, for which no peer waits ([`copies`]).
//! Reductions have more of these flags ([`reduce`]).
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
mod copies;
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
use msccl_gpu::{Context, PinnedBuffer, VmmAllocation, WordOperation};
use msccl_select::EngineWork;

use super::registration::Registration;
use super::stream_order::CallSite;
use crate::engine::Waiting;
use crate::error::Error;
use crate::shared_state::{PairFlag, SharedState};
use branch::BranchStream;
pub(super) use copies::set_signals;
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
    inbox: Inbox,
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
    /// For this rank of `group`, if all ranks have them `enabled`, with an inbox of `inbox_bytes`.
    /// Every rank calls it.
    pub fn join(
        group: &Group,
        context: &Context,
        enabled: bool,
        inbox_bytes: u64,
    ) -> Result<Option<Self>, Error> {
        let made = enabled.then(|| EngineState::new(group.rank(), context)).transpose();
        let has = matches!(made, Ok(Some(_)));
        let all = group.all_gather(&[u8::from(has)])?;
        let made = made?.filter(|_| all.iter().all(|said| said == &[1]));
        let Some(state) = made else { return Ok(None) };
        let inbox = Inbox::new(context, group.ranks(), inbox_bytes);
        Ok(Some(Self { state: Arc::new(state), inbox, releaser: Mutex::default() }))
    }

    /// Whether all ranks have inboxes and reach those of all. The same on all ranks; waits for
    /// them, the first time.
    pub fn has_inboxes(&self, registration: &Registration) -> Result<bool, Error> {
        Ok(self.inbox.open(registration, self.state.me)?.is_some())
    }

    /// How much memory of the GPU it holds, also while the communicator is suspended.
    pub fn held_bytes(&self) -> u64 {
        INSTEAD_BYTES as u64 + self.inbox.held_bytes()
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

    /// Has the stream of `site` do what an exchange is ordered by ([`exchange`]).
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
            EngineWork::Reduction { .. } => [peers(), peers()],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read_as_they_were_written() {
        for stage in [Stage::Idle, Stage::Begins, Stage::Copies, Stage::Sums, Stage::Ends] {
            for call in [0, 1, 1 << 40] {
                let word = StageWord { stage, call };
                assert_eq!(StageWord::read(word.to_word()), word);
            }
        }
        assert_eq!(StageWord::read(0).stage, Stage::Idle);
    }
}

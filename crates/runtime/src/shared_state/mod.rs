//! The shared state of a communicator: what ranks know of one another, in shared memory of every
//! node.
//!
//! Each rank writes its own part: which calls it has issued, what became of it, and, on request,
//! what its thread blocks wait for. Everyone reads all parts, so a rank that is stuck, or dead, can
//! still be reported on. [`layout`] says where everything lies.
//!
//! **Nodes.** The [`replicator`] keeps the parts of ranks on other nodes up to date. They are a
//! moment old: it says what readers must take into account.
//!
//! **Numbers.** Only collectives are *numbered*, from 1, and call `n` of one rank is call `n` of
//! all others. Point-to-point calls need not be aligned across ranks and have no number: a group of
//! them is posted as one record. Within a rank every call, of either kind, has a *sequence*, also
//! from 1: that is what its engine counts by. Every message between two ranks is recorded, too,
//! with its place among those from the one to the other: message `k` that one sends is message `k`
//! that the other receives.
//!
//! **Histories.** Each record carries a hash of all calls up to this one ([`history`]), so two
//! ranks that agree on one call agree on all before it, whether or not records of these are still
//! there. [`compare`] rests on that.
//!
//! **Guarantees.** Posting takes no lock, allocates nothing and never waits; a reader sees a record
//! whole or not at all. Not guaranteed: that old records are still there (see
//! [`layout::COLLECTIVES`]), and sense in what a malicious process writes, although nothing that it
//! could write makes a reader fail.

pub(crate) mod check;
pub(crate) mod compare;
mod history;
mod layout;
mod reason;
mod record;
pub(crate) mod replicator;
mod request;
mod text;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use msccl_collective::Rank;
use msccl_fabric::{Group, SharedMemory};

use crate::call::{CollectiveCall, TransferCall};
use crate::error::Error;
use crate::nodes::Nodes;
use history::{Histories, Pair};
use layout::{Field, Ring, Text};
use record::Contents;

pub(crate) use layout::{ANSWER_BYTES, PIECES, PairFlag};
pub(crate) use reason::Reason;
pub(crate) use record::{PostedCall, PostedKind};

/// Marks the shared state's descriptor among others that a leader sends.
const TAG: u64 = u64::from_be_bytes(*b"\0\0\0board");

/// The shared state of a communicator, as one rank sees it.
pub(crate) struct SharedState {
    memory: SharedMemory,
    me: Rank,
    ranks: u32,
    nodes: Arc<Nodes>,
    /// What this rank has called so far.
    called: Histories,
}

/// What became of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RankState {
    /// Nothing bad that it knows of.
    Running,
    /// Its caller gave up while calls were under way.
    Aborted,
    /// Its communicator failed.
    Failed,
    /// Its communicator failed because a call stood still, and that has been reported.
    TimedOut,
    /// Its communicator failed because ranks call different things.
    Mismatched,
    /// It left in order: all its calls were done.
    Closed,
}

impl SharedState {
    /// The shared state of `group` on this rank's node, one of `nodes`: its leader makes it, all
    /// others open it. `compares` says whether this rank compares the arguments of calls. Every
    /// rank must call it.
    pub fn join(group: &Group, nodes: Arc<Nodes>, compares: bool) -> Result<Self, Error> {
        let (me, ranks) = (group.rank(), group.ranks());
        let (node_ranks, leader) = (nodes.around(me).len(), nodes.leader(me));
        let bytes = layout::state_bytes(ranks) + layout::signal_bytes(node_ranks);
        let memory = if me == leader {
            let memory = SharedMemory::create(bytes)?;
            for member in nodes.around(me).iter().skip(1) {
                group.send_fd(*member, TAG, memory.descriptor()?)?;
            }
            memory
        } else {
            SharedMemory::open(group.receive_fd(leader, TAG)?, bytes)?
        };
        let shared_state = Self { memory, me, ranks, nodes, called: Histories::default() };
        shared_state.own(Field::Compares).store(u64::from(compares), Ordering::Release);
        Ok(shared_state)
    }

    /// This rank.
    pub fn me(&self) -> Rank {
        self.me
    }

    /// Which ranks live together.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Whether all that `rank`, which has departed, has ever posted is here. Of a rank on another
    /// node that may never be known, unless it left in order, which it says last.
    pub fn is_complete(&self, rank: Rank) -> bool {
        let ended = self.word(Field::Ended.of(rank)).load(Ordering::Acquire) != 0;
        ended || self.nodes.together(self.me, rank) || self.state(rank) == RankState::Closed
    }

    /// The word that counts the signals from one rank of this node to another; nothing, if they
    /// cannot signal one another.
    pub fn signals(&self, from: Rank, to: Rank) -> Option<&AtomicU64> {
        self.memory.word(self.signal_offset(from, to)?)
    }

    /// A flag from one rank of this node to another; nothing, if they have none.
    pub fn flag(&self, from: Rank, to: Rank, flag: PairFlag) -> Option<&AtomicU64> {
        self.memory.word(self.signal_offset(from, to)? + layout::behind_signal(flag))
    }

    fn signal_offset(&self, from: Rank, to: Rank) -> Option<usize> {
        let node = self.nodes.around(self.me);
        let place = |rank| node.iter().position(|of| *of == rank);
        layout::signal(self.ranks, node.len(), place(from)?, place(to)?)
    }

    /// The memory in which all of it lies, for devices that are to reach its words.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// All ranks, in order.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.ranks).map(Rank)
    }

    /// This rank has issued `call` as its call `sequence`. Answers its number among collectives.
    /// One thread at a time.
    pub fn post(&self, sequence: u64, call: &CollectiveCall) -> u64 {
        let number = self.own(Field::Collectives).load(Ordering::Relaxed) + 1;
        let shape = record::pack_collective(call);
        let contents = self.called.collective(sequence, shape, call.shape.count);
        self.write_record(self.me, Ring::Collectives, number, contents);
        if number.is_multiple_of(layout::STRIDE) {
            self.write_record(self.me, Ring::Checkpoints, number / layout::STRIDE, contents);
        }
        self.own(Field::Collectives).store(number, Ordering::Release);
        self.own(Field::Issued).store(sequence, Ordering::Release);
        number
    }

    /// This rank has issued `calls`, point-to-point calls that go together, as its call `sequence`.
    /// One thread at a time, which is also the only one that posts collectives.
    pub fn post_transfers(&self, sequence: u64, calls: &[TransferCall]) {
        let Some(first) = calls.first() else { return };
        self.post_messages(sequence, calls);
        let number = self.own(Field::Transfers).load(Ordering::Relaxed) + 1;
        let (shape, count) = (record::pack_transfer(first), first.count);
        let contents =
            Contents { sequence, shape, count, extra: calls.len() as u64, ..Contents::default() };
        self.write_record(self.me, Ring::Transfers, number, contents);
        self.own(Field::Transfers).store(number, Ordering::Release);
        self.own(Field::Issued).store(sequence, Ordering::Release);
    }

    /// Posts those of `calls` that exchange a message with another rank: no empty ones, since these
    /// send nothing.
    fn post_messages(&self, sequence: u64, calls: &[TransferCall]) {
        let mut number = self.own(Field::Messages).load(Ordering::Relaxed);
        for call in calls.iter().filter(|call| call.count != 0) {
            let pair = Pair::of(self.me, &call.operation());
            let Some(pair) = pair.filter(Pair::is_between_ranks) else { continue };
            number += 1;
            let shape = record::pack_transfer(call);
            let contents = self.called.message(pair, sequence, shape, call.count);
            self.write_record(self.me, Ring::Messages, number, contents);
        }
        self.own(Field::Messages).store(number, Ordering::Release);
    }

    /// From now on calls of this rank are served by `settings`, a hash of what all ranks must set
    /// alike between the same calls; 0 for what was agreed when the communicator was made.
    pub fn set_settings(&self, settings: u64) {
        self.called.set_settings(settings);
    }

    /// Whether all ranks, as far as is known here, compare the arguments of collectives before they
    /// run.
    fn all_compare(&self) -> bool {
        self.ranks().all(|rank| self.word(Field::Compares.of(rank)).load(Ordering::Acquire) != 0)
    }

    /// The calls of this rank up to `sequence` get no execution beyond what they had: they are
    /// empty, were refused, or are done. Needed for calls that the engine never receives. One
    /// thread at a time.
    pub fn settle(&self, sequence: u64) {
        let settled = self.own(Field::Settled);
        if settled.load(Ordering::Relaxed) < sequence {
            settled.store(sequence, Ordering::Release);
        }
    }

    /// The sequence up to which this rank's calls were settled.
    pub fn settled(&self) -> u64 {
        self.own(Field::Settled).load(Ordering::Acquire)
    }

    /// The collective on which `rank` waits for the others, to compare arguments; 0 for none.
    pub fn checking(&self, rank: Rank) -> u64 {
        self.word(Field::Agreeing.of(rank)).load(Ordering::Acquire)
    }

    fn set_checking(&self, number: u64) {
        self.own(Field::Agreeing).store(number, Ordering::Release);
    }

    /// The guard is 0 while the record is being written, and its number otherwise.
    fn write_record(&self, rank: Rank, ring: Ring, number: u64, contents: Contents) {
        let [guard, words @ ..] = ring.record(rank, number).map(|offset| self.word(offset));
        guard.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in words.into_iter().zip(contents.words()) {
            word.store(value, Ordering::Relaxed);
        }
        guard.store(number, Ordering::Release);
    }

    /// The number of the last collective of `rank`; 0 before the first.
    pub fn collectives(&self, rank: Rank) -> u64 {
        self.word(Field::Collectives.of(rank)).load(Ordering::Acquire)
    }

    /// The sequence of the last call of `rank`; 0 before the first.
    pub fn issued(&self, rank: Rank) -> u64 {
        self.word(Field::Issued.of(rank)).load(Ordering::Acquire)
    }

    /// Collective `number` of `rank`, if it was posted and is still there.
    pub fn collective(&self, rank: Rank, number: u64) -> Option<PostedCall> {
        self.read_record(rank, Ring::Collectives, number)
    }

    /// The last call of `rank`.
    pub fn last(&self, rank: Rank) -> Option<PostedCall> {
        let newest = |ring| self.newest(rank, ring).next();
        let last = newest(Ring::Collectives).into_iter().chain(newest(Ring::Transfers));
        last.max_by_key(|posted| posted.sequence)
    }

    /// The first call of `rank` whose sequence is at least `sequence`, among those still there.
    pub fn first_from(&self, rank: Rank, sequence: u64) -> Option<PostedCall> {
        let first = |ring| {
            let newest = self.newest(rank, ring);
            newest.take_while(|posted| posted.sequence >= sequence).last()
        };
        let first = first(Ring::Collectives).into_iter().chain(first(Ring::Transfers));
        first.min_by_key(|posted| posted.sequence)
    }

    /// The records of `ring`, newest first, until one is not there.
    fn newest(&self, rank: Rank, ring: Ring) -> impl Iterator<Item = PostedCall> {
        let last = self.last_number(rank, ring);
        let oldest = last.saturating_sub(ring.length() - 1).max(1);
        (oldest..=last).rev().map_while(move |number| self.read_record(rank, ring, number))
    }

    /// The number of the last record of `ring`.
    fn last_number(&self, rank: Rank, ring: Ring) -> u64 {
        self.word(ring.count().of(rank)).load(Ordering::Acquire) / ring.stride()
    }

    /// The number of the record that lies where record `number` would.
    fn guard(&self, rank: Rank, ring: Ring, number: u64) -> u64 {
        let [guard, ..] = ring.record(rank, number);
        self.word(guard).load(Ordering::Acquire)
    }

    fn read_contents(&self, rank: Rank, ring: Ring, number: u64) -> Option<Contents> {
        let [guard, contents @ ..] = ring.record(rank, number).map(|offset| self.word(offset));
        if number == 0 || guard.load(Ordering::Acquire) != number {
            return None;
        }
        let contents = contents.map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_whole = guard.load(Ordering::Relaxed) == number;
        is_whole.then(|| Contents::from_words(contents))
    }

    fn read_record(&self, rank: Rank, ring: Ring, number: u64) -> Option<PostedCall> {
        let contents = self.read_contents(rank, ring, number)?;
        let Contents { sequence, shape, count, history: _, extra } = contents;
        let (call, placement) = record::unpack(shape, count)?;
        let kind = match ring {
            Ring::Collectives => PostedKind::Collective { number, placement },
            Ring::Checkpoints => {
                PostedKind::Collective { number: number * layout::STRIDE, placement }
            }
            Ring::Transfers => PostedKind::Transfers { calls: extra },
            Ring::Messages => PostedKind::Transfers { calls: 1 },
        };
        let settings = match ring {
            Ring::Collectives | Ring::Checkpoints => extra,
            Ring::Transfers | Ring::Messages => 0,
        };
        Some(PostedCall { sequence, call, kind, settings })
    }

    /// Lets everyone know what became of this rank, and why. One thread at a time.
    pub fn mark(&self, state: RankState, reason: &Reason) {
        self.write_text(self.me, Text::Reason, &reason.to_text());
        self.own(Field::RankState).store(state.code(), Ordering::Release);
    }

    /// As [`SharedState::mark`], of a rank that aborts while calls after `sequence` are under way.
    pub fn mark_aborted(&self, sequence: u64, reason: &Reason) {
        let open = self.newest(self.me, Ring::Collectives);
        let open = open.take_while(|posted| posted.sequence > sequence).count() as u64;
        let completed = match open < Ring::Collectives.length() {
            true => self.collectives(self.me).saturating_sub(open),
            // Which one is open first is not known any more.
            false => 0,
        };
        self.own(Field::Completed).store(completed, Ordering::Release);
        self.mark(RankState::Aborted, reason);
    }

    /// Whether `rank`, which has aborted, had done its part of collective `number`.
    pub fn had_completed(&self, rank: Rank, number: u64) -> bool {
        self.word(Field::Completed.of(rank)).load(Ordering::Acquire) >= number
    }

    /// What became of `rank`.
    pub fn state(&self, rank: Rank) -> RankState {
        RankState::from_code(self.word(Field::RankState.of(rank)).load(Ordering::Acquire))
    }

    /// Why it did.
    pub fn reason(&self, rank: Rank) -> Reason {
        let text = self.read_text(rank, Text::Reason).unwrap_or_default();
        Reason::from_text(&text)
    }

    fn own(&self, field: Field) -> &AtomicU64 {
        self.word(field.of(self.me))
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // The layout's offsets are multiples of eight below `state_bytes`, which is the memory's
        // size; a test of the layout says so.
        self.memory.word(offset).expect("the layout lies inside the memory")
    }

    /// A shared state that nobody else has.
    #[cfg(test)]
    pub fn alone(me: Rank, ranks: u32) -> Self {
        Self::of_nodes(me, ranks, ranks)
    }

    /// The same, where ranks live on nodes of `per_node` each.
    #[cfg(test)]
    pub fn of_nodes(me: Rank, ranks: u32, per_node: u32) -> Self {
        let memory = SharedMemory::create(layout::state_bytes(ranks)).unwrap();
        let nodes = Arc::new(Nodes::equal(ranks, per_node));
        Self { memory, me, ranks, nodes, called: Histories::default() }
    }

    /// The same shared state, as `me` sees it.
    #[cfg(test)]
    pub fn seen_by(&self, me: Rank) -> Self {
        let descriptor = self.memory.descriptor().unwrap().try_clone_to_owned().unwrap();
        let memory = SharedMemory::open(descriptor, self.memory.len()).unwrap();
        let (ranks, nodes) = (self.ranks, self.nodes.clone());
        Self { memory, me, ranks, nodes, called: Histories::default() }
    }
}

impl RankState {
    fn code(self) -> u64 {
        match self {
            RankState::Running => 0,
            RankState::Aborted => 1,
            RankState::Failed => 2,
            RankState::Closed => 3,
            RankState::Mismatched => 4,
            RankState::TimedOut => 5,
        }
    }

    fn from_code(code: u64) -> Self {
        match code {
            1 => RankState::Aborted,
            2 => RankState::Failed,
            3 => RankState::Closed,
            4 => RankState::Mismatched,
            5 => RankState::TimedOut,
            _ => RankState::Running,
        }
    }

    /// Whether its communicator failed, whatever the cause.
    pub fn has_failed(self) -> bool {
        match self {
            RankState::Failed | RankState::TimedOut | RankState::Mismatched => true,
            RankState::Running | RankState::Aborted | RankState::Closed => false,
        }
    }

    /// The state whose [`RankState::name`] is `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        (0..6).map(Self::from_code).find(|state| state.name() == name)
    }

    /// What its rank has done, in a sentence: "r3 has failed".
    pub fn verb(self) -> &'static str {
        match self {
            RankState::Mismatched | RankState::TimedOut => "failed",
            other => other.name(),
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            RankState::Running => "running",
            RankState::Aborted => "aborted",
            RankState::Failed => "failed",
            RankState::Mismatched => "mismatched",
            RankState::TimedOut => "timed-out",
            RankState::Closed => "closed",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! One end of a reliable connection: what `msccl_proxy`'s `Rail` guarantees, kept by a queue pair.
//!
//! * *In order, reported when it is there.* Each write carries its tag as immediate data; a queue
//!   pair of the type RC completes the peer's receive after all bytes of this and earlier writes
//!   are in memory.
//! * *Nothing blocks.* Receives are posted ahead, hundreds of them. A peer that sends more before
//!   this side polls waits, as its device demands.
//! * *What has arrived before a failure is reported before it.* The peer may have learned that it
//!   has arrived. So once a failure is noticed, the receive queue is read up to its first flushed
//!   request, and meanwhile posts find no room.
//! * *The first error is the one that is reported.* Requests behind a failed one are only flushed;
//!   their status says nothing.
//! * *After [`Rail::close`] nothing lands.* The queue pair has ended then.

mod failure;
mod path;

use std::sync::Arc;
use std::time::{Duration, Instant};

use msccl_proxy::rdma::abi;

use crate::address::{End, mtu_bytes};
use crate::cause::FLUSHED;
use crate::gid;
use crate::machine::{Registration, Settings};
use crate::sends::Sends;
use crate::verbs::{
    Completion, Depth, Pair, Queue, QueuePairId, RECEIVES_AT_ONCE, Refused, Target,
};
use failure::Cause;
use path::{check, first_packet, no_path, route};

/// Writes that may be under way, and one more.
const SENDS: u32 = 256;
/// Writes that may arrive before this side polls.
const RECEIVES: u32 = 512;
/// Writes up to this size are copied into their requests, which saves the device a read.
const INLINE_BYTES: u32 = 64;

/// Calls of [`Rail::poll`] between two questions for the time.
const POLLS_PER_CLOCK: u32 = 64;

/// One end of a connection.
pub struct Rail {
    /// None after the end of the connection.
    pair: Option<Pair>,
    registration: Arc<Registration>,
    settings: Settings,
    own: End,
    own_gid_index: u8,
    stage: Stage,
    sends: Sends,
    /// Receives that the device has.
    waiting: u32,
    polls: u32,
    fatal_count: u64,
    queue_pair_id: QueuePairId,
}

enum Stage {
    /// The peer is not known yet.
    Made,
    /// It carries.
    Carries { peer: End },
    /// It has failed, and what arrived before that is still read.
    Failing { peer: End, cause: Cause, since: Instant, flushed: bool },
    /// It has failed, and this was said or will be. There is a peer if it ever carried.
    Broken { peer: Option<End>, why: String },
}

/// Why two ends are not connected, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unconnected {
    /// They cannot be.
    Never(String),
    /// Nobody answers for the peer's address; it may be tried again.
    NotNow(String),
}

impl From<String> for Unconnected {
    fn from(why: String) -> Self {
        Self::Never(why)
    }
}

impl Rail {
    /// Makes one end, for this memory, of a connection.
    ///
    /// # Errors
    /// If there is no GID, or the device has no room; in words.
    pub fn new(settings: &Settings, registration: Arc<Registration>) -> Result<Self, String> {
        let port = Arc::clone(&registration.port);
        let at_port = |refused: Refused| format!("{}: {refused}", port.describe());
        let adapter = port.watch.adapter();
        let facts = adapter.port(port.number).map_err(at_port)?;
        let table = adapter.gids(port.number).map_err(at_port)?;
        let gid = gid::choose(&table, facts.ethernet, settings.gid_index)
            .map_err(|why| format!("{}: {why}", port.describe()))?;
        let depth = Depth { send: SENDS, receive: RECEIVES, inline_bytes: INLINE_BYTES };
        let mut pair = Pair::new(adapter, depth).map_err(at_port)?;
        pair.prepare(port.number).map_err(at_port)?;
        for _ in 0..RECEIVES / RECEIVES_AT_ONCE {
            pair.receive(RECEIVES_AT_ONCE).map_err(at_port)?;
        }
        let own = End {
            ethernet: facts.ethernet,
            mtu_code: facts.mtu_code,
            pair: pair.number(),
            packet: first_packet(),
            gid: gid.bytes,
            lid: facts.lid,
            port: port.number,
            key: registration.region.remote_key(),
            memory: registration.region.address(),
            memory_bytes: registration.region.bytes(),
            device: adapter.name().to_owned(),
        };
        Ok(Self {
            queue_pair_id: pair.queue_pair_id(),
            pair: Some(pair),
            registration,
            settings: settings.clone(),
            own,
            own_gid_index: gid.index,
            stage: Stage::Made,
            sends: Sends::new(SENDS),
            waiting: RECEIVES,
            polls: 0,
            fatal_count: port.watch.fatal_count(),
        })
    }

    /// What the peer must know.
    pub fn address(&self) -> abi::Address {
        self.own.encode()
    }

    /// Connects with the peer's end.
    ///
    /// # Errors
    /// If the two do not match, or the device finds no way.
    pub fn connect(&mut self, address: &abi::Address) -> Result<(), Unconnected> {
        let peer = End::decode(address)?;
        let (Stage::Made, Some(pair)) = (&self.stage, &mut self.pair) else {
            return Err(format!("{} was connected already", self.own.describe()).into());
        };
        let route = route(&self.settings, &self.own, self.own_gid_index, &peer)?;
        pair.accept(&route)
            .and_then(|()| pair.start(self.own.packet, self.settings.patience))
            .map_err(|refused| {
                let why = no_path(&self.own, &peer, &refused);
                match refused.is_unanswered() {
                    true => Unconnected::NotNow(why),
                    false => Unconnected::Never(why),
                }
            })?;
        self.stage = Stage::Carries { peer };
        Ok(())
    }

    /// Where it leads, for people.
    pub fn describe(&self) -> String {
        let own = self.own.describe();
        let down = self.down_for();
        let down = down.map_or_else(String::new, |time| format!(" (down for {time:.1?})"));
        match self.peer() {
            None => format!("{own}{down}, not connected"),
            Some(peer) => {
                let packet = mtu_bytes(self.own.mtu_code.min(peer.mtu_code));
                format!("{own}{down} → {}, {packet}-byte packets", peer.describe())
            }
        }
    }

    fn peer(&self) -> Option<&End> {
        match &self.stage {
            Stage::Made => None,
            Stage::Carries { peer } | Stage::Failing { peer, .. } => Some(peer),
            Stage::Broken { peer, .. } => peer.as_ref(),
        }
    }

    /// Since when this side's port has been down, if it is.
    fn down_for(&self) -> Option<Duration> {
        let port = &self.registration.port;
        port.watch.down_for(port.number)
    }

    /// Posts a write; false if there is no room, or the rail has begun to fail, which
    /// [`Rail::poll`] will report.
    ///
    /// # Errors
    /// If the rail is not connected, the write leaves the memory of either side, or the rail was
    /// said to have failed; in words.
    pub fn post(&mut self, write: &abi::RawWrite) -> Result<bool, String> {
        let (peer, pair) = match (&self.stage, &mut self.pair) {
            (Stage::Carries { peer }, Some(pair)) => (peer, pair),
            (Stage::Broken { why, .. }, _) => return Err(why.clone()),
            (Stage::Failing { .. }, _) => return Ok(false),
            _ => return Err("a post before it is connected".to_owned()),
        };
        let abi::RawWrite { from, to, bytes, tag } = *write;
        let Some(next) = self.sends.next(bytes) else { return Ok(false) };
        let limit = self.registration.port.facts.max_message_bytes;
        if let Err(why) = check(write, &self.own, peer, limit) {
            self.begin_to_fail(Cause::Wrong { why: why.clone() });
            return Err(why);
        }
        let target = match bytes {
            0 => Target { address: 0, key: 0, tag },
            _ => Target { address: peer.memory + to, key: peer.key, tag },
        };
        let piece = (&self.registration.region, from, bytes);
        match pair.write(piece, target, next.0, next.1) {
            Ok(()) => self.sends.posted(next),
            Err(refused) => self.begin_to_fail(Cause::Refused(refused)),
        }
        Ok(matches!(self.stage, Stage::Carries { .. }))
    }

    /// Moves things on, and fills `happened` from its beginning; answers how many.
    ///
    /// # Errors
    /// If the rail has failed, once all that arrived before was reported; in words.
    pub fn poll(&mut self, happened: &mut [abi::RawRailEvent]) -> Result<usize, String> {
        match &self.stage {
            Stage::Made => return Ok(0),
            Stage::Broken { why, .. } => return Err(why.clone()),
            Stage::Carries { .. } | Stage::Failing { .. } => {}
        }
        self.look_for_events();
        self.take_completions(Queue::Sent, usize::MAX, |_| {});
        let sent = self.sends.report(happened.len());
        happened[..sent].fill(abi::RawRailEvent { kind: 0, tag: 0, bytes: 0, reserved: 0 });
        let mut count = sent;
        let room = happened.len() - sent;
        self.take_completions(Queue::Received, room, |completion| {
            let Completion { tag, bytes, .. } = completion;
            happened[count] = abi::RawRailEvent { kind: 1, tag, bytes, reserved: 0 };
            count += 1;
        });
        if let Stage::Carries { .. } = self.stage {
            self.keep_going();
        } else if count == 0 && (room > 0 || happened.is_empty()) {
            self.conclude()?;
        }
        Ok(count)
    }

    fn look_for_events(&mut self) {
        self.polls = self.polls.wrapping_add(1);
        let watch = &self.registration.port.watch;
        if self.polls.is_multiple_of(POLLS_PER_CLOCK) {
            watch.look_if_due();
        }
        let count = watch.fatal_count();
        if count == self.fatal_count {
            return;
        }
        self.fatal_count = count;
        if let Some(code) = watch.fatal_of(&self.queue_pair_id) {
            self.begin_to_fail(Cause::Event { code });
        }
    }

    /// Takes completions of a queue; calls `each` for those that succeeded.
    fn take_completions(&mut self, queue: Queue, room: usize, mut each: impl FnMut(Completion)) {
        let Some(pair) = &mut self.pair else { return };
        let (sends, waiting) = (&mut self.sends, &mut self.waiting);
        let mut failed = None;
        let mut flushed = false;
        let taken = pair.poll(queue, room, |completion| {
            if queue == Queue::Received {
                *waiting -= 1;
            }
            if completion.status != 0 {
                flushed = true;
                let better = failed.is_none_or(|earlier: Completion| earlier.status == FLUSHED);
                failed = if better { Some(completion) } else { failed };
                return;
            }
            if queue == Queue::Sent {
                sends.completed(completion.request);
            }
            each(completion);
        });
        if let Err(refused) = taken {
            self.begin_to_fail(Cause::Refused(refused));
        }
        if let Some(completion) = failed {
            self.begin_to_fail(Cause::Completion { queue, completion });
        }
        if let (Queue::Received, true, Stage::Failing { flushed: seen, .. }) =
            (queue, flushed, &mut self.stage)
        {
            *seen = true;
        }
    }

    /// Gives the device receives for those that were used, and a mark if it needs one.
    fn keep_going(&mut self) {
        let Some(pair) = &mut self.pair else { return };
        let mut done = Ok(());
        if RECEIVES - self.waiting >= RECEIVES_AT_ONCE {
            done = pair.receive(RECEIVES_AT_ONCE);
            self.waiting += RECEIVES_AT_ONCE;
        }
        if let (Ok(()), Some(number)) = (&done, self.sends.mark()) {
            done = pair.mark(number);
            self.sends.marked();
        }
        if let Err(refused) = done {
            self.begin_to_fail(Cause::Refused(refused));
        }
    }

    /// Ends the connection. When this returns, nothing lands any more, and every later call fails.
    pub fn close(&mut self) {
        let why = match &self.stage {
            Stage::Broken { why, .. } => why.clone(),
            Stage::Failing { cause, .. } => self.words(cause),
            Stage::Made | Stage::Carries { .. } => "this side has closed it".to_owned(),
        };
        self.give_up(why);
        self.end_pair();
    }

    fn end_pair(&mut self) {
        if let Some(mut pair) = self.pair.take() {
            // The end of the queue pair is what counts; a device that refuses this is at its end as
            // well.
            let _ = pair.break_off();
            drop(pair);
            self.registration.port.watch.forget(&self.queue_pair_id);
        }
    }
}

impl Drop for Rail {
    fn drop(&mut self) {
        self.end_pair();
    }
}

#[cfg(test)]
mod tests;

//! Ranks that know one another: what they can do together.
//!
//! Operations of all ranks (all-gather, broadcast, barrier, split) must be called in the same order
//! everywhere; that they are is checked, and a difference is an error on every rank. They go by way
//! of a **hub**, rank 0 of the group, which therefore knows who has not come, and decides for all
//! how an operation ended. A group whose operation failed on a rank is *broken* there: its later
//! operations fail with the same error, messages between ranks and [`Group::shrink`] still work.
//!
//! Messages and descriptors between two ranks go directly, are taken in the order in which they
//! were sent (per tag), and never block the sender.
//!
//! Every wait ends when the group's [`Abort`] is raised, when the operation timeout is over, and
//! when a rank that it depends on has departed; the error says which. While its owner sets
//! something up with it ([`Group::begin_setup`]), all waits together end with the time that the
//! ranks had to join, and a process that lacks descriptors, so that peers cannot come in, fails
//! them at once.

mod collective;
mod subgroup;
mod waiting;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use msccl_collective::Rank;

use crate::abort::{Abort, Patience, Stop};
use crate::departure::{Departure, DepartureReason};
use crate::error::{Error, ErrorKind};
use crate::frame::{Frame, Subject};
use crate::identity::Peer;
use crate::key::Key;
use crate::transport::{Address, LAST_WORDS, Member, PeerState, State, Transport};
use waiting::Waiting;

/// One rank's view of a group of ranks. Dropping it leaves the group.
pub struct Group {
    transport: Arc<Transport>,
    /// The same on all members, different for all groups of a world.
    id: u64,
    me: Rank,
    members: Arc<[Member]>,
    timeout: Option<Duration>,
    abort: Abort,
    /// Until when the ranks were to join, or to make this group of another one.
    joining: Patience,
    /// Whether that bounds all waits.
    in_setup: AtomicBool,
    /// Held during an operation of all ranks, which keeps their order.
    turn: Mutex<()>,
    splits: AtomicU64,
    /// How often it was shrunk to the same ranks. All of them know that; how often it was shrunk at
    /// all, only some do.
    shrinks: Mutex<BTreeMap<Vec<u8>, u64>>,
}

impl Group {
    pub(crate) fn new(
        transport: Arc<Transport>,
        id: u64,
        me: Rank,
        members: Arc<[Member]>,
        timeout: Option<Duration>,
        joining: Patience,
    ) -> Self {
        transport.state().open_group(id, members.iter().map(|member| member.world).collect());
        let abort = joining.abort().clone();
        Self {
            transport,
            id,
            me,
            members,
            timeout,
            abort,
            joining,
            in_setup: AtomicBool::new(false),
            turn: Mutex::new(()),
            splits: AtomicU64::new(0),
            shrinks: Mutex::default(),
        }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.me
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.members.len() as u32
    }

    /// All ranks, in order.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = &Peer> {
        self.members.iter().map(|member| &member.peer)
    }

    /// The node of every rank. Ranks that can share memory are on one node; nodes are numbered by
    /// their lowest ranks.
    pub fn nodes(&self) -> Vec<usize> {
        let mut firsts: Vec<&Peer> = Vec::new();
        let node = |peer| {
            let known = firsts.iter().position(|first| first.shares_descriptors(peer));
            known.unwrap_or_else(|| {
                firsts.push(peer);
                firsts.len() - 1
            })
        };
        self.peers().map(node).collect()
    }

    /// What is known of `rank`, if there is such a rank.
    pub fn peer(&self, rank: Rank) -> Option<&Peer> {
        self.members.get(rank.index()).map(|member| &member.peer)
    }

    /// The flag that ends this group's waits.
    pub fn abort(&self) -> &Abort {
        &self.abort
    }

    /// From now on all waits together end when the time for joining is over, counted from its first
    /// byte, or for making this group of another one; until [`Group::end_setup`].
    pub fn begin_setup(&self) {
        self.in_setup.store(true, Ordering::Relaxed);
    }

    /// What the group's owner sets up with it is done on all ranks.
    pub fn end_setup(&self) {
        self.in_setup.store(false, Ordering::Relaxed);
    }

    /// What the group's owner sets up with it has failed with `error`, and it is about to leave.
    /// Its peers are to know why when they miss it.
    pub fn give_up(&self, error: &dyn fmt::Display) {
        self.transport.state().give_up(error.to_string());
    }

    /// What the members of this group know and nobody else does, for the connections that `label`
    /// names.
    pub fn key(&self, label: &str) -> Key {
        self.transport.key("connections of a group", &[&self.id.to_le_bytes(), label.as_bytes()])
    }

    /// A number that all members of this group share and no other group has, for logs.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Ranks that died or left so far, in order. Never waits.
    pub fn departed(&self) -> Vec<Departure> {
        let state = self.transport.state();
        let reason = |member: &Member| match state.peer_state(member.world) {
            PeerState::Present => {
                state.has_left(self.id, member.world).then_some(DepartureReason::Left)
            }
            PeerState::Departed(reason) | PeerState::Rumour { reason, .. } => Some(reason.clone()),
        };
        let departed =
            |member: &Member| Some(Departure { rank: member.peer.rank, reason: reason(member)? });
        self.members.iter().filter_map(departed).collect()
    }

    /// Sends `bytes` to `peer`; returns as soon as they are on their way.
    pub fn send(&self, peer: Rank, tag: u64, bytes: &[u8]) -> Result<(), Error> {
        self.send_patiently(peer, tag, bytes, &self.patience())
    }

    /// The same, where a connection to `peer`, if there is none yet, may take at most `timeout`.
    pub fn send_within(
        &self,
        peer: Rank,
        tag: u64,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<(), Error> {
        self.send_patiently(peer, tag, bytes, &self.patience().at_most(timeout))
    }

    fn send_patiently(
        &self,
        peer: Rank,
        tag: u64,
        bytes: &[u8],
        patience: &Patience,
    ) -> Result<(), Error> {
        let to = self.member(peer)?;
        let waiting = Waiting::new(self, to);
        self.connect(to, patience, &waiting)?;
        let (subject, group) = (Subject::Message, self.id);
        let frame = Frame { subject, group, number: tag, body: bytes.to_vec() };
        self.transport.send(to, frame, patience)?;
        waiting.end();
        Ok(())
    }

    /// Waits for the next message of `peer` with `tag`.
    pub fn receive(&self, peer: Rank, tag: u64) -> Result<Vec<u8>, Error> {
        let from = self.member(peer)?;
        let address = self.address(from, Subject::Message, tag);
        let (waiting, patience) = (Waiting::new(self, from), self.patience());
        let look = |state: &mut State| match state.take(&address) {
            Some(bytes) => Some(Some(bytes)),
            None => state.is_gone(self.id, from.world).then_some(None),
        };
        let what = || format!("a message with tag {tag} from {}", from.peer.describe());
        let found = self.await_peer(&patience, &waiting, look);
        let found = found.map_err(|stop| Error::stopped(stop, &patience, what()).of_ranks([peer]));
        let message = found?.ok_or_else(|| self.transport.departed(from))?;
        waiting.end();
        Ok(message)
    }

    /// The next message with `tag` of any of `peers`; `None` if there is none within `timeout`.
    /// Neither the group's abort nor the end of a peer ends the wait: what it sent before can still
    /// be taken.
    pub fn receive_any(
        &self,
        peers: &[Rank],
        tag: u64,
        timeout: Duration,
    ) -> Option<(Rank, Vec<u8>)> {
        let members = || peers.iter().filter_map(|peer| self.members.get(peer.index()));
        let patience = Patience::new(&Abort::new(), Some(timeout));
        let found = self.transport.wait(&patience, |state| {
            members().find_map(|from| {
                let bytes = state.take(&self.address(from, Subject::Message, tag))?;
                Some((from.peer.rank, bytes))
            })
        });
        found.ok()
    }

    /// The next message of `peer` with `tag`, if it has come. Never waits; an error says that none
    /// will come, because the peer has departed.
    pub fn try_receive(&self, peer: Rank, tag: u64) -> Result<Option<Vec<u8>>, Error> {
        let from = self.member(peer)?;
        let address = self.address(from, Subject::Message, tag);
        let mut state = self.transport.state();
        if let Some(bytes) = state.take(&address) {
            return Ok(Some(bytes));
        }
        let gone = state.is_gone(self.id, from.world);
        drop(state);
        if gone { Err(self.transport.departed(from)) } else { Ok(None) }
    }

    /// Sends a duplicate of `descriptor` to `peer`, which must share this rank's descriptors
    /// ([`Peer::shares_descriptors`]).
    pub fn send_fd(&self, peer: Rank, tag: u64, descriptor: impl AsFd) -> Result<(), Error> {
        let to = self.member(peer)?;
        let (waiting, patience) = (Waiting::new(self, to), self.patience());
        let address = (self.id, tag);
        let lasts = || waiting.lasts();
        self.transport.send_descriptor(to, address, descriptor.as_fd(), &patience, lasts)?;
        waiting.end();
        Ok(())
    }

    /// Waits for the next descriptor that `peer` sends with `tag`.
    pub fn receive_fd(&self, peer: Rank, tag: u64) -> Result<OwnedFd, Error> {
        let from = self.member(peer)?;
        let (waiting, patience) = (Waiting::new(self, from), self.patience());
        // The sender's death is noticed on a connection.
        self.connect(from, &patience, &waiting)?;
        let look = |state: &mut State| match state.take_descriptor(self.id, from.world, tag) {
            Some(descriptor) => Some(Some(descriptor)),
            None if state.is_gone(self.id, from.world) => Some(None),
            None => self.cannot_go_on(state).map(|error| Some(Err(error))),
        };
        let found = self.await_peer(&patience, &waiting, look);
        let what = || format!("a descriptor with tag {tag} from {}", from.peer.describe());
        let found = found.map_err(|stop| Error::stopped(stop, &patience, what()).of_ranks([peer]));
        let descriptor = found?.ok_or_else(|| self.transport.departed(from))??;
        waiting.end();
        Ok(descriptor)
    }

    /// The next descriptor that `peer` sent with `tag`, if it has come. Never waits.
    pub fn try_receive_fd(&self, peer: Rank, tag: u64) -> Result<Option<OwnedFd>, Error> {
        let from = self.member(peer)?;
        self.transport.state().take_descriptor(self.id, from.world, tag).transpose()
    }

    /// Makes sure that there is a connection to `to`, another rank or this one.
    fn connect(
        &self,
        to: &Member,
        patience: &Patience,
        waiting: &Waiting<'_>,
    ) -> Result<(), Error> {
        if to.world == self.transport.me() {
            return Ok(());
        }
        match self.transport.connect(to, &patience.at_most(Waiting::UNREPORTED_TIME)) {
            // A rank that is stopped does not answer, and this one must not be blamed for it.
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                waiting.lasts();
                self.transport.connect(to, patience)
            }
            connected => connected,
        }
    }

    /// Waits until `look` finds what a peer sends.
    fn await_peer<T>(
        &self,
        patience: &Patience,
        waiting: &Waiting<'_>,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Stop> {
        let mut found = self.transport.wait(&patience.at_most(Waiting::UNREPORTED_TIME), &mut look);
        if matches!(found, Err(Stop::TimedOut)) {
            waiting.lasts();
            found = self.transport.wait(patience, &mut look);
        }
        if matches!(found, Err(Stop::TimedOut)) && self.in_setup.load(Ordering::Relaxed) {
            // The peer's time is up as well: if it waited for another one, it says so when it gives
            // up.
            let last_words = Patience::new(&self.abort, Some(LAST_WORDS));
            found = self.transport.wait(&last_words, &mut look).map_err(|_| Stop::TimedOut);
        }
        found
    }

    fn patience(&self) -> Patience {
        self.bounded(Patience::new(&self.abort, self.timeout))
    }

    /// `patience`, which no setup outlasts.
    fn bounded(&self, patience: Patience) -> Patience {
        match self.in_setup.load(Ordering::Relaxed) {
            true => patience.or_sooner(&self.joining),
            false => patience,
        }
    }

    /// Why a setup cannot succeed, if so.
    fn cannot_go_on(&self, state: &State) -> Option<Error> {
        let in_setup = self.in_setup.load(Ordering::Relaxed);
        state.lacking().filter(|_| in_setup).cloned()
    }

    fn member(&self, rank: Rank) -> Result<&Member, Error> {
        self.members.get(rank.index()).ok_or_else(|| {
            let text = format!("there is no rank {} in a group of {}", rank.0, self.ranks());
            Error::invalid(text)
        })
    }

    /// The ranks in this group of ranks of the world.
    fn ranks_of(&self, world: &[Rank]) -> Vec<Rank> {
        let of_group = self.members.iter().filter(|member| world.contains(&member.world));
        of_group.map(|member| member.peer.rank).collect()
    }

    fn address(&self, from: &Member, subject: Subject, number: u64) -> Address {
        Address { group: self.id, from: from.world, subject, number }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.transport.drop_group(self.id);
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({:016x}, rank {} of {})", self.id, self.me.0, self.ranks())
    }
}

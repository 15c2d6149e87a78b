//! One rank's connections to its peers, shared by a group and all groups split from it.
//!
//! All reading and writing is done by one thread, the [`event_loop`]; callers leave messages for it
//! and wait on the mailbox. So no caller ever blocks in a write, an abort never cuts a message in
//! two, and a peer's death is noticed whether or not anybody waits.
//!
//! Connections are made when first needed. A peer's **state** is what is known of it: it departs
//! when its last connection ends, in order if it said goodbye and as lost otherwise; whoever
//! notices informs everyone it is connected to. What a third party reports is believed after a
//! moment only, because the departed one's own last messages may still be on their way.

mod connection;
mod descriptor_channel;
mod event_loop;
mod mailbox;
mod waits;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use msccl_collective::Rank;
use rustix::event::{EventfdFlags, eventfd};

use crate::abort::{Abort, Patience, Stop};
use crate::acceptor;
use crate::departure::DepartureReason;
use crate::descriptors::Room;
use crate::dial;
use crate::error::{Error, ErrorKind};
use crate::frame::{BODY_LIMIT_BYTES, Frame};
use crate::handshake::{Kind, Purpose};
use crate::identity::Peer;
use crate::key::Key;
use crate::log::Log;
use crate::socket::{self, Failure};
use crate::wire::Malformed;
pub(crate) use mailbox::{Address, PeerState, State, outcome_bytes, read_outcome};

/// Descriptors that a communicator holds for itself, and for each other rank of its node.
const OWN_DESCRIPTORS: u64 = 16;
const DESCRIPTORS_A_PEER: u64 = 2;

/// Beyond so many ranks most are on other nodes.
const RANKS_OF_A_NODE: u32 = 64;

/// How long a rank waits for a peer to say why it has ended, or did not come.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(400);

/// One rank's connections; dropping it says goodbye and ends its thread.
pub(crate) struct Transport {
    shared: Arc<Shared>,
    event_loop: Option<JoinHandle<()>>,
}

/// A peer as a member of a group: who it is there, and its rank in the world.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) world: Rank,
    /// Its rank here is that of the group.
    pub(crate) peer: Peer,
}

/// How long connections may take and be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Until one stands.
    pub(crate) connect: Duration,
    /// Without a sign of life, before it counts as lost.
    pub(crate) silence: Duration,
}

/// What callers and the event loop share.
struct Shared {
    me: Rank,
    /// Known to the ranks of this world alone.
    key: Key,
    /// Everyone in the world, by rank.
    members: Arc<[Member]>,
    limits: Limits,
    log: Arc<dyn Log>,
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes the event loop.
    bell: OwnedFd,
    /// By peer, held while connecting, so that two callers do not connect to one peer.
    connecting: Vec<Mutex<()>>,
    /// For the descriptors of all this.
    _room: Room,
}

impl Transport {
    /// Starts to serve `listener` as rank `me` of `members`, who are the world.
    pub(crate) fn start(
        me: Rank,
        key: Key,
        members: Arc<[Member]>,
        listener: TcpListener,
        limits: Limits,
        log: Arc<dyn Log>,
    ) -> Result<Self, Error> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| Error::system("cannot create an event descriptor", error))?;
        let state = Mutex::new(State::new(me, members.len()));
        let connecting = members.iter().map(|_| Mutex::new(())).collect();
        let ranks = members.len() as u32;
        let room = OWN_DESCRIPTORS + u64::from(ranks.min(RANKS_OF_A_NODE)) * DESCRIPTORS_A_PEER;
        let shared = Shared {
            me,
            key,
            members,
            limits,
            log,
            state,
            changed: Condvar::new(),
            bell,
            connecting,
            _room: Room::make(room + acceptor::unauthenticated_limit(ranks) as u64),
        };
        let shared = Arc::new(shared);
        let event_loop = event_loop::EventLoop::new(shared.clone(), listener)?;
        let thread = thread::Builder::new().name("msccl-fabric".to_owned());
        let event_loop = thread.spawn(move || event_loop.run());
        let event_loop =
            event_loop.map_err(|error| Error::system("cannot start the fabric's thread", error))?;
        Ok(Self { shared, event_loop: Some(event_loop) })
    }

    pub(crate) fn me(&self) -> Rank {
        self.shared.me
    }

    /// What the ranks of this world know, for the use `label` with `parts`.
    pub(crate) fn key(&self, label: &str, parts: &[&[u8]]) -> Key {
        self.shared.key.derive(label, parts)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// Waits until `look` finds something.
    pub(crate) fn wait<T>(
        &self,
        patience: &Patience,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Stop> {
        let mut state = self.state();
        loop {
            if let Some(found) = look(&mut state) {
                return Ok(found);
            }
            patience.check()?;
            let waited = self.shared.changed.wait_timeout(state, patience.slice());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Hands `frame` over for `to`, connecting first if need be.
    pub(crate) fn send(&self, to: &Member, frame: Frame, patience: &Patience) -> Result<(), Error> {
        if frame.body.len() > BODY_LIMIT_BYTES {
            let length = frame.body.len();
            let text =
                format!("a message has {length} bytes, at most {BODY_LIMIT_BYTES} can be sent");
            return Err(Error::invalid(text));
        }
        if to.world == self.me() {
            let delivered = self.state().deliver(to.world, frame);
            delivered.map_err(|Malformed(why)| Error::invalid(why))?;
            self.shared.changed.notify_all();
            return Ok(());
        }
        self.connect(to, patience)?;
        self.post(to, frame.to_bytes()).ok_or_else(|| self.departed(to))
    }

    /// Hands `bytes` over for `to` if there is a connection.
    pub(crate) fn post(&self, to: &Member, bytes: Arc<Vec<u8>>) -> Option<()> {
        let posted = self.state().post(to.world, bytes);
        self.shared.wake_event_loop();
        posted
    }

    /// Makes all later operations of `group` fail with `error`, here and for those who ask.
    pub(crate) fn break_group(&self, group: u64, error: &Error) {
        self.state().break_group(group, error);
        self.shared.wake_event_loop();
    }

    /// Leaves `group`, and informs those who wait there.
    pub(crate) fn drop_group(&self, group: u64) {
        self.state().drop_group(group);
        self.shared.wake_event_loop();
    }

    /// Sends `descriptor` to `to`, which must live in the same network namespace. `lasts` is called
    /// while `to` does not answer.
    pub(crate) fn send_descriptor(
        &self,
        to: &Member,
        (group, tag): (u64, u64),
        descriptor: BorrowedFd<'_>,
        patience: &Patience,
        lasts: impl Fn(),
    ) -> Result<(), Error> {
        let label = descriptor_channel::DescriptorTag { group, tag };
        let (key, from) = (&self.shared.key, self.me());
        let delivery = descriptor_channel::Delivery { key, from, to: to.world, label };
        // Whoever has only left the group takes it and drops it.
        let is_gone = || {
            lasts();
            self.state().has_departed(to.world)
        };
        match descriptor_channel::send(&delivery, descriptor, patience, is_gone) {
            Ok(descriptor_channel::Delivered::Taken) => Ok(()),
            Ok(descriptor_channel::Delivered::NoRoom) => Err(descriptor_channel::no_room(&to.peer)),
            Err(failure) if self.receives_end(to, &failure) => Err(self.departed(to)),
            Err(failure) => Err(descriptor_channel::undelivered(failure, &to.peer, patience)),
        }
    }

    /// Whether `failure` befell this rank because `to` has ended, which it learns in a moment,
    /// and why.
    fn receives_end(&self, to: &Member, failure: &Failure) -> bool {
        let ended = match failure {
            Failure::Io(error) => {
                use io::ErrorKind::{ConnectionRefused, NotConnected};
                let kinds = [ConnectionRefused, NotConnected];
                acceptor::may_try_again(error) || kinds.contains(&error.kind())
            }
            Failure::Stopped(_) => false,
        };
        let last_words = Patience::new(&Abort::new(), Some(LAST_WORDS));
        let departed = |state: &mut State| state.has_departed(to.world).then_some(());
        ended && self.wait(&last_words, departed).is_ok()
    }

    /// Makes sure that there is a connection to `to`.
    pub(crate) fn connect(&self, to: &Member, patience: &Patience) -> Result<(), Error> {
        if self.state().connection_to(to.world).is_some() {
            return Ok(());
        }
        let _one_at_a_time = self.shared.connecting.get(to.world.index()).map(lock);
        let state = self.state();
        if state.connection_to(to.world).is_some() {
            return Ok(());
        }
        if *state.peer_state(to.world) != PeerState::Present {
            drop(state);
            return Err(self.departed(to));
        }
        drop(state);
        let stream = self.dial(to, patience)?;
        self.state().add_connection(to.world, stream);
        self.shared.wake_event_loop();
        Ok(())
    }

    fn dial(&self, to: &Member, patience: &Patience) -> Result<TcpStream, Error> {
        let patience = patience.at_most(self.shared.limits.connect);
        let (from, address) = (self.me(), to.peer.address);
        let purpose = Purpose { kind: Kind::Peer, from, to: to.world, channel: 0 };
        let dialled = loop {
            match dial::dial(address, &self.shared.key, purpose, &patience) {
                // The peer had no room for a connection, or no time, or the network is away; one
                // that has ended refuses.
                Err(Failure::Io(error))
                    if acceptor::may_try_again(&error) || socket::is_unreachable(&error) =>
                {
                    if let Err(stop) = socket::sleep(Duration::from_millis(5), &patience) {
                        break Err(stop.into());
                    }
                }
                other => break other.map(|(stream, _)| stream),
            }
        };
        let what = || format!("cannot connect to {} at {}", to.peer.describe(), to.peer.address);
        if dialled.as_ref().is_err_and(|failure| self.receives_end(to, failure)) {
            return Err(self.departed(to));
        }
        dialled
            .map_err(|failure| match failure {
                Failure::Stopped(stop) => Error::stopped(stop, &patience, what()),
                Failure::Io(error) => {
                    let hint = "either it has ended, or no route leads to that address";
                    Error::io(ErrorKind::RankLost, what(), error, hint)
                }
            })
            .map_err(|error| error.of_ranks([to.peer.rank]))
    }

    /// That `member` is not there any more.
    pub(crate) fn departed(&self, member: &Member) -> Error {
        let state = self.state();
        let departure = match state.peer_state(member.world) {
            PeerState::Present => &DepartureReason::Left,
            PeerState::Departed(reason) | PeerState::Rumour { reason, .. } => reason,
        };
        let because = state.because_of(member.world);
        let text = format!("{} {departure}{because}", member.peer.describe());
        Error::new(ErrorKind::RankLost, text).of_ranks([member.peer.rank])
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn wake_event_loop(&self) {
        // Fails only when the counter is full, and then the event loop is about to wake anyway.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Whether `rank` is another one of this world.
    fn is_peer(&self, rank: Rank) -> bool {
        rank.index() < self.members.len() && rank != self.me
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.state().leave();
        self.shared.wake_event_loop();
        if let Some(event_loop) = self.event_loop.take() {
            // A panic of the event loop has been reported by the panic hook; there is nothing to
            // add.
            let _ = event_loop.join();
        }
    }
}

/// What a panicking holder left behind is still whole: every change of state is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

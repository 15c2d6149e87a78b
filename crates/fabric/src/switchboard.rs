//! One rank's connections to its peers, shared by a group and all groups split from it.
//!
//! All reading and writing is done by one thread, the [`pump`]; callers leave messages for it and
//! wait for mail. So no caller ever blocks in a write, an abort never cuts a message in two, and a
//! peer's death is noticed whether or not anybody waits.
//!
//! Connections are made when first needed. A peer's **fate** is what is known of it: it departs when its last
//! connection ends, in order if it said goodbye and as lost otherwise; whoever notices tells everyone it is
//! connected to. What a third party tells is believed after a moment only, because the departed one's
//! own last messages may still be on their way.

mod courier;
mod line;
mod mail;
mod pump;

use std::net::{TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use msccl_collective::Rank;
use rustix::event::{EventfdFlags, eventfd};

use crate::abort::{Patience, Stop};
use crate::departure::Manner;
use crate::error::{Error, ErrorKind};
use crate::frame::{BODY_LIMIT_BYTES, Frame};
use crate::hello::with_preface;
use crate::identity::Peer;
use crate::log::Log;
use crate::socket::{self, Failure};
use crate::unique_id::WIRE_VERSION;
use crate::wire::{Malformed, Reader, Writer};
pub(crate) use mail::{Address, Fate, State, outcome_bytes, read_outcome};

/// One rank's connections; dropping it says goodbye and ends its thread.
pub(crate) struct Switchboard {
    shared: Arc<Shared>,
    pump: Option<JoinHandle<()>>,
}

/// A peer as a member of a group: who it is there, and its rank in the world.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) world: Rank,
    /// Its rank here is that of the group.
    pub(crate) peer: Peer,
}

/// What callers and the pump share.
struct Shared {
    me: Rank,
    /// Known to the ranks of this world alone.
    world: u128,
    /// Everyone in the world, by rank.
    members: Arc<[Member]>,
    connect_timeout: Duration,
    log: Arc<dyn Log>,
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes the pump.
    bell: OwnedFd,
    /// Held while connecting, so that two callers do not connect to one peer.
    connecting: Mutex<()>,
}

impl Switchboard {
    /// Starts to serve `listener` as rank `me` of `members`, who are the world.
    pub(crate) fn start(
        me: Rank,
        world: u128,
        members: Arc<[Member]>,
        listener: TcpListener,
        connect_timeout: Duration,
        log: Arc<dyn Log>,
    ) -> Result<Self, Error> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| Error::system("cannot create an event descriptor", error))?;
        let state = Mutex::new(State::new(members.len()));
        let (changed, connecting) = (Condvar::new(), Mutex::new(()));
        let shared =
            Shared { me, world, members, connect_timeout, log, state, changed, bell, connecting };
        let shared = Arc::new(shared);
        let pump = pump::Pump::new(shared.clone(), listener);
        let thread = thread::Builder::new().name("msccl-fabric".to_owned());
        let pump = thread.spawn(move || pump.run());
        let pump =
            pump.map_err(|error| Error::system("cannot start the fabric's thread", error))?;
        Ok(Self { shared, pump: Some(pump) })
    }

    pub(crate) fn me(&self) -> Rank {
        self.shared.me
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
            self.state().deliver(to.world, frame);
            self.shared.changed.notify_all();
            return Ok(());
        }
        self.connect(to, patience)?;
        self.post(to, frame.to_bytes()).ok_or_else(|| self.departed(to))
    }

    /// Hands `bytes` over for `to` if there is a connection.
    pub(crate) fn post(&self, to: &Member, bytes: Arc<Vec<u8>>) -> Option<()> {
        let posted = self.state().post(to.world, bytes);
        self.shared.ring();
        posted
    }

    /// Makes all later operations of `group` fail with `error`, here and for those who ask.
    pub(crate) fn break_group(&self, group: u64, error: &Error) {
        self.state().break_group(group, error);
        self.shared.ring();
    }

    /// Leaves `group`, with those who wait there being told.
    pub(crate) fn drop_group(&self, group: u64) {
        self.state().drop_group(group);
        self.shared.ring();
    }

    /// Sends `descriptor` to `to`, which must live in the same network namespace.
    pub(crate) fn send_descriptor(
        &self,
        to: &Member,
        group: u64,
        tag: u64,
        descriptor: BorrowedFd<'_>,
        patience: &Patience,
    ) -> Result<(), Error> {
        let parcel = courier::Parcel { from: self.me(), group, tag };
        let name = courier::name(self.shared.world, to.world);
        courier::send(&name, self.shared.world, &parcel, descriptor, patience)
            .map_err(|failure| courier::undelivered(failure, &to.peer, patience))
    }

    /// Makes sure that there is a connection to `to`.
    pub(crate) fn connect(&self, to: &Member, patience: &Patience) -> Result<(), Error> {
        if self.state().route(to.world).is_some() {
            return Ok(());
        }
        let _one_at_a_time = lock(&self.shared.connecting);
        let state = self.state();
        if state.route(to.world).is_some() {
            return Ok(());
        }
        if *state.fate(to.world) != Fate::Present {
            drop(state);
            return Err(self.departed(to));
        }
        drop(state);
        let stream = self.dial(to, patience)?;
        self.state().add_line(to.world, stream);
        self.shared.ring();
        Ok(())
    }

    fn dial(&self, to: &Member, patience: &Patience) -> Result<TcpStream, Error> {
        let patience = patience.at_most(self.shared.connect_timeout);
        let mut introduction = Writer::default();
        introduction.u16(WIRE_VERSION);
        introduction.u32(self.me().0);
        introduction.u32(to.world.0);
        let introduction = with_preface(self.shared.world, &introduction.0);
        let dialled = socket::connect_once(to.peer.address, &patience).and_then(|stream| {
            socket::send_all(&stream, &introduction, &patience)?;
            Ok(stream)
        });
        let what = || format!("cannot connect to {} at {}", to.peer.story(), to.peer.address);
        dialled
            .map_err(|failure| match failure {
                Failure::Stopped(stop) => Error::stopped(stop, &patience, what()),
                Failure::Io(error) => {
                    let hint = "either it has ended, or no route leads to that address";
                    Error::new(ErrorKind::RankLost, format!("{}: {error}; {hint}", what()))
                }
            })
            .map_err(|error| error.of_ranks([to.peer.rank]))
    }

    /// That `member` is not there any more.
    pub(crate) fn departed(&self, member: &Member) -> Error {
        let manner = match self.state().fate(member.world) {
            Fate::Present => Manner::Left,
            Fate::Departed(manner) | Fate::Rumour { manner, .. } => manner.clone(),
        };
        let text = format!("{} {manner}", member.peer.story());
        Error::new(ErrorKind::RankLost, text).of_ranks([member.peer.rank])
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn ring(&self) {
        // Fails only when the counter is full, and then the pump is about to wake anyway.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// The rank that introduces itself by `body` to this one.
    fn introduced(&self, body: &[u8]) -> Result<Rank, Malformed> {
        let mut reader = Reader(body);
        if reader.u16()? != WIRE_VERSION {
            return Err(Malformed("it speaks another version of the protocol"));
        }
        let (from, to) = (Rank(reader.u32()?), Rank(reader.u32()?));
        reader.end()?;
        let known = from.index() < self.members.len() && from != self.me;
        match known && to == self.me {
            true => Ok(from),
            false => Err(Malformed("it looks for another rank")),
        }
    }
}

impl Drop for Switchboard {
    fn drop(&mut self) {
        self.state().leave();
        self.shared.ring();
        if let Some(pump) = self.pump.take() {
            // A panic of the pump has been reported by the panic hook; there is nothing to add.
            let _ = pump.join();
        }
    }
}

/// What a panicking holder left behind is still whole: every change of state is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

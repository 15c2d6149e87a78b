//! One-sided transfers: a rank writes into memory that a peer has shown, and signals it.
//!
//! All ranks open a [`Window`] together, each on memory of its own. Then any of them
//! [puts](Communicator::put_signal) bytes into a peer's memory without its doing, and the peer
//! [waits](Communicator::wait_signals) for as many signals as it expects of each rank. A signal
//! comes after all that its sender has put and signalled to that peer before.
//!
//! Ranks of one node reach one another. On the host: within a process by address, otherwise where
//! the memory can be passed on by a descriptor. On GPUs: where they map one another's memory, by
//! copies in the caller's stream; a signal is a word that the stream writes, or waits for. On the
//! host ranks of other nodes are sent what is put, and write it to their own memory
//! ([`Engine::put_between_nodes`]). Everything else is an error in words.

use std::sync::{MutexGuard, PoisonError};

use msccl_collective::Rank;

use super::Communicator;
use super::window::{PutPlace, Window};
use crate::engine::{AwaitedSignals, Engine, InterNodePut, Signal};
use crate::error::{Error, ErrorKind};

/// What a rank puts into the memory of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// Where the bytes are, on this rank.
    pub from: u64,
    /// How many.
    pub bytes: u64,
    /// Whose memory.
    pub peer: Rank,
    /// What the peer shows.
    pub window: &'a Window,
    /// Where in it, in bytes.
    pub offset_bytes: u64,
}

/// Signals of a peer that a rank waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpectedSignals {
    /// The peer.
    pub peer: Rank,
    /// How many more.
    pub count: u32,
}

/// Signals and windows of a rank so far.
#[derive(Default)]
pub(crate) struct SignalCounts {
    /// Signals to each rank.
    sent: Vec<u64>,
    /// Signals of each rank that were waited for.
    taken: Vec<u64>,
    /// Windows.
    windows: u64,
}

/// What goes to a peer before a signal.
#[derive(Clone, Copy)]
struct Load {
    from: u64,
    bytes: u64,
    place: PutPlace,
    offset_bytes: u64,
}

impl Load {
    /// A mere signal.
    const NOTHING: Self = Self { from: 0, bytes: 0, place: PutPlace::At(0), offset_bytes: 0 };
}

/// By what one rank signals another.
enum SignalWay<'a> {
    /// By a word that both reach.
    Word(Signal<'a>),
    /// By messages to another node.
    Message,
}

impl Communicator {
    /// Whether all ranks of this communicator can put into one another's memory.
    pub fn has_one_sided_transfers(&self) -> bool {
        self.inner.shared_state.ranks().all(|peer| self.signal_way(self.rank(), peer).is_ok())
    }

    /// Writes into the memory of a peer, then signals it.
    ///
    /// # Errors
    ///
    /// The memory is out of reach, or too short; the communicator is suspended, or has failed.
    pub fn put_signal(&self, put: &Put<'_>, stream: u64) -> Result<(), Error> {
        let Put { from, bytes, peer, window, offset_bytes } = *put;
        // Before its window, which may be waited for.
        self.signal_way(self.rank(), peer)?;
        let place = self.place_in(window, peer, offset_bytes, bytes)?;
        self.signal_after(Load { from, bytes, place, offset_bytes }, peer, stream)
    }

    /// Signals a peer.
    ///
    /// # Errors
    ///
    /// It is out of reach; the communicator is suspended, or has failed.
    pub fn signal(&self, peer: Rank, stream: u64) -> Result<(), Error> {
        self.signal_after(Load::NOTHING, peer, stream)
    }

    /// Sends `load`, then signals `peer`.
    fn signal_after(&self, load: Load, peer: Rank, stream: u64) -> Result<(), Error> {
        let inner = &self.inner;
        self.error().map_or(Ok(()), Err)?;
        let way = self.signal_way(self.rank(), peer)?;
        let _submission = inner.submission.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_resumed()?;
        inner.engine.admit_one_sided(stream)?;
        let gone = |peer| self.gone(peer);
        let signals = *SignalCounts::of(&mut self.counts().sent, peer) + 1;
        let signalled = match way {
            SignalWay::Word(signal) => load
                .copy(&*inner.engine, stream)
                .and_then(|()| inner.engine.signal(&signal, signals, stream)),
            SignalWay::Message => {
                inner.engine.put_between_nodes(&load.to_node_of(peer, signals, &gone))
            }
        };
        signalled.map_err(|error| inner.note(error))?;
        *SignalCounts::of(&mut self.counts().sent, peer) = signals;
        Ok(())
    }

    /// Waits for signals of peers, beyond all that were waited for before: on a GPU, what comes
    /// later in the stream does.
    ///
    /// # Errors
    ///
    /// A peer is out of reach, or gone; the communicator is suspended, or has failed.
    pub fn wait_signals(&self, expected: &[ExpectedSignals], stream: u64) -> Result<(), Error> {
        let inner = &self.inner;
        self.error().map_or(Ok(()), Err)?;
        let _submission = inner.submission.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_resumed()?;
        inner.engine.admit_one_sided(stream)?;
        let mut taken = self.counts().taken.clone();
        let gone = |peer| self.gone(peer);
        let mut awaited = Vec::new();
        for ExpectedSignals { peer, count } in expected {
            let signal = match self.signal_way(*peer, self.rank())? {
                SignalWay::Word(signal) => signal,
                SignalWay::Message => {
                    let word = inner.engine.signals_of(*peer)?;
                    Signal { shared_state: &inner.shared_state, word }
                }
            };
            let so_far = SignalCounts::of(&mut taken, *peer);
            *so_far += u64::from(*count);
            awaited.push(AwaitedSignals { peer: *peer, signal, count: *so_far, gone: &gone });
        }
        let came = inner.engine.await_signals(&awaited, stream);
        came.map_err(|error| inner.note(error))?;
        self.counts().taken = taken;
        Ok(())
    }

    /// A number for one more window.
    pub(super) fn next_window(&self) -> u64 {
        let mut counts = self.counts();
        counts.windows += 1;
        counts.windows
    }

    fn counts(&self) -> MutexGuard<'_, SignalCounts> {
        self.inner.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By what one rank signals another; one of them is this one.
    fn signal_way(&self, from: Rank, to: Rank) -> Result<SignalWay<'_>, Error> {
        let (shared_state, engine) = (&self.inner.shared_state, &self.inner.engine);
        let peer = if from == self.rank() { to } else { from };
        if !shared_state.nodes().together(self.rank(), peer) {
            let refused = engine.refuses_other_nodes();
            let error = |why| Error::invalid_usage(format!("{peer} is on another node: {why}"));
            return refused.map_or(Ok(SignalWay::Message), |why| Err(error(why)));
        }
        if !engine.has_one_sided_transfers() {
            let text = "ranks on GPUs have no one-sided transfers here: they need GPUs of one node \
                that map one another's memory";
            return Err(Error::invalid_usage(text));
        }
        let word = shared_state.signals(from, to).ok_or_else(|| {
            let text = format!("{peer} is on a node of more than 256 ranks, which have no signals");
            Error::invalid_usage(text)
        })?;
        Ok(SignalWay::Word(Signal { shared_state, word }))
    }

    /// Why nothing more comes of `peer`, if so.
    fn gone(&self, peer: Rank) -> Option<Error> {
        if let Some(error) = self.error() {
            return Some(error);
        }
        let departed = self.inner.group.departed().into_iter().find(|of| of.rank == peer)?;
        Some(Error::new(ErrorKind::Remote, format!("{peer} {}", departed.reason)))
    }
}

impl Load {
    /// Copies it to where this rank reaches its place.
    fn copy(self, engine: &dyn Engine, stream: u64) -> Result<(), Error> {
        let Self { from, bytes, place, offset_bytes: _ } = self;
        match place {
            _ if bytes == 0 => Ok(()),
            PutPlace::At(to) => engine.copy(from, to, bytes, stream),
            PutPlace::Window(number) => {
                Err(Error::internal(format!("window {number} has no address here")))
            }
        }
    }

    /// The same for `peer`, a rank of another node.
    fn to_node_of(
        self,
        peer: Rank,
        signals: u64,
        gone: &dyn Fn(Rank) -> Option<Error>,
    ) -> InterNodePut<'_> {
        let Self { from, bytes, place, offset_bytes } = self;
        let window = match place {
            PutPlace::At(_) => 0,
            PutPlace::Window(number) => number,
        };
        InterNodePut { peer, window, offset_bytes, from, bytes, signals, gone }
    }
}

impl SignalCounts {
    /// The count of `peer` among `counts`.
    fn of(counts: &mut Vec<u64>, peer: Rank) -> &mut u64 {
        if counts.len() <= peer.index() {
            counts.resize(peer.index() + 1, 0);
        }
        &mut counts[peer.index()]
    }
}

//! What the proxy between nodes does, message by message, as records.
//!
//! Endpoints of links are wrapped; while the rank records, they note their calls, on the proxy's
//! thread, by the host's clock. The engine writes that into its recording now and then. A link has
//! a track at each end:
//!
//! * Where messages leave: a wait ends when the proxy has found a message and has none under way; a
//!   move ends when the slot of the message is free again.
//! * Where they arrive: a wait ends when a message is whole, and a move when it is shown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use msccl_collective::{Protocol, Rank};
use msccl_proxy::{Endpoints, Piece, ReceiveEndpoint, SendEndpoint};
use msccl_trace::record::{PackedRecord, Record, RecordKind};
use msccl_trace::recording::{NAMED_TRACKS, NamedTrack, TrackClock, TrackLink};

use crate::recording::{SwitchedRecording, now_ns};

/// Records of a track that are kept until they are written; later ones are lost, and counted.
const KEPT_MAX: usize = 1 << 16;

/// The records of all links of a rank to other nodes.
#[derive(Default)]
pub(crate) struct ProxyRecords {
    is_on: Arc<AtomicBool>,
    tracks: Mutex<Vec<Arc<ProxyTrack>>>,
}

/// One end of a link.
struct ProxyTrack {
    is_on: Arc<AtomicBool>,
    described: NamedTrack,
    kept: Mutex<KeptRecords>,
}

#[derive(Default)]
struct KeptRecords {
    records: Vec<PackedRecord>,
    lost: u64,
}

/// A wire among those between nodes of a pair of ranks.
#[derive(Clone, Copy)]
struct WirePlace {
    /// Its number among them, which are so many.
    at: usize,
    wires: usize,
    /// Its number among all wires of the pair.
    wire: u32,
}

/// Which way the messages of a track go, seen from its rank.
#[derive(Clone, Copy)]
enum LinkSide {
    Send,
    Receive,
}

impl ProxyRecords {
    /// `endpoints` of the links of rank `me` to and from `peer`, which note what they do. They are
    /// those of wire `wire_of(0)` of the pair, `wire_of(1)` and so on.
    pub fn follow(
        &self,
        endpoints: Endpoints,
        me: Rank,
        peer: Rank,
        wire_of: impl Fn(u32) -> u32,
    ) -> Endpoints {
        let Endpoints { memory, send_endpoints, receive_endpoints } = endpoints;
        let place = |at| WirePlace { at, wires: send_endpoints.len(), wire: wire_of(at as u32) };
        let places: Vec<_> = (0..send_endpoints.len()).map(place).collect();
        let track = |side, at: usize| self.track(side, me, peer, places[at]);
        let send = send_endpoints.into_iter().enumerate().map(|(at, inner)| {
            let track = track(LinkSide::Send, at);
            Box::new(RecordedSend { inner, track, found: 0, released: 0 }) as Box<dyn SendEndpoint>
        });
        let send_endpoints = send.collect();
        let receive = receive_endpoints.into_iter().enumerate().map(|(at, inner)| {
            let track = track(LinkSide::Receive, at);
            Box::new(RecordedReceive { inner, track }) as Box<dyn ReceiveEndpoint>
        });
        Endpoints { memory, send_endpoints, receive_endpoints: receive.collect() }
    }

    fn track(
        &self,
        side: LinkSide,
        me: Rank,
        peer: Rank,
        WirePlace { at, wires, wire }: WirePlace,
    ) -> Arc<ProxyTrack> {
        let (from, to, place, name) = match side {
            LinkSide::Send => (me, peer, 0, format!("proxy to {peer}, wire {wire}")),
            LinkSide::Receive => (peer, me, 1, format!("proxy from {peer}, wire {wire}")),
        };
        let track = NAMED_TRACKS + ((peer.index() * 2 + place) * wires + at) as u32;
        let protocol = Protocol::Simple.to_string();
        let link = Some(TrackLink { from: from.0, to: to.0, protocol, wire });
        let described = NamedTrack { track, name, link, clock: TrackClock::Host };
        let (is_on, kept) = (Arc::clone(&self.is_on), Mutex::default());
        let track = Arc::new(ProxyTrack { is_on, described, kept });
        self.tracks().push(Arc::clone(&track));
        track
    }

    /// From now on, endpoints note what they do if `recording` is written, and otherwise not.
    pub fn switch(&self, recording: &mut SwitchedRecording) {
        let is_on = recording.begun().is_some_and(|of| of.is_written());
        if self.is_on.swap(is_on, Ordering::Relaxed) != is_on {
            // What is left is of another recording.
            self.tracks().iter().for_each(|track| *track.kept() = KeptRecords::default());
        }
    }

    /// Writes what endpoints have noted so far, if a recording has begun.
    pub fn write(&self, recording: &mut SwitchedRecording) {
        let Some(recording) = recording.begun() else { return };
        for track in self.tracks().iter() {
            let KeptRecords { records, lost } = std::mem::take(&mut *track.kept());
            recording.named_records(&track.described, &records);
            if lost != 0 {
                recording.named_lost(&track.described, lost);
            }
        }
    }

    fn tracks(&self) -> MutexGuard<'_, Vec<Arc<ProxyTrack>>> {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProxyTrack {
    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Notes that something of message `number` has ended now.
    fn note(&self, kind: RecordKind, number: u64) {
        let (step, message) = (0, number as u32);
        let record = Record { time_ns: now_ns(), kind, step, message }.pack();
        let mut kept = self.kept();
        if kept.records.len() < KEPT_MAX {
            kept.records.push(record);
        } else {
            kept.lost += 1;
        }
    }

    fn kept(&self) -> MutexGuard<'_, KeptRecords> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where messages leave.
struct RecordedSend {
    inner: Box<dyn SendEndpoint>,
    track: Arc<ProxyTrack>,
    /// The last message that the proxy has found.
    found: u64,
    /// The last message whose slot is free.
    released: u64,
}

impl SendEndpoint for RecordedSend {
    fn posted(&mut self) -> u64 {
        let posted = self.inner.posted();
        if posted > self.found {
            if self.found == self.released && self.track.is_on() {
                self.track.note(RecordKind::WaitData, self.found + 1);
            }
            self.found = posted;
        }
        posted
    }

    fn message(&self, number: u64) -> Piece {
        self.inner.message(number)
    }

    fn release(&mut self, number: u64) {
        self.inner.release(number);
        if self.track.is_on() {
            let released = self.released + 1..=number;
            released.for_each(|message| self.track.note(RecordKind::Move, message));
        }
        self.released = self.released.max(number);
    }

    fn wakes_proxy(&self) -> bool {
        self.inner.wakes_proxy()
    }
}

/// Where messages arrive.
struct RecordedReceive {
    inner: Box<dyn ReceiveEndpoint>,
    track: Arc<ProxyTrack>,
}

impl ReceiveEndpoint for RecordedReceive {
    fn depth(&self) -> u32 {
        self.inner.depth()
    }

    fn slot_bytes(&self) -> u32 {
        self.inner.slot_bytes()
    }

    fn taken(&mut self) -> u64 {
        self.inner.taken()
    }

    fn slot(&self, number: u64) -> u64 {
        self.inner.slot(number)
    }

    fn commit(&mut self, number: u64, bytes: u32) -> Result<(), String> {
        let is_on = self.track.is_on();
        if is_on {
            self.track.note(RecordKind::WaitData, number);
        }
        self.inner.commit(number, bytes)?;
        if is_on {
            self.track.note(RecordKind::Move, number);
        }
        Ok(())
    }

    fn wakes_proxy(&self) -> bool {
        self.inner.wakes_proxy()
    }
}

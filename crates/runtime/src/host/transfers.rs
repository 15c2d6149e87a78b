//! Point-to-point transfers under way on this rank: any number at once.
//!
//! The transfers with one peer in one direction form a stream and go one after another, in messages
//! as long as fit. Streams do not wait for one another, so whatever order the two sides list their
//! transfers with different peers in, all of them end.

use std::collections::{BTreeMap, VecDeque};

use msccl_collective::{Protocol, Rank};
use msccl_plan::Direction;
use msccl_plan::exchange::{Transfer, WireShape};
use msccl_trace::recording::{LaunchKind, Transfer as TransferDescription};

use super::backoff::{AttemptOutcome, Resumable};
use super::memory::Span;
use super::recording::{BlockRecording, CallRecording};
use super::wires::HostWires;
use crate::engine::Waiting;
use crate::error::{Error, ErrorKind};
use crate::recording::{RankRecording, RecordedExchange, RecordedKernel, transfer_direction};
use crate::walk::Missing;

/// Messages that a stream moves before others have their turn.
const SHARE: u32 = 16;

/// Transfers under way.
pub(super) struct RunningExchange<'a> {
    call: u64,
    wires: &'a mut HostWires,
    streams: Vec<Stream>,
    /// By stream, if calls are recorded.
    recording: Option<CallRecording<'a>>,
}

/// The transfers with one peer in one direction.
struct Stream {
    peer: Rank,
    way: Direction,
    rest: VecDeque<PendingTransfer>,
    /// Bytes of the first one that have moved.
    moved: usize,
}

/// A transfer that is not done.
#[derive(Clone, Copy)]
struct PendingTransfer {
    /// Its position among those of the call.
    index: usize,
    span: Span,
}

impl<'a> RunningExchange<'a> {
    /// Call number `call`, at its start.
    pub fn new(call: u64, transfers: &[Transfer], wires: &'a mut HostWires) -> Result<Self, Error> {
        wires.ensure_wires_to(transfers.iter().map(|transfer| transfer.peer))?;
        let mut streams: BTreeMap<_, VecDeque<_>> = BTreeMap::new();
        for (index, &Transfer { peer, way, address, bytes }) in transfers.iter().enumerate() {
            let verb = match way {
                Direction::Out => "sent to",
                Direction::In => "received from",
            };
            if !wires.knows(peer) {
                return Err(Error::internal(format!("there are no wires to {peer}")));
            }
            let span = Span::of_caller(address, bytes, &format!("the buffer {verb} {peer}"))?;
            streams.entry((peer, way)).or_default().push_back(PendingTransfer { index, span });
        }
        let streams = streams.into_iter();
        let streams = streams.map(|((peer, way), rest)| Stream { peer, way, rest, moved: 0 });
        Ok(Self { call, wires, streams: streams.collect(), recording: None })
    }

    /// From now on, what `transfers` do over wires of `shape` is recorded.
    pub fn record(
        &mut self,
        recording: &'a mut RankRecording,
        transfers: &[Transfer],
        shape: WireShape,
    ) {
        let describe = || RecordedExchange {
            kernel: RecordedKernel::HOST_THREADS.describe(),
            transfers: transfers.iter().map(|of| self.describe(of, shape)).collect(),
        };
        recording.transfers(self.call, transfers, LaunchKind::Stream, describe);
        self.recording = Some(CallRecording::new(recording, self.streams.len(), self.call));
    }

    /// A stream is a track. Its wire stands behind those of collectives.
    fn describe(&self, transfer: &Transfer, shape: WireShape) -> TransferDescription {
        let Transfer { peer, way, address: _, bytes } = *transfer;
        let track = self.streams.iter().position(|of| (of.peer, of.way) == (peer, way));
        TransferDescription {
            peer: peer.0,
            direction: transfer_direction(way),
            bytes,
            parts: 1,
            message_bytes: shape.slot_bytes.into(),
            protocol: Protocol::Simple.to_string(),
            wire: shape.wires,
            link: 0,
            track: track.unwrap_or_default() as u32,
        }
    }

    /// At its end, done or failed: what was recorded is written.
    pub fn end(self) {
        self.recording.into_iter().for_each(CallRecording::finish);
    }
}

impl Resumable for RunningExchange<'_> {
    fn go_on(&mut self) -> Result<AttemptOutcome, Error> {
        let Self { call: _, wires, streams, recording } = self;
        let mut moved = false;
        for (track, stream) in streams.iter_mut().enumerate() {
            let mut block = recording.as_mut().and_then(|recording| recording.block(track));
            for _ in 0..SHARE {
                let step = block.as_mut().and_then(|block| stream.begin(wires, block));
                if !stream.go_on(wires)? {
                    break;
                }
                if let (Some(block), Some(step)) = (&mut block, step) {
                    block.end_wait(step);
                    block.moved(step, stream.messages(wires));
                }
                moved = true;
            }
            if let Some(block) = block.filter(|_| stream.rest.is_empty()) {
                block.ended();
            }
            if let Some(recording) = recording {
                recording.write_many(track);
            }
        }
        let done = self.streams.iter().all(|stream| stream.rest.is_empty());
        Ok(match (done, moved) {
            (true, _) => AttemptOutcome::Done,
            (false, true) => AttemptOutcome::Moved,
            (false, false) => AttemptOutcome::Stuck,
        })
    }

    fn waits(&mut self) -> Vec<Waiting> {
        self.streams.iter().filter_map(|stream| stream.waiting(self.call)).collect()
    }

    fn collective(&self) -> Option<u64> {
        None
    }
}

impl Stream {
    /// Takes note of what the next message waits for, if there is one; the transfer that it is
    /// part of.
    fn begin(&self, wires: &mut HostWires, block: &mut BlockRecording) -> Option<usize> {
        let index = self.rest.front()?.index;
        let (missing, can_go_on) = match self.way {
            Direction::Out => {
                let end = wires.transfers_out(self.peer);
                (Missing::Room(self.peer), end.is_some_and(|end| end.try_reserve().is_some()))
            }
            Direction::In => {
                let end = wires.transfers_in(self.peer);
                (Missing::Message(self.peer), end.is_some_and(|end| end.try_peek().is_some()))
            }
        };
        if can_go_on {
            block.end_wait(index);
        } else if !block.knows(missing) {
            block.waits(index, missing, self.messages(wires) + 1);
        }
        Some(index)
    }

    /// Messages that have moved on its wire so far, in all calls.
    fn messages(&self, wires: &mut HostWires) -> u64 {
        match self.way {
            Direction::Out => wires.transfers_out(self.peer).map_or(0, |end| end.sent()),
            Direction::In => wires.transfers_in(self.peer).map_or(0, |end| end.taken()),
        }
    }

    /// Moves one message, if there is one to move and its wire lets it.
    fn go_on(&mut self, wires: &mut HostWires) -> Result<bool, Error> {
        let Some(&PendingTransfer { index: _, span }) = self.rest.front() else {
            return Ok(false);
        };
        let moved = match self.way {
            Direction::Out => self.send(span, wires),
            Direction::In => self.receive(span, wires)?,
        };
        let Some(bytes) = moved else { return Ok(false) };
        self.moved += bytes;
        if self.moved >= span.bytes() {
            self.rest.pop_front();
            self.moved = 0;
        }
        Ok(true)
    }

    fn send(&self, span: Span, wires: &mut HostWires) -> Option<usize> {
        let mut slot = wires.transfers_out(self.peer)?.try_reserve()?;
        let room = slot.bytes();
        let bytes = room.len().min(span.bytes() - self.moved);
        span.read(self.moved, &mut room[..bytes]);
        slot.commit(bytes);
        Some(bytes)
    }

    fn receive(&self, span: Span, wires: &mut HostWires) -> Result<Option<usize>, Error> {
        let Some(end) = wires.transfers_in(self.peer) else { return Ok(None) };
        let most = end.shape().slot_bytes;
        let Some(message) = end.try_peek() else { return Ok(None) };
        let (found, left) = (message.bytes().len(), span.bytes() - self.moved);
        if found != left.min(most) {
            let (peer, total) = (self.peer, span.bytes());
            let sent = if found < most { format!("{}", self.moved + found) } else { "more".into() };
            let text = format!(
                "expected {total} bytes from {peer}, which sent {sent}: both sides of a transfer \
                 must have the same count and type"
            );
            return Err(Error::new(ErrorKind::Remote, text));
        }
        span.write(self.moved, message.bytes());
        message.release();
        Ok(Some(found))
    }

    fn waiting(&self, call: u64) -> Option<Waiting> {
        let left = self.rest.front()?.span.bytes() - self.moved;
        let (peer, rest) = (self.peer, self.rest.len() - 1);
        let what = match self.way {
            Direction::Out => format!("a send waits for room for {left} bytes to {peer}"),
            Direction::In => format!("a receive waits for {left} bytes from {peer}"),
        };
        let more = if rest > 0 { format!(" ({rest} more after it)") } else { String::new() };
        Some(Waiting { call, peer: Some(peer), text: format!("{what}{more}") })
    }
}

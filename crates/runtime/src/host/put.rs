//! A put into the window of a rank on another node, under way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backoff::{AttemptOutcome, Resumable};
use super::inter_node::InterNode;
use super::memory::Span;
use super::put_links::{PutLink, PutRest};
use super::put_message::PutHeader;
use crate::engine::{InterNodePut, Waiting};
use crate::error::Error;

/// How often a put looks whether its peer is still there.
const LOOK_FOR_PEER: Duration = Duration::from_millis(50);

/// A put that is not done.
pub(super) struct RunningPut<'a> {
    call: u64,
    put: &'a InterNodePut<'a>,
    inter_node: &'a InterNode,
    link: Arc<PutLink>,
    rest: PutRest,
    looked: Instant,
}

impl<'a> RunningPut<'a> {
    /// `put`, at its start; the rank has taken up `call` calls before.
    ///
    /// # Errors
    ///
    /// There is no link to the peer, nor can one be made.
    pub fn new(
        call: u64,
        put: &'a InterNodePut<'a>,
        inter_node: &'a InterNode,
    ) -> Result<Self, Error> {
        let link = inter_node.link_to(put.peer)?;
        let InterNodePut { peer: _, window, offset_bytes, from, bytes, signals, gone: _ } = *put;
        let header = PutHeader { window, offset_bytes, signals };
        let data = Span::of_caller(from, bytes, "what is put")?;
        let rest = PutRest { header, data, moved: 0 };
        Ok(Self { call, put, inter_node, link, rest, looked: Instant::now() })
    }

    /// Bytes that have not gone.
    fn left(&self) -> usize {
        self.rest.data.bytes() - self.rest.moved
    }

    /// Sends what there is room for; whether anything moved.
    fn send(&mut self) -> bool {
        let before = self.left();
        while self.left() > 0
            && let Some(bytes) = self.link.send(&self.rest)
        {
            self.rest.moved += bytes;
        }
        self.left() < before
    }
}

impl Resumable for RunningPut<'_> {
    fn go_on(&mut self) -> Result<AttemptOutcome, Error> {
        self.inter_node.puts().check()?;
        if self.rest.data.bytes() == 0 {
            self.link.signal(self.put.signals);
            return Ok(AttemptOutcome::Done);
        }
        let moved = self.send();
        if self.left() == 0 {
            return Ok(AttemptOutcome::Done);
        }
        if moved {
            return Ok(AttemptOutcome::Moved);
        }
        if self.looked.elapsed() >= LOOK_FOR_PEER {
            self.looked = Instant::now();
            (self.put.gone)(self.put.peer).map_or(Ok(()), Err)?;
        }
        Ok(AttemptOutcome::Stuck)
    }

    fn waits(&mut self) -> Vec<Waiting> {
        let (peer, left) = (self.put.peer, self.left());
        let text = format!("a put waits for room for {left} bytes to {peer}");
        vec![Waiting { call: self.call, peer: Some(peer), text }]
    }

    fn collective(&self) -> Option<u64> {
        None
    }
}

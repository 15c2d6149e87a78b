//! Waiting for signals of peers.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::backoff::{AttemptOutcome, Resumable};
use super::put_links::PutLinks;
use crate::engine::{AwaitedSignals, Waiting};
use crate::error::Error;

/// How often a wait looks whether peers are still there.
const LOOK_FOR_PEERS: Duration = Duration::from_millis(50);

/// Signals that are waited for.
pub(super) struct RunningWait<'a> {
    call: u64,
    awaited: &'a [AwaitedSignals<'a>],
    /// Those before have come.
    first: usize,
    /// By which signals of other nodes come, if there are any.
    links: Option<&'a PutLinks>,
    looked: Instant,
}

impl<'a> RunningWait<'a> {
    /// Waits for all of `awaited`, some of which come by `links`; the rank has taken up `call`
    /// calls before.
    pub fn new(call: u64, awaited: &'a [AwaitedSignals<'a>], links: Option<&'a PutLinks>) -> Self {
        Self { call, awaited, first: 0, links, looked: Instant::now() }
    }

    fn missing(&self) -> impl Iterator<Item = &AwaitedSignals<'a>> {
        self.awaited.iter().skip(self.first).filter(|of| !has_come(of))
    }
}

impl Resumable for RunningWait<'_> {
    fn go_on(&mut self) -> Result<AttemptOutcome, Error> {
        let before = self.first;
        let moved = self.links.map_or(Ok(false), PutLinks::advance)?;
        while self.awaited.get(self.first).is_some_and(has_come) {
            self.first += 1;
        }
        if self.first == self.awaited.len() {
            return Ok(AttemptOutcome::Done);
        }
        if moved || self.first > before {
            return Ok(AttemptOutcome::Moved);
        }
        if self.looked.elapsed() >= LOOK_FOR_PEERS {
            self.looked = Instant::now();
            let gone: Vec<_> = self.missing().filter_map(|of| (of.gone)(of.peer)).collect();
            // What they had sent before they went may have come meanwhile: who leaves in order
            // stays until it has.
            self.links.filter(|_| !gone.is_empty()).map_or(Ok(()), PutLinks::take_all)?;
            if let Some(error) = gone.into_iter().next().filter(|_| self.missing().count() > 0) {
                return Err(error);
            }
        }
        Ok(AttemptOutcome::Stuck)
    }

    fn waits(&mut self) -> Vec<Waiting> {
        let waiting = |of: &AwaitedSignals<'_>| {
            let AwaitedSignals { peer, signal, count, .. } = of;
            let came = signal.word.load(Ordering::Relaxed);
            let text = format!("signals wait for signal {count} from {peer}, {came} have come");
            Waiting { call: self.call, peer: Some(*peer), text }
        };
        self.missing().map(waiting).collect()
    }

    fn collective(&self) -> Option<u64> {
        None
    }
}

fn has_come(awaited: &AwaitedSignals<'_>) -> bool {
    awaited.signal.word.load(Ordering::Acquire) >= awaited.count
}

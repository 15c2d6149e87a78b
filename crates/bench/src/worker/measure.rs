//! How long calls take.
//!
//! * *Pipelined*, as nccl-tests: calls are issued one after the other and waited for once; a call's
//!   time is its share of the whole. For small calls that is the time between two calls, not that
//!   from the beginning of a call to its end.
//! * *One-shot*: ranks meet, make one call, and wait for it; its time is what passes between
//!   meeting and done, waiting included.
//!
//! Calls may be made several at once, as a group; a call's time is then its share of the group's.
//! Between those that are timed in a row ranks may wait for each, and for one another.
//!
//! Either is done with the calls themselves or with a graph of them. The time that the function
//! needs to return is measured on the side.
//!
//! Ranks meet between any two phases, so that what one does between calls (allocating, copying,
//! making graphs) never waits behind a call of a rank on the same GPU that waits for it.

use std::time::Instant;

use super::barrier::Barrier;
use super::buffers::{Buffers, Places};
use super::communicator::{Communicator, MadeRedop};
use super::device::{Device, Recording};
use super::microseconds;
use crate::case::Case;
use crate::error::Error;
use crate::placement::Placement;
use crate::protocol::{Method, Quantiles, Sample, Waiting};

/// Everything that a measurement needs.
pub(super) struct Measurer<'a> {
    pub(super) communicator: &'a Communicator,
    pub(super) device: Device,
    pub(super) buffers: &'a Buffers,
    pub(super) barrier: &'a mut Barrier,
    pub(super) case: Case,
    pub(super) placement: Placement,
    pub(super) method: Method,
    pub(super) redop: MadeRedop,
}

/// What timing has found, in µs.
struct Times {
    time_us: f64,
    one_shot_us: Option<Quantiles>,
    host_us: Option<Quantiles>,
}

impl Measurer<'_> {
    /// Checks, then measures.
    pub(super) fn measure(mut self) -> Result<Sample, Error> {
        let found = self.check()?;
        let Times { time_us, one_shot_us, host_us } = match self.method {
            Method { one_shot: true, .. } => self.one_shot()?,
            Method { graph_launches: 0, .. } => self.pipelined()?,
            Method { .. } => self.pipelined_graph()?,
        };
        self.barrier.wait()?;
        self.communicator.check()?;
        let wrong = found.as_ref().map(|found| found.wrong);
        let first_wrong = found.and_then(|found| found.first);
        Ok(Sample { time_us, one_shot_us, host_us, wrong, first_wrong })
    }

    /// Calls one after the other.
    fn pipelined(&mut self) -> Result<Times, Error> {
        self.warm_up()?;
        let iterations = self.method.iterations.max(1);
        let mut host_us = Vec::with_capacity(iterations as usize);
        self.barrier.wait()?;
        let start = Instant::now();
        let mut untimed_us = 0.0;
        for turn in 0..iterations {
            let before = Instant::now();
            self.issue(turn as usize)?;
            host_us.push(microseconds(before) / self.calls_each());
            untimed_us += self.wait_between()?;
        }
        self.device.synchronize()?;
        let taken_us = microseconds(start) - untimed_us;
        let time_us = taken_us / f64::from(iterations) / self.calls_each();
        Ok(Times { time_us, one_shot_us: None, host_us: Quantiles::of(host_us) })
    }

    /// Waits as the method has it between calls; what of that counts for nothing, in µs.
    fn wait_between(&mut self) -> Result<f64, Error> {
        match self.method.waiting {
            Waiting::AtEnd => return Ok(0.0),
            Waiting::Each | Waiting::EachAndRanks | Waiting::EachAndRanksUntimed => {
                self.device.synchronize()?;
            }
        }
        let done = Instant::now();
        match self.method.waiting {
            Waiting::AtEnd | Waiting::Each => Ok(0.0),
            Waiting::EachAndRanks => self.barrier.wait().map(|()| 0.0),
            Waiting::EachAndRanksUntimed => {
                self.barrier.wait()?;
                Ok(microseconds(done))
            }
        }
    }

    /// How many calls are made at once.
    fn calls_each(&self) -> f64 {
        f64::from(self.method.aggregated.max(1))
    }

    /// Launches of a graph of calls, one after the other.
    fn pipelined_graph(&mut self) -> Result<Times, Error> {
        let iterations = self.method.iterations.max(1);
        let recording = self.record(iterations)?;
        self.barrier.wait()?;
        recording.launch()?;
        self.device.synchronize()?;
        let launches = self.method.graph_launches;
        self.barrier.wait()?;
        let start = Instant::now();
        for _ in 0..launches {
            recording.launch()?;
        }
        self.device.synchronize()?;
        let calls = f64::from(iterations) * f64::from(launches) * self.calls_each();
        Ok(Times { time_us: microseconds(start) / calls, one_shot_us: None, host_us: None })
    }

    /// Calls, or launches of a graph of one call, each waited for.
    fn one_shot(&mut self) -> Result<Times, Error> {
        self.warm_up()?;
        let is_graph = self.method.graph_launches > 0;
        let recording = if is_graph { Some(self.record(1)?) } else { None };
        let mut times = Vec::with_capacity(self.method.iterations as usize);
        let mut host_us = Vec::new();
        for turn in 0..self.method.iterations.max(1) {
            self.barrier.wait()?;
            let start = Instant::now();
            match &recording {
                Some(recording) => recording.launch()?,
                None => {
                    self.issue(turn as usize)?;
                    host_us.push(microseconds(start) / self.calls_each());
                }
            }
            self.device.synchronize()?;
            times.push(microseconds(start) / self.calls_each());
        }
        let one_shot_us = Quantiles::of(times);
        let time_us = one_shot_us.map_or(0.0, |times| times.p50);
        Ok(Times { time_us, one_shot_us, host_us: Quantiles::of(host_us) })
    }

    /// Makes one call as it is made when it is timed, and waits for it.
    pub(super) fn call_once(&mut self, turn: usize) -> Result<(), Error> {
        if self.method.graph_launches == 0 {
            self.barrier.wait()?;
            self.call(turn)?;
            self.device.synchronize()?;
        } else {
            let recording = self.device.record(|| self.call(turn))?;
            self.barrier.wait()?;
            recording.launch()?;
            self.device.synchronize()?;
        }
        self.barrier.wait()?;
        Ok(())
    }

    fn warm_up(&mut self) -> Result<(), Error> {
        self.barrier.wait()?;
        (0..self.method.warmup).try_for_each(|turn| self.issue(turn as usize))?;
        self.device.synchronize()
    }

    fn record(&self, calls: u32) -> Result<Recording, Error> {
        self.device.record(|| (0..calls).try_for_each(|turn| self.issue(turn as usize)))
    }

    /// Makes the calls of turn number `turn`, together if they are several, and does not wait for
    /// them.
    fn issue(&self, turn: usize) -> Result<(), Error> {
        let each = self.method.aggregated.max(1) as usize;
        if each == 1 {
            return self.call(turn);
        }
        let first = turn.saturating_mul(each);
        self.communicator
            .group(|| (first..first.saturating_add(each)).try_for_each(|at| self.call(at)))
    }

    /// Makes call number `turn` and does not wait for it.
    fn call(&self, turn: usize) -> Result<(), Error> {
        let Places { input, output, guard: _ } = self.places(turn)?;
        self.communicator.call(&self.case, self.redop, input, output)
    }

    pub(super) fn places(&self, turn: usize) -> Result<Places, Error> {
        self.buffers.places(&self.case, self.placement, self.communicator.rank(), turn)
    }

    /// Bytes of a block; the buffers have as many, so that they fit.
    pub(super) fn block_bytes(&self) -> usize {
        usize::try_from(self.case.block_bytes()).unwrap_or(usize::MAX)
    }
}

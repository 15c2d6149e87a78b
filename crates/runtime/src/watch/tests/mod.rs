//! Watches of ranks with real groups and shared states, and engines that a test drives.

mod communicators;
mod processes;
mod threads;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::Group;
use msccl_plan::exchange::Transfer;
use msccl_select::Capacity;

use super::{Watch, Watched};
use crate::call::{Call, Operation};
use crate::engine::{AwaitedSignals, DecidedCall, Engine, EngineMemory, Scaling, Signal, Waiting};
use crate::error::Error;
use crate::event::Event;
use crate::event_log::EventLog;
use crate::nodes::Nodes;
use crate::shared_state::SharedState;
use crate::shared_state::replicator::Replicator;
use crate::shared_state::tests::{call, run};

/// An engine that finishes and waits when the test sets it to.
#[derive(Default)]
pub(crate) struct FakeEngine {
    finished: AtomicU64,
    waits: Mutex<Vec<Waiting>>,
    moves: AtomicU64,
    failed: AtomicBool,
    released: AtomicBool,
}

impl FakeEngine {
    /// Calls up to `sequence` are done, and nobody waits.
    pub fn finish(&self, sequence: u64) {
        self.waits.lock().unwrap().clear();
        self.finished.store(sequence, Ordering::Release);
    }

    /// A thread block waits.
    pub fn wait_for(&self, call: u64, peer: Rank, text: &str) {
        let waiting = Waiting { call, peer: Some(peer), text: text.to_owned() };
        self.waits.lock().unwrap().push(waiting);
    }

    /// Something of the call under way moves.
    pub fn step(&self) {
        self.moves.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether nothing goes on.
    pub fn has_stopped(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.is_released()
    }

    /// Whether what was under way may end.
    pub fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }
}

impl Engine for FakeEngine {
    fn capacity(&self) -> &Capacity {
        unreachable!("a watch does not ask")
    }

    fn describe(&self) -> String {
        "nothing".to_owned()
    }

    fn memory(&self) -> EngineMemory {
        EngineMemory::default()
    }

    fn suspend(&self, _: &Group, _: &Nodes) -> Result<(), Error> {
        Ok(())
    }

    fn resume(&self, _: &Group, _: &Nodes) -> Result<(), Error> {
        Ok(())
    }

    fn refuses_other_nodes(&self) -> Option<&'static str> {
        None
    }

    fn signal(&self, _: &Signal<'_>, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn await_signals(&self, _: &[AwaitedSignals<'_>], _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn collective(&self, _: &DecidedCall<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn transfers(&self, _: &[Transfer], _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn copy(&self, _: u64, _: u64, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn pass(&self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn scale(&self, _: &Scaling, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn scratch(&self, _: u64) -> Result<u64, Error> {
        Ok(0)
    }

    fn join_streams(&self, _: &[u64]) -> Result<(), Error> {
        Ok(())
    }

    fn release_streams(&self, _: &[u64]) -> Result<(), Error> {
        Ok(())
    }

    fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    fn waits(&self) -> Vec<Waiting> {
        match self.has_stopped() {
            true => Vec::new(),
            false => self.waits.lock().unwrap().clone(),
        }
    }

    fn has_finished(&self, call: u64) -> bool {
        // Nothing is under way once all has given up.
        self.has_stopped() || self.finished.load(Ordering::Acquire) >= call
    }

    fn direct_calls(&self) -> u64 {
        0
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    fn release(&self) {
        self.released.store(true, Ordering::Release);
    }

    fn part(&self) {
        self.release();
    }

    fn release_on_failure(&self) {}

    fn quiesce(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// One rank of a communicator whose engine is a fake.
struct Member {
    group: Arc<Group>,
    shared_state: Arc<SharedState>,
    /// Only held.
    _replicator: Option<Replicator>,
    engine: Arc<FakeEngine>,
    failure: Arc<OnceLock<Error>>,
    event_log: Arc<EventLog>,
}

impl Member {
    /// How many failures were logged.
    fn failures(&self) -> usize {
        let failed = |event: &Event| matches!(event, Event::Failed(_)).then_some(());
        self.event_log.collect(failed).len()
    }

    /// This rank of `group`.
    fn new(group: Group) -> Self {
        let shared_state =
            Arc::new(SharedState::join(&group, Arc::new(Nodes::of(&group)), false).unwrap());
        let group = Arc::new(group);
        let replicator = Replicator::start(&group, &shared_state).unwrap();
        let (engine, failure, event_log) = Default::default();
        Self { group, shared_state, _replicator: replicator, engine, failure, event_log }
    }

    fn watch(&self, timeout: Option<Duration>) -> Watch {
        let (group, shared_state) = (self.group.clone(), self.shared_state.clone());
        let (failure, log) = (self.failure.clone(), self.event_log.clone());
        let engine = self.engine.clone();
        Watch::start(Watched { group, shared_state, engine, failure, log }, timeout).unwrap()
    }

    fn me(&self) -> Rank {
        self.group.rank()
    }

    /// Issues the next call, which does not get on, and answers its sequence.
    fn issue(&self, call: &Call) -> u64 {
        let sequence = self.shared_state.issued(self.me()) + 1;
        self.shared_state.post_call(sequence, call, false);
        sequence
    }

    /// Issues a call and waits in it for `peer`.
    fn issue_and_wait(&self, call: &Call, peer: Rank) {
        let sequence = self.issue(call);
        let text = format!("tb0 s0 waits for message 7 from {peer} on ch0");
        self.engine.wait_for(sequence, peer, &text);
    }

    /// Waits until the communicator has failed.
    fn await_failure(&self, most: Duration) -> Error {
        let since = Instant::now();
        loop {
            if let Some(error) = self.failure.get() {
                return error.clone();
            }
            assert!(since.elapsed() < most, "{} has not failed within {most:?}", self.me());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn gather() -> Call {
    call(Operation::AllGather, 1024)
}

/// Runs `rank` as every one of `ranks` ranks; nobody goes before all have come to their end.
fn members<T: Send>(ranks: u32, rank: impl Fn(&Member) -> T + Sync) -> Vec<T> {
    run(ranks, |group| {
        let member = Member::new(group);
        let result = rank(&member);
        member.group.barrier().unwrap();
        result
    })
}

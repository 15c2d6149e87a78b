//! Whole communicators on the host that do not get on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Abort, UniqueId};

use crate::call::{Buffers, Call, Operation};
use crate::communicator::{Batch, Communicator, submit};
use crate::error::{Error, ErrorKind};
use crate::event_log::EventLog;
use crate::settings::Settings;
use crate::shared_state::tests::{SUM, call, settings};

const RANKS: u32 = 3;
const LONG: Duration = Duration::from_secs(10);

/// One rank of a communicator, and what it logged.
struct WatchedCommunicator {
    communicator: Communicator,
    event_log: Arc<EventLog>,
}

impl WatchedCommunicator {
    /// Sums `count` ones; the first result.
    fn sum(&self, count: usize) -> Result<f32, Error> {
        let (ones, mut result) = (vec![1_f32; count], vec![0_f32; count]);
        let (send, receive) = (ones.as_ptr().addr() as u64, result.as_mut_ptr().addr() as u64);
        let count = count as u64;
        let buffers = Buffers { send, receive, stream: 0 };
        let call = Call { buffers, ..call(Operation::AllReduce(SUM), count) };
        let communicator = self.communicator.clone();
        submit(&[Batch::new(communicator, &[call])?])?;
        Ok(result[0])
    }

    fn rank(&self) -> Rank {
        self.communicator.rank()
    }
}

/// Runs `rank` as every rank of a communicator made with `settings`; all end together.
fn communicate<T: Send>(
    made: &Settings,
    rank: impl Fn(&WatchedCommunicator) -> T + Sync,
) -> Vec<T> {
    let id = UniqueId::create(&made.fabric).unwrap();
    let ended = AtomicU32::new(0);
    let live = |index: u32| {
        let event_log = Arc::new(EventLog::default());
        let mut made = Settings { log: event_log.clone(), ..made.clone() };
        made.fabric.abort = Abort::new();
        let communicator = Communicator::join(&[id], Rank(index), RANKS, &made).unwrap();
        let member = WatchedCommunicator { communicator, event_log };
        let result = rank(&member);
        ended.fetch_add(1, Ordering::AcqRel);
        let since = Instant::now();
        while ended.load(Ordering::Acquire) < RANKS && since.elapsed() < LONG {
            thread::sleep(Duration::from_millis(10));
        }
        result
    };
    thread::scope(|scope| {
        let live = &live;
        let threads: Vec<_> = (0..RANKS).map(|index| scope.spawn(move || live(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn host() -> Settings {
    Settings { fabric: settings(), ..Settings::default() }
}

#[test]
fn a_rank_that_does_not_call_is_named_in_time() {
    let timeout = Some(Duration::from_millis(500));
    let reports = communicate(&Settings { timeout, ..host() }, |member| {
        assert_eq!(member.sum(1000), Ok(3.0));
        if member.rank() == Rank(1) {
            // As long as the others need to find out.
            thread::sleep(Duration::from_secs(3));
            return Vec::new();
        }
        let since = Instant::now();
        let error = member.sum(64).unwrap_err();
        assert!(since.elapsed() < LONG, "{:?}", since.elapsed());
        let failure = member.communicator.error().unwrap();
        // Whoever finds out first stops the other one.
        let kinds = [ErrorKind::TimedOut, ErrorKind::Remote];
        assert!(kinds.contains(&failure.kind()) && kinds.contains(&error.kind()), "{failure}");
        let text = failure.to_string();
        assert!(text.contains("it has not entered call 2 (its last call was #1, "), "{text}");
        assert_eq!(member.sum(64), Err(failure));
        member.event_log.reports()
    });
    let reports = reports.concat();
    assert_eq!(reports.len(), 1, "{reports:#?}");
    assert!(reports[0].contains("waits for message"), "{}", reports[0]);
}

#[test]
fn checked_calls_that_differ_are_refused_and_the_job_goes_on() {
    let timeout = Some(Duration::from_millis(500));
    let errors = communicate(&Settings { check: true, timeout, ..host() }, |member| {
        assert_eq!(member.sum(1000), Ok(3.0));
        let error = member.sum(1000 + usize::from(member.rank() == Rank(2))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUsage);
        // What was refused does not stand still.
        thread::sleep(Duration::from_secs(1));
        assert_eq!(member.communicator.error(), None);
        assert_eq!(member.sum(10), Ok(3.0));
        assert_eq!(member.communicator.error(), None);
        error.to_string()
    });
    let expected = "r0, r1 and r2 call different things: call 2 is allreduce of 1000 f32 sum on \
                    r0, r1, allreduce of 1001 f32 sum on r2; make the same call on all ranks";
    assert_eq!(errors, [expected; RANKS as usize]);
}

#[test]
fn an_abort_ends_a_call_here_and_elsewhere() {
    communicate(&host(), |member| {
        if member.rank() == Rank(1) {
            thread::sleep(Duration::from_millis(300));
            // Not in the call; the others must not wait for it for ever.
            member.communicator.abort("the caller had enough");
            return thread::sleep(Duration::from_millis(1500));
        }
        let since = Instant::now();
        let error = member.sum(100).unwrap_err();
        assert!(since.elapsed() < LONG, "{:?}", since.elapsed());
        let failure = member.communicator.error().unwrap();
        assert_eq!((error.kind(), failure.kind()), (ErrorKind::Remote, ErrorKind::Remote));
    });
}

//! What a proxy's owner and its thread share: commands, failures, and flags.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{Abort, Doorbell};

use crate::connect::ConnectAttempt;
use crate::error::{Error, Failure};

/// What the owner and the thread share.
pub(crate) struct Shared {
    /// None once the thread has ended.
    inbox: Mutex<Option<Vec<Command>>>,
    failures: Mutex<Vec<Failure>>,
    woken: AtomicBool,
    graphs: AtomicBool,
    /// How long the thread posts what is left when it ends.
    drain_ms: AtomicU64,
    pub(crate) doorbell: Arc<Doorbell>,
    pub(crate) abort: Abort,
}

/// What the owner wants.
pub(crate) enum Command {
    Connect(Box<ConnectAttempt>),
    DescribeWaits(SyncSender<Vec<Wait>>),
    End,
}

/// What a proxy does for the links to one peer, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The peer.
    pub peer: Rank,
    /// The rails that carry messages; none before they stand.
    pub rails: Vec<String>,
    /// What is under way or waited for, link by link; nothing if all is quiet.
    pub links: Vec<String>,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, rails, links } = self;
        let rails = if rails.is_empty() { "no rail".to_owned() } else { rails.join(", ") };
        write!(f, "the links to r{} over {rails}", peer.0)?;
        let links =
            if links.is_empty() { "nothing is under way".to_owned() } else { links.join("; ") };
        write!(f, ": {links}")
    }
}

impl Shared {
    pub(crate) fn new(drain_timeout: Duration, abort: Abort) -> Result<Self, Error> {
        Ok(Self {
            inbox: Mutex::new(Some(Vec::new())),
            failures: Mutex::new(Vec::new()),
            woken: AtomicBool::new(false),
            graphs: AtomicBool::new(false),
            drain_ms: AtomicU64::new(milliseconds(drain_timeout)),
            doorbell: Arc::new(Doorbell::new()?),
            abort,
        })
    }

    pub(crate) fn command(&self, command: Command) {
        if let Some(inbox) = lock(&self.inbox).as_mut() {
            inbox.push(command);
        }
        self.doorbell.signal();
    }

    pub(crate) fn take_commands(&self) -> Vec<Command> {
        lock(&self.inbox).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The thread looks at all ports without a pause for a while.
    pub(crate) fn wake(&self) {
        self.woken.store(true, Ordering::Relaxed);
        self.doorbell.announce();
    }

    /// Whether the owner has woken the thread since it last looked.
    pub(crate) fn was_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Relaxed)
    }

    /// From now on executors may go on unannounced.
    pub(crate) fn expect_graphs(&self) {
        self.graphs.store(true, Ordering::Relaxed);
    }

    /// Whether executors may go on unannounced.
    pub(crate) fn has_graphs(&self) -> bool {
        self.graphs.load(Ordering::Relaxed)
    }

    /// The thread posts what is left for no longer than `limit` when it ends.
    pub(crate) fn limit_drain(&self, limit: Duration) {
        self.drain_ms.fetch_min(milliseconds(limit), Ordering::Relaxed);
    }

    /// How long the thread posts what is left when it ends.
    pub(crate) fn drain_limit(&self) -> Duration {
        Duration::from_millis(self.drain_ms.load(Ordering::Relaxed))
    }

    /// The thread ends; nobody needs to wait for its answers.
    pub(crate) fn end(&self) {
        *lock(&self.inbox) = None;
    }

    /// The failures so far.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        lock(&self.failures).clone()
    }

    pub(crate) fn fail(&self, failure: Failure) {
        lock(&self.failures).push(failure);
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What a panicking holder left behind is still whole: every change is one push or one assignment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

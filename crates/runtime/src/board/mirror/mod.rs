//! What ranks on other nodes have posted, kept up on this node's board.
//!
//! Every node's leader runs a thread that looks at the parts of its node, sends what has changed to the leaders
//! of the other nodes, and writes down what these send. Only what changed travels; an idle communicator
//! sends nothing, and a busy one the last few records of each rank, unless ranks compare arguments or a
//! story is asked for, when all records go, and at once.
//!
//! **What readers must bear.** What stands on a board of a rank elsewhere was true [`PERIOD`] and a moment of the
//! network ago. It may lack old records. Whoever sees a rank there as running may know from its group that it
//! has departed: then [`Board::is_complete`] says whether all that it posted is here, and until then
//! nothing may be concluded from what is not here. A node whose leader has departed is *cut off*: its other
//! ranks can work on, but what they post is not heard of elsewhere, and they do not hear of the other
//! nodes.

mod news;
mod reporter;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::Group;

use super::Board;
use crate::error::{Error, ErrorKind};
use reporter::Reporter;

/// How often a leader looks at its node.
const PERIOD: Duration = Duration::from_millis(10);
/// How often while somebody waits for what it would see.
const URGENT_PERIOD: Duration = Duration::from_micros(200);
/// How long a leader goes on looking often, once ranks that compare arguments have made a call.
const STIR: Duration = Duration::from_millis(50);
/// How long a story takes at most, from its request on.
const STORY: Duration = Duration::from_secs(2);
/// Marks messages between leaders.
const TAG: u64 = u64::from_be_bytes(*b"\0\0mirror");

/// The thread of a leader. Dropping it sends what has changed last, and ends the thread.
pub(crate) struct Mirror {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Mirror {
    /// Starts to keep up the boards of all nodes of `group`, where this rank is one of several leaders.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub fn start(group: &Arc<Group>, board: &Arc<Board>) -> Result<Option<Self>, Error> {
        let (me, nodes) = (board.me(), board.nodes());
        if nodes.count() < 2 || nodes.leader(me) != me {
            return Ok(None);
        }
        let ends = Arc::new(AtomicBool::new(false));
        let rounds = Rounds::new(group.clone(), board.clone());
        let thread = thread::Builder::new().name(format!("msccl-mirror-{}", me.0));
        let until = ends.clone();
        let thread = thread.spawn(move || rounds.run(&until)).map_err(|error| {
            let text = format!("cannot start the thread that mirrors other nodes: {error}");
            Error::new(ErrorKind::System, text)
        })?;
        Ok(Some(Self { ends, thread: Some(thread) }))
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the panic hook; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// What the thread keeps from one look to the next.
struct Rounds {
    group: Arc<Group>,
    board: Arc<Board>,
    /// The other nodes' leaders.
    leaders: Vec<Rank>,
    reporter: Reporter,
    /// The ranks of this node that have departed, as of the last slow look.
    departed: BTreeSet<Rank>,
    departed_seen: Instant,
    /// The latest request, and when it was first seen.
    request: (u64, Instant),
    /// Until when calls that are compared are to be expected.
    stirred_until: Instant,
}

impl Rounds {
    fn new(group: Arc<Group>, board: Arc<Board>) -> Self {
        let me = board.me();
        let leaders = board.nodes().leaders().filter(|leader| *leader != me).collect();
        let reporter = Reporter::new(board.nodes().around(me));
        let now = Instant::now();
        Self {
            group,
            board,
            leaders,
            reporter,
            departed: BTreeSet::new(),
            departed_seen: now,
            request: (0, now),
            stirred_until: now,
        }
    }

    fn run(mut self, ends: &AtomicBool) {
        let mut next = Instant::now();
        loop {
            let last = ends.load(Ordering::Acquire);
            let now = Instant::now();
            if last || now >= next {
                self.report();
                next = now + self.period();
            }
            if last {
                return;
            }
            let pause = next.saturating_duration_since(Instant::now());
            if let Some((from, bytes)) = self.group.receive_any(&self.leaders, TAG, pause) {
                self.hear(from, &bytes);
                // Whoever is told something may wait for an answer.
                next = next.min(Instant::now() + self.period());
            }
        }
    }

    /// Tells the other nodes what has changed on this one.
    fn report(&mut self) {
        if self.departed_seen.elapsed() >= PERIOD {
            self.departed = self.group.departed().into_iter().map(|of| of.rank).collect();
            self.departed_seen = Instant::now();
        }
        let request = self.board.request();
        if request > self.request.0 {
            self.request = (request, Instant::now());
            self.reporter.repeat_records();
        }
        let news = self.reporter.look(&self.board, &self.departed, self.story_is_told());
        if news.is_empty() {
            return;
        }
        if self.reporter.compares(&self.board) {
            self.stirred_until = Instant::now() + STIR;
        }
        let bytes = news::encode(&news);
        for leader in &self.leaders {
            // Whoever is gone needs no news; that it is, everyone knows from the group.
            let _ = self.group.send(*leader, TAG, &bytes);
        }
    }

    fn hear(&mut self, from: Rank, bytes: &[u8]) {
        // What cannot be read comes from no leader of this version, and says nothing.
        let Some(news) = news::decode(bytes) else { return };
        for item in &news {
            item.write_down(&self.board, from);
        }
    }

    fn story_is_told(&self) -> bool {
        self.request.0 > 0 && self.request.1.elapsed() < STORY
    }

    fn period(&self) -> Duration {
        let me = self.board.me();
        let agreeing = |rank: &Rank| self.board.agreeing(*rank) != 0;
        let agrees = self.board.nodes().around(me).iter().any(agreeing);
        match agrees || self.story_is_told() || self.stirred_until > Instant::now() {
            true => URGENT_PERIOD,
            false => PERIOD,
        }
    }
}

#[cfg(test)]
mod tests;

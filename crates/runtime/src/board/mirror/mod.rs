//! What ranks on other nodes have posted, kept up on this node's board.
//!
//! Every node has a *voice*: the lowest of its ranks that has not departed. It looks at the parts of its node, sends
//! what has changed to the voices of the other nodes, and writes down what these send. Only what changed
//! travels; an idle communicator sends nothing, and a busy one the last few records of each rank, and the last message of each
//! pair of ranks, unless ranks compare arguments or a report is asked for, when all records go, and soon. When a voice departs, the next
//! rank of its node takes over, and all voices tell everything once more: what was under way is not lost.
//!
//! **What readers must bear.** What stands on a board of a rank elsewhere was true [`PERIOD`] and a moment of the
//! network ago, or some tenths of a second while a voice changes. It may lack old records. Whoever sees a rank there as
//! running may know from its group that it has departed: then [`Board::is_complete`] says whether all that it
//! posted is here, and until then nothing may be concluded from what is not here. Of a node that has departed as
//! a whole that is never known.

mod news;
mod reporter;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{self as fabric, Group};

use super::Board;
use crate::error::{Error, ErrorKind};
use reporter::Reporter;

/// How often a voice looks at its node.
const PERIOD: Duration = Duration::from_millis(10);
/// How often while somebody waits for what it would see.
const URGENT_PERIOD: Duration = Duration::from_micros(200);
/// How often another rank looks whether it has become one.
const SLOW_PERIOD: Duration = Duration::from_millis(100);
/// How long a voice goes on looking often, once ranks that compare arguments have made a call.
const STIR: Duration = Duration::from_millis(50);
/// How long a report takes at most, from its request on.
const STORY: Duration = Duration::from_secs(2);
/// How long a voice may take to reach another one to which it has no connection: meanwhile it hears nobody, nor
/// can it end.
const REACH: Duration = Duration::from_millis(500);
/// Marks messages between voices.
const TAG: u64 = u64::from_be_bytes(*b"\0\0mirror");

/// The thread by which a rank is or becomes the voice of its node. Dropping it sends what has changed last, and ends
/// the thread.
pub(crate) struct Mirror {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Mirror {
    /// Starts to keep up the boards of all nodes of `group`, if there are several.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub fn start(group: &Arc<Group>, board: &Arc<Board>) -> Result<Option<Self>, Error> {
        let me = board.me();
        if board.nodes().count() < 2 {
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
            thread.thread().unpark();
            // A panic of the thread has been reported by the panic hook; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// What the thread keeps from one look to the next.
struct Rounds {
    group: Arc<Group>,
    board: Arc<Board>,
    /// The ranks of other nodes.
    elsewhere: Vec<Rank>,
    reporter: Reporter,
    /// The ranks that had departed at the last look around, and when that was.
    departed: (BTreeSet<Rank>, Instant),
    /// Ranks that cannot be reached, of which the group need not know.
    lost: BTreeSet<Rank>,
    /// The voices of all nodes, as of then.
    voices: Vec<Rank>,
    /// The latest request, and when it was first seen.
    request: (u64, Instant),
    /// Until when calls that are compared are to be expected.
    stirred_until: Instant,
}

impl Rounds {
    fn new(group: Arc<Group>, board: Arc<Board>) -> Self {
        let (me, now) = (board.me(), Instant::now());
        let elsewhere = board.ranks().filter(|rank| !board.nodes().together(me, *rank)).collect();
        let reporter = Reporter::new(board.nodes().around(me));
        let voices = board.nodes().leaders().collect();
        Self {
            group,
            board,
            elsewhere,
            reporter,
            departed: (BTreeSet::new(), now),
            lost: BTreeSet::new(),
            voices,
            request: (0, now),
            stirred_until: now,
        }
    }

    fn run(mut self, ends: &AtomicBool) {
        self.greet();
        let mut next = Instant::now();
        loop {
            let last = ends.load(Ordering::Acquire);
            let is_voice = self.voices.contains(&self.board.me());
            if last || Instant::now() >= next {
                self.look_around();
                if is_voice {
                    self.report(last);
                }
                next = Instant::now() + self.period(is_voice);
            }
            if last {
                return;
            }
            let pause = next.saturating_duration_since(Instant::now());
            if !is_voice {
                thread::park_timeout(pause);
            } else if let Some((from, bytes)) = self.group.receive_any(&self.elsewhere, TAG, pause)
            {
                self.hear(from, &bytes);
            }
        }
    }

    /// Connects to the other voices while all are there, lest a host that is cut off keep this one waiting when
    /// there is most to tell.
    fn greet(&self) {
        let me = self.board.me();
        let later = self.voices.iter().filter(|voice| **voice > me);
        for voice in later.filter(|_| self.voices.contains(&me)) {
            // Whoever cannot be reached is tried again when there is news.
            let _ = self.group.send_within(*voice, TAG, &news::encode(&[]), REACH);
        }
    }

    /// Finds out who speaks for the nodes.
    fn look_around(&mut self) {
        if self.departed.1.elapsed() < PERIOD {
            return;
        }
        let departed: BTreeSet<_> = self.group.departed().into_iter().map(|of| of.rank).collect();
        let voices = self.board.nodes().voices(&departed.union(&self.lost).copied().collect());
        if voices != self.voices {
            // Whoever speaks or hears now may not know what was said to others.
            self.reporter = Reporter::new(self.board.nodes().around(self.board.me()));
            self.voices = voices;
        }
        self.departed = (departed, Instant::now());
    }

    /// Tells the other nodes what has changed on this one; at the `last` time, all of it.
    fn report(&mut self, last: bool) {
        let request = self.board.request();
        if request > self.request.0 {
            self.request = (request, Instant::now());
            self.reporter.repeat_records();
        }
        let news = self.reporter.look(&self.board, &self.departed.0, last || self.story_is_told());
        if news.is_empty() {
            return;
        }
        if self.reporter.compares(&self.board) {
            self.stirred_until = Instant::now() + STIR;
        }
        let bytes = news::encode(&news);
        let mut unheard = false;
        for voice in self.voices.iter().filter(|voice| **voice != self.board.me()) {
            match self.group.send_within(*voice, TAG, &bytes, REACH) {
                Ok(()) => {}
                // If it is gone, its successor is told everything.
                Err(error) if error.kind() == fabric::ErrorKind::RankLost => {
                    self.lost.insert(*voice);
                }
                Err(_) => unheard = true,
            }
        }
        if unheard {
            self.reporter = Reporter::new(self.board.nodes().around(self.board.me()));
        }
    }

    fn hear(&mut self, from: Rank, bytes: &[u8]) {
        // What cannot be read comes from no voice of this version, and says nothing.
        let Some(news) = news::decode(bytes) else { return };
        for item in &news {
            item.write_down(&self.board, from);
        }
    }

    fn story_is_told(&self) -> bool {
        self.request.0 > 0 && self.request.1.elapsed() < STORY
    }

    fn period(&self, is_voice: bool) -> Duration {
        let me = self.board.me();
        let agreeing = |rank: &Rank| self.board.agreeing(*rank) != 0;
        let agrees = || self.board.nodes().around(me).iter().any(agreeing);
        match is_voice {
            false => SLOW_PERIOD,
            true if self.story_is_told() || self.stirred_until > Instant::now() => URGENT_PERIOD,
            true if agrees() => URGENT_PERIOD,
            true => PERIOD,
        }
    }
}

#[cfg(test)]
mod tests;

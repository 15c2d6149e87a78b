//! The thread of a proxy.
//!
//! It goes round all peers. While something happens it goes on at once; when nothing has for a few rounds,
//! it sleeps until a socket or the doorbell wakes it. Rails and ports that cannot wake it are looked at
//! from time to time: every 50 µs at first, every millisecond after a while.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{ErrorKind, Group};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::Config;
use crate::connect::{Made, Making, Means, Unmade};
use crate::error::Failure;
use crate::log::Event;
use crate::proxy::{Command, Shared, Wait};
use crate::session::Session;
use crate::tcp::{Knock, Listener};

/// Rounds without any work before the first sleep.
const SPINS: u32 = 64;

/// The first sleeps, when something must be looked at from time to time.
const SHORT: Duration = Duration::from_micros(50);

/// The longest sleep in that case.
const LONG: Duration = Duration::from_millis(1);

/// The longest sleep when everything can wake the thread; an abort cannot.
const WAKEABLE: Duration = Duration::from_millis(10);

/// Short sleeps before they grow longer.
const SHORT_SLEEPS: u32 = 40;

/// What is told of a peer that needs no links any more.
const LEFT: &str = "has left in order";

pub(crate) struct Pump {
    shared: Arc<Shared>,
    group: Arc<Group>,
    config: Config,
    listener: Listener,
    makings: Vec<Making>,
    /// Connections of peers that are not expected yet.
    knocks: Vec<(Instant, Knock)>,
    lines: Vec<Line>,
    /// Peers to which nothing goes any more, and why.
    gone: Vec<(Rank, String)>,
    /// Until when the last messages may take.
    deadline: Option<Instant>,
}

/// A peer that is connected.
struct Line {
    peer: Rank,
    session: Session,
}

impl Pump {
    pub(crate) fn new(
        shared: Arc<Shared>,
        group: Arc<Group>,
        config: Config,
        listener: Listener,
    ) -> Self {
        let (makings, knocks, lines, gone) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { shared, group, config, listener, makings, knocks, lines, gone, deadline: None }
    }

    pub(crate) fn run(mut self) {
        let mut quiet: u32 = 0;
        while !self.is_over() {
            let busy = self.round();
            quiet = if busy { 0 } else { quiet.saturating_add(1) };
            if quiet > 0 && quiet <= SPINS {
                // Whoever has work for this thread may wait for the processor.
                thread::yield_now();
            } else if quiet > SPINS {
                self.shared.doorbell.lie_down();
                // What has changed before that did not ring.
                if self.round() {
                    quiet = 0;
                } else {
                    self.sleep(quiet - SPINS);
                }
                self.shared.doorbell.get_up();
            }
        }
        self.shared.end();
    }

    fn is_over(&self) -> bool {
        if self.shared.abort.is_raised() {
            return true;
        }
        let parted =
            self.makings.is_empty() && self.lines.iter().all(|line| line.session.has_parted());
        self.deadline.is_some_and(|deadline| parted || Instant::now() > deadline)
    }

    fn round(&mut self) -> bool {
        let mut busy = self.obey();
        if !self.makings.is_empty() {
            busy |= self.make();
        }
        busy | self.advance()
    }

    fn obey(&mut self) -> bool {
        let commands = self.shared.take_commands();
        let busy = !commands.is_empty();
        for command in commands {
            match command {
                Command::Connect(making) => self.makings.push(*making),
                Command::Tell(answer) => {
                    // Whoever asked may have lost patience.
                    let _ = answer.send(self.story());
                }
                Command::End => {
                    self.makings.retain_mut(|making| {
                        let wanted = making.is_wanted();
                        (!wanted).then(|| making.leave(&self.group));
                        wanted
                    });
                    self.deadline = Some(Instant::now() + self.config.drain_timeout);
                }
            }
        }
        busy
    }

    fn make(&mut self) -> bool {
        let mut busy = self.welcome();
        for mut making in std::mem::take(&mut self.makings) {
            let peer = making.peer;
            let means = Means {
                group: &self.group,
                silence: self.config.silence_timeout,
                timeout: self.config.connect_timeout,
                rdma_required: self.config.rdma.required,
            };
            match making.go_on(means) {
                Ok(Made::NotYet(moved)) => {
                    busy |= moved;
                    self.makings.push(making);
                }
                Ok(Made::Left) => self.gone.push((peer, LEFT.to_owned())),
                Ok(Made::Done { session, why, slots }) => {
                    let rails = session.rails();
                    self.config.log.event(&Event::Connected { peer, rails, why, slots });
                    self.lines.push(Line { peer, session });
                    busy = true;
                }
                Err(unmade) => {
                    making.refuse(&self.group, &unmade);
                    let Unmade { kind, doing, why } = unmade;
                    self.fail(peer, kind, doing, why);
                }
            }
        }
        busy
    }

    /// Lets peers in that have connected.
    fn welcome(&mut self) -> bool {
        let knocks = self.listener.listen(self.config.log.as_ref());
        let busy = !knocks.is_empty();
        self.knocks.extend(knocks.into_iter().map(|knock| (Instant::now(), knock)));
        for (since, knock) in std::mem::take(&mut self.knocks) {
            let making = self.makings.iter_mut().find(|making| making.peer == knock.from);
            let left = match making {
                Some(making) => making.welcome(knock),
                None => Some(knock),
            };
            let Some(knock) = left else { continue };
            if since.elapsed() < self.config.connect_timeout {
                self.knocks.push((since, knock));
            } else {
                let (from, why) =
                    (knock.stream.peer_addr().ok(), "nobody waited for it".to_owned());
                self.config.log.event(&Event::StrayConnection { from, why });
            }
        }
        busy
    }

    fn fail(&mut self, peer: Rank, kind: ErrorKind, rail: String, why: String) {
        let host = self.group.peer(peer).map(|peer| peer.host_name.to_string()).unwrap_or_default();
        let failure = Failure { peer, host, kind, rail, why };
        self.gone.push((peer, failure.to_string()));
        self.shared.fail(failure);
    }

    fn advance(&mut self) -> bool {
        let leaving = self.deadline.is_some();
        let mut busy = false;
        let mut lines = std::mem::take(&mut self.lines);
        lines.retain_mut(|line| {
            if leaving && line.session.is_drained() {
                line.session.say_farewell();
            }
            let advanced = line.session.advance();
            for (rail, why) in line.session.take_broken() {
                let (peer, left) = (line.peer, line.session.rails().len());
                if left > 0 {
                    self.config.log.event(&Event::RailLost { peer, rail, why, left });
                }
            }
            match advanced {
                Ok(moved) => {
                    busy |= moved;
                    true
                }
                Err(ended) => {
                    if line.session.peer_has_left() {
                        self.gone.push((line.peer, LEFT.to_owned()));
                    } else if !leaving {
                        self.fail(line.peer, ErrorKind::Network, ended.rail, ended.why);
                    }
                    false
                }
            }
        });
        self.lines = lines;
        busy
    }

    fn story(&mut self) -> Vec<Wait> {
        let making = self.makings.iter().map(|making| Wait {
            peer: making.peer,
            rails: Vec::new(),
            links: vec![making.story()],
        });
        let mut waits: Vec<_> = making.collect();
        waits.extend(self.lines.iter_mut().map(|line| Wait {
            peer: line.peer,
            rails: line.session.rails(),
            links: line.session.story(),
        }));
        waits.extend(self.gone.iter().map(|(peer, how)| Wait {
            peer: *peer,
            rails: Vec::new(),
            links: vec![how.clone()],
        }));
        waits.sort_by_key(|wait| wait.peer);
        waits
    }

    /// Sleeps until something wakes the thread, or it is time to look again. `turn` counts sleeps.
    fn sleep(&self, turn: u32) {
        let (mut fds, mut wakeable) = (Vec::new(), self.makings.is_empty());
        fds.push(PollFd::new(&self.shared.doorbell, PollFlags::IN));
        for line in &self.lines {
            wakeable &= line.session.rings();
            for wake in line.session.wakes() {
                match wake {
                    Some(wake) => {
                        let out = if wake.writable { PollFlags::OUT } else { PollFlags::empty() };
                        fds.push(PollFd::from_borrowed_fd(wake.descriptor, PollFlags::IN | out));
                    }
                    None => wakeable = false,
                }
            }
        }
        if !self.makings.is_empty() {
            let listening = self.listener.descriptors();
            fds.extend(listening.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            for (fd, writable) in self.makings.iter().flat_map(Making::descriptors) {
                let flags = if writable { PollFlags::OUT } else { PollFlags::IN };
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        let pause = match (wakeable, turn < SHORT_SLEEPS) {
            (true, _) => WAKEABLE,
            (false, true) => SHORT,
            (false, false) => (SHORT * (turn - SHORT_SLEEPS + 1)).min(LONG),
        };
        // Pauses are far below a second.
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
        // Interrupted or not, the thread looks at everything.
        let _ = poll(&mut fds, Some(&pause));
    }
}

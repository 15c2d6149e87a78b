//! The thread of a proxy.
//!
//! It goes round all peers. While something happens it goes on at once; when nothing has for a few rounds,
//! it sleeps until a socket or the doorbell wakes it, or for as long as [`crate::pace`] says.
//!
//! What it looks at in a round is [`crate::attention`]'s affair; before it sleeps it looks at everything.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{ErrorKind, Group, Key};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::attention::{Attention, Look};
use crate::config::Config;
use crate::connect::{Made, Making, Means, Unmade};
use crate::error::Failure;
use crate::log::Event;
use crate::pace::{Quiet, Silent, pause};
use crate::proxy::{Command, Shared, Wait};
use crate::session::Session;
use crate::tcp::{Expected, Knock, Listener};

/// How long an end may take without a word.
const LONG_LEAVE: Duration = Duration::from_secs(5);

/// What is told of a peer that needs no links any more.
const LEFT: &str = "has left in order";

pub(crate) struct Pump {
    shared: Arc<Shared>,
    group: Arc<Group>,
    config: Config,
    listener: Listener,
    /// What rails are guarded with.
    key: Key,
    makings: Vec<Making>,
    /// Connections of peers that are not expected yet.
    knocks: Vec<(Instant, Knock)>,
    lines: Vec<Line>,
    /// Which of these to look at.
    attention: Attention,
    /// Peers to which nothing goes any more, and why.
    gone: Vec<(Rank, String)>,
    /// Since when, and until when, the last messages are on their way.
    leaving: Option<Leaving>,
}

/// That the proxy is ending.
struct Leaving {
    since: Instant,
    limit: Duration,
    /// Whether it was said that this takes long.
    told: bool,
}

/// A peer that is connected.
struct Line {
    peer: Rank,
    session: Session,
    /// Nothing goes there any more.
    ended: bool,
}

impl Pump {
    pub(crate) fn new(
        shared: Arc<Shared>,
        group: Arc<Group>,
        config: Config,
        listener: Listener,
        key: Key,
    ) -> Self {
        Self {
            shared,
            group,
            config,
            listener,
            key,
            makings: Vec::new(),
            knocks: Vec::new(),
            lines: Vec::new(),
            attention: Attention::default(),
            gone: Vec::new(),
            leaving: None,
        }
    }

    pub(crate) fn run(mut self) {
        let mut quiet = Quiet::begins();
        while !self.is_over() {
            if self.round(Look::Part) {
                quiet = Quiet::begins();
                continue;
            }
            quiet.rounds = quiet.rounds.saturating_add(1);
            match pause(quiet.rounds, quiet.since.elapsed(), self.silent()) {
                // Whoever has work for this thread may wait for the processor.
                None => thread::yield_now(),
                Some(pause) => {
                    self.shared.doorbell.lie_down();
                    // What has changed before that did not ring.
                    if self.round(Look::Whole) {
                        quiet = Quiet::begins();
                    } else {
                        self.sleep(pause);
                    }
                    self.shared.doorbell.get_up();
                }
            }
        }
        if !self.shared.abort.is_raised() {
            // No time is left for these.
            self.makings.iter_mut().for_each(|making| making.leave(&self.group));
        }
    }

    fn is_over(&self) -> bool {
        if self.shared.abort.is_raised() {
            return true;
        }
        let parted =
            self.makings.is_empty() && self.lines.iter().all(|line| line.session.has_parted());
        self.leaving.as_ref().is_some_and(|of| parted || of.since.elapsed() > of.limit)
    }

    fn round(&mut self, look: Look) -> bool {
        let mut busy = self.obey();
        if !self.makings.is_empty() {
            busy |= self.make();
        } else if self.listener.has_unauthenticated() {
            busy |= self.listen(Expected::Nobody);
        }
        self.tell_of_leaving();
        busy | self.advance(look)
    }

    fn obey(&mut self) -> bool {
        let commands = self.shared.take_commands();
        let busy = self.shared.was_stirred() || !commands.is_empty();
        for command in commands {
            match command {
                Command::Connect(making) => self.makings.push(*making),
                Command::Tell(answer) => {
                    // Whoever asked may have lost patience.
                    let _ = answer.send(self.story());
                }
                Command::End => {
                    self.makings.retain_mut(|making| {
                        let goes_on = making.is_wanted() || making.may_stand_there();
                        (!goes_on).then(|| making.leave(&self.group));
                        goes_on
                    });
                    let (since, limit) = (Instant::now(), self.shared.drain_limit());
                    self.leaving = Some(Leaving { since, limit, told: false });
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
                key: &self.key,
                silence: self.config.silence_timeout,
                timeout: self.config.longest_connect(),
                rdma_required: self.config.rdma.required,
                log: self.config.log.as_ref(),
            };
            match making.go_on(means) {
                Ok(Made::NotYet(moved)) => {
                    busy |= moved;
                    self.makings.push(making);
                }
                Ok(Made::Left) => self.gone.push((peer, LEFT.to_owned())),
                Ok(Made::Done { session, why }) => {
                    let (rails, slots) = (session.rails(), making.slots());
                    self.config.log.event(&Event::Connected { peer, rails, why, slots });
                    self.lines.push(Line { peer, session: *session, ended: false });
                    self.attention = Attention::new(self.lines.len());
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
        let busy = self.listen(Expected::Somebody);
        for (since, knock) in std::mem::take(&mut self.knocks) {
            let making = self.makings.iter_mut().find(|making| making.peer == knock.from);
            let left = match making {
                Some(making) => making.welcome(knock),
                None => Some(knock),
            };
            let Some(knock) = left else { continue };
            if since.elapsed() < self.config.longest_connect() {
                self.knocks.push((since, knock));
            } else {
                let (from, why) =
                    (knock.stream.peer_addr().ok(), "nobody waited for it".to_owned());
                self.config.log.event(&Event::StrayConnection { from, why });
            }
        }
        busy
    }

    /// Whether peers have introduced themselves.
    fn listen(&mut self, expected: Expected) -> bool {
        let knocks = self.listener.listen(expected, self.config.log.as_ref());
        let busy = !knocks.is_empty();
        self.knocks.extend(knocks.into_iter().map(|knock| (Instant::now(), knock)));
        busy
    }

    fn fail(&mut self, peer: Rank, kind: ErrorKind, rail: String, why: String) {
        let failure = Failure { peer, host: host(&self.group, peer), kind, rail, why };
        self.gone.push((peer, failure.to_string()));
        self.shared.fail(failure);
    }

    fn advance(&mut self, look: Look) -> bool {
        let chosen = self.attention.begin(look);
        let mut lines = std::mem::take(&mut self.lines);
        let (mut busy, mut ended) = (false, false);
        for &at in &chosen {
            let look = self.attention.within(at, look);
            if self.advance_line(&mut lines[at], look) {
                self.attention.wake(at);
                busy = true;
            }
            ended |= lines[at].ended;
        }
        self.attention.end(chosen);
        self.lines = lines;
        if ended {
            self.lines.retain(|line| !line.ended);
            self.attention = Attention::new(self.lines.len());
        }
        busy
    }

    /// Whether anything happened.
    fn advance_line(&mut self, line: &mut Line, look: Look) -> bool {
        let leaving = self.leaving.is_some();
        if leaving && line.session.is_drained() {
            line.session.say_farewell();
        }
        let advanced = line.session.advance(look);
        for (rail, why) in line.session.take_broken() {
            let (peer, left) = (line.peer, line.session.rails().len());
            if left > 0 {
                let host = host(&self.group, peer);
                self.config.log.event(&Event::RailLost { peer, host, rail, why, left });
            }
        }
        advanced.unwrap_or_else(|failure| {
            line.ended = true;
            if line.session.peer_has_left() {
                self.gone.push((line.peer, LEFT.to_owned()));
            } else if !leaving {
                self.fail(line.peer, ErrorKind::Network, failure.rail, failure.why);
            }
            false
        })
    }

    /// Says once that peers have not taken what this rank cannot leave behind.
    fn tell_of_leaving(&mut self) {
        let Some(leaving) = &mut self.leaving else { return };
        if leaving.told || leaving.since.elapsed() < LONG_LEAVE {
            return;
        }
        leaving.told = true;
        let makings = self.makings.iter().map(|making| making.peer);
        let lines = self.lines.iter_mut();
        let open = lines.filter_map(|line| (!line.session.is_drained()).then_some(line.peer));
        let peers: Vec<_> = makings.chain(open).map(|peer| format!("r{}", peer.0)).collect();
        if !peers.is_empty() {
            let text = format!(
                "this rank has ended its communicator, and waits for {} to take what it has sent",
                peers.join(", ")
            );
            self.config.log.event(&Event::Trouble(text));
        }
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

    /// What cannot wake the thread.
    fn silent(&self) -> Silent {
        let lines = || self.lines.iter().map(|line| &line.session);
        if !lines().all(Session::rings) {
            Silent::Ports { graphs: self.shared.has_graphs() }
        } else if !self.makings.is_empty()
            || lines().flat_map(Session::wakes).any(|wake| wake.is_none())
        {
            Silent::Rails
        } else {
            Silent::Nothing
        }
    }

    /// Sleeps for `pause`, or until something wakes the thread.
    fn sleep(&self, pause: Duration) {
        let mut fds = vec![PollFd::new(&self.shared.doorbell, PollFlags::IN)];
        for wake in self.lines.iter().flat_map(|line| line.session.wakes()).flatten() {
            let out = if wake.writable { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::from_borrowed_fd(wake.descriptor, PollFlags::IN | out));
        }
        if !self.makings.is_empty() {
            let listening = self.listener.descriptors();
            fds.extend(listening.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            for (fd, writable) in self.makings.iter().flat_map(Making::descriptors) {
                let flags = if writable { PollFlags::OUT } else { PollFlags::IN };
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        // Pauses are far below a second.
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
        // Interrupted or not, the thread looks at everything.
        let _ = poll(&mut fds, Some(&pause));
    }
}

impl Drop for Pump {
    /// However the thread ends, nobody waits for its answers.
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// The name of a peer's host.
pub(crate) fn host(group: &Group, peer: Rank) -> String {
    group.peer(peer).map(|peer| peer.host_name.to_string()).unwrap_or_default()
}

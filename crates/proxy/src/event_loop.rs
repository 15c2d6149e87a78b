//! The thread of a proxy.
//!
//! It goes round all peers. While something happens it goes on at once; when nothing has for a few
//! rounds, it sleeps until a socket or the doorbell wakes it, or for as long as [`crate::pace`]
//! says.
//!
//! What it looks at in a round is [`crate::poll_schedule`]'s affair; before it sleeps it looks at
//! everything.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{ErrorKind, Group, Key};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::Config;
use crate::connect::{AttemptFailed, AttemptResult, ConnectAttempt, ConnectContext};
use crate::error::Failure;
use crate::log::Event;
use crate::pace::{IdleTime, PollTarget, pause};
use crate::poll_schedule::{Look, PollSchedule};
use crate::session::Session;
use crate::shared::{Command, Shared, Wait};
use crate::tcp::{Expected, IncomingConnection, Listener};

/// How long an end may take without a word.
const LONG_LEAVE: Duration = Duration::from_secs(5);

/// What is logged about a peer that needs no links any more.
const LEFT: &str = "has left in order";

pub(crate) struct EventLoop {
    shared: Arc<Shared>,
    group: Arc<Group>,
    config: Config,
    listener: Listener,
    /// What rails are guarded with.
    key: Key,
    attempts_in_progress: Vec<ConnectAttempt>,
    /// Connections of peers that are not expected yet.
    incoming: Vec<(Instant, IncomingConnection)>,
    sessions: Vec<PeerSession>,
    /// Which of these to look at.
    poll_schedule: PollSchedule,
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
    logged: bool,
}

/// A peer that is connected.
struct PeerSession {
    peer: Rank,
    session: Session,
    /// Nothing goes there any more.
    ended: bool,
}

impl EventLoop {
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
            attempts_in_progress: Vec::new(),
            incoming: Vec::new(),
            sessions: Vec::new(),
            poll_schedule: PollSchedule::default(),
            gone: Vec::new(),
            leaving: None,
        }
    }

    pub(crate) fn run(mut self) {
        let mut idle = IdleTime::begins();
        while !self.is_over() {
            if self.round(Look::Part) {
                idle = IdleTime::begins();
                continue;
            }
            idle.rounds = idle.rounds.saturating_add(1);
            match pause(idle.rounds, idle.since.elapsed(), self.poll_target()) {
                // Whoever has work for this thread may wait for the processor.
                None => thread::yield_now(),
                Some(pause) => {
                    self.shared.doorbell.park();
                    // A change before that did not signal the doorbell.
                    if self.round(Look::Whole) {
                        idle = IdleTime::begins();
                    } else {
                        self.sleep(pause);
                    }
                    self.shared.doorbell.resume();
                }
            }
        }
        if !self.shared.abort.is_raised() {
            // No time is left for these.
            self.attempts_in_progress.iter_mut().for_each(|attempt| attempt.leave(&self.group));
        }
    }

    fn is_over(&self) -> bool {
        if self.shared.abort.is_raised() {
            return true;
        }
        let parted = self.attempts_in_progress.is_empty()
            && self.sessions.iter().all(|peer_session| peer_session.session.has_parted());
        self.leaving.as_ref().is_some_and(|of| parted || of.since.elapsed() > of.limit)
    }

    fn round(&mut self, look: Look) -> bool {
        let mut busy = self.handle_commands();
        if !self.attempts_in_progress.is_empty() {
            busy |= self.make();
        } else if self.listener.has_unauthenticated() {
            busy |= self.listen(Expected::Nobody);
        }
        self.log_leaving();
        busy | self.advance(look)
    }

    fn handle_commands(&mut self) -> bool {
        let commands = self.shared.take_commands();
        let busy = self.shared.was_woken() || !commands.is_empty();
        for command in commands {
            match command {
                Command::Connect(attempt) => self.attempts_in_progress.push(*attempt),
                Command::DescribeWaits(answer) => {
                    // Whoever asked may have lost patience.
                    let _ = answer.send(self.describe());
                }
                Command::End => {
                    self.attempts_in_progress.retain_mut(|attempt| {
                        let goes_on = attempt.has_messages() || attempt.may_stand_there();
                        (!goes_on).then(|| attempt.leave(&self.group));
                        goes_on
                    });
                    let (since, limit) = (Instant::now(), self.shared.drain_limit());
                    self.leaving = Some(Leaving { since, limit, logged: false });
                }
            }
        }
        busy
    }

    fn make(&mut self) -> bool {
        let mut busy = self.welcome();
        for mut attempt in std::mem::take(&mut self.attempts_in_progress) {
            let peer = attempt.peer;
            let context = ConnectContext {
                group: &self.group,
                key: &self.key,
                silence: self.config.silence_timeout,
                timeout: self.config.longest_connect(),
                rdma_required: self.config.rdma.required,
                log: self.config.log.as_ref(),
            };
            match attempt.go_on(context) {
                Ok(AttemptResult::NotYet(moved)) => {
                    busy |= moved;
                    self.attempts_in_progress.push(attempt);
                }
                Ok(AttemptResult::Left) => self.gone.push((peer, LEFT.to_owned())),
                Ok(AttemptResult::Done { session, why }) => {
                    let (rails, slots) = (session.rails(), attempt.slots());
                    self.config.log.event(&Event::Connected { peer, rails, why, slots });
                    self.sessions.push(PeerSession { peer, session: *session, ended: false });
                    self.poll_schedule = PollSchedule::new(self.sessions.len());
                    busy = true;
                }
                Err(failed) => {
                    attempt.refuse(&self.group, &failed);
                    let AttemptFailed { kind, doing, why } = failed;
                    self.fail(peer, kind, doing, why);
                }
            }
        }
        busy
    }

    /// Lets peers in that have connected.
    fn welcome(&mut self) -> bool {
        let busy = self.listen(Expected::Somebody);
        for (since, incoming) in std::mem::take(&mut self.incoming) {
            let attempt =
                self.attempts_in_progress.iter_mut().find(|attempt| attempt.peer == incoming.from);
            let left = match attempt {
                Some(attempt) => attempt.welcome(incoming),
                None => Some(incoming),
            };
            let Some(incoming) = left else { continue };
            if since.elapsed() < self.config.longest_connect() {
                self.incoming.push((since, incoming));
            } else {
                let (from, why) =
                    (incoming.stream.peer_addr().ok(), "nobody waited for it".to_owned());
                self.config.log.event(&Event::StrayConnection { from, why });
            }
        }
        busy
    }

    /// Whether peers have introduced themselves.
    fn listen(&mut self, expected: Expected) -> bool {
        let incoming = self.listener.listen(expected, self.config.log.as_ref());
        let busy = !incoming.is_empty();
        self.incoming.extend(incoming.into_iter().map(|incoming| (Instant::now(), incoming)));
        busy
    }

    fn fail(&mut self, peer: Rank, kind: ErrorKind, rail: String, why: String) {
        let failure = Failure { peer, host: host(&self.group, peer), kind, rail, why };
        self.gone.push((peer, failure.to_string()));
        self.shared.fail(failure);
    }

    fn advance(&mut self, look: Look) -> bool {
        let chosen = self.poll_schedule.begin(look);
        let mut sessions = std::mem::take(&mut self.sessions);
        let (mut busy, mut ended) = (false, false);
        for &at in &chosen {
            let look = self.poll_schedule.within(at, look);
            if self.advance_session(&mut sessions[at], look) {
                self.poll_schedule.wake(at);
                busy = true;
            }
            ended |= sessions[at].ended;
        }
        self.poll_schedule.end(chosen);
        self.sessions = sessions;
        if ended {
            self.sessions.retain(|peer_session| !peer_session.ended);
            self.poll_schedule = PollSchedule::new(self.sessions.len());
        }
        busy
    }

    /// Whether anything happened.
    fn advance_session(&mut self, peer_session: &mut PeerSession, look: Look) -> bool {
        let leaving = self.leaving.is_some();
        if leaving && peer_session.session.is_drained() {
            peer_session.session.say_farewell();
        }
        let advanced = peer_session.session.advance(look);
        for (rail, why) in peer_session.session.take_broken() {
            let (peer, left) = (peer_session.peer, peer_session.session.rails().len());
            if left > 0 {
                let host = host(&self.group, peer);
                self.config.log.event(&Event::RailLost { peer, host, rail, why, left });
            }
        }
        advanced.unwrap_or_else(|failure| {
            peer_session.ended = true;
            if peer_session.session.peer_has_left() {
                self.gone.push((peer_session.peer, LEFT.to_owned()));
            } else if !leaving {
                self.fail(peer_session.peer, ErrorKind::Network, failure.rail, failure.why);
            }
            false
        })
    }

    /// Says once that peers have not taken what this rank cannot leave behind.
    fn log_leaving(&mut self) {
        let Some(leaving) = &mut self.leaving else { return };
        if leaving.logged || leaving.since.elapsed() < LONG_LEAVE {
            return;
        }
        leaving.logged = true;
        let attempts_in_progress = self.attempts_in_progress.iter().map(|attempt| attempt.peer);
        let sessions = self.sessions.iter_mut();
        let open = sessions.filter_map(|peer_session| {
            (!peer_session.session.is_drained()).then_some(peer_session.peer)
        });
        let peers: Vec<_> =
            attempts_in_progress.chain(open).map(|peer| format!("r{}", peer.0)).collect();
        if !peers.is_empty() {
            let text = format!(
                "this rank has ended its communicator, and waits for {} to take what it has sent",
                peers.join(", ")
            );
            self.config.log.event(&Event::Trouble(text));
        }
    }

    fn describe(&mut self) -> Vec<Wait> {
        let attempt = self.attempts_in_progress.iter().map(|attempt| Wait {
            peer: attempt.peer,
            rails: Vec::new(),
            links: vec![attempt.describe()],
        });
        let mut waits: Vec<_> = attempt.collect();
        waits.extend(self.sessions.iter_mut().map(|peer_session| Wait {
            peer: peer_session.peer,
            rails: peer_session.session.rails(),
            links: peer_session.session.describe(),
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
    fn poll_target(&self) -> PollTarget {
        let sessions = || self.sessions.iter().map(|peer_session| &peer_session.session);
        if !sessions().all(Session::wakes_proxy) {
            PollTarget::Endpoints { graphs: self.shared.has_graphs() }
        } else if !self.attempts_in_progress.is_empty()
            || sessions().flat_map(Session::wakes).any(|wake| wake.is_none())
        {
            PollTarget::Rails
        } else {
            PollTarget::Nothing
        }
    }

    /// Sleeps for `pause`, or until something wakes the thread.
    fn sleep(&self, pause: Duration) {
        let mut fds = vec![PollFd::new(&self.shared.doorbell, PollFlags::IN)];
        for wake in
            self.sessions.iter().flat_map(|peer_session| peer_session.session.wakes()).flatten()
        {
            let out = if wake.writable { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::from_borrowed_fd(wake.descriptor, PollFlags::IN | out));
        }
        if !self.attempts_in_progress.is_empty() {
            let listening = self.listener.descriptors();
            fds.extend(listening.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            for (fd, writable) in
                self.attempts_in_progress.iter().flat_map(ConnectAttempt::descriptors)
            {
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

impl Drop for EventLoop {
    /// However the thread ends, nobody waits for its answers.
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// The name of a peer's host.
pub(crate) fn host(group: &Group, peer: Rank) -> String {
    group.peer(peer).map(|peer| peer.host_name.to_string()).unwrap_or_default()
}

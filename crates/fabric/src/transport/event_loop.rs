//! The thread that serves a transport's connections.

use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use rustix::event::{PollFd, PollFlags, poll};

use super::connection::{Connection, Pass};
use super::descriptor_channel::{DescriptorChannel, ReceivedDescriptors};
use super::mailbox::{ConnectionId, PeerState};
use super::{Shared, descriptor_channel};
use crate::acceptor::{Acceptor, Admitted, LogLimit};
use crate::departure::DepartureReason;
use crate::descriptors;
use crate::error::Error;
use crate::frame::{Frame, Subject};
use crate::handshake::Kind;
use crate::log::Event;
use crate::socket;
use crate::wire::Malformed;

/// Connections at a time by which descriptors may come.
const DESCRIPTOR_CHANNELS: usize = 64;

/// How long a descriptor channel is safe from having to make room for another.
const DESCRIPTOR_CHANNEL_MIN: Duration = Duration::from_millis(50);

/// How long the descriptor's listener is left alone after it had trouble.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// How often the clock is looked at.
const TICK: Duration = Duration::from_secs(1);

/// How long a rank that leaves waits for its peers to take note.
const LINGER: Duration = Duration::from_secs(1);
const SHORT_LINGER: Duration = Duration::from_millis(300);

/// The thread's own things.
pub(super) struct EventLoop {
    shared: Arc<Shared>,
    acceptor: Acceptor,
    /// Takes descriptors; none where the system does not allow such sockets.
    descriptors: Option<OwnedFd>,
    connections: Vec<Connection>,
    descriptor_channels: Vec<DescriptorChannel>,
    /// When connections could not be accepted last.
    trouble: Option<Instant>,
    log_limit: LogLimit,
}

impl EventLoop {
    pub(super) fn new(shared: Arc<Shared>, listener: TcpListener) -> Result<Self, Error> {
        let descriptors =
            descriptor_channel::listen(&descriptor_channel::name(&shared.key, shared.me));
        let descriptors = match descriptors.map_err(io::Error::from) {
            Ok(listener) => Some(listener),
            Err(error) if descriptors::are_used_up(&error) => {
                return Err(Error::system("cannot listen for file descriptors", error));
            }
            Err(error) => {
                let text = format!("file descriptors cannot be passed to this rank: {error}");
                shared.log.event(&Event::Trouble(text));
                None
            }
        };
        let (key, ranks) = (shared.key.clone(), shared.members.len() as u32);
        let acceptor = Acceptor::new(listener, key, &[Kind::Peer], shared.me, ranks);
        let (connections, descriptor_channels, log_limit) =
            (Vec::new(), Vec::new(), LogLimit::default());
        Ok(Self {
            shared,
            acceptor,
            descriptors,
            connections,
            descriptor_channels,
            trouble: None,
            log_limit,
        })
    }

    pub(super) fn run(mut self) {
        while !self.collect() {
            self.connections.iter_mut().for_each(Connection::write);
            self.connections.iter_mut().for_each(Connection::look_after);
            let news = self.wait(TICK);
            self.accept();
            self.read_connections(&news);
            self.read_descriptor_channels();
        }
        self.say_goodbye();
    }

    /// Takes over what callers have left; true if the transport is being dropped.
    fn collect(&mut self) -> bool {
        let mut state = self.shared.state();
        let new_connections = mem::take(&mut state.new_connections);
        let outgoing = mem::take(&mut state.outgoing);
        let leaving = state.leaving;
        drop(state);
        let new_connections = new_connections.into_iter();
        let silence = self.shared.limits.silence;
        let connection = |(id, peer, stream)| Connection::new(id, peer, stream, silence);
        self.connections.extend(new_connections.map(connection));
        for (id, bytes) in outgoing {
            // Ids grow, and connections stand in their order unless many have ended.
            if let Some(connection) =
                self.connections.iter_mut().find(|connection| connection.id == id)
            {
                connection.post(bytes);
            }
        }
        leaving
    }

    /// Waits for something to happen; which connections have news, in their order.
    fn wait(&self, timeout: Duration) -> Vec<bool> {
        let connections = self.connections.iter();
        let mut all: Vec<_> = connections
            .map(|connection| PollFd::new(&connection.stream, connection.interest()))
            .collect();
        all.extend(
            self.descriptor_channels
                .iter()
                .map(|descriptor_channel| PollFd::new(descriptor_channel, PollFlags::IN)),
        );
        let troubled = self.is_troubled();
        let waiting: Vec<_> = self.acceptor.descriptors().filter(|_| !troubled).collect();
        all.extend(waiting.iter().map(|one| PollFd::new(one, PollFlags::IN)));
        // Whoever waits where there is no room must not keep this thread awake.
        let has_room = self.descriptor_channels.len() < DESCRIPTOR_CHANNELS && !troubled;
        let descriptors = self.descriptors.iter().filter(|_| has_room);
        all.extend(descriptors.map(|listener| PollFd::new(listener, PollFlags::IN)));
        all.push(PollFd::new(&self.shared.bell, PollFlags::IN));
        let mut timeout = self.acceptor.pause().map_or(timeout, |pause| pause.min(timeout));
        if !has_room || !self.descriptor_channels.is_empty() {
            timeout = timeout.min(TROUBLE_PAUSE);
        }
        // Interrupted or not, the caller looks at what is not a connection.
        let _ = poll(&mut all, Some(&socket::timespec(timeout)));
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        all[..self.connections.len()].iter().map(socket::has_news).collect()
    }

    /// Whether connections could not be accepted a moment ago.
    fn is_troubled(&self) -> bool {
        self.trouble.is_some_and(|since| since.elapsed() < TROUBLE_PAUSE)
    }

    fn accept(&mut self) {
        if self.is_troubled() {
            return;
        }
        let Self { acceptor, shared, .. } = self;
        match acceptor.admit(|notice| shared.log.event(&notice.into())) {
            Ok(admitted) => {
                if self.trouble.take().is_some() {
                    self.shared.state().has_descriptors();
                }
                admitted.into_iter().for_each(|admitted| self.welcome(admitted));
            }
            Err(error) => self.cannot_accept(error),
        }
    }

    fn welcome(&mut self, admitted: Admitted) {
        let Admitted { stream, address: from, purpose, session: _ } = admitted;
        if !self.shared.is_peer(purpose.from) {
            let why = "it speaks for a rank that does not exist".to_owned();
            return self.shared.log.event(&Event::StrayConnection { from: Some(from), why });
        }
        let id = self.shared.state().open_connection(purpose.from);
        let silence = self.shared.limits.silence;
        self.connections.push(Connection::new(id, purpose.from, stream, silence));
    }

    /// Whoever waits for a peer that cannot come in waits in vain.
    fn cannot_accept(&mut self, error: io::Error) {
        let used_up = descriptors::are_used_up(&error);
        let error = Error::system("connections of peers cannot be accepted", error);
        if self.log_limit.may_log() {
            self.shared.log.event(&Event::Trouble(error.to_string()));
        }
        self.trouble = Some(Instant::now());
        if used_up {
            self.shared.state().lack_descriptors(error);
            self.shared.changed.notify_all();
        }
    }

    /// Reads the connections that have `news`, and those that were opened just now.
    fn read_connections(&mut self, news: &[bool]) {
        let mut over = Vec::new();
        let news = news.iter().copied().chain(std::iter::repeat(true));
        for (connection, _) in
            self.connections.iter_mut().zip(news).filter(|(_, has_news)| *has_news)
        {
            let peer = connection.peer;
            let mut frames = Vec::new();
            if let Pass::Over(reason) = connection.read(|frame| frames.push(frame)) {
                over.push((connection.id, peer, reason));
            }
            if frames.is_empty() {
                continue;
            }
            if let Err(Malformed(why)) = self.shared.deliver(peer, frames) {
                over.push((
                    connection.id,
                    peer,
                    DepartureReason::Lost(format!("sent nonsense: {why}")),
                ));
            }
        }
        for (id, peer, reason) in over {
            self.connections.retain(|connection| connection.id != id);
            self.note_end(id, peer, reason);
        }
    }

    /// Notes the end of a connection, and the state of the peer if it was the last one.
    fn note_end(&mut self, id: ConnectionId, peer: Rank, reason: DepartureReason) {
        let other = self
            .connections
            .iter()
            .find(|connection| connection.peer == peer)
            .map(|connection| connection.id);
        let mut state = self.shared.state();
        state.close_connection(peer, id, other);
        if other.is_some() {
            return;
        }
        state.set_peer_state(peer, PeerState::Departed(reason.clone()));
        // Whoever has no connection to that rank must not take it for the culprit.
        let why = state.reason_notice(peer);
        drop(state);
        self.shared.changed.notify_all();
        if reason != DepartureReason::Left {
            let description =
                format!("{} {reason}", self.shared.members[peer.index()].peer.describe());
            self.shared.log.event(&Event::RankLost { rank: peer, description });
        }
        let (number, body) = (u64::from(peer.0), reason.to_bytes());
        let end = Frame { subject: Subject::Departure, group: 0, number, body }.to_bytes();
        let notices: Vec<_> = why.into_iter().chain([end]).collect();
        self.connections.iter_mut().for_each(|connection| connection.post_all(&notices));
    }

    fn read_descriptor_channels(&mut self) {
        self.accept_descriptor_channels();
        for mut descriptor_channel in mem::take(&mut self.descriptor_channels) {
            match descriptor_channel.go_on(&self.shared.key, self.shared.me) {
                Ok(None) => self.descriptor_channels.push(descriptor_channel),
                Ok(Some(received)) => self.take_in(received),
                Err(why) => self.refuse(&why),
            }
        }
    }

    fn accept_descriptor_channels(&mut self) {
        while !self.is_troubled()
            && (self.descriptor_channels.len() < DESCRIPTOR_CHANNELS || self.make_room())
        {
            let Some(listener) = &self.descriptors else { return };
            match descriptor_channel::accept(listener) {
                Ok(Some(connection)) => match DescriptorChannel::new(connection) {
                    Ok(descriptor_channel) => self.descriptor_channels.push(descriptor_channel),
                    Err(why) => self.refuse(&why),
                },
                Ok(None) => return,
                Err(error) => return self.cannot_accept(error),
            }
        }
    }

    /// Closes the oldest descriptor channel that had its time; false if there is none.
    fn make_room(&mut self) -> bool {
        let old = self
            .descriptor_channels
            .iter()
            .position(|descriptor_channel| descriptor_channel.age() > DESCRIPTOR_CHANNEL_MIN);
        old.map(|at| self.descriptor_channels.remove(at)).is_some()
    }

    fn refuse(&mut self, why: &str) {
        if self.log_limit.may_log() {
            let why = why.to_owned();
            self.shared.log.event(&Event::StrayConnection { from: None, why });
        }
    }

    fn take_in(&mut self, received: ReceivedDescriptors) {
        let ReceivedDescriptors {
            from,
            label: descriptor_channel::DescriptorTag { group, tag },
            descriptor,
        } = received;
        let shared = &self.shared;
        if from.index() >= shared.members.len() {
            return self.refuse("it speaks for a rank that does not exist");
        }
        let descriptor =
            descriptor.ok_or_else(|| descriptor_channel::lost(&shared.members[from.index()].peer));
        if let Err(error) = &descriptor {
            shared.log.event(&Event::Trouble(error.to_string()));
        }
        shared.state().deliver_descriptor((group, from, tag), descriptor);
        shared.changed.notify_all();
    }

    /// Flushes, ends this side of all connections and waits for the other sides, but not for long:
    /// closing earlier could destroy what peers have not read yet. A rank that gives up what all
    /// set up lets those that come late know why, who would take it for the culprit otherwise.
    fn say_goodbye(mut self) {
        let last_words = self.last_words();
        let has_given_up = last_words.len() > 1;
        let others = self.shared.members.len() - 1;
        let mut informed: BTreeSet<_> =
            self.connections.iter().map(|connection| connection.peer).collect();
        self.connections.iter_mut().for_each(|connection| connection.post_all(&last_words));
        let since = Instant::now();
        // Whoever gives up has used its time; peers that still live are quick.
        let linger = if has_given_up { SHORT_LINGER } else { LINGER };
        let waits = |informed: &BTreeSet<_>| has_given_up && informed.len() < others;
        while (!self.connections.is_empty() || waits(&informed)) && since.elapsed() < linger {
            if waits(&informed) {
                for mut connection in self.late_connections() {
                    informed.insert(connection.peer);
                    connection.post_all(&last_words);
                    self.connections.push(connection);
                }
            }
            for connection in &mut self.connections {
                connection.write();
                connection.part();
            }
            self.connections.retain_mut(|connection| matches!(connection.read(drop), Pass::Open));
            if !self.connections.is_empty() || waits(&informed) {
                let _ = self.wait(Duration::from_millis(20));
            }
        }
    }

    /// Why this rank gives up, if it does, and that nothing follows.
    fn last_words(&self) -> Vec<Arc<Vec<u8>>> {
        let why = self.shared.state().reason_notice(self.shared.me);
        let (subject, body) = (Subject::Goodbye, Vec::new());
        let end = Frame { subject, group: 0, number: 0, body }.to_bytes();
        why.into_iter().chain([end]).collect()
    }

    /// Peers that have connected since this rank leaves.
    fn late_connections(&mut self) -> Vec<Connection> {
        let Self { acceptor, shared, .. } = self;
        let admitted = acceptor.admit(|notice| shared.log.event(&notice.into()));
        // Those that cannot come in find out by themselves that this rank has ended.
        let admitted = admitted.unwrap_or_default().into_iter();
        let peers = admitted.filter(|admitted| shared.is_peer(admitted.purpose.from));
        let connection = |Admitted { stream, purpose, .. }: Admitted| {
            let id = shared.state().open_connection(purpose.from);
            Connection::new(id, purpose.from, stream, shared.limits.silence)
        };
        peers.map(connection).collect()
    }
}

impl Shared {
    fn deliver(&self, from: Rank, frames: Vec<Frame>) -> Result<(), Malformed> {
        let mut state = self.state();
        let mut delivered = Ok(());
        for frame in frames {
            match frame.subject {
                Subject::Departure => {
                    // Beyond u32 there is no rank, and `note_rumour` knows it not either.
                    state
                        .note_rumour(Rank(frame.number as u32), DepartureReason::read(&frame.body));
                }
                _ => delivered = delivered.and(state.deliver(from, frame)),
            }
        }
        // Answers may have been left for this very thread: it collects them before it waits.
        drop(state);
        self.changed.notify_all();
        delivered
    }
}

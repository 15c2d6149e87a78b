//! The thread that serves a switchboard's connections.

use std::mem;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use rustix::event::{PollFd, PollFlags, poll};

use super::line::{Line, Pass};
use super::mail::{Fate, LineId};
use super::{Shared, courier};
use crate::departure::Manner;
use crate::frame::{Frame, Subject};
use crate::hello::first_message;
use crate::log::Event;
use crate::socket;
use crate::wire::Malformed;

/// How long a stranger may take to introduce itself.
const MANNERS: Duration = Duration::from_secs(10);

/// Strangers at a time; the oldest must go when there are more.
const STRANGERS: usize = 4096;

/// How often the clock is looked at.
const TICK: Duration = Duration::from_secs(1);

/// How long a rank that leaves waits for its peers to take note.
const LINGER: Duration = Duration::from_secs(1);

/// The thread's own things.
pub(super) struct Pump {
    shared: Arc<Shared>,
    listener: TcpListener,
    /// Takes descriptors; none where the system does not allow such sockets.
    door: Option<OwnedFd>,
    lines: Vec<Line>,
    strangers: Vec<Stranger>,
    couriers: Vec<(OwnedFd, Instant)>,
}

struct Stranger {
    stream: TcpStream,
    since: Instant,
    inbox: Vec<u8>,
}

impl Pump {
    pub(super) fn new(shared: Arc<Shared>, listener: TcpListener) -> Self {
        let door = courier::listen(&courier::name(shared.world, shared.me));
        let door = door.inspect_err(|error| {
            let text = format!("file descriptors cannot be passed to this rank: {error}");
            shared.log.event(&Event::Trouble(text));
        });
        let (lines, strangers, couriers) = (Vec::new(), Vec::new(), Vec::new());
        Self { shared, listener, door: door.ok(), lines, strangers, couriers }
    }

    pub(super) fn run(mut self) {
        while !self.collect() {
            self.lines.iter_mut().for_each(Line::write);
            let news = self.wait(TICK);
            self.accept();
            self.read_strangers();
            self.read_lines(&news);
            self.read_couriers();
        }
        self.say_goodbye();
    }

    /// Takes over what callers have left; true if the switchboard is being dropped.
    fn collect(&mut self) -> bool {
        let mut state = self.shared.state();
        let new_lines = mem::take(&mut state.new_lines);
        let outgoing = mem::take(&mut state.outgoing);
        let leaving = state.leaving;
        drop(state);
        let new_lines = new_lines.into_iter();
        self.lines.extend(new_lines.map(|(id, peer, stream)| Line::new(id, peer, stream, vec![])));
        for (id, bytes) in outgoing {
            // Ids grow, and lines stand in their order unless many have ended.
            if let Some(line) = self.lines.iter_mut().find(|line| line.id == id) {
                line.post(bytes);
            }
        }
        leaving
    }

    /// Waits for something to happen; which lines have news, in their order.
    fn wait(&self, timeout: Duration) -> Vec<bool> {
        let strangers = self.strangers.iter().map(|stranger| &stranger.stream);
        let mut all: Vec<_> = strangers.map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
        all.extend(self.lines.iter().map(|line| PollFd::new(&line.stream, line.interest())));
        all.extend(self.couriers.iter().map(|(courier, _)| PollFd::new(courier, PollFlags::IN)));
        all.extend(self.door.iter().map(|door| PollFd::new(door, PollFlags::IN)));
        all.push(PollFd::new(&self.listener, PollFlags::IN));
        all.push(PollFd::new(&self.shared.bell, PollFlags::IN));
        // Interrupted or not, the caller looks at what is not a line.
        let _ = poll(&mut all, Some(&socket::timespec(timeout)));
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        all[self.strangers.len()..][..self.lines.len()].iter().map(socket::has_news).collect()
    }

    fn accept(&mut self) {
        loop {
            match socket::accept(&self.listener) {
                Ok(Some((stream, _))) => {
                    let since = Instant::now();
                    self.strangers.push(Stranger { stream, since, inbox: Vec::new() });
                }
                Ok(None) => return,
                Err(error) => return self.cannot_accept(&error),
            }
        }
    }

    fn cannot_accept(&self, error: &dyn std::error::Error) {
        let text = format!("connections of peers cannot be accepted: {error}");
        self.shared.log.event(&Event::Trouble(text));
        // Whoever waits stays there, and so would this thread spin.
        thread::sleep(Duration::from_millis(100));
    }

    fn read_strangers(&mut self) {
        let mut surplus = self.strangers.len().saturating_sub(STRANGERS);
        for mut stranger in mem::take(&mut self.strangers) {
            let outcome = match surplus {
                0 => self.listen_to(&mut stranger),
                _ => Err("too many connections wait to introduce themselves".to_owned()),
            };
            surplus = surplus.saturating_sub(1);
            match outcome {
                Ok(Some((peer, length))) => self.welcome(stranger, peer, length),
                Ok(None) => self.strangers.push(stranger),
                Err(why) => {
                    if let Ok(from) = stranger.stream.peer_addr() {
                        self.shared.log.event(&Event::StrayConnection { from, why });
                    }
                }
            }
        }
    }

    /// Who it is and how many bytes its introduction took.
    fn listen_to(&self, stranger: &mut Stranger) -> Result<Option<(Rank, usize)>, String> {
        let ended = socket::drain(&stranger.stream, &mut stranger.inbox, 1 << 20)
            .map_err(|error| error.to_string())?;
        let message = first_message(&stranger.inbox, self.shared.world);
        let introduced = message.and_then(|message| {
            message.map(|(body, length)| Ok((self.shared.introduced(body)?, length))).transpose()
        });
        match introduced.map_err(|Malformed(why)| why.to_owned())? {
            Some(introduced) => Ok(Some(introduced)),
            None if ended => Err("it ended".to_owned()),
            None if stranger.since.elapsed() > MANNERS => Err("it said nothing".to_owned()),
            None => Ok(None),
        }
    }

    fn welcome(&mut self, stranger: Stranger, peer: Rank, introduction_bytes: usize) {
        let Stranger { stream, inbox, since: _ } = stranger;
        let id = self.shared.state().open_line(peer);
        self.lines.push(Line::new(id, peer, stream, inbox[introduction_bytes..].to_vec()));
    }

    /// Reads the lines that have `news`, and those that were opened just now: what came behind an
    /// introduction lies in their inboxes already.
    fn read_lines(&mut self, news: &[bool]) {
        let mut over = Vec::new();
        let news = news.iter().copied().chain(std::iter::repeat(true));
        for (line, _) in self.lines.iter_mut().zip(news).filter(|(_, has_news)| *has_news) {
            let peer = line.peer;
            let mut frames = Vec::new();
            if let Pass::Over(manner) = line.read(|frame| frames.push(frame)) {
                over.push((line.id, peer, manner));
            }
            if !frames.is_empty() {
                self.shared.deliver(peer, frames);
            }
        }
        for (id, peer, manner) in over {
            self.lines.retain(|line| line.id != id);
            self.bury(id, peer, manner);
        }
    }

    /// Notes the end of a connection, and the fate of the peer if it was the last one.
    fn bury(&mut self, id: LineId, peer: Rank, manner: Manner) {
        let other = self.lines.iter().find(|line| line.peer == peer).map(|line| line.id);
        let mut state = self.shared.state();
        state.close_line(peer, id, other);
        if other.is_some() {
            return;
        }
        state.set_fate(peer, Fate::Departed(manner.clone()));
        drop(state);
        self.shared.changed.notify_all();
        if let Manner::Lost(story) = &manner {
            let story = format!("{} {story}", self.shared.members[peer.index()].peer.story());
            self.shared.log.event(&Event::RankLost { rank: peer, story });
        }
        let (number, body) = (u64::from(peer.0), manner.to_bytes());
        let notice = Frame { subject: Subject::Departure, group: 0, number, body }.to_bytes();
        self.lines.iter_mut().for_each(|line| line.post(notice.clone()));
    }

    fn read_couriers(&mut self) {
        while let Some(door) = &self.door {
            match courier::accept(door) {
                Ok(Some(connection)) => self.couriers.push((connection, Instant::now())),
                Ok(None) => break,
                Err(error) => {
                    self.cannot_accept(&error);
                    break;
                }
            }
        }
        let shared = &self.shared;
        self.couriers.retain(|(connection, since)| {
            match courier::receive(connection, shared.world) {
                Ok(Some((parcel, descriptor))) => {
                    shared.deliver_descriptor(&parcel, descriptor);
                    false
                }
                Ok(None) => since.elapsed() < MANNERS,
                Err(Malformed(why)) => {
                    let text = format!("a file descriptor did not reach this rank: {why}");
                    shared.log.event(&Event::Trouble(text));
                    false
                }
            }
        });
    }

    /// Flushes, ends this side of all connections and waits for the other sides, but not for long:
    /// closing earlier could destroy what peers have not read yet.
    fn say_goodbye(mut self) {
        let goodbye = Frame { subject: Subject::Goodbye, group: 0, number: 0, body: Vec::new() };
        let goodbye = goodbye.to_bytes();
        self.lines.iter_mut().for_each(|line| line.post(goodbye.clone()));
        let since = Instant::now();
        while !self.lines.is_empty() && since.elapsed() < LINGER {
            for line in &mut self.lines {
                line.write();
                line.part();
            }
            self.lines.retain_mut(|line| matches!(line.read(drop), Pass::Open));
            if !self.lines.is_empty() {
                let _ = self.wait(Duration::from_millis(20));
            }
        }
    }
}

impl Shared {
    fn deliver(&self, from: Rank, frames: Vec<Frame>) {
        let mut state = self.state();
        for frame in frames {
            match frame.subject {
                Subject::Departure => {
                    // Beyond u32 there is no rank, and `hear_rumour` knows it not either.
                    state.hear_rumour(Rank(frame.number as u32), Manner::read(&frame.body));
                }
                _ => state.deliver(from, frame),
            }
        }
        // Answers may have been left for this very thread: it collects them before it waits.
        drop(state);
        self.changed.notify_all();
    }

    fn deliver_descriptor(&self, parcel: &courier::Parcel, descriptor: OwnedFd) {
        let courier::Parcel { from, group, tag } = *parcel;
        self.state().deliver_descriptor((group, from, tag), descriptor);
        self.changed.notify_all();
    }
}

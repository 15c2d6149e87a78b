//! The root of a unique id: a thread that waits for all ranks and sends each the addresses of all.
//!
//! It serves one group and ends: when all ranks were answered, when those that came can't form a
//! group, when time is up, or when its maker aborts. Whoever does not prove to know the id's token,
//! or says nothing, is closed and keeps nobody waiting ([`crate::acceptor`]); what ranks and root
//! say is sealed ([`crate::introduction`]).
//!
//! Of several ids each has a root, and ranks are spread over them; all but the first are a
//! [`relay`].

mod relay;

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use rustix::event::{PollFd, PollFlags, poll};

use crate::abort::{Abort, Patience, seconds};
use crate::acceptor::{AUTHENTICATION_TIME, Acceptor, Admitted};
use crate::descriptors;
use crate::error::{Error, ErrorKind};
use crate::handshake::{Kind, Purpose, Session, Side};
use crate::identity;
use crate::introduction::{Answer, Introduction, next_introduction};
use crate::key::{Key, MAC_BYTES, digest};
use crate::log::{Event, Log};
use crate::membership::{self, Membership};
use crate::settings::Settings;
use crate::socket;
use crate::wire::Malformed;
use relay::Relay;

/// What a root takes: ranks, and the roots of further ids.
const KINDS: &[Kind] = &[Kind::Root, Kind::Relay];

/// How many ranks are expected until one has said it.
const RANKS_UNKNOWN: u32 = 256;

/// How often the root looks at the clock.
const TICK: Duration = Duration::from_millis(100);

/// What is held of what a connection has said and was not looked at.
const INBOX_LIMIT_BYTES: usize = 2 << 20;

/// How long the ranks may take to fetch their answers.
const FAREWELL: Duration = Duration::from_secs(30);

/// Listens at `address` and serves one group that knows `key` in a thread; answers where.
pub(crate) fn start(
    address: SocketAddr,
    key: Key,
    interface: Option<String>,
    settings: &Settings,
) -> Result<SocketAddr, Error> {
    let failed = |error| Error::system(format_args!("the root cannot listen on {address}"), error);
    let listener = socket::listen(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    settings.log.event(&Event::RootListens { address, interface });
    let root = Root {
        address,
        acceptor: Acceptor::new(listener, key, KINDS, Rank(0), RANKS_UNKNOWN),
        log: settings.log.clone(),
        abort: settings.abort.clone(),
        join_timeout: settings.join_timeout,
        root_timeout: settings.root_timeout,
        membership: Membership::default(),
        relay: None,
        connections: Vec::new(),
        first_came: None,
        next_reminder: Duration::from_secs(10),
    };
    let thread = thread::Builder::new().name("msccl-root".to_owned());
    let spawned = thread.spawn(move || root.serve());
    spawned.map_err(|error| Error::system("cannot start the root's thread", error))?;
    Ok(address)
}

struct Root {
    /// Where it listens.
    address: SocketAddr,
    acceptor: Acceptor,
    log: Arc<dyn Log>,
    abort: Abort,
    join_timeout: Duration,
    root_timeout: Duration,
    membership: Membership,
    /// What this root passes on, if it is not the first.
    relay: Option<Relay>,
    connections: Vec<RootConnection>,
    first_came: Option<Instant>,
    next_reminder: Duration,
}

/// A connection that knows the token. Its ranks are known once it has introduced them: one, or
/// those of a relay.
struct RootConnection {
    stream: TcpStream,
    from: SocketAddr,
    purpose: Purpose,
    session: Session,
    since: Instant,
    inbox: Vec<u8>,
    /// How many introductions it has sent.
    introductions: u64,
    ranks: Vec<Rank>,
}

impl Root {
    fn serve(mut self) {
        let started = Instant::now();
        let answer = loop {
            let nobody_came = self.first_came.is_none();
            if nobody_came && (self.abort.is_raised() || started.elapsed() > self.root_timeout) {
                return;
            }
            let news = self.wait();
            let served = self.accept().and_then(|()| self.read_connections(&news));
            match served.and_then(|()| self.watch_the_clock()) {
                Ok(()) if self.membership.is_complete() => break self.table().to_bytes(),
                Ok(()) => {}
                Err(error) => break Answer::Refusal(error).to_bytes(),
            }
            let patience = Patience::new(&self.abort, None);
            if let Some(answer) = self.relay.as_mut().and_then(|relay| relay.step(&patience)) {
                break answer;
            }
        };
        // Who comes from now on belongs to another group at this address, or is too late.
        let Self { connections, acceptor, .. } = self;
        drop(acceptor);
        farewell(connections, &answer);
    }

    fn table(&self) -> Answer {
        let world = identity::random_u128();
        let table =
            world.and_then(|world| Ok(Answer::Table { world, peers: self.membership.table()? }));
        table.unwrap_or_else(Answer::Refusal)
    }

    /// Waits for something to happen; which connections have news, in their order.
    fn wait(&self) -> Vec<bool> {
        let connections = self.connections.iter().map(|v| PollFd::new(&v.stream, PollFlags::IN));
        let mut all: Vec<_> = connections.collect();
        let waiting: Vec<_> = self.acceptor.descriptors().collect();
        all.extend(waiting.iter().map(|one| PollFd::new(one, PollFlags::IN)));
        let uplink = self.relay.as_ref().and_then(Relay::stream);
        all.extend(uplink.map(|stream| PollFd::new(stream, PollFlags::IN)));
        let pause = self.acceptor.pause().map_or(TICK, |pause| pause.min(TICK));
        // Interrupted or not, the caller looks at the clock.
        let _ = poll(&mut all, Some(&socket::timespec(pause)));
        all[..self.connections.len()].iter().map(socket::has_news).collect()
    }

    fn accept(&mut self) -> Result<(), Error> {
        let Self { acceptor, log, .. } = self;
        match acceptor.admit(|notice| log.event(&notice.into())) {
            Ok(admitted) => {
                self.connections.extend(admitted.into_iter().map(RootConnection::new));
                Ok(())
            }
            Err(error) => {
                let doing = format!("the root at {} cannot accept connections", self.address);
                let used_up = descriptors::are_used_up(&error);
                let error = Error::system(doing, error);
                if used_up && self.first_came.is_some() {
                    // Those that came must be informed, since those that are missing cannot come.
                    return Err(error);
                }
                self.log.event(&Event::Trouble(error.to_string()));
                thread::sleep(TICK);
                Ok(())
            }
        }
    }

    /// Listens to those who have `news`, who came just now, or who have not introduced themselves
    /// yet: of thousands who wait for the last rank, most have nothing to say.
    fn read_connections(&mut self, news: &[bool]) -> Result<(), Error> {
        let mut result = Ok(());
        let news = news.iter().copied().chain(std::iter::repeat(true));
        for (mut connection, has_news) in
            std::mem::take(&mut self.connections).into_iter().zip(news)
        {
            if !connection.ranks.is_empty() && !has_news {
                self.connections.push(connection);
                continue;
            }
            match self.listen_to(&mut connection) {
                Ok(arrival) => {
                    self.connections.push(connection);
                    result = result.and(arrival);
                }
                Err(why) => self.close(&connection, &why),
            }
        }
        result
    }

    /// An outer error concerns this connection, an inner one the whole group.
    fn listen_to(&mut self, connection: &mut RootConnection) -> Result<Result<(), Error>, String> {
        let ended = socket::drain(&connection.stream, &mut connection.inbox, INBOX_LIMIT_BYTES)
            .map_err(|error| error.to_string())?;
        let mut arrival = Ok(());
        while let Some(introduction) =
            connection.next_introduction().map_err(|Malformed(why)| why)?
        {
            if self.first_came.is_none() {
                self.first_came = Some(Instant::now());
                descriptors::make_room_for(introduction.ranks, &*self.log);
                self.acceptor.expect(introduction.ranks);
            }
            self.forget_earlier_attempt(&introduction);
            arrival = arrival.and(self.arrive(introduction));
        }
        if ended {
            return Err("it ended".to_owned());
        }
        match connection.ranks.is_empty() && connection.since.elapsed() > AUTHENTICATION_TIME {
            true => Err(format!("it said nothing for {}", seconds(AUTHENTICATION_TIME))),
            false => Ok(arrival),
        }
    }

    /// Notes an arrival, or passes it on to the first root.
    fn arrive(&mut self, introduction: Introduction) -> Result<(), Error> {
        match introduction.head {
            None => self.membership.arrive(introduction),
            Some(head) => {
                self.relay.get_or_insert_with(|| Relay::to(head)).arrive(introduction);
                Ok(())
            }
        }
    }

    /// A rank that connects again has given its earlier connection up.
    fn forget_earlier_attempt(&mut self, introduction: &Introduction) {
        if self.membership.attempt_of(introduction.peer.rank) == Some(introduction.attempt) {
            for connection in &mut self.connections {
                connection.ranks.retain(|rank| *rank != introduction.peer.rank);
            }
        }
    }

    fn close(&mut self, connection: &RootConnection, why: &str) {
        for rank in connection.ranks.iter().copied() {
            self.membership.leave(rank);
            if let Some(relay) = &mut self.relay {
                relay.leave(rank);
            }
            let text = format!("rank {} connected to the root and went away: {why}", rank.0);
            self.log.event(&Event::Trouble(text));
        }
        if connection.ranks.is_empty() {
            let why = why.to_owned();
            self.log.event(&Event::StrayConnection { from: Some(connection.from), why });
        }
    }

    fn watch_the_clock(&mut self) -> Result<(), Error> {
        let Some(first_came) = self.first_came else { return Ok(()) };
        if let Some(reason) = self.abort.reason() {
            let text = format!("the process that made the unique id gave up: {reason}");
            return Err(Error::new(ErrorKind::RankLost, text));
        }
        let waited = first_came.elapsed();
        if let Some(relay) = &self.relay {
            let limit = self.join_timeout.saturating_add(relay::GRACE);
            return if waited > limit { Err(relay.silence(limit)) } else { Ok(()) };
        }
        if waited > self.join_timeout && !self.membership.is_complete() {
            let limit = seconds(self.join_timeout);
            return Err(membership::nobody_else_came(&self.membership, self.address, &limit));
        }
        if waited > self.next_reminder {
            self.next_reminder *= 3;
            let expected = self.membership.expected().unwrap_or(0);
            let missing = self.membership.missing();
            let address = self.address;
            self.log.event(&Event::StillWaiting { expected, missing, address, waited });
        }
        Ok(())
    }
}

impl RootConnection {
    fn new(admitted: Admitted) -> Self {
        let Admitted { stream, address: from, purpose, session } = admitted;
        let (since, inbox, ranks) = (Instant::now(), Vec::new(), Vec::new());
        Self { stream, from, purpose, session, since, inbox, introductions: 0, ranks }
    }

    /// The next introduction that is there as a whole. A rank says one, its own.
    fn next_introduction(&mut self) -> Result<Option<Introduction>, Malformed> {
        let found = next_introduction(&self.session, self.introductions, &self.inbox)?;
        let Some((introduction, length)) = found else { return Ok(None) };
        self.inbox.drain(..length);
        self.introductions += 1;
        let own = introduction.peer.rank == self.purpose.from && self.introductions == 1;
        if self.purpose.kind == Kind::Root && !own {
            return Err(Malformed("it speaks for other ranks"));
        }
        self.ranks.push(introduction.peer.rank);
        Ok(Some(introduction))
    }
}

/// Gives `answer` to all `connections` that are ranks. Whoever does not take its own keeps none
/// from theirs.
fn farewell(connections: Vec<RootConnection>, answer: &[u8]) {
    let of_answer = digest(answer);
    let known = connections.into_iter().filter(|connection| !connection.ranks.is_empty());
    // Rank 0 may live in this process, and end it as soon as it has received it.
    let (first, others): (Vec<_>, Vec<_>) =
        known.partition(|connection| connection.ranks.contains(&Rank(0)));
    for waiting in [others, first] {
        let replies = waiting.into_iter().map(|connection| PendingReply {
            code: connection.session.seal(Side::Listener, 0, &of_answer),
            stream: connection.stream,
            written: 0,
        });
        deliver(replies.collect(), answer);
    }
}

/// An answer on its way.
struct PendingReply {
    stream: TcpStream,
    code: [u8; MAC_BYTES],
    written: usize,
}

fn deliver(mut replies: Vec<PendingReply>, answer: &[u8]) {
    let since = Instant::now();
    replies.retain_mut(|reply| reply.goes_on(answer));
    while !replies.is_empty() && since.elapsed() < FAREWELL {
        let streams = replies.iter().map(|it| PollFd::new(&it.stream, PollFlags::OUT));
        let mut streams: Vec<_> = streams.collect();
        // Interrupted or not, the rest is tried again.
        let _ = poll(&mut streams, Some(&socket::timespec(TICK)));
        replies.retain_mut(|reply| reply.goes_on(answer));
    }
}

impl PendingReply {
    /// Writes what the connection takes; false once all is written, or nobody will take it.
    fn goes_on(&mut self, answer: &[u8]) -> bool {
        let length = (answer.len() as u32).to_le_bytes();
        let mut before = 0;
        for part in [&length[..], answer, &self.code] {
            while self.written < before + part.len() {
                match (&self.stream).write(&part[self.written - before..]) {
                    Ok(written) => self.written += written,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                }
            }
            before += part.len();
        }
        // Whoever does not receive it notices by itself that the connection ended.
        let _: io::Result<()> = self.stream.shutdown(Shutdown::Write);
        false
    }
}

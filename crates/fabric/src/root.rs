//! The root of a unique id: a thread that waits for all ranks and tells each where the others are.
//!
//! It serves one group and ends: when all ranks were answered, when those that came can't form a
//! group, when time is up, or when its maker aborts. Whoever connects without the id's token is closed and forgotten;
//! whoever says nothing is closed after a while, and keeps nobody waiting.
//!
//! Of several ids each has a root, and ranks are spread over them; all but the first are a [`relay`].

mod relay;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use rustix::event::{PollFd, PollFlags, poll};

use crate::abort::{Abort, Patience, seconds};
use crate::descriptors;
use crate::error::{Error, ErrorKind};
use crate::hello::{Answer, Hello, first_message};
use crate::identity;
use crate::log::{Event, Log};
use crate::roll::{self, Roll};
use crate::settings::Settings;
use crate::socket;
use crate::wire::{Malformed, Writer};
pub(crate) use relay::Head;
use relay::Relay;

/// How long a visitor may take to introduce itself.
const MANNERS: Duration = Duration::from_secs(10);

/// Visitors that have not introduced themselves yet; the oldest must go when there are more.
const STRANGERS: usize = 4096;

/// How often the root looks at the clock.
const TICK: Duration = Duration::from_millis(100);

/// How long the ranks may take to fetch their answers.
const FAREWELL: Duration = Duration::from_secs(30);

/// Listens at `address` and serves one group that knows `token` in a thread; answers where.
pub(crate) fn start(
    address: SocketAddr,
    token: u128,
    interface: Option<String>,
    settings: &Settings,
) -> Result<SocketAddr, Error> {
    let failed = |error| Error::system(format_args!("the root cannot listen on {address}"), error);
    let listener = socket::listen(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    settings.log.event(&Event::RootListens { address, interface });
    let root = Root {
        address,
        token,
        log: settings.log.clone(),
        abort: settings.abort.clone(),
        join_timeout: settings.join_timeout,
        root_timeout: settings.root_timeout,
        roll: Roll::default(),
        relay: None,
        visitors: Vec::new(),
        first_came: None,
        next_reminder: Duration::from_secs(10),
    };
    let thread = thread::Builder::new().name("msccl-root".to_owned());
    let spawned = thread.spawn(move || root.serve(listener));
    spawned.map_err(|error| Error::system("cannot start the root's thread", error))?;
    Ok(address)
}

struct Root {
    /// Where it listens.
    address: SocketAddr,
    token: u128,
    log: Arc<dyn Log>,
    abort: Abort,
    join_timeout: Duration,
    root_timeout: Duration,
    roll: Roll,
    /// What this root passes on, if it is not the first.
    relay: Option<Relay>,
    visitors: Vec<Visitor>,
    first_came: Option<Instant>,
    next_reminder: Duration,
}

/// A connection, whose ranks are known once it has introduced itself: one, or those of a relay.
struct Visitor {
    stream: TcpStream,
    from: SocketAddr,
    since: Instant,
    inbox: Vec<u8>,
    ranks: Vec<Rank>,
}

impl Root {
    fn serve(mut self, listener: TcpListener) {
        let started = Instant::now();
        let answer = loop {
            let nobody_came = self.first_came.is_none();
            if nobody_came && (self.abort.is_raised() || started.elapsed() > self.root_timeout) {
                return;
            }
            let news = self.wait(&listener);
            let served = self.accept(&listener).and_then(|()| self.listen_to_visitors(&news));
            match served.and_then(|()| self.watch_the_clock()) {
                Ok(()) if self.roll.is_complete() => break framed(&self.table()),
                Ok(()) => {}
                Err(error) => break framed(&Answer::Refusal(error)),
            }
            let patience = Patience::new(&self.abort, None);
            if let Some(answer) = self.relay.as_mut().and_then(|relay| relay.step(&patience)) {
                break answer;
            }
        };
        // Who comes from now on belongs to another group at this address, or is too late.
        drop(listener);
        self.answer(&answer);
    }

    fn table(&self) -> Answer {
        let world = identity::random_u128();
        let table = world.and_then(|world| Ok(Answer::Table { world, peers: self.roll.table()? }));
        table.unwrap_or_else(Answer::Refusal)
    }

    /// Waits for something to happen; which visitors have news, in their order.
    fn wait(&self, listener: &TcpListener) -> Vec<bool> {
        let visitors = self.visitors.iter().map(|v| PollFd::new(&v.stream, PollFlags::IN));
        let mut all: Vec<_> = visitors.chain([PollFd::new(listener, PollFlags::IN)]).collect();
        let uplink = self.relay.as_ref().and_then(Relay::stream);
        all.extend(uplink.map(|stream| PollFd::new(stream, PollFlags::IN)));
        // Interrupted or not, the caller looks at the clock.
        let _ = poll(&mut all, Some(&socket::timespec(TICK)));
        all[..self.visitors.len()].iter().map(socket::has_news).collect()
    }

    fn accept(&mut self, listener: &TcpListener) -> Result<(), Error> {
        loop {
            match socket::accept(listener) {
                Ok(Some((stream, from))) => {
                    let since = Instant::now();
                    self.visitors.push(Visitor {
                        stream,
                        from,
                        since,
                        inbox: vec![],
                        ranks: vec![],
                    });
                }
                Ok(None) => return Ok(()),
                Err(error) => {
                    // Such as too many open files: those that came must not be forgotten.
                    self.log.event(&Event::Trouble(format!("the root cannot accept: {error}")));
                    thread::sleep(TICK);
                    return Ok(());
                }
            }
        }
    }

    /// Listens to those who have `news`, who came just now, or who have not introduced themselves yet:
    /// of thousands who wait for the last rank, most have nothing to say.
    fn listen_to_visitors(&mut self, news: &[bool]) -> Result<(), Error> {
        let strangers = self.visitors.iter().filter(|visitor| visitor.ranks.is_empty()).count();
        let mut surplus = strangers.saturating_sub(STRANGERS);
        let mut result = Ok(());
        let news = news.iter().copied().chain(std::iter::repeat(true));
        for (mut visitor, has_news) in std::mem::take(&mut self.visitors).into_iter().zip(news) {
            if !visitor.ranks.is_empty() && !has_news {
                self.visitors.push(visitor);
                continue;
            }
            if visitor.ranks.is_empty() && surplus > 0 {
                surplus -= 1;
                self.close(&visitor, "too many connections wait to introduce themselves");
                continue;
            }
            match self.listen_to(&mut visitor) {
                Ok(arrival) => {
                    self.visitors.push(visitor);
                    result = result.and(arrival);
                }
                Err(why) => self.close(&visitor, &why),
            }
        }
        result
    }

    /// An outer error concerns this visitor, an inner one the whole group.
    fn listen_to(&mut self, visitor: &mut Visitor) -> Result<Result<(), Error>, String> {
        let ended = socket::drain(&visitor.stream, &mut visitor.inbox, 32 << 20)
            .map_err(|error| error.to_string())?;
        let mut arrival = Ok(());
        while let Some((hello, length)) =
            self.hello(&visitor.inbox).map_err(|Malformed(why)| why)?
        {
            visitor.inbox.drain(..length);
            visitor.ranks.push(hello.peer.rank);
            if self.first_came.is_none() {
                self.first_came = Some(Instant::now());
                descriptors::make_room_for(hello.ranks, &*self.log);
            }
            self.forget_earlier_attempt(&hello);
            arrival = arrival.and(self.arrive(hello));
        }
        if ended {
            return Err("it ended".to_owned());
        }
        match visitor.ranks.is_empty() && visitor.since.elapsed() > MANNERS {
            true => Err(format!("it said nothing for {}", seconds(MANNERS))),
            false => Ok(arrival),
        }
    }

    fn hello(&self, inbox: &[u8]) -> Result<Option<(Hello, usize)>, Malformed> {
        let message = first_message(inbox, self.token)?;
        message.map(|(body, length)| Ok((Hello::from_bytes(body)?, length))).transpose()
    }

    /// Notes an arrival, or that it must be told elsewhere.
    fn arrive(&mut self, hello: Hello) -> Result<(), Error> {
        match hello.head {
            None => self.roll.arrive(hello),
            Some(head) => {
                self.relay.get_or_insert_with(|| Relay::to(head)).arrive(hello);
                Ok(())
            }
        }
    }

    /// A rank that connects again has given its earlier connection up.
    fn forget_earlier_attempt(&mut self, hello: &Hello) {
        if self.roll.attempt_of(hello.peer.rank) == Some(hello.attempt) {
            for visitor in &mut self.visitors {
                visitor.ranks.retain(|rank| *rank != hello.peer.rank);
            }
        }
    }

    fn close(&mut self, visitor: &Visitor, why: &str) {
        for rank in visitor.ranks.iter().copied() {
            self.roll.leave(rank);
            if let Some(relay) = &mut self.relay {
                relay.leave(rank);
            }
            let text = format!("rank {} connected to the root and went away: {why}", rank.0);
            self.log.event(&Event::Trouble(text));
        }
        if visitor.ranks.is_empty() {
            let why = why.to_owned();
            self.log.event(&Event::StrayConnection { from: visitor.from, why });
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
        if waited > self.join_timeout && !self.roll.is_complete() {
            let limit = seconds(self.join_timeout);
            return Err(roll::nobody_else_came(&self.roll, self.address, &limit));
        }
        if waited > self.next_reminder {
            self.next_reminder *= 3;
            let expected = self.roll.expected().unwrap_or(0);
            let missing = self.roll.missing();
            let address = self.address;
            self.log.event(&Event::StillWaiting { expected, missing, address, waited });
        }
        Ok(())
    }

    fn answer(&self, answer: &[u8]) {
        let patience = Patience::new(&Abort::new(), Some(FAREWELL));
        let known = self.visitors.iter().filter(|visitor| !visitor.ranks.is_empty());
        // Rank 0 may live in this process, and end it as soon as it has heard.
        let (first, others): (Vec<_>, Vec<_>) =
            known.partition(|visitor| visitor.ranks.contains(&Rank(0)));
        for visitor in others.into_iter().chain(first) {
            // Whoever does not hear it notices by itself that the connection ended.
            if socket::send_all(&visitor.stream, answer, &patience).is_ok() {
                let _: io::Result<()> = visitor.stream.shutdown(std::net::Shutdown::Write);
            }
        }
    }
}

/// An answer behind its length.
fn framed(answer: &Answer) -> Vec<u8> {
    let body = answer.to_bytes();
    let mut writer = Writer::default();
    writer.u32(body.len() as u32);
    writer.0.extend(body);
    writer.0
}

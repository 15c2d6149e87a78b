//! Joining: from an id to a group.
//!
//! A rank finds the root, introduces itself, learns where everyone is, connects to rank 0 and meets
//! the others there. If the root's connection ends before it answered, as happens when another
//! group's root was still at a fixed address, the rank tries again for as long as its time lasts.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use msccl_collective::Rank;

use crate::abort::Patience;
use crate::descriptors;
use crate::dial;
use crate::error::{Error, ErrorKind};
use crate::group::Group;
use crate::handshake::{Kind, Purpose, Side};
use crate::identity::{self, Peer};
use crate::interface;
use crate::introduction::{ANSWER_LIMIT_BYTES, Answer, Head, Introduction, opened, sealed};
use crate::key::{Key, MAC_BYTES};
use crate::log::Event;
use crate::root;
use crate::settings::Settings;
use crate::socket::{self, Failure};
use crate::transport::{Limits, Member, Transport};
use crate::unique_id::UniqueId;
use crate::wire::Malformed;

/// How much of an answer is read at once.
const PIECE_BYTES: usize = 1 << 20;

/// How much longer a rank waits than the root, whose verdict says more.
const GRACE: Duration = Duration::from_millis(600);

/// Who wants to join.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinRequest {
    /// Its rank.
    pub rank: Rank,
    /// How many ranks it expects, itself included.
    pub ranks: u32,
    /// Names and values on which all ranks must agree, such as the library's version or the
    /// fingerprint of loaded algorithms.
    pub facts: Vec<(String, String)>,
    /// What its peers should know of it, such as its device.
    pub description: Vec<u8>,
}

impl Group {
    /// Joins the group of `ids` and returns when all ranks have. Where there are several ids, which
    /// all ranks must give in the same order, ranks are spread over their roots.
    pub fn join(
        ids: &[UniqueId],
        request: &JoinRequest,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let started = Instant::now();
        let JoinRequest { rank, ranks, .. } = *request;
        if rank.0 >= ranks {
            let text = format!("rank {} does not exist among {ranks} ranks", rank.0);
            return Err(Error::invalid(text));
        }
        let first =
            ids.first().ok_or_else(|| Error::invalid("there is no unique id to join by"))?;
        let id = ids.get(rank.index() % ids.len()).filter(|id| !id.fixed).unwrap_or(first);
        let head = Head { address: first.address, token: first.token };
        let head = (id != first).then_some(head);
        if id.fixed && rank == Rank(0) {
            root::start(id.address, id.key(), None, settings)?;
        }
        let deadline = Patience::new(&settings.abort, Some(settings.join_timeout));
        let arrival = Arrival { id, head, request, settings, deadline: &deadline };
        let Found { world, peers, listener } = arrival.introduce()?;
        // No more crosses the wire than what it takes to derive this.
        let key = first.key().derive("world", &[&world.to_le_bytes()]);
        let group = enter(request, key, peers, listener, settings, deadline)?;
        let took = started.elapsed();
        settings.log.event(&Event::Joined { rank, ranks, took });
        Ok(group)
    }
}

/// What the root has answered.
struct Found {
    /// What the key of these ranks is derived with.
    world: u128,
    peers: Vec<Peer>,
    /// Where this rank listens.
    listener: TcpListener,
}

/// Connects the rank to its peers and meets them.
fn enter(
    request: &JoinRequest,
    key: Key,
    peers: Vec<Peer>,
    listener: TcpListener,
    settings: &Settings,
    deadline: Patience,
) -> Result<Group, Error> {
    let JoinRequest { rank, .. } = *request;
    let member = |peer: Peer| Member { world: peer.rank, peer };
    let hub = peers.first().map(|peer| peer.address);
    let members: Arc<[_]> = peers.into_iter().map(member).collect();
    if rank == Rank(0) {
        // Everyone connects to the hub of the first group.
        descriptors::make_room_for(request.ranks, &*settings.log);
    }
    let limits = Limits { connect: settings.connect_timeout, silence: settings.silence_timeout };
    let log = settings.log.clone();
    let id = key.public_number("group");
    let transport = Transport::start(rank, key, members.clone(), listener, limits, log)?;
    let timeout = settings.operation_timeout;
    let group = Group::new(Arc::new(transport), id, rank, members, timeout, deadline);
    group.begin_setup();
    group.meet(settings.join_timeout).inspect_err(|error| group.give_up(error)).map_err(
        |error| match (error.kind(), hub) {
            // Whoever did not come knows where, and could not get there.
            (ErrorKind::TimedOut, Some(hub)) => error
                .hint(format_args!("every rank must reach rank 0 at {hub}, past every firewall")),
            _ => error,
        },
    )?;
    group.end_setup();
    Ok(group)
}

/// A rank that connects to the root.
struct Arrival<'a> {
    id: &'a UniqueId,
    head: Option<Head>,
    request: &'a JoinRequest,
    settings: &'a Settings,
    /// Until when all must be there.
    deadline: &'a Patience,
}

impl Arrival<'_> {
    /// Tries until the root answers.
    fn introduce(&self) -> Result<Found, Error> {
        let connecting = self.deadline.at_most(self.settings.connect_timeout);
        // The root's own verdict says more.
        let staying = self.deadline.longer_by(GRACE);
        let attempt = identity::random_u128()? as u64;
        loop {
            let stream = self.connect_to_root(&connecting)?;
            let (listener, interface) = self.listen(&stream)?;
            let introduction = self.introduction(&listener, attempt)?;
            match self.ask(&stream, &introduction, &staying) {
                Ok(Answer::Table { world, peers }) => {
                    self.check_table(&peers)?;
                    let address = introduction.peer.address;
                    let rank = self.request.rank;
                    self.settings.log.event(&Event::RankListens { rank, address, interface });
                    return Ok(Found { world, peers, listener });
                }
                Ok(Answer::Refusal(error)) => {
                    // A flag that this rank shares with the root ends both; it is its own to
                    // report.
                    staying.check().map_err(|stop| self.no_answer(stop.into(), &staying))?;
                    return Err(error);
                }
                Err(Failure::Io(error))
                    if connecting.check().is_ok() && !descriptors::are_used_up(&error) =>
                {
                    // A pause, lest a root that closes every connection be stormed.
                    let _ = socket::sleep(Duration::from_millis(20), &connecting);
                }
                Err(failure) => return Err(self.no_answer(failure, &staying)),
            }
        }
    }

    fn connect_to_root(&self, patience: &Patience) -> Result<TcpStream, Error> {
        let address = self.id.address;
        socket::connect(address, patience).map_err(|failure| {
            let what = format!("cannot reach the root of the unique id at {address}");
            match failure {
                Failure::Stopped(stop) => Error::stopped(stop, patience, what),
                Failure::Io(error) => {
                    let hint = "the process that made the id must be alive, and a route must lead \
                                to the network interface that it chose (NCCL_SOCKET_IFNAME \
                                chooses another), past every firewall";
                    let limit = patience.limit();
                    let what = format!("{what}, tried for {limit}");
                    Error::io(ErrorKind::Network, what, error, hint)
                }
            }
        })
    }

    /// Listens on the chosen interface, or else on the one by which the root was reached: whoever
    /// reaches the root reaches that too.
    fn listen(&self, to_root: &TcpStream) -> Result<(TcpListener, Option<String>), Error> {
        let choice = &self.settings.interface;
        let (address, interface) = match &choice.filter {
            Some(_) => {
                let chosen = interface::choose(choice, Some(self.id.address))?;
                (chosen.any_port(), Some(chosen.name))
            }
            None => {
                let local = to_root.local_addr();
                let mut local = local.map_err(|error| Error::system("no local address", error))?;
                local.set_port(0);
                (local, None)
            }
        };
        let listener = socket::listen(address);
        let failed = |error| Error::system(format_args!("cannot listen on {address}"), error);
        Ok((listener.map_err(failed)?, interface))
    }

    fn introduction(&self, listener: &TcpListener, attempt: u64) -> Result<Introduction, Error> {
        let JoinRequest { rank, ranks, facts, description } = self.request;
        let address: SocketAddr = listener
            .local_addr()
            .map_err(|error| Error::system("the listening socket has no address", error))?;
        let host = self.settings.host.as_deref();
        let peer = identity::here(*rank, address, host, description)?;
        Ok(Introduction { ranks: *ranks, attempt, head: self.head, facts: facts.clone(), peer })
    }

    fn ask(
        &self,
        root: &TcpStream,
        introduction: &Introduction,
        wait: &Patience,
    ) -> Result<Answer, Failure> {
        let from = self.request.rank;
        let purpose = Purpose { kind: Kind::Root, from, to: Rank(0), channel: 0 };
        let session = dial::prove(root, &self.id.key(), purpose, wait)?;
        let introduction = sealed(&session, Side::Dialler, 0, &introduction.to_bytes(&session));
        socket::send_all(root, &introduction, wait)?;
        let mut length = [0; 4];
        socket::receive_exact(root, &mut length, wait)?;
        let body = (u32::from_le_bytes(length) as usize).min(ANSWER_LIMIT_BYTES);
        let mut answer = length.to_vec();
        while answer.len() < 4 + body + MAC_BYTES {
            // What is only claimed takes no memory.
            let filled = answer.len();
            answer.resize((4 + body + MAC_BYTES).min(filled + PIECE_BYTES), 0);
            socket::receive_exact(root, &mut answer[filled..], wait)?;
        }
        let malformed = |Malformed(why)| Failure::Io(std::io::Error::other(why));
        let opened = opened(&session, Side::Listener, 0, &answer, ANSWER_LIMIT_BYTES);
        let (body, _) = opened
            .map_err(malformed)?
            .ok_or_else(|| malformed(Malformed("its answer is too long")))?;
        Answer::from_bytes(body).map_err(malformed)
    }

    /// Every rank has its place in the table, this one too.
    fn check_table(&self, peers: &[Peer]) -> Result<(), Error> {
        let in_order = peers.iter().enumerate().all(|(place, peer)| peer.rank.index() == place);
        match in_order && peers.len() == self.request.ranks as usize {
            true => Ok(()),
            false => Err(Error::network("the root's table of ranks makes no sense")),
        }
    }

    fn no_answer(&self, failure: Failure, patience: &Patience) -> Error {
        let what = format!("the root of the unique id at {} did not answer", self.id.address);
        match failure {
            Failure::Stopped(stop) => Error::stopped(stop, patience, what),
            Failure::Io(error) => {
                let hint = "the process that made the id has ended, or another root took its place \
                            (at a fixed address all ranks must have the same MSCCL_SECRET_FILE)";
                Error::io(ErrorKind::Network, what, error, hint)
            }
        }
    }
}

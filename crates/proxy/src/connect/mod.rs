//! How rails to a peer come about, without ever waiting.
//!
//! Both ranks say [`Introduction`] through the group as soon as they want links, and each learns
//! from the other's what it must know. If both have devices for RDMA, they find out alike which
//! ports to join ([`pairs`]), send each other their ends of these rails, connect them, and report
//! to each other whether that succeeded; if it did on both, these are the rails. If not, they may
//! have other ports to try. Otherwise the rails are TCP connections, which the higher rank makes to
//! the lower one. Whoever gives up says so and why.

mod attempt;
mod handshake;
mod pairs;
mod verbs;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::mem;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{ErrorKind, Group, Key, Kind, Purpose};
use serde::Serialize;

use crate::endpoint::Endpoints;
use crate::log::Log;
use crate::rail::Rail;
use crate::session::Session;
use crate::tag::RAILS_LIMIT;
use crate::tcp::{Dial, Dialled, IncomingConnection, TcpRail, WELCOME};
use attempt::{Meeting, RailAttempt};
use handshake::{ConnectRefusal, NotReceived, check, receive, remote_endpoints};
pub(crate) use handshake::{
    EndpointFacts, Introduction, RdmaPort, TcpOffer, VERSION, check_endpoints, send,
};
use pairs::{PortPair, attempts};
pub(crate) use verbs::Verbs;

/// What the messages of the group are tagged with.
pub(crate) const INTRODUCTION_TAG: u64 = u64::from_le_bytes(*b"prxhello");
const REFUSAL_TAG: u64 = u64::from_le_bytes(*b"prxrefus");

/// What connecting needs of the proxy.
#[derive(Clone, Copy)]
pub(crate) struct ConnectContext<'a> {
    pub(crate) group: &'a Group,
    /// What rails are guarded with.
    pub(crate) key: &'a Key,
    pub(crate) silence: Duration,
    pub(crate) timeout: Duration,
    pub(crate) rdma_required: bool,
    pub(crate) log: &'a dyn Log,
}

/// A connection that is being made.
pub(crate) struct ConnectAttempt {
    me: Rank,
    pub(crate) peer: Rank,
    endpoints: Endpoints,
    ours: Introduction,
    verbs: Option<Verbs>,
    /// Ports to join over RDMA that were not tried yet.
    untried: VecDeque<Vec<PortPair>>,
    /// Why those that were tried cannot be joined.
    tried: Vec<String>,
    /// Since when both want it.
    since: Option<Instant>,
    /// Since when the present ports are being joined.
    joining_since: Option<Instant>,
    stage: Stage,
}

enum Stage {
    /// The peer has not said what it wants.
    NotReceived,
    /// The peer knows this rank's ends of rails over RDMA, and has not sent its own.
    Offering { theirs: Introduction, attempt: RailAttempt },
    /// Rails over RDMA are being connected; of the next one the peer's device does not answer yet.
    Connecting { theirs: Introduction, meeting: Meeting },
    /// Rails over RDMA are connected here, unless the text says why not; the peer has not said so
    /// yet.
    Judging { theirs: Introduction, rails: Result<Vec<Box<dyn Rail>>, String> },
    /// Sockets are being connected.
    Sockets {
        theirs: Introduction,
        dials: BTreeMap<u32, Box<Dial>>,
        done: BTreeMap<u32, TcpStream>,
        why: String,
    },
}

/// What became of a connection that is being made.
pub(crate) enum AttemptResult {
    /// Nothing yet; whether something moved.
    NotYet(bool),
    /// The peer has left in order.
    Left,
    /// Everything.
    Done { session: Box<Session>, why: String },
}

/// Why there is no connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AttemptFailed {
    pub(crate) kind: ErrorKind,
    pub(crate) doing: String,
    pub(crate) why: String,
}

impl AttemptFailed {
    fn new(kind: ErrorKind, doing: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind, doing: doing.into(), why: why.into() }
    }
}

impl From<NotReceived> for AttemptFailed {
    fn from(error: NotReceived) -> Self {
        let doing = "while the two agreed on a connection";
        match error {
            NotReceived::Gone(why) => Self::new(ErrorKind::RankLost, doing, why),
            NotReceived::Odd(why) => Self::new(ErrorKind::Mismatch, doing, why),
        }
    }
}

impl ConnectAttempt {
    /// `ours` was sent to the peer, and `verbs` stand behind the ports that it lists.
    pub(crate) fn new(
        me: Rank,
        peer: Rank,
        endpoints: Endpoints,
        ours: Introduction,
        verbs: Option<Verbs>,
    ) -> Self {
        Self {
            me,
            peer,
            endpoints,
            ours,
            verbs,
            untried: VecDeque::new(),
            tried: Vec::new(),
            since: None,
            joining_since: None,
            stage: Stage::NotReceived,
        }
    }

    /// Whether messages wait for the connection.
    pub(crate) fn has_messages(&mut self) -> bool {
        self.endpoints.send_endpoints.iter_mut().any(|send_endpoint| send_endpoint.posted() > 0)
    }

    /// Whether the peer may count the links as made already. It receives no refusal then, but a
    /// farewell over them.
    pub(crate) fn may_stand_there(&self) -> bool {
        match &self.stage {
            Stage::Judging { theirs: _, rails } => rails.is_ok(),
            // Whoever is dialled is done when it has answered, and whoever dials when it has
            // received that.
            Stage::Sockets { .. } => self.dials(),
            Stage::NotReceived | Stage::Offering { .. } | Stage::Connecting { .. } => false,
        }
    }

    /// Goes on as far as that is possible at once; of no use any more when it is done or has
    /// failed.
    pub(crate) fn go_on(
        &mut self,
        context: ConnectContext<'_>,
    ) -> Result<AttemptResult, AttemptFailed> {
        // The peer's introduction comes before that, and may say why in this rank's own words.
        let is_introduced = !matches!(self.stage, Stage::NotReceived);
        if is_introduced && let Some(refusal) = receive(context.group, self.peer, REFUSAL_TAG)? {
            return match refusal {
                ConnectRefusal::Left => Ok(AttemptResult::Left),
                ConnectRefusal::Failed(why) => {
                    Err(AttemptFailed::new(ErrorKind::Network, "the peer has given up", why))
                }
            };
        }
        if self.since.is_some_and(|since| since.elapsed() > context.timeout) {
            return Err(self.too_late(context.timeout));
        }
        match mem::replace(&mut self.stage, Stage::NotReceived) {
            Stage::NotReceived => self.listen(context),
            Stage::Offering { theirs, attempt } => self.meet(context, theirs, attempt),
            Stage::Connecting { theirs, meeting } => self.connect_rdma(context, theirs, meeting),
            Stage::Judging { theirs, rails } => self.judge(context, theirs, rails),
            Stage::Sockets { theirs, dials, done, why } => {
                self.dial_on(context, theirs, dials, done, why)
            }
        }
    }

    /// Lets the peer know that there will be no links, so that it need not wait.
    pub(crate) fn refuse(&self, group: &Group, failed: &AttemptFailed) {
        let AttemptFailed { kind: _, doing, why } = failed;
        let refusal = ConnectRefusal::Failed(format!("{doing}: {why}"));
        // A peer that has departed needs no word.
        let _ = send(group, self.peer, REFUSAL_TAG, &refusal);
    }

    /// Lets the peer know that this rank leaves before the links stand; with messages for it, that
    /// is a failure.
    pub(crate) fn leave(&mut self, group: &Group) {
        let refusal = match self.has_messages() {
            true => ConnectRefusal::Failed(
                "it has left, and the links did not stand in time to send what it had".to_owned(),
            ),
            false => ConnectRefusal::Left,
        };
        // As above.
        let _ = send(group, self.peer, REFUSAL_TAG, &refusal);
    }

    fn too_late(&self, timeout: Duration) -> AttemptFailed {
        let doing = match &self.stage {
            Stage::NotReceived => "while the peer was to say how it can be reached".to_owned(),
            Stage::Offering { .. } => "while the two agreed on rails over RDMA".to_owned(),
            Stage::Connecting { .. } => "while connecting over RDMA".to_owned(),
            Stage::Judging { .. } => "while the peer was to connect over RDMA".to_owned(),
            Stage::Sockets { theirs, .. } if self.dials() => {
                format!("while connecting to {}", theirs.tcp.address)
            }
            Stage::Sockets { .. } => {
                format!("while the peer was to connect to {}", self.ours.tcp.address)
            }
        };
        let why = format!(
            "not within {} s; is a firewall in the way, or the wrong network interface chosen?",
            timeout.as_secs()
        );
        AttemptFailed::new(ErrorKind::TimedOut, doing, why)
    }

    fn listen(&mut self, context: ConnectContext<'_>) -> Result<AttemptResult, AttemptFailed> {
        let Some(theirs) = receive::<Introduction>(context.group, self.peer, INTRODUCTION_TAG)?
        else {
            return Ok(AttemptResult::NotYet(false));
        };
        self.since = Some(Instant::now());
        let checked = check(&self.ours, &theirs);
        checked.map_err(|why| {
            AttemptFailed::new(ErrorKind::Mismatch, "the two ends do not fit", why)
        })?;
        match (&self.ours.rdma, &theirs.rdma) {
            (Ok(here), Ok(there)) => {
                let near =
                    |endpoints: &[RdmaPort]| endpoints.iter().map(|port| port.near).collect();
                let (here, there): (Vec<_>, Vec<_>) = (near(here), near(there));
                let crosses = self.ours.crosses && theirs.crosses;
                self.untried = attempts(&here, &there, crosses).into();
                self.offer(context, theirs)
            }
            (Err(why), _) => {
                let why = why.clone();
                self.start_sockets(context, theirs, why)
            }
            (_, Err(why)) => {
                let why = format!("the peer: {why}");
                self.start_sockets(context, theirs, why)
            }
        }
    }

    fn send(
        &self,
        context: ConnectContext<'_>,
        tag: u64,
        message: &impl Serialize,
    ) -> Result<(), AttemptFailed> {
        send(context.group, self.peer, tag, message).map_err(|error| {
            AttemptFailed::new(
                error.kind(),
                "while the two agreed on a connection",
                error.to_string(),
            )
        })
    }

    /// Whether this rank connects and the peer accepts.
    fn dials(&self) -> bool {
        self.me > self.peer
    }

    fn start_sockets(
        &mut self,
        context: ConnectContext<'_>,
        theirs: Introduction,
        why: String,
    ) -> Result<AttemptResult, AttemptFailed> {
        if context.rdma_required {
            let doing = "only RDMA is allowed on this host";
            return Err(AttemptFailed::new(ErrorKind::System, doing, why));
        }
        let mut dials = BTreeMap::new();
        if self.dials() {
            for rail in 0..sockets(&self.ours, &theirs) {
                let (from, to) = (context.group.rank(), self.peer);
                let purpose = Purpose { kind: Kind::Rail, from, to, channel: rail };
                let dial = Dial::start(theirs.tcp.address, context.key, purpose);
                dials.insert(rail, dial.map_err(|error| no_way(&theirs, error))?);
            }
        }
        self.stage = Stage::Sockets { theirs, dials, done: BTreeMap::new(), why };
        Ok(AttemptResult::NotYet(true))
    }

    fn dial_on(
        &mut self,
        context: ConnectContext<'_>,
        theirs: Introduction,
        dials: BTreeMap<u32, Box<Dial>>,
        mut done: BTreeMap<u32, TcpStream>,
        why: String,
    ) -> Result<AttemptResult, AttemptFailed> {
        let mut waiting = BTreeMap::new();
        for (rail, dial) in dials {
            match dial.go_on().map_err(|error| no_way(&theirs, error))? {
                Dialled::Waiting(dial) => drop(waiting.insert(rail, dial)),
                Dialled::Done(stream) => drop(done.insert(rail, stream)),
            }
        }
        if done.len() < sockets(&self.ours, &theirs) as usize {
            self.stage = Stage::Sockets { theirs, dials: waiting, done, why };
            return Ok(AttemptResult::NotYet(false));
        }
        let memory = &self.endpoints.memory;
        let rails = done.into_iter().map(|(rail, stream)| {
            let description = describe(rail, &stream);
            Box::new(TcpRail::new(stream, Arc::clone(memory), description, context.silence))
                as Box<dyn Rail>
        });
        let rails = rails.collect();
        Ok(self.done(&theirs, rails, why))
    }

    fn done(
        &mut self,
        theirs: &Introduction,
        rails: Vec<Box<dyn Rail>>,
        why: String,
    ) -> AttemptResult {
        let Endpoints { memory: _, send_endpoints, receive_endpoints } = &mut self.endpoints;
        let send_endpoints =
            mem::take(send_endpoints).into_iter().zip(remote_endpoints(theirs)).collect();
        let session = Box::new(Session::new(rails, send_endpoints, mem::take(receive_endpoints)));
        AttemptResult::Done { session, why }
    }

    /// Takes a connection that the peer has made; gives it back if it is not waited for now.
    pub(crate) fn welcome(&mut self, incoming: IncomingConnection) -> Option<IncomingConnection> {
        let dials = self.dials();
        let Stage::Sockets { theirs, done, .. } = &mut self.stage else { return Some(incoming) };
        if dials
            || incoming.rail >= sockets(&self.ours, theirs)
            || done.contains_key(&incoming.rail)
        {
            return Some(incoming);
        }
        let IncomingConnection { mut stream, from: _, rail } = incoming;
        // Eight bytes always fit into a new connection; one that ended in the meantime breaks as a
        // rail.
        let _ = stream.write_all(&WELCOME);
        done.insert(rail, stream);
        None
    }

    /// What to poll, and whether to wait until it is writable.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let dials = match &self.stage {
            Stage::Sockets { dials, .. } => Some(dials),
            _ => None,
        };
        let dials = dials.into_iter().flat_map(BTreeMap::values);
        dials.map(|dial| (dial.descriptor(), dial.wants_to_write()))
    }

    /// Where this rank's slots lie, as [`crate::Memory::describe`].
    pub(crate) fn slots(&self) -> Option<String> {
        self.endpoints.memory.describe()
    }

    /// What is being waited for, for people.
    pub(crate) fn describe(&self) -> String {
        match &self.stage {
            Stage::NotReceived => "has not requested links yet".to_owned(),
            Stage::Offering { .. } => "has not sent its rails over RDMA yet".to_owned(),
            Stage::Connecting { .. } => "its device does not answer yet".to_owned(),
            Stage::Judging { .. } => "is connecting over RDMA".to_owned(),
            Stage::Sockets { theirs, done, .. } => {
                let sockets = sockets(&self.ours, theirs);
                let way = if self.dials() { "to" } else { "from" };
                format!(
                    "{} of {sockets} connections {way} {} stand",
                    done.len(),
                    theirs.tcp.address.ip()
                )
            }
        }
    }
}

/// How many connections the two make.
fn sockets(ours: &Introduction, theirs: &Introduction) -> u32 {
    ours.tcp.sockets.min(theirs.tcp.sockets).clamp(1, RAILS_LIMIT as u32)
}

fn no_way(theirs: &Introduction, error: std::io::Error) -> AttemptFailed {
    let doing = format!("while connecting to {}", theirs.tcp.address);
    AttemptFailed::new(ErrorKind::Network, doing, error.to_string())
}

/// `10.0.0.1:4000 → 10.0.0.2:5000`, with the number of the rail if it is not the only one.
fn describe(rail: u32, stream: &TcpStream) -> String {
    let end = |address: std::io::Result<std::net::SocketAddr>| {
        address.map_or_else(|_| "?".to_owned(), |address| address.to_string())
    };
    format!("TCP {rail} {} → {}", end(stream.local_addr()), end(stream.peer_addr()))
}

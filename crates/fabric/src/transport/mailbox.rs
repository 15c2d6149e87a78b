//! What callers and the event loop hand to one another: messages, connections, states of
//! peers, operations.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use msccl_collective::Rank;

use super::waits::Waits;
use crate::departure::DepartureReason;
use crate::error::{Error, ErrorKind};
use crate::frame::{Frame, Subject};
use crate::introduction::{read_error, write_error};
use crate::wire::{Malformed, Reader, Writer};

/// How long the last messages of a rank may be under way after others saw it depart.
const RUMOUR_AGE: Duration = Duration::from_millis(500);

/// What one rank may send for groups that this one does not know yet: those that it is about to
/// make.
const EARLY_BYTES_MAX: usize = 16 << 20;
const EARLY_MESSAGES_MAX: usize = 4096;

/// Descriptors that may wait to be taken.
const DESCRIPTORS_MAX: usize = 1024;

/// Who has left which group: more than any job has at a time.
const LEFT_MAX: usize = 1 << 20;

/// The longest reason of a rank that gives up.
const REASON_BYTES_MAX: usize = 2048;

/// What lies here of one sender for groups that are not known.
#[derive(Default)]
struct Early {
    bytes: usize,
    messages: usize,
}

impl Early {
    fn add(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.messages += 1;
        match self.bytes <= EARLY_BYTES_MAX && self.messages <= EARLY_MESSAGES_MAX {
            true => Ok(()),
            false => Err(Malformed("too much is for groups that do not exist")),
        }
    }

    fn remove(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.messages = self.messages.saturating_sub(1);
    }
}

/// A connection; several may lead to one peer, but each side sends over one of them only, which
/// keeps messages in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ConnectionId(pub(super) u64);

/// Where messages lie: those of one address are taken in the order in which they were sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Address {
    pub(crate) group: u64,
    pub(crate) from: Rank,
    pub(crate) subject: Subject,
    pub(crate) number: u64,
}

/// What is known of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PeerState {
    Present,
    /// Its last connection has ended.
    Departed(DepartureReason),
    /// A third party says that it departed.
    Rumour {
        since: Instant,
        reason: DepartureReason,
    },
}

/// A group as the event loop must know it, to answer when the group's own caller is elsewhere.
struct KnownGroup {
    members: Vec<Rank>,
    /// Operations that this rank has entered, and those of them that it has completed as the hub.
    entered: u64,
    completed: u64,
    /// Why the group is of no more use.
    broken: Option<Error>,
}

/// Everything that callers and the event loop hand to one another.
pub(crate) struct State {
    mailbox: HashMap<Address, VecDeque<Vec<u8>>>,
    /// By sender, what lies here for groups that this rank does not know yet.
    early: HashMap<Rank, Early>,
    /// Those that came, and why others were lost.
    descriptors: HashMap<(u64, Rank, u64), VecDeque<Result<OwnedFd, Error>>>,
    /// Why peers cannot come in, as long as they cannot.
    lacking: Option<Error>,
    peer_states: Vec<PeerState>,
    connections: HashMap<Rank, ConnectionId>,
    groups: HashMap<u64, KnownGroup>,
    /// Who has dropped which group.
    left: HashSet<(u64, Rank)>,
    waits: Waits,
    me: Rank,
    /// Why ranks gave up what they set up, this one too.
    reasons: HashMap<Rank, String>,
    /// Groups that this rank has dropped; messages for them are not kept.
    dropped: HashSet<u64>,
    next_connection: u64,
    /// For the event loop to take over.
    pub(super) new_connections: Vec<(ConnectionId, Rank, TcpStream)>,
    pub(super) outgoing: Vec<(ConnectionId, Arc<Vec<u8>>)>,
    pub(super) leaving: bool,
}

impl State {
    pub(super) fn new(me: Rank, ranks: usize) -> Self {
        Self {
            me,
            mailbox: HashMap::new(),
            early: HashMap::new(),
            descriptors: HashMap::new(),
            lacking: None,
            peer_states: vec![PeerState::Present; ranks],
            connections: HashMap::new(),
            groups: HashMap::new(),
            left: HashSet::new(),
            waits: Waits::default(),
            reasons: HashMap::new(),
            dropped: HashSet::new(),
            next_connection: 0,
            new_connections: Vec::new(),
            outgoing: Vec::new(),
            leaving: false,
        }
    }

    pub(super) fn leave(&mut self) {
        self.leaving = true;
    }

    // Messages.

    pub(crate) fn has(&self, address: &Address) -> bool {
        self.mailbox.contains_key(address)
    }

    pub(crate) fn take(&mut self, address: &Address) -> Option<Vec<u8>> {
        let queue = self.mailbox.get_mut(address)?;
        let body = queue.pop_front();
        if queue.is_empty() {
            self.mailbox.remove(address);
        }
        body
    }

    /// Takes in `frame`; the text says why its sender cannot be one of us.
    pub(crate) fn deliver(&mut self, from: Rank, frame: Frame) -> Result<(), Malformed> {
        let Frame { subject, group, number, body } = frame;
        match subject {
            Subject::Question => self.answer(from, group, number),
            Subject::Contribution if self.refuse(from, group, number) => {}
            _ if self.dropped.contains(&group) => {}
            Subject::Leave => {
                if self.left.len() < LEFT_MAX {
                    self.left.insert((group, from));
                }
            }
            Subject::Reason => self.note_reason(from, number, &body)?,
            Subject::Waiting => self.note_wait(group, from, Rank(number as u32)),
            _ => {
                if !self.groups.contains_key(&group) {
                    self.early.entry(from).or_default().add(body.len())?;
                }
                let address = Address { group, from, subject, number };
                self.mailbox.entry(address).or_default().push_back(body);
            }
        }
        Ok(())
    }

    pub(crate) fn take_descriptor(
        &mut self,
        group: u64,
        from: Rank,
        tag: u64,
    ) -> Option<Result<OwnedFd, Error>> {
        let queue = self.descriptors.get_mut(&(group, from, tag))?;
        let descriptor = queue.pop_front();
        if queue.is_empty() {
            self.descriptors.remove(&(group, from, tag));
        }
        descriptor
    }

    /// A descriptor has come, or was lost.
    pub(super) fn deliver_descriptor(
        &mut self,
        key: (u64, Rank, u64),
        descriptor: Result<OwnedFd, Error>,
    ) {
        let waiting: usize = self.descriptors.values().map(VecDeque::len).sum();
        let descriptor = match waiting < DESCRIPTORS_MAX {
            true => descriptor,
            false => Err(Error::network(format!(
                "{DESCRIPTORS_MAX} file descriptors wait to be taken; what came then is dropped"
            ))),
        };
        if !self.dropped.contains(&key.0) {
            self.descriptors.entry(key).or_default().push_back(descriptor);
        }
    }

    // Descriptors that are used up.

    /// Peers cannot come in for the reason that `error` says.
    pub(super) fn lack_descriptors(&mut self, error: Error) {
        self.lacking.get_or_insert(error);
    }

    /// Peers come in again.
    pub(super) fn has_descriptors(&mut self) {
        self.lacking = None;
    }

    /// Why peers cannot come in, if they cannot.
    pub(crate) fn lacking(&self) -> Option<&Error> {
        self.lacking.as_ref()
    }

    // Connections.

    pub(super) fn connection_to(&self, to: Rank) -> Option<ConnectionId> {
        self.connections.get(&to).copied()
    }

    /// Leaves `bytes` for the event loop; `None` if no connection leads to `to` any more.
    pub(super) fn post(&mut self, to: Rank, bytes: Arc<Vec<u8>>) -> Option<()> {
        let connection = self.connection_to(to)?;
        self.outgoing.push((connection, bytes));
        Some(())
    }

    /// Gives the event loop a connection that this rank made.
    pub(super) fn add_connection(&mut self, to: Rank, stream: TcpStream) {
        let connection = self.open_connection(to);
        self.new_connections.push((connection, to, stream));
    }

    /// A connection to `peer` exists from now on.
    pub(super) fn open_connection(&mut self, peer: Rank) -> ConnectionId {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.entry(peer).or_insert(connection);
        if let PeerState::Rumour { .. } = self.peer_states[peer.index()] {
            self.peer_states[peer.index()] = PeerState::Present;
        }
        connection
    }

    /// A connection has ended; `other` leads to the same peer, if any does.
    pub(super) fn close_connection(
        &mut self,
        peer: Rank,
        connection: ConnectionId,
        other: Option<ConnectionId>,
    ) {
        if self.connections.get(&peer) == Some(&connection) {
            match other {
                Some(other) => self.connections.insert(peer, other),
                None => self.connections.remove(&peer),
            };
        }
    }

    // States of peers.

    pub(crate) fn peer_state(&self, rank: Rank) -> &PeerState {
        &self.peer_states[rank.index()]
    }

    pub(super) fn set_peer_state(&mut self, rank: Rank, peer_state: PeerState) {
        self.peer_states[rank.index()] = peer_state;
    }

    pub(super) fn note_rumour(&mut self, rank: Rank, reason: DepartureReason) {
        let Some(peer_state) = self.peer_states.get_mut(rank.index()) else { return };
        if *peer_state == PeerState::Present && !self.connections.contains_key(&rank) {
            *peer_state = PeerState::Rumour { since: Instant::now(), reason };
        }
    }

    /// Whether `rank` has dropped `group`.
    pub(crate) fn has_left(&self, group: u64, rank: Rank) -> bool {
        self.left.contains(&(group, rank))
    }

    /// This rank gives up what it sets up, and leaves; its peers are to know why.
    pub(crate) fn give_up(&mut self, reason: String) {
        self.reasons.entry(self.me).or_insert(reason);
    }

    /// `from` says why rank `number` gave up. What a rank says of itself is worth more than what
    /// others say of it.
    fn note_reason(&mut self, from: Rank, number: u64, body: &[u8]) -> Result<(), Malformed> {
        if number >= self.peer_states.len() as u64 {
            return Err(Malformed("a rank that does not exist has given up"));
        }
        let rank = Rank(number as u32);
        let reason = &body[..body.len().min(REASON_BYTES_MAX)];
        let reason = String::from_utf8_lossy(reason).into_owned();
        if rank == from {
            self.reasons.insert(rank, reason);
        } else if rank != self.me {
            self.reasons.entry(rank).or_insert(reason);
        }
        Ok(())
    }

    /// What others are sent of why `rank` gave up, if it has.
    pub(super) fn reason_notice(&self, rank: Rank) -> Option<Arc<Vec<u8>>> {
        let body = self.reasons.get(&rank)?.as_bytes().to_vec();
        let (subject, number) = (Subject::Reason, u64::from(rank.0));
        Some(Frame { subject, group: 0, number, body }.to_bytes())
    }

    /// The end of a sentence about the end of `rank`: why it gave up, if it has.
    pub(super) fn because_of(&self, rank: Rank) -> String {
        self.reasons.get(&rank).map(|why| format!(": {why}")).unwrap_or_default()
    }

    /// Whether nothing more will come from `rank` in `group`.
    pub(crate) fn is_gone(&self, group: u64, rank: Rank) -> bool {
        self.has_departed(rank)
            || (*self.peer_state(rank) == PeerState::Present && self.has_left(group, rank))
    }

    /// Whether nothing more will come from `rank` in any group.
    pub(crate) fn has_departed(&self, rank: Rank) -> bool {
        match self.peer_state(rank) {
            PeerState::Present => false,
            PeerState::Departed(_) => true,
            PeerState::Rumour { since, .. } => since.elapsed() > RUMOUR_AGE,
        }
    }

    /// `rank` of `group` waits for `awaited` between two operations; for itself, if for nobody any
    /// more.
    pub(crate) fn note_wait(&mut self, group: u64, rank: Rank, awaited: Rank) {
        if self.groups.contains_key(&group) {
            self.waits.note(group, rank, awaited);
        }
    }

    // Groups and their operations.

    pub(crate) fn open_group(&mut self, group: u64, members: Vec<Rank>) {
        self.groups.insert(group, KnownGroup { members, entered: 0, completed: 0, broken: None });
        for (address, messages) in self.mailbox.iter().filter(|(address, _)| address.group == group)
        {
            if let Some(early) = self.early.get_mut(&address.from) {
                messages.iter().for_each(|message| early.remove(message.len()));
            }
        }
        // What came early lies in the mailbox; what this rank knows to be true stays true.
        self.dropped.remove(&group);
    }

    /// Forgets `group` and informs those of its members to whom a connection exists. The others ask
    /// when they come to an operation.
    pub(crate) fn drop_group(&mut self, group: u64) {
        let frame = Frame { subject: Subject::Leave, group, number: 0, body: Vec::new() };
        let notices: Vec<_> =
            self.reason_notice(self.me).into_iter().chain([frame.to_bytes()]).collect();
        for member in self.groups.remove(&group).map(|of| of.members).unwrap_or_default() {
            // No connection, nobody who waits.
            for notice in &notices {
                let _ = self.post(member, notice.clone());
            }
        }
        self.dropped.insert(group);
        self.waits.forget(group);
        self.left.retain(|(of, _)| *of != group);
        self.mailbox.retain(|address, _| address.group != group);
        self.descriptors.retain(|(of, _, _), _| *of != group);
    }

    /// Enters the next operation of `group` and answers its number.
    pub(crate) fn enter(&mut self, group: u64) -> Result<u64, Error> {
        let Some(known) = self.groups.get_mut(&group) else {
            return Err(Error::invalid("the group was dropped"));
        };
        if let Some(error) = &known.broken {
            return Err(error.clone());
        }
        known.entered += 1;
        Ok(known.entered - 1)
    }

    /// From now on every operation of `group` fails with `error`; contributions that lie here or
    /// come later are answered with it.
    pub(crate) fn break_group(&mut self, group: u64, error: &Error) {
        if let Some(known) = self.groups.get_mut(&group) {
            known.broken.get_or_insert_with(|| error.clone());
        }
        let waiting = self.mailbox.keys().filter(|a| a.group == group);
        let waiting = waiting.filter(|a| a.subject == Subject::Contribution);
        for Address { from, number, .. } in waiting.copied().collect::<Vec<_>>() {
            self.refuse(from, group, number);
        }
    }

    /// Answers a contribution to a group that is of no more use; false if the group is alive.
    fn refuse(&mut self, from: Rank, group: u64, number: u64) -> bool {
        let error = match self.groups.get(&group) {
            Some(KnownGroup { broken: Some(error), .. }) => error.clone(),
            Some(_) => return false,
            None if self.dropped.contains(&group) => {
                let because = self.because_of(self.me);
                let text = format!("rank 0 {}{because}", DepartureReason::Left);
                Error::new(ErrorKind::RankLost, text).of_ranks([Rank(0)])
            }
            None => return false,
        };
        let body = outcome_bytes(Err(&error));
        let frame = Frame { subject: Subject::Outcome, group, number, body };
        // Whoever is gone does not wait for an answer.
        let _ = self.post(from, frame.to_bytes());
        true
    }

    /// The hub has all contributions to operation `number` of `group`.
    pub(crate) fn complete(&mut self, group: u64, number: u64) {
        if let Some(known) = self.groups.get_mut(&group) {
            known.completed = number + 1;
        }
    }

    /// The members that have not entered operation `number` of `group`, as this rank, its hub, sees
    /// it, and do not wait for others of them.
    pub(crate) fn absent(&self, group: u64, number: u64) -> Vec<Rank> {
        let Some(KnownGroup { members, entered, completed, .. }) = self.groups.get(&group) else {
            return Vec::new();
        };
        if number < *completed {
            return Vec::new();
        }
        let has_come = |from: Rank| {
            let subject = Subject::Contribution;
            self.mailbox.contains_key(&Address { group, from, subject, number })
        };
        let hub = members.iter().copied().take(usize::from(*entered <= number));
        let others = members.iter().copied().skip(1).filter(|rank| !has_come(*rank));
        self.waits.culprits(group, hub.chain(others).collect())
    }

    fn answer(&mut self, to: Rank, group: u64, number: u64) {
        let known = self.groups.contains_key(&group);
        let mut writer = Writer::default();
        writer.u8(u8::from(known));
        let absent = self.absent(group, number);
        writer.u32(absent.len() as u32);
        absent.iter().for_each(|rank| writer.u32(rank.0));
        let frame = Frame { subject: Subject::Answer, group, number, body: writer.0 };
        // Whoever is gone does not wait for an answer.
        let _ = self.post(to, frame.to_bytes());
    }
}

/// How an operation ended, for the hub's members.
pub(crate) fn outcome_bytes(outcome: Result<&[u8], &Error>) -> Vec<u8> {
    let mut writer = Writer::default();
    match outcome {
        Ok(body) => {
            writer.u8(0);
            writer.0.extend(body);
        }
        Err(error) => {
            writer.u8(1);
            write_error(error, &mut writer);
        }
    }
    writer.0
}

/// What [`outcome_bytes`] wrote.
pub(crate) fn read_outcome(bytes: &[u8]) -> Result<Result<Vec<u8>, Error>, Malformed> {
    let mut reader = Reader(bytes);
    match reader.u8()? {
        0 => Ok(Ok(reader.0.to_vec())),
        _ => read_error(&mut reader).map(Err),
    }
}

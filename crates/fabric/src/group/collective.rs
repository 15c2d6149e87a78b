//! Operations of all ranks of a group, by way of its hub.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use msccl_collective::{Rank, RankList};

use super::Group;
use crate::abort::{Patience, Stop};
use crate::error::{self, Error, ErrorKind};
use crate::frame::{BODY_LIMIT_BYTES, Frame, Subject};
use crate::settings::Settings;
use crate::transport::{Member, outcome_bytes, read_outcome};
use crate::wire::{Malformed, Reader, Writer};

/// How long a rank whose time is up waits for the hub to say who is missing.
const ENQUIRY: Duration = Duration::from_millis(400);

/// What all ranks must call alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Operation {
    AllGather,
    Broadcast { root: Rank },
    Barrier,
    Split,
}

impl Operation {
    fn write(self, writer: &mut Writer) {
        let (kind, root) = match self {
            Self::AllGather => (0, 0),
            Self::Broadcast { root } => (1, root.0),
            Self::Barrier => (2, 0),
            Self::Split => (3, 0),
        };
        writer.u8(kind);
        writer.u32(root);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match (reader.u8()?, reader.u32()?) {
            (0, _) => Ok(Self::AllGather),
            (1, root) => Ok(Self::Broadcast { root: Rank(root) }),
            (2, _) => Ok(Self::Barrier),
            (3, _) => Ok(Self::Split),
            _ => Err(Malformed("an operation is of no known kind")),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllGather => f.write_str("all-gather"),
            Self::Broadcast { root } => write!(f, "broadcast from rank {}", root.0),
            Self::Barrier => f.write_str("barrier"),
            Self::Split => f.write_str("split"),
        }
    }
}

impl Group {
    /// Everyone's `bytes`, by rank; they may differ in length.
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let gathered = self.operate(Operation::AllGather, bytes, &self.patience())?;
        self.parts(&gathered)
    }

    /// The same, but waits for at most `timeout`: for those who know that somebody may not come.
    pub fn all_gather_within(
        &self,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let patience = self.patience().at_most(timeout);
        let gathered = self.operate(Operation::AllGather, bytes, &patience)?;
        self.parts(&gathered)
    }

    /// The same, of ranks that make another group with `settings`, whose abort and limit of time
    /// for joining count.
    pub fn all_gather_to_join(
        &self,
        bytes: &[u8],
        settings: &Settings,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let patience = Patience::new(&settings.abort, Some(settings.join_timeout));
        let gathered = self.operate(Operation::AllGather, bytes, &patience)?;
        self.parts(&gathered)
    }

    /// The bytes that `root` passes; the other ranks' `bytes` do not matter.
    pub fn broadcast(&self, root: Rank, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        self.member(root)?;
        let bytes = if root == self.me { bytes } else { &[] };
        self.operate(Operation::Broadcast { root }, bytes, &self.patience())
    }

    /// Returns once all ranks have called it.
    pub fn barrier(&self) -> Result<(), Error> {
        self.operate(Operation::Barrier, &[], &self.patience()).map(drop)
    }

    /// A barrier that waits for at most `timeout`, whatever the group's own limit: for a moment at
    /// which ranks may come later than they may in the middle of their work.
    pub fn meet(&self, timeout: Duration) -> Result<(), Error> {
        let patience = self.bounded(Patience::new(&self.abort, Some(timeout)));
        self.operate(Operation::Barrier, &[], &patience).map(drop)
    }

    /// Runs one operation to its end; a failure breaks the group.
    pub(super) fn operate(
        &self,
        operation: Operation,
        bytes: &[u8],
        patience: &Patience,
    ) -> Result<Vec<u8>, Error> {
        let _order = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.transport.state().enter(self.id)?;
        let call = Call { group: self, operation, number, patience };
        let outcome = match self.me {
            Rank(0) => call.as_hub(bytes),
            _ => call.as_member(bytes),
        };
        if let Err(error) = &outcome {
            self.transport.break_group(self.id, error);
        }
        outcome
    }

    /// What [`Call::join`] put together.
    pub(super) fn parts(&self, gathered: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let mut reader = Reader(gathered);
        let parts = self.members.iter().map(|_| reader.short_bytes().map(<[u8]>::to_vec));
        let parts: Result<Vec<_>, _> = parts.collect();
        parts.map_err(|Malformed(why)| Error::network(format!("rank 0 sent nonsense: {why}")))
    }
}

/// One operation under way.
struct Call<'a> {
    group: &'a Group,
    operation: Operation,
    number: u64,
    patience: &'a Patience,
}

impl Call<'_> {
    /// Contributes and waits for the hub's verdict.
    fn as_member(&self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let (group, number) = (self.group, self.number);
        let hub = &group.members[0];
        let mut writer = Writer::default();
        self.operation.write(&mut writer);
        writer.0.extend(bytes);
        let frame = self.frame(Subject::Contribution, writer.0);
        group.transport.send(hub, frame, self.patience)?;
        let address = group.address(hub, Subject::Outcome, number);
        let found = group.transport.wait(self.patience, |state| match state.take(&address) {
            Some(bytes) => Some(Ok(bytes)),
            None if state.is_gone(group.id, hub.world) => Some(Err(None)),
            None => group.cannot_go_on(state).map(|error| Err(Some(error))),
        });
        match found {
            Ok(Ok(bytes)) => self.verdict(&bytes),
            Ok(Err(None)) => Err(group.transport.departed(hub)),
            Ok(Err(Some(error))) => Err(error),
            Err(Stop::TimedOut) => self.enquire(),
            Err(Stop::Aborted) => Err(self.stopped(Stop::Aborted)),
        }
    }

    fn verdict(&self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        read_outcome(bytes)
            .map_err(|Malformed(why)| Error::network(format!("rank 0 sent nonsense: {why}")))?
    }

    /// Time is up: asks the hub who is missing. Its verdict, if that arrives meanwhile, says more.
    fn enquire(&self) -> Result<Vec<u8>, Error> {
        let (group, hub) = (self.group, &self.group.members[0]);
        let question = self.frame(Subject::Question, Vec::new());
        group
            .transport
            .post(hub, question.to_bytes())
            .ok_or_else(|| group.transport.departed(hub))?;
        let outcome = group.address(hub, Subject::Outcome, self.number);
        let answer = group.address(hub, Subject::Answer, self.number);
        let patience = Patience::new(&group.abort, Some(ENQUIRY));
        let reply = group.transport.wait(&patience, |state| {
            let verdict = state.take(&outcome).map(Reply::Verdict);
            let absent = || state.take(&answer).map(Reply::Absent);
            verdict
                .or_else(absent)
                .or_else(|| state.is_gone(group.id, hub.world).then_some(Reply::Gone))
        });
        match reply {
            Ok(Reply::Verdict(bytes)) => self.verdict(&bytes),
            Ok(Reply::Absent(bytes)) => Err(self.missing(&read_absent(&bytes, hub.world))),
            Ok(Reply::Gone) => Err(group.transport.departed(hub)),
            Err(Stop::Aborted) => Err(self.stopped(Stop::Aborted)),
            Err(Stop::TimedOut) => Err(self.unanswering_hub()),
        }
    }

    /// Time is up, and the hub does not even say who is missing.
    fn unanswering_hub(&self) -> Error {
        let hub = &self.group.members[0].peer;
        let unanswered = format_args!("{} does not answer", hub.describe());
        self.stopped(Stop::TimedOut).hint(unanswered).of_ranks([hub.rank])
    }

    /// Collects all contributions, decides, and sends the outcome to all.
    fn as_hub(&self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let group = self.group;
        let outcome = self.collect().and_then(|others| self.join(bytes, &others));
        let body = match &outcome {
            Ok(body) => outcome_bytes(Ok(body)),
            Err(error) => outcome_bytes(Err(&self.for_others(error))),
        };
        let frame = self.frame(Subject::Outcome, body).to_bytes();
        for member in &group.members[1..] {
            // Whoever departed, or has not connected yet, does not wait for it.
            let _ = group.transport.post(member, frame.clone());
        }
        outcome
    }

    /// The contributions of ranks 1, 2, …, once all are there.
    fn collect(&self) -> Result<Vec<Vec<u8>>, Error> {
        let (group, number) = (self.group, self.number);
        let others = &group.members[1..];
        let address = |member: &Member| group.address(member, Subject::Contribution, number);
        let mut came = 0;
        let found = group.transport.wait(self.patience, |state| {
            while others.get(came).is_some_and(|member| state.has(&address(member))) {
                came += 1;
            }
            let never = |member: &&Member| {
                state.is_gone(group.id, member.world) && !state.has(&address(member))
            };
            if let Some(gone) = others[came..].iter().find(never) {
                return Some(Err(Ok(gone)));
            }
            if came < others.len() {
                return group.cannot_go_on(state).map(|error| Err(Err(error)));
            }
            state.complete(group.id, number);
            Some(Ok(others.iter().filter_map(|member| state.take(&address(member))).collect()))
        });
        match found {
            Ok(all) => all.map_err(|why| match why {
                Ok(gone) => group.transport.departed(gone),
                Err(error) => error,
            }),
            Err(Stop::Aborted) => Err(self.stopped(Stop::Aborted)),
            Err(Stop::TimedOut) => {
                Err(self.missing(&group.transport.state().absent(group.id, number)))
            }
        }
    }

    /// Checks that all called the same and puts together what all get.
    fn join(&self, mine: &[u8], others: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
        let mut calls = vec![(Rank(0), self.operation, mine)];
        for (position, contribution) in others.iter().enumerate() {
            let rank = Rank::from(position + 1);
            let mut reader = Reader(contribution);
            let operation = Operation::read(&mut reader).map_err(|Malformed(why)| {
                Error::network(format!("rank {} sent nonsense: {why}", rank.0))
            })?;
            calls.push((rank, operation, reader.0));
        }
        if calls.iter().any(|(_, operation, _)| *operation != self.operation) {
            return Err(self.different(&calls));
        }
        let mut writer = Writer::default();
        match self.operation {
            Operation::AllGather | Operation::Split => {
                calls.iter().for_each(|(_, _, bytes)| writer.short_bytes(bytes));
            }
            Operation::Broadcast { root } => writer.0.extend(calls[root.index()].2),
            Operation::Barrier => {}
        }
        // One byte in front says how the operation ended.
        match writer.0.len() < BODY_LIMIT_BYTES {
            true => Ok(writer.0),
            false => {
                let bytes = writer.0.len();
                let text = format!("{self} gathers {bytes} bytes, at most {BODY_LIMIT_BYTES} fit");
                Err(Error::invalid(text))
            }
        }
    }

    fn different(&self, calls: &[(Rank, Operation, &[u8])]) -> Error {
        let mut sides: BTreeMap<Operation, Vec<Rank>> = BTreeMap::new();
        for (rank, operation, _) in calls {
            sides.entry(*operation).or_default().push(*rank);
        }
        let mut sides: Vec<_> = sides.into_iter().collect();
        sides.sort_by_key(|(_, ranks)| Reverse(ranks.len()));
        let odd: Vec<_> = sides[1..].iter().flat_map(|(_, ranks)| ranks.iter().copied()).collect();
        let say = |(operation, ranks): &(Operation, Vec<Rank>)| {
            format!("{operation} on {}", RankList::new(ranks.iter().copied()).numbers())
        };
        let said: Vec<_> = sides.iter().map(say).collect();
        let text = format!(
            "ranks call different operations as number {} of their group: {}; call the same on all",
            self.number,
            said.join(", ")
        );
        Error::mismatch(text).of_ranks(odd)
    }

    fn frame(&self, subject: Subject, body: Vec<u8>) -> Frame {
        Frame { subject, group: self.group.id, number: self.number, body }
    }

    /// The hub's failure as the other ranks should see it: their own flags are not raised.
    fn for_others(&self, error: &Error) -> Error {
        match error.kind() {
            ErrorKind::Aborted => {
                let hub = self.group.members[0].peer.describe();
                let text = format!("{hub} gave up: {error}");
                Error::new(ErrorKind::RankLost, text).of_ranks([Rank(0)])
            }
            _ => error.clone(),
        }
    }

    /// That `absent`, by their ranks in the world, did not come in time.
    fn missing(&self, absent: &[Rank]) -> Error {
        let absent = self.group.ranks_of(absent);
        match absent.is_empty() {
            true => self.stopped(Stop::TimedOut),
            false => error::absent(
                &absent,
                self.group.ranks(),
                &format!("not entered {self}"),
                &self.patience.limit(),
            ),
        }
    }

    fn stopped(&self, stop: Stop) -> Error {
        Error::stopped(stop, self.patience, self)
    }
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (operation {})", self.operation, self.number)
    }
}

/// The error of a rank whose time is up.
enum Reply {
    Verdict(Vec<u8>),
    Absent(Vec<u8>),
    Gone,
}

/// The ranks of the world that the hub misses; itself if it does not know the group yet.
fn read_absent(answer: &[u8], hub: Rank) -> Vec<Rank> {
    let mut reader = Reader(answer);
    match reader.u8() {
        Ok(0) => vec![hub],
        _ => reader.list(|reader| reader.u32().map(Rank)).unwrap_or_default(),
    }
}

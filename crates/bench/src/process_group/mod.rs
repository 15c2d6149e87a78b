//! The processes of a launch, each of which has one rank: what they send one another.
//!
//! Whatever one of them decides, all decide, from what all have said: every process runs the same
//! program over the same answers, and only who prints differs. So all calls here must be made by
//! all ranks in the same order, as with any collective.
//!
//! # Guarantees
//!
//! * No wait is longer than the time given at [`ProcessGroup::join`]; its error says who did not
//!   come, or died.
//! * What fails on one rank fails on all, with its reason ([`ProcessGroup::fail_together`]).
//! * Once one has failed, nobody waits much longer for the others: the system reports a host that
//!   was cut off only after a minute ([`ProcessGroup::exchange_outcomes`]).
//!
//! Not guaranteed: that the library under test connects from host to host.

mod failure_notice;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{Departure, DepartureReason, Group, JoinRequest, Settings, UniqueId};
use msccl_interchange::json;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
pub(crate) use failure_notice::Alarm;
use failure_notice::FailureNotice;

/// How long rank 0, once it has failed, waits for what the others have to say. By then all live
/// ranks have received the notice, and have ended their workers.
const PATIENCE: Duration = Duration::from_secs(12);

/// How long the others wait for what rank 0 makes of it.
const PATIENCE_WITH_FIRST: Duration = Duration::from_secs(20);

/// The processes of a launch.
pub struct ProcessGroup {
    group: Arc<Group>,
    failure_notice: FailureNotice,
    /// Whether an exchange has failed about which rank 0 said nothing: from then on whoever is left
    /// speaks for itself.
    is_orphaned: AtomicBool,
    settings: Settings,
    local_rank: u32,
}

impl ProcessGroup {
    /// Meets the other ranks at `settings.root`. `terms` are what all must have in common, with
    /// their names. Without a `local_rank`, it is the place among the ranks of the same host.
    ///
    /// # Errors
    ///
    /// Somebody does not come, or comes on other terms.
    pub fn join(
        rank: u32,
        ranks: u32,
        local_rank: Option<u32>,
        terms: Vec<(String, String)>,
        settings: &Settings,
    ) -> Result<Self, msccl_fabric::Error> {
        let id = UniqueId::create(settings)?;
        let newcomer = JoinRequest { rank: Rank(rank), ranks, facts: terms, description: vec![] };
        let group = Group::join(&[id], &newcomer, settings)?;
        let local_rank = local_rank.unwrap_or_else(|| place_on_host(&group));
        // Whatever is met later finds a place of its own, in the network by which all have come.
        let near = group.peer(Rank(0)).map(|first| first.address);
        let settings = Settings { root: None, near, ..settings.clone() };
        let group = Arc::new(group);
        let (failure_notice, is_orphaned) =
            (FailureNotice::new(group.clone()), AtomicBool::new(false));
        Ok(Self { group, failure_notice, is_orphaned, settings, local_rank })
    }

    /// Which rank this is.
    pub fn rank(&self) -> u32 {
        self.group.rank().0
    }

    /// How many there are.
    pub fn ranks(&self) -> u32 {
        self.group.ranks()
    }

    /// Which rank this is on its host.
    pub fn local_rank(&self) -> u32 {
        self.local_rank
    }

    /// On how many nodes its ranks are.
    pub fn nodes(&self) -> u32 {
        self.group.nodes().into_iter().max().map_or(1, |last| last as u32 + 1)
    }

    /// The name of the host of `rank`, if there is such a rank.
    pub fn host_name(&self, rank: u32) -> Option<&str> {
        self.group.peer(Rank(rank)).map(|peer| &*peer.host_name)
    }

    /// Whether this rank speaks for all: rank 0, or anybody who has lost it.
    pub fn is_speaker(&self) -> bool {
        self.rank() == 0 || self.is_orphaned.load(Ordering::Relaxed)
    }

    /// A function that says, without waiting, whether a process of the group has failed or ended.
    pub(crate) fn alarm(&self) -> Alarm {
        self.failure_notice.watch()
    }

    /// What every rank has said, by rank.
    ///
    /// # Errors
    ///
    /// A rank is lost, or did not come in time.
    pub fn exchange<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<Vec<T>, Error> {
        let said = self.noted(self.group.all_gather(&serde_json::to_vec(value)?))?;
        said.iter().map(|bytes| understood(bytes)).collect()
    }

    /// What every rank has said of something that all have tried, by rank. If it `failed` here, the
    /// others get a notice before they have done their part, and nobody waits for those that cannot
    /// be reached.
    ///
    /// # Errors
    ///
    /// A rank is lost, or did not come in time.
    pub fn exchange_outcomes<T: Serialize + DeserializeOwned>(
        &self,
        outcome: &T,
        failed: bool,
    ) -> Result<Vec<T>, Error> {
        let outcome = serde_json::to_vec(outcome)?;
        let patience = if self.rank() == 0 { PATIENCE } else { PATIENCE_WITH_FIRST };
        let said = if failed {
            self.failure_notice.send();
            self.group.all_gather_within(&outcome, patience)
        } else {
            self.group.all_gather(&outcome)
        };
        self.failure_notice.next();
        self.noted(said)?.iter().map(|bytes| understood(bytes)).collect()
    }

    /// What rank 0 has said.
    ///
    /// # Errors
    ///
    /// A rank is lost, or did not come in time.
    pub fn follow<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<T, Error> {
        let said = self.noted(self.group.broadcast(Rank(0), &serde_json::to_vec(value)?))?;
        understood(&said)
    }

    fn noted<T>(&self, done: Result<T, msccl_fabric::Error>) -> Result<T, Error> {
        done.map_err(|error| {
            let first_is_silent = error.ranks().is_empty() || error.ranks().contains(&Rank(0));
            // One that only went home before the others did has spoken.
            let went_home =
                |gone: &Departure| gone.rank == Rank(0) && gone.reason == DepartureReason::Left;
            if first_is_silent && !self.group.departed().iter().any(went_home) {
                self.is_orphaned.store(true, Ordering::Relaxed);
            }
            self.located(&error)
        })
    }

    /// `error`, with the hosts of the ranks at fault.
    fn located(&self, error: &msccl_fabric::Error) -> Error {
        let text = error.to_string();
        let hosts = error.ranks().iter().filter_map(|rank| self.host_name(rank.0));
        let hosts: BTreeSet<_> = hosts.filter(|host| !text.contains(host)).collect();
        let hosts: Vec<_> = hosts.into_iter().collect();
        if hosts.is_empty() {
            Error::new(text)
        } else {
            Error::new(format!("{text} (on {})", hosts.join(", ")))
        }
    }

    /// The own outcome if it is good on all ranks; otherwise what is wrong, the same text on all.
    ///
    /// # Errors
    ///
    /// What failed on any rank, or a rank is lost.
    pub fn fail_together<T>(&self, outcome: Result<T, impl fmt::Display>) -> Result<T, Error> {
        let (value, reason) = match outcome {
            Ok(value) => (Some(value), None),
            Err(reason) => (None, Some(reason.to_string())),
        };
        let reasons = self.exchange(&reason)?;
        let failures = (0..).zip(reasons).filter_map(|(rank, reason)| Some((rank, reason?)));
        match (value, failures_by_text(failures.collect())) {
            (Some(value), text) if text.is_empty() => Ok(value),
            (_, text) => Err(Error::new(text.join("; "))),
        }
    }

    /// A meeting place for the ranks of this process group, made by rank 0.
    ///
    /// # Errors
    ///
    /// Rank 0 cannot listen, or a rank is lost.
    pub fn meeting(&self) -> Result<UniqueId, Error> {
        let made = match self.rank() {
            0 => UniqueId::create(&self.settings).map(|id| id.to_string()),
            _ => Ok(String::new()),
        };
        let made = self.follow(&self.fail_together(made)?)?;
        Ok(made.parse()?)
    }
}

/// The value that another process sent. All run the same program, unless builds were mixed up.
fn understood<T: DeserializeOwned>(said: &[u8]) -> Result<T, Error> {
    let read = json::parse(&String::from_utf8_lossy(said));
    read.map_err(|why| {
        let advice = "run the same build of msccl in every process";
        Error::new(format!("another process sent an unknown message: {why}; {advice}"))
    })
}

fn place_on_host(group: &Group) -> u32 {
    let Some(me) = group.peer(group.rank()) else { return 0 };
    let before = group.peers().take(group.rank().index());
    before.filter(|peer| peer.same_host(me)).count() as u32
}

/// Failures, each text once with all ranks that have it: `r0, r2: no memory`.
pub(crate) fn failures_by_text(mut failures: Vec<(u32, String)>) -> Vec<String> {
    failures.sort();
    let mut texts: Vec<(String, String)> = Vec::new();
    for (rank, text) in failures {
        match texts.iter_mut().find(|(_, known)| *known == text) {
            Some((ranks, _)) => ranks.push_str(&format!(", r{rank}")),
            None => texts.push((format!("r{rank}"), text)),
        }
    }
    texts.into_iter().map(|(ranks, text)| format!("{ranks}: {text}")).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// Runs `rank` on threads that are processes to one another.
    fn run<T: Send>(ranks: u32, rank: impl Fn(ProcessGroup) -> T + Sync) -> Vec<T> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let settings = Settings {
            root: Some(SocketAddr::from(([127, 0, 0, 1], port))),
            join_timeout: Duration::from_secs(20),
            operation_timeout: Some(Duration::from_secs(20)),
            ..Settings::default()
        };
        let join = |index| ProcessGroup::join(index, ranks, None, vec![], &settings).unwrap();
        thread::scope(|scope| {
            let (rank, join) = (&rank, &join);
            let ranks = (0..ranks).map(|index| scope.spawn(move || rank(join(index))));
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_receive_all_and_follow_the_first() {
        let received = run(3, |group| {
            assert_eq!((group.local_rank(), group.ranks()), (group.rank(), 3));
            assert_eq!(group.is_speaker(), group.rank() == 0);
            let all = group.exchange(&group.rank()).unwrap();
            (all, group.follow(&format!("r{}", group.rank())).unwrap())
        });
        assert_eq!(received, vec![(vec![0, 1, 2], "r0".to_owned()); 3]);
    }

    #[test]
    fn what_fails_on_one_fails_on_all() {
        let agreed = run(4, |group| {
            let outcome = if group.rank() % 2 == 1 { Err("no GPU") } else { Ok(group.rank()) };
            let agreed = group.fail_together(outcome).unwrap_err().to_string();
            assert_eq!(group.fail_together(Ok::<_, String>(group.rank())), Ok(group.rank()));
            agreed
        });
        assert_eq!(agreed, vec!["r1, r3: no GPU".to_owned(); 4]);
    }

    #[test]
    fn a_failure_is_received_before_all_have_answered() {
        let received = run(3, |group| {
            assert!(!group.alarm()());
            // Nobody fails before all have looked.
            group.exchange(&()).unwrap();
            let alarm = group.alarm();
            if group.rank() != 1 {
                let begin = Instant::now();
                while !alarm() {
                    assert!(begin.elapsed() < Duration::from_secs(10));
                    thread::sleep(Duration::from_millis(1));
                }
            }
            let said = group.exchange_outcomes(&group.rank(), group.rank() == 1).unwrap();
            // It is over with the exchange.
            let calm = !alarm();
            group.exchange(&()).unwrap();
            (said, calm)
        });
        assert_eq!(received, vec![(vec![0, 1, 2], true); 3]);
    }

    #[test]
    fn who_misses_one_that_went_home_does_not_speak_for_it() {
        let spoke = run(2, |group| {
            if group.rank() == 0 {
                return None;
            }
            assert!(group.exchange(&()).is_err());
            Some(group.is_speaker())
        });
        assert_eq!(spoke, [None, Some(false)]);
    }

    #[test]
    fn meetings_are_known_to_all() {
        let meetings = run(2, |group| group.meeting().unwrap());
        assert_eq!(meetings[0], meetings[1]);
    }
}

//! Worlds of ranks for tests.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{Event, Group, JoinRequest, Log, Settings, UniqueId};
use msccl_testkit::ranks;

/// Remembers what happened.
#[derive(Default)]
pub struct Diary(ranks::Diary<Event>);

impl Log for Diary {
    fn event(&self, event: &Event) {
        self.0.add(event);
    }
}

impl Deref for Diary {
    type Target = ranks::Diary<Event>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

pub fn request(rank: u32, ranks: u32) -> JoinRequest {
    let facts = vec![("version".to_owned(), "1".to_owned())];
    JoinRequest { rank: Rank(rank), ranks, facts, description: vec![rank as u8] }
}

/// Generous limits, so that only what should fail fails even on a busy machine.
pub fn settings() -> Settings {
    Settings {
        operation_timeout: Some(Duration::from_secs(20)),
        connect_timeout: Duration::from_secs(10),
        join_timeout: Duration::from_secs(20),
        ..Settings::default()
    }
}

pub fn with_diary() -> (Settings, Arc<Diary>) {
    let diary = Arc::new(Diary::default());
    (Settings { log: diary.clone(), ..settings() }, diary)
}

/// Runs `rank` on as many threads as there are ranks, each with its group; answers by rank.
pub fn run<T: Send>(ranks: u32, settings: &Settings, rank: impl Fn(Group) -> T + Sync) -> Vec<T> {
    let id = UniqueId::create(settings).unwrap();
    ranks::on_threads(ranks, |index| {
        rank(Group::join(&[id], &request(index, ranks), settings).unwrap())
    })
}

/// Where threads wait for one another, but not for ever: one may have failed.
#[derive(Default)]
pub struct Meeting(AtomicU32);

impl Meeting {
    pub fn wait_for(&self, ranks: u32) {
        self.0.fetch_add(1, Ordering::AcqRel);
        ranks::wait_for(|| (self.0.load(Ordering::Acquire) >= ranks).then_some(()));
    }
}

//! Worlds of ranks for tests.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{Event, Group, JoinRequest, Log, Settings, UniqueId};

/// Remembers what happened.
#[derive(Default)]
pub struct Diary(Mutex<Vec<Event>>);

impl Log for Diary {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Diary {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(Event::to_string).collect()
    }

    /// Waits for a line that contains `part`.
    pub fn await_line(&self, part: &str) -> String {
        for _ in 0..500 {
            if let Some(line) = self.lines().into_iter().find(|line| line.contains(part)) {
                return line;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no event says `{part}`; there are {:#?}", self.lines());
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
    let live = |index| rank(Group::join(&[id], &request(index, ranks), settings).unwrap());
    thread::scope(|scope| {
        let live = &live;
        let threads: Vec<_> = (0..ranks).map(|index| scope.spawn(move || live(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Where threads wait for one another, but not for ever: one may have failed.
#[derive(Default)]
pub struct Meeting(AtomicU32);

impl Meeting {
    pub fn wait_for(&self, ranks: u32) {
        self.0.fetch_add(1, Ordering::AcqRel);
        for _ in 0..1000 {
            if self.0.load(Ordering::Acquire) >= ranks {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the other ranks have failed");
    }
}

//! Ranks as threads, and what tests of them wait for.

use std::fmt::Display;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// How long something may take on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `act` on a thread for each rank; what each returns.
///
/// # Panics
///
/// One of them does.
pub fn on_threads<T: Send>(ranks: u32, act: impl Fn(u32) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || act(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Looks until there is something.
///
/// # Panics
///
/// There is nothing for half a minute.
#[track_caller]
pub fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(found) = look() {
            return found;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing came for {PATIENCE:?}");
}

/// Remembers events.
#[derive(Debug)]
pub struct Diary<E>(Mutex<Vec<E>>);

impl<E> Default for Diary<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<E: Clone + Display> Diary<E> {
    /// Remembers one.
    pub fn add(&self, event: &E) {
        self.0.lock().unwrap().push(event.clone());
    }

    /// All so far.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(E::to_string).collect()
    }

    /// Waits for one that contains `part`.
    ///
    /// # Panics
    ///
    /// There is none for half a minute.
    #[track_caller]
    pub fn await_line(&self, part: &str) -> String {
        wait_for(|| self.lines().into_iter().find(|line| line.contains(part)))
    }
}

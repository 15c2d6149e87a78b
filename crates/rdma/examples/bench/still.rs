//! Ends the measurement when it stands still or a thread of it panics, and says where: threads that
//! poll for one another would do so for ever.

use std::process::exit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// Neither side waits longer for the other, on whatever host: on idle processors it is less than a
/// millisecond, and a second for a connection.
const PATIENCE: Duration = Duration::from_secs(60);

/// The exit status of a measurement that stood still.
const STOOD_STILL: i32 = 3;

/// The round that is under way, and when it began.
static ROUND: Mutex<Option<(String, Instant)>> = Mutex::new(None);

/// What each side has seen of the round: near of what it has written or asked, far of what has
/// come.
pub static NEAR: AtomicU32 = AtomicU32::new(0);
pub static FAR: AtomicU32 = AtomicU32::new(0);

/// From now on nothing stands still without a word.
pub fn watch() {
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print_panic(panic);
        eprintln!("bench: {}", describe());
        exit(101);
    }));
    thread::spawn(|| {
        let (mut seen, mut since) = (state(), Instant::now());
        while seen.0.is_none() || since.elapsed() < PATIENCE {
            sleep(Duration::from_secs(1));
            let now = state();
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
        eprintln!("bench: stands still for {:.0?}: {}", since.elapsed(), describe());
        exit(STOOD_STILL);
    });
}

/// The round, and how far it is; this changes, or all stands still.
fn state() -> (Option<Instant>, u32, u32) {
    let begun = round().as_ref().map(|(_, begun)| *begun);
    (begun, NEAR.load(Ordering::Relaxed), FAR.load(Ordering::Relaxed))
}

/// A round begins; `what` says which.
pub fn begin(what: String) {
    NEAR.store(0, Ordering::Relaxed);
    FAR.store(0, Ordering::Relaxed);
    *round() = Some((what, Instant::now()));
}

/// No round is under way.
pub fn end() {
    *round() = None;
}

fn describe() -> String {
    match round().as_ref() {
        None => "no round is under way".to_owned(),
        Some((what, begun)) => format!(
            "{what}, begun {:.1?} ago: the near side has seen {} and the far side {}",
            begun.elapsed(),
            NEAR.load(Ordering::Relaxed),
            FAR.load(Ordering::Relaxed)
        ),
    }
}

fn round() -> MutexGuard<'static, Option<(String, Instant)>> {
    ROUND.lock().unwrap_or_else(PoisonError::into_inner)
}
